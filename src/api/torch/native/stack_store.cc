// SPDX-License-Identifier: Apache-2.0
//
// Numbers contexts, and drops unused ones.
#include "api/torch/native/stack_store.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace ashlar::torch::native {

uint32_t StackStore::record() {
  const caching::CreateContextFn recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr) return 0;
  Context context = recorder();  // called without the mutex, because it takes Python's GIL
  if (context == nullptr) return 0;
  bool must_sweep = false;
  uint32_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    do {
      last_number_ = last_number_ % kMaxNumber + 1;
    } while (contexts_.count(last_number_) != 0);
    number = last_number_;
    contexts_.emplace(number, Recorded{std::move(context), sweep_count_});
    must_sweep = contexts_.size() >= sweep_at_ && !is_sweeping_;
    is_sweeping_ = is_sweeping_ || must_sweep;
  }
  if (must_sweep) sweep();
  return number;
}

Context StackStore::find(uint32_t number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = contexts_.find(number);
  return found == contexts_.end() ? nullptr : found->second.context;
}

// Sweeps twice, because one sweep keeps the contexts that were recorded since the previous sweep
// began.
void StackStore::drop_unused() {
  sweep();
  sweep();
}

size_t StackStore::size_for_testing() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return contexts_.size();
}

void StackStore::sweep() {
  uint64_t sweep = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sweep = sweep_count_++;
  }
  std::unordered_set<uint32_t> used;
  const bool is_complete =
      device_.visit_stacks([&](uint32_t number) { used.insert(number); }) == ASHLAR_OK;
  std::vector<Context> dropped;  // destroyed without the mutex
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_complete) {
    for (auto each = contexts_.begin(); each != contexts_.end();) {
      const bool is_old = each->second.sweep < sweep;
      if (is_old && used.count(each->first) == 0) {
        dropped.push_back(std::move(each->second.context));
        each = contexts_.erase(each);
      } else {
        ++each;
      }
    }
  }
  sweep_at_ = std::max(kMinSweepCount, 2 * contexts_.size());
  is_sweeping_ = false;
}

}  // namespace ashlar::torch::native
