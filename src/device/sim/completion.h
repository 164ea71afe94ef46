// SPDX-License-Identifier: Apache-2.0
//
// The end of a piece of work, as something others can wait for. Shared by the work, by the events
// recorded on it and by whoever waits; it becomes done once and stays so.
#pragma once

#include <atomic>
#include <cstdint>

namespace ashlar::sim {

class Completion {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }
  // REQUIRES: done().
  int64_t finished_at_ns() const { return finished_at_ns_; }

  // The release pairs with the acquire of done() and wait(): who sees it done sees the work's
  // results and the time.
  void finish(int64_t now_ns) {
    finished_at_ns_ = now_ns;
    done_.store(true, std::memory_order_release);
    done_.notify_all();
  }
  void wait() const { done_.wait(false, std::memory_order_acquire); }

 private:
  int64_t finished_at_ns_ = 0;
  std::atomic<bool> done_{false};
};

}  // namespace ashlar::sim
