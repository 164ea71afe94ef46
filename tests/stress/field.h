// SPDX-License-Identifier: Apache-2.0
//
// Where the stress takes place: four small devices with eight streams each, an engine on each, a
// hand that holds streams back and lets them go on, and a place where threads leave blocks for
// others to free. And what all who act there do: allocate, look, free.
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
#include "ashlar/stream_use.h"
#include "engine/paged/paged_engine.h"
#include "held_blocks.h"
#include "mirror.h"

namespace ashlar::stress {

inline constexpr size_t kDeviceCount = 4;
inline constexpr size_t kStreamCount = 8;
inline constexpr size_t kThreadCount = 4;

// What injected faults may come to, and nothing else.
void expect_clear(const Status& status);

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
  const Mirror& mirror(size_t index) const { return *mirrors_[index]; }
  // One of those that all threads use.
  StreamId any_stream(size_t device, Random& random) const {
    return streams_[device][random.below(kStreamCount)];
  }
  // No two pools are called the same.
  uint64_t next_pool() { return ++last_pool_; }

  // --- memory -----------------------------------------------------------------------------------

  // A block, stamped by work on its stream.
  Result<Held> allocate(size_t device, const AllocationRequest& request);
  void free(const Held& held);
  void stamp(const Held& held);

  // --- looking ----------------------------------------------------------------------------------
  // All are queued behind what the stream was given so far.

  void check(const Held& held);
  // On another stream, which must be in order with the block's.
  void check_on(const Held& held, const StreamUse& user);
  // From another stream, now and then of another device: after what the block's own has done to it,
  // and perhaps long after it was freed. Gives that stream; empty: a call failed, and nobody looks.
  std::optional<StreamUse> look(const Held& held, Random& random);
  const Mismatches& mismatches() const { return mismatches_; }

  // What `first` has done so far comes before what `then` does next. False: a call failed.
  static bool order(const StreamUse& first, const StreamUse& then);
  // The same where nothing can be done without: faults do not last.
  static void must_order(const StreamUse& first, const StreamUse& then);

  // --- for another thread to take ---------------------------------------------------------------

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
  std::array<std::unique_ptr<Mirror>, kDeviceCount> mirrors_;
  std::atomic<uint64_t> last_name_{0};  // both only unique
  std::atomic<uint64_t> last_pool_{0};
  Mismatches mismatches_;
  mutable std::mutex mutex_;
  std::vector<Held> left_;
  std::condition_variable calming_;
  bool is_calm_ = false;
  std::thread hand_;
};

}  // namespace ashlar::stress
