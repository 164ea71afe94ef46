// SPDX-License-Identifier: Apache-2.0
//
// Stress test of the paged engine. Work on a block's stream stamps every block and checks it before
// its free, while memory moves between views, streams and threads, streams are paused and
// destroyed, work is captured and replayed, pools are paused and resumed, calls fail, limits change
// and caches are trimmed. The mappings that remap observers receive must match the device.
//
// Each run first prints its seed and length. ASHLAR_STRESS_SEED and ASHLAR_STRESS_OPERATIONS
// override the short defaults. Threads race, so a seed repeats the operations but not their order.
#include <gtest/gtest.h>

#include <barrier>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>
#include <thread>

#include "base/units.h"
#include "worker.h"

namespace ashlar::stress {
namespace {

#if defined(ASHLAR_SANITIZED)
constexpr uint64_t kOperationCount = 4'000;
#else
constexpr uint64_t kOperationCount = 8'000;
#endif
constexpr uint64_t kOperationsPerRound = 250;  // per thread; all threads stop between rounds
constexpr size_t kCapacityBytes = 80 * kMiB;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* given = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (given == nullptr || *given == '\0') return otherwise;
  const std::string_view digits = given;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  EXPECT_TRUE(error == std::errc() && end == digits.end())
      << variable << ": " << digits << " is not a whole number of 64 bits";
  return number;
}

class PagedConcurrencyStress : public ::testing::TestWithParam<PagedPolicy> {
 protected:
  void SetUp() override {
    seed_ = number_from("ASHLAR_STRESS_SEED", 1 + static_cast<uint64_t>(GetParam()));
    const uint64_t count = number_from("ASHLAR_STRESS_OPERATIONS", kOperationCount);
    round_count_ = std::max<uint64_t>(1, count / kThreadCount / kOperationsPerRound);
    std::cout << "seed " << seed_ << ", " << round_count_ * kOperationsPerRound * kThreadCount
              << " operations" << std::endl;
    AllocatorOptions options;
    options.policy = GetParam();
    environment_ = std::make_unique<Environment>(seed_, kCapacityBytes, options);
    for (size_t i = 0; i < kThreadCount; ++i) {
      workers_.push_back(std::make_unique<Worker>(*environment_, seed_ * 1'000'003, i));
    }
  }

  void run() {
    std::barrier quiet(kThreadCount, [this]() noexcept { expect_consistent(); });
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back([&, this] {
        for (uint64_t round = 0; round < round_count_; ++round) {
          for (uint64_t i = 0; i < kOperationsPerRound && !HasFailure(); ++i) worker->step();
          quiet.arrive_and_wait();
          if (HasFailure()) break;
        }
        worker->free_all();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // REQUIRES: no thread is inside an engine.
  void expect_consistent() {
    for (size_t device = 0; device < kDeviceCount; ++device) {
      const Status valid = environment_->engine(device).validate();
      EXPECT_TRUE(valid.ok()) << "device " << device << ": " << valid.to_string();
      size_t live_count = environment_->offered_block_count(device);
      for (const auto& worker : workers_) live_count += worker->live_count(device);
      const AllocatorStats stats = environment_->engine(device).stats();
      EXPECT_EQ(stats.allocation.all.current, static_cast<int64_t>(live_count));
      environment_->mapping_observer(device).expect_matches_device();
      for (const SnapshotExtent& extent : environment_->engine(device).take_snapshot().extents) {
        if (extent.mappings.size() > 1) ++stitched_count_;
      }
    }
    const Mismatches& mismatches = environment_->mismatches();
    EXPECT_EQ(mismatches.count(), 0U) << "a block was overwritten: " << mismatches.first();
  }

  void expect_no_memory_lost() {
    while (const std::optional<LiveBlock> held = environment_->take_offered()) {
      environment_->free(*held);
    }
    environment_->stop_disturbances();
    for (size_t i = 0; i < kDeviceCount; ++i) {
      Device& device = environment_->device(i);
      EXPECT_TRUE(device.synchronize_device().ok());
      (void)environment_->engine(i).trim().ok();  // the result may be the error of an earlier call
      const Status trimmed = environment_->engine(i).trim();
      EXPECT_TRUE(trimmed.ok()) << trimmed.to_string();
      EXPECT_EQ(environment_->engine(i).stats().active.all.current, 0);
      EXPECT_EQ(environment_->engine(i).stats().reserved_bytes.all.current, 0);
      const DeviceMemoryStats use = *device.memory_stats();
      EXPECT_EQ(use.free_bytes, use.total_bytes);
    }
    expect_consistent();
  }

  uint64_t seed_ = 0;
  uint64_t round_count_ = 0;
  uint64_t stitched_count_ = 0;  // extents mapped more than once, summed over all rounds
  std::unique_ptr<Environment> environment_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_P(PagedConcurrencyStress, PreservesAllContents) {
  run();
  expect_no_memory_lost();
  std::cout << stitched_count_ << " stitched\n";
  EXPECT_GT(stitched_count_, 0U) << "no extent was ever mapped twice";
}

INSTANTIATE_TEST_SUITE_P(Policies, PagedConcurrencyStress,
                         ::testing::Values(PagedPolicy::kFast, PagedPolicy::kBalanced,
                                           PagedPolicy::kLean),
                         [](const auto& policy) {
                           switch (policy.param) {
                             case PagedPolicy::kFast: return "Fast";
                             case PagedPolicy::kBalanced: return "Balanced";
                             case PagedPolicy::kLean: return "Lean";
                           }
                           return "Unknown";
                         });

}  // namespace
}  // namespace ashlar::stress
