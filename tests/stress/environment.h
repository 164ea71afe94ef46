// SPDX-License-Identifier: Apache-2.0
//
// The environment of the stress test: four small devices, each with eight streams and an engine; a
// thread that pauses streams; and an exchange of blocks between threads. Provides the common
// operations: allocate, check, free.
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

// Expects success or an error that an injected fault can cause.
void expect_ok_or_fault(const Status& status);

class Environment {
 public:
  // REQUIRES: check_allocator_options accepts `options`.
  Environment(uint64_t seed, size_t capacity_bytes, const AllocatorOptions& options);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  sim::Machine& machine() { return *machine_; }
  Device& device(size_t index) { return machine_->device(DeviceIndex(index)); }
  paged::PagedEngine& engine(size_t index) { return *engines_[index]; }
  const MappingObserver& mapping_observer(size_t index) const { return *mapping_observers_[index]; }
  // Returns one of the streams that all threads share.
  StreamId any_stream(size_t device, Random& random) const {
    return streams_[device][random.below(kStreamCount)];
  }
  // Returns a unique pool id.
  uint64_t next_pool() { return ++last_pool_; }

  // --- memory

  // Allocates a block, and queues work on its stream that stamps it.
  Result<LiveBlock> allocate(size_t device, const AllocationRequest& request);
  void free(const LiveBlock& held);
  void stamp(const LiveBlock& held);

  // --- checking

  // Queues a check of the block's contents on its own stream.
  void check(const LiveBlock& held);
  // Queues a check on another stream. REQUIRES: `user` is ordered after the block's stream.
  void check_on(const LiveBlock& held, const DeviceStream& user);
  // Queues a check on a random stream, sometimes of another device, ordered after the work on the
  // block's own stream. The check may run long after the block is freed. Returns the stream, or
  // nothing if a call failed and the check was not queued.
  std::optional<DeviceStream> check_on_random_stream(const LiveBlock& held, Random& random);
  const Mismatches& mismatches() const { return mismatches_; }

  // Makes the next work on `then` wait for the work queued on `first`. Returns false if a call
  // failed.
  static bool order(const DeviceStream& first, const DeviceStream& then);
  // Like order, but retries until it succeeds, because each injected fault affects one call.
  static void order_with_retries(const DeviceStream& first, const DeviceStream& then);

  // --- exchange of blocks between threads

  void offer(const LiveBlock& held);
  std::optional<LiveBlock> take_offered();
  size_t offered_block_count(size_t device) const;

  // Stops pausing streams, and removes injected faults.
  void stop_disturbances();

 private:
  void pause_and_resume_streams(uint64_t seed);

  std::unique_ptr<sim::Machine> machine_;
  std::array<std::array<StreamId, kStreamCount>, kDeviceCount> streams_{};
  std::array<std::unique_ptr<paged::PagedEngine>, kDeviceCount> engines_;
  std::array<std::unique_ptr<MappingObserver>, kDeviceCount> mapping_observers_;
  std::atomic<uint64_t> last_stamp_id_{0};  // ids only need to be unique
  std::atomic<uint64_t> last_pool_{0};
  Mismatches mismatches_;
  mutable std::mutex mutex_;
  std::vector<LiveBlock> offered_blocks_;
  std::condition_variable stopping_;
  bool is_stopped_ = false;
  std::thread pauser_;
};

}  // namespace ashlar::stress
