// SPDX-License-Identifier: Apache-2.0
//
// The environment of the stress: four small devices with eight streams and an engine each, a thread
// that holds streams back, and an exchange of blocks between threads; with the common operations:
// allocate, check, free.
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
#include "ashlar/stream.h"
#include "engine/paged/paged_engine.h"
#include "live_blocks.h"
#include "mapping_observer.h"

namespace ashlar::stress {

inline constexpr size_t kDeviceCount = 4;
inline constexpr size_t kStreamCount = 8;
inline constexpr size_t kThreadCount = 4;

// Expects success or an effect of injected faults.
void expect_clear(const Status& status);

class Environment {
 public:
  // REQUIRES: options that src/config accepts.
  Environment(uint64_t seed, size_t capacity_bytes, const AllocatorOptions& options);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  sim::Machine& machine() { return *machine_; }
  Device& device(size_t index) { return machine_->device(DeviceIndex(index)); }
  paged::PagedEngine& engine(size_t index) { return *engines_[index]; }
  const MappingObserver& mirror(size_t index) const { return *mirrors_[index]; }
  // One of the streams that all threads share.
  StreamId any_stream(size_t device, Random& random) const {
    return streams_[device][random.below(kStreamCount)];
  }
  // A unique pool id.
  uint64_t next_pool() { return ++last_pool_; }

  // Memory.

  // A block stamped by work on its stream.
  Result<LiveBlock> allocate(size_t device, const AllocationRequest& request);
  void free(const LiveBlock& held);
  void stamp(const LiveBlock& held);

  // Checks, queued behind the stream's work so far.

  void check(const LiveBlock& held);
  // On another stream, which must be ordered after the block's.
  void check_on(const LiveBlock& held, const DeviceStream& user);
  // Checks from another stream, sometimes of another device, ordered after the block's own work and
  // possibly run long after its free. Returns that stream; empty if a call failed and nothing is
  // checked.
  std::optional<DeviceStream> look(const LiveBlock& held, Random& random);
  const Mismatches& mismatches() const { return mismatches_; }

  // Orders the work of `first` so far before the next work of `then`. False if a call failed.
  static bool order(const DeviceStream& first, const DeviceStream& then);
  // Like order, but retries until it succeeds: faults do not last.
  static void must_order(const DeviceStream& first, const DeviceStream& then);

  // Exchange between threads.

  void leave(const LiveBlock& held);
  std::optional<LiveBlock> take();
  size_t remaining_block_count(size_t device) const;

  // Stops holding streams back and injecting faults.
  void stop_disturbances();

 private:
  void pause_and_resume_streams(uint64_t seed);

  std::unique_ptr<sim::Machine> machine_;
  std::array<std::array<StreamId, kStreamCount>, kDeviceCount> streams_{};
  std::array<std::unique_ptr<paged::PagedEngine>, kDeviceCount> engines_;
  std::array<std::unique_ptr<MappingObserver>, kDeviceCount> mirrors_;
  std::atomic<uint64_t> last_name_{0};  // only need to be unique
  std::atomic<uint64_t> last_pool_{0};
  Mismatches mismatches_;
  mutable std::mutex mutex_;
  std::vector<LiveBlock> remaining_blocks_;
  std::condition_variable stopping_;
  bool is_stopped_ = false;
  std::thread pauser_;
};

}  // namespace ashlar::stress
