// Where the stress takes place: four small devices with eight streams each, an engine on each, a
// hand that holds streams back and lets them go on, and a place where threads leave blocks for
// others to free.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ashlar/sim.h"
#include "base/random.h"
#include "engine/paged/paged_engine.h"
#include "stamps.h"

namespace ashlar::stress {

inline constexpr size_t kDeviceCount = 4;
inline constexpr size_t kStreamCount = 8;
inline constexpr size_t kThreadCount = 4;

// A block that somebody may use and free, and what must be in it.
struct Held {
  size_t device = 0;
  Block* block = nullptr;
  Stamp stamp;
};

class Field {
 public:
  // REQUIRES: options that src/config would accept.
  Field(uint64_t seed, size_t capacity_bytes, const AllocatorOptions& options);
  ~Field();
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  sim::Machine& machine() { return *machine_; }
  Device& device(size_t index) { return machine_->device(DeviceIndex(index)); }
  paged::PagedEngine& engine(size_t index) { return *engines_[index]; }
  StreamId stream(size_t device, size_t index) const { return streams_[device][index]; }
  uint64_t next_name() { return ++last_name_; }

  // Queued behind what the block's stream was given so far.
  void stamp(const Held& held);
  void check(const Held& held);
  // The same on another stream, which must be in order with the block's.
  void check_on(const Held& held, size_t device, StreamId stream);
  uint64_t mismatch_count() const { return mismatch_count_.load(); }

  // For another thread to take.
  void leave(const Held& held);
  std::optional<Held> take();
  size_t left_count(size_t device) const;

  // Streams are held back no more, and nothing fails.
  void calm_down();

 private:
  void hold_and_resume(uint64_t seed);

  std::unique_ptr<sim::Machine> machine_;
  std::array<std::array<StreamId, kStreamCount>, kDeviceCount> streams_{};
  std::array<std::unique_ptr<paged::PagedEngine>, kDeviceCount> engines_;
  std::atomic<uint64_t> last_name_{0};       // only unique
  std::atomic<uint64_t> mismatch_count_{0};  // read after the work is waited for
  mutable std::mutex mutex_;
  std::vector<Held> left_;
  std::condition_variable calming_;
  bool is_calm_ = false;
  std::thread hand_;
};

}  // namespace ashlar::stress
