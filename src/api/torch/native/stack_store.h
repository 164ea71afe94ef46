// SPDX-License-Identifier: Apache-2.0
//
// Stores the contexts (Python stacks) that PyTorch's recorder gathers for the allocations and frees
// of one device. PyTorch makes a new context for every operation, so contexts that neither the
// history nor a block refers to are dropped from time to time. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "api/torch/native/torch_versions.h"
#include "api/torch/torch_bridge.h"

namespace ashlar::torch::native {

class StackStore {
 public:
  // REQUIRES: `device` outlives the store.
  explicit StackStore(const DeviceBridge& device) : device_(device) {}

  void set_recorder(caching::CreateContextFn recorder) {
    recorder_.store(recorder, std::memory_order_relaxed);
  }
  // Gathers a context for the calling thread and returns its number, or 0 if there is no recorder
  // or no context.
  uint32_t record();
  // Returns the context with the number; null for 0 and for dropped contexts.
  Context find(uint32_t number) const;

  // Drops all contexts that neither the history nor a block refers to.
  void drop_unused();

  size_t size_for_testing() const;

 private:
  // A sweep costs as much as a snapshot. It runs when the number of contexts reaches this limit or,
  // if that is more, twice the number that the previous sweep kept.
  static constexpr size_t kMinSweepCount = size_t{1} << 16;
  static constexpr uint32_t kMaxNumber = (uint32_t{1} << 31) - 1;

  // Drops contexts that are not in use. Keeps those that were recorded since the previous sweep
  // began, because the engine may not have stored their numbers yet.
  void sweep();

  const DeviceBridge& device_;
  std::atomic<caching::CreateContextFn> recorder_{nullptr};

  mutable std::mutex mutex_;
  // All fields below are guarded by the mutex.
  struct Recorded {
    Context context;
    uint64_t sweep = 0;  // the number of sweeps before the context was recorded
  };
  std::unordered_map<uint32_t, Recorded> contexts_;
  uint32_t last_number_ = 0;
  uint64_t sweep_count_ = 0;
  bool is_sweeping_ = false;
  size_t sweep_at_ = kMinSweepCount;
};

}  // namespace ashlar::torch::native
