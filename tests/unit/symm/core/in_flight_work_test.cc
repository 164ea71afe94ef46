// SPDX-License-Identifier: Apache-2.0
//
// Waiting for work that signals its completion, and for work that has to be polled.
#include "symm/core/in_flight_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include "contract/waiting.h"

namespace ashlar::symm {
namespace {

// Work that ends when the test counts down `end`.
struct TestedWork {
  std::latch wait_begins{1};
  std::latch end{1};
  std::atomic<bool> has_ended{false};
};

class BlockedWork final : public PollableWork {
 public:
  explicit BlockedWork(TestedWork& work) : work_(work) {}
  bool has_ended() override { return work_.has_ended; }
  void wait() override {
    work_.wait_begins.count_down();
    work_.end.wait();
    work_.has_ended = true;
  }

 private:
  TestedWork& work_;
};

TEST(InFlightWorkConcurrency, ConcurrentWaitsWaitForTheSameWork) {
  TestedWork work;
  InFlightWork in_flight;
  in_flight.add(std::make_unique<BlockedWork>(work));
  std::thread first([&] { in_flight.wait(); });
  work.wait_begins.wait();
  std::atomic<bool> has_returned{false};
  std::atomic<bool> had_ended{false};
  std::thread second([&] {
    in_flight.wait();
    had_ended = work.has_ended.load();
    has_returned = true;
  });
  EXPECT_TRUE(contract::consistently([&] { return !has_returned; }));
  work.end.count_down();
  first.join();
  second.join();
  EXPECT_TRUE(had_ended);
}

TEST(InFlightWorkConcurrency, WaitsForRegisteredWork) {
  InFlightWork in_flight;
  std::atomic<bool> has_ended{false};
  std::shared_ptr<void> registration = in_flight.begin();
  std::thread worker([&, held = std::move(registration)]() mutable {
    has_ended = true;
    held.reset();
  });
  in_flight.wait();
  EXPECT_TRUE(has_ended);
  worker.join();
}

}  // namespace
}  // namespace ashlar::symm
