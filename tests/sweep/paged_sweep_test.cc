// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th device call for every n, with every fault, while memory moves between views and
// streams. The paged engine must report a clear error or succeed, keep its invariants, and must not
// lose memory: all memory can be released afterwards, or after a lost device has recovered.
#include <gtest/gtest.h>

#include <vector>

#include "ashlar/pool.h"
#include "base/units.h"
#include "engine/paged/paged_engine.h"
#include "sweep/sweep.h"

namespace ashlar::paged {
namespace {

constexpr PoolId kCheckedPool{2, 0};
constexpr PoolId kPausedPool{0, 2};

class PagedWorkload final : public sweep::Workload {
 public:
  explicit PagedWorkload(const sweep::SweepCase& each)
      : Workload(each), engine_(device(), each.options), has_views_(!each.on_plain_device) {}
  bool has_peer() const { return engine_.is_accessor(kPeer); }

 private:
  Engine& engine() override { return engine_; }
  Status validate() const override { return engine_.validate(); }
  void run_engine_operations() override {
    expect_valid();
    stitch();
    expect_valid();
    move_between_streams();
    expect_valid();
    trim_by_size();
    expect_valid();
    restore_checkpoints();
    expect_valid();
    if (has_views_) pause_and_resume();
    expect_valid();
    expect_ok_or_fault(engine_.add_accessor(kPeer));  // applies to all later mappings
  }
  void on_allocated(const Block& block, size_t bytes, StreamId stream) override {
    // A fill fails with kInvalidArgument if the memory is not accessible.
    expect_ok_or_fault(device().fill(block.address, 1, bytes, stream));
    if (!has_peer() || !has_views_) return;
    expect_ok_or_fault(machine().device(kPeer).fill(block.address, 1, bytes, kDefaultStream));
  }
  void stitch();
  void move_between_streams();
  void trim_by_size();
  void restore_checkpoints();
  void pause_and_resume();
  void route(PoolId pool) {
    expect_ok_or_fault(engine_.begin_routing(pool, [](StreamId) { return true; }));
  }

  PagedEngine engine_;
  const bool has_views_;
};

// Frees every other block, so that the next request fits only across the holes.
void PagedWorkload::stitch() {
  free_all();
  for (int i = 0; i < 8; ++i) allocate(6 * kMiB);
  for (size_t i = 0; i < live_count(); ++i) free_at(i);
  allocate(23 * kMiB);
  allocate(9 * kMiB, side());
  free_all();
  allocate(11 * kMiB);
  allocate(31 * kMiB);
  free_all();
}

// Moves memory to the default stream while the side stream, which owns it, is busy; and back to the
// side stream while the default stream is idle.
void PagedWorkload::move_between_streams() {
  for (const StreamId stream : {side(), kDefaultStream}) {
    allocate(40 * kMiB, stream);
    allocate(60 * kMiB, stream);
    if (stream == side()) expect_ok_or_fault(machine().pause_stream_until_waited(kDevice, side()));
    (void)device().call_host(stream, [] {}).ok();
    free_all();
  }
  (void)device().synchronize_stream(kDefaultStream).ok();
  allocate(50 * kMiB, side());
  free_all();
  expect_ok_or_fault(machine().resume_stream(kDevice, side()));
}

// Releases a part of the free memory while the side stream is busy; then releases all free memory.
void PagedWorkload::trim_by_size() {
  allocate(20 * kMiB);
  allocate(20 * kMiB, side());
  free_all();
  (void)device().call_host(side(), [] {}).ok();
  expect_ok_or_fault(engine_.trim_to({20 * kMiB, TrimWait::kNever, {}}).status());
  allocate(30 * kMiB);
  free_all();
  expect_ok_or_fault(engine_.trim_to({0, TrimWait::kForWork, {}}).status());
}

// Takes a checkpoint of a pool, and restores it twice, each time after the pool's memory has been
// stitched across streams.
void PagedWorkload::restore_checkpoints() {
  route(kCheckedPool);
  for (int i = 0; i < 4; ++i) allocate(6 * kMiB);
  for (size_t i = 0; i < live_count(); ++i) free_at(i);
  const Result<PoolCheckpoint> checkpoint = engine_.checkpoint(kCheckedPool);
  expect_ok_or_fault(checkpoint.status());
  for (int round = 0; checkpoint.ok() && round < 2; ++round) {
    free_all();
    allocate(11 * kMiB, side());
    allocate(9 * kMiB);
    restore(*checkpoint);
    expect_valid();
  }
  free_all();
  expect_ok_or_fault(engine_.end_routing(kCheckedPool));
  expect_ok_or_fault(engine_.release_pool(kCheckedPool));
}

// Pauses and resumes a pool, once keeping its contents and once discarding them. If a resume fails,
// the blocks can still be freed.
void PagedWorkload::pause_and_resume() {
  PoolOptions options;
  options.tag = "paused";
  expect_ok_or_fault(engine_.create_pool(kPausedPool, options));
  route(kPausedPool);
  allocate(700);
  allocate(5 * kMiB);
  allocate(3 * kMiB, side());
  free_first();
  expect_ok_or_fault(engine_.end_routing(kPausedPool));
  for (bool keep_contents : {true, false}) {
    expect_ok_or_fault(engine_.pause(options.tag, keep_contents));
    expect_valid();
    expect_ok_or_fault(engine_.resume(options.tag));
    expect_valid();
  }
  free_all();
  expect_ok_or_fault(
      engine_.release_pool(kPausedPool));  // the pool is also retained by begin_routing
  expect_ok_or_fault(engine_.release_pool(kPausedPool));
}

class PagedSweepTest : public sweep::SweepTest {};

TEST_P(PagedSweepTest, SurvivesFailureOfEveryCall) {
  expect_no_memory_lost_when_any_call_fails<PagedWorkload>();
}

TEST(PagedSweepWorkloadTest, CoversAliasingStreamChangesAndPausing) {
  PagedWorkload workload({});
  workload.run();
  const sim::CallCosts costs = workload.costs();
  EXPECT_GT(costs.count_of(DeviceCall::kMap), costs.count_of(DeviceCall::kCreate));
  EXPECT_GT(costs.count_of(DeviceCall::kWaitEvent), 2U);
  EXPECT_GT(costs.count_of(DeviceCall::kAllocateHost), 0U)
      << "no contents were kept across a pause";
  EXPECT_TRUE(workload.has_peer());
  workload.expect_no_memory_lost();
}

AllocatorOptions options_with(PagedPolicy policy) {
  AllocatorOptions options;
  options.policy = policy;
  return options;
}

AllocatorOptions limited_options() {
  AllocatorOptions options;
  options.memory_fraction = 0.9;
  return options;
}

AllocatorOptions shareable_options() {
  AllocatorOptions options;
  options.shareable_expandable_segments = true;
  return options;
}

std::vector<sweep::SweepCase> cases() {
  std::vector<sweep::NamedFault> faults = sweep::single_faults();
  faults.push_back(
      {"TwoFaults", {.count = 2, .status = Status::device_fault("injected", 999, "injected")}});
  return sweep::combine({{"Balanced", options_with(PagedPolicy::kBalanced)},
                         {"Lean", options_with(PagedPolicy::kLean)},
                         {"Fast", options_with(PagedPolicy::kFast)},
                         {"Limited", limited_options()},
                         {"Shareable", shareable_options()},
                         {"PlainDevice", {}, /*on_plain_device=*/true}},
                        faults);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PagedSweepTest, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ashlar::paged
