// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th device call for every n, in every way: the paged engine reports a clear error or
// succeeds, keeps its invariants and never loses memory. Afterwards all memory can be released; on
// a lost device, once it recovers. Memory moves between views and streams.
#include <gtest/gtest.h>

#include <vector>

#include "ashlar/pool.h"
#include "base/units.h"
#include "engine/paged/paged_engine.h"
#include "sweep/sweep.h"

namespace ashlar::paged {
namespace {

constexpr PoolId kCheckedPool{2, 0};
constexpr PoolId kSleeper{0, 2};

class PagedWorkload final : public sweep::Workload {
 public:
  explicit PagedWorkload(const sweep::SweepCase& each)
      : Workload(each), engine_(device(), each.options), has_views_(!each.on_plain_device) {}
  bool has_peer() const { return engine_.is_accessor(kPeer); }

 private:
  Engine& engine() override { return engine_; }
  Status validate() const override { return engine_.validate(); }
  void run_special() override {
    expect_valid();
    stitch();
    expect_valid();
    lend();
    expect_valid();
    trim_by_size();
    expect_valid();
    restore_checkpoints();
    expect_valid();
    if (has_views_) pause_and_resume();
    expect_valid();
    expect_clear(engine_.add_accessor(kPeer));  // for all later mappings
  }
  void touch(const Block& block, size_t bytes, StreamId stream) override {
    expect_clear(
        device().fill(block.address, 1, bytes, stream));  // kInvalidArgument: not accessible
    if (!has_peer() || !has_views_) return;
    expect_clear(machine().device(kPeer).fill(block.address, 1, bytes, kDefaultStream));
  }
  void stitch();
  void lend();
  void trim_by_size();
  void restore_checkpoints();
  void pause_and_resume();
  void route(PoolId pool) {
    expect_clear(engine_.begin_routing(pool, [](StreamId) { return true; }));
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

// Moves all memory to the other stream and back: first while its owner is busy, then while it is
// idle. The pool that keeps its mappings lends nothing.
void PagedWorkload::lend() {
  for (const StreamId stream : {side(), kDefaultStream}) {
    allocate(40 * kMiB, stream);
    allocate(60 * kMiB, stream);
    if (stream == side()) expect_clear(machine().pause_stream_until_waited(kDevice, side()));
    (void)device().call_host(stream, [] {}).ok();
    free_all();
  }
  (void)device().synchronize_stream(kDefaultStream).ok();
  allocate(50 * kMiB, side());
  free_all();
  expect_clear(machine().resume_stream(kDevice, side()));
}

// Releases part of the idle memory, including that of a busy stream; then all of it.
void PagedWorkload::trim_by_size() {
  allocate(20 * kMiB);
  allocate(20 * kMiB, side());
  free_all();
  (void)device().call_host(side(), [] {}).ok();
  expect_clear(engine_.trim_to({20 * kMiB, TrimWait::kNever, {}}).status());
  allocate(30 * kMiB);
  free_all();
  expect_clear(engine_.trim_to({0, TrimWait::kForWork, {}}).status());
}

// Restores a pool whose memory was stitched across streams since its checkpoint, twice.
void PagedWorkload::restore_checkpoints() {
  route(kCheckedPool);
  for (int i = 0; i < 4; ++i) allocate(6 * kMiB);
  for (size_t i = 0; i < live_count(); ++i) free_at(i);
  const Result<PoolCheckpoint> checkpoint = engine_.checkpoint(kCheckedPool);
  expect_clear(checkpoint.status());
  for (int round = 0; checkpoint.ok() && round < 2; ++round) {
    free_all();
    allocate(11 * kMiB, side());
    allocate(9 * kMiB);
    restore(*checkpoint);
    expect_valid();
  }
  free_all();
  expect_clear(engine_.end_routing(kCheckedPool));
  expect_clear(engine_.release_pool(kCheckedPool));
}

// Pauses and resumes a pool, once keeping its contents and once discarding them. If a resume fails,
// the blocks can still be freed.
void PagedWorkload::pause_and_resume() {
  PoolOptions options;
  options.tag = "sleeper";
  expect_clear(engine_.create_pool(kSleeper, options));
  route(kSleeper);
  allocate(700);
  allocate(5 * kMiB);
  allocate(3 * kMiB, side());
  free_first();
  expect_clear(engine_.end_routing(kSleeper));
  for (bool keep_contents : {true, false}) {
    expect_clear(engine_.pause(options.tag, keep_contents));
    expect_valid();
    expect_clear(engine_.resume(options.tag));
    expect_valid();
  }
  free_all();
  expect_clear(engine_.release_pool(kSleeper));  // retained by the route
  expect_clear(engine_.release_pool(kSleeper));
}

class PagedSweepTest : public sweep::SweepTest {};

TEST_P(PagedSweepTest, SurvivesFailureOfEveryCall) {
  expect_nothing_lost_whichever_call_fails<PagedWorkload>();
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
  workload.expect_nothing_lost();
}

AllocatorOptions with(PagedPolicy policy) {
  AllocatorOptions options;
  options.policy = policy;
  return options;
}

AllocatorOptions limited() {
  AllocatorOptions options;
  options.memory_fraction = 0.9;
  return options;
}

AllocatorOptions shareable() {
  AllocatorOptions options;
  options.shareable_expandable_segments = true;
  return options;
}

std::vector<sweep::SweepCase> cases() {
  std::vector<sweep::NamedFault> faults = sweep::single_faults();
  faults.push_back(
      {"TwoFaults", {.count = 2, .status = Status::device_fault("injected", 999, "injected")}});
  return sweep::combine({{"Balanced", with(PagedPolicy::kBalanced)},
                         {"Lean", with(PagedPolicy::kLean)},
                         {"Fast", with(PagedPolicy::kFast)},
                         {"Limited", limited()},
                         {"Shareable", shareable()},
                         {"PlainDevice", {}, /*on_plain_device=*/true}},
                        faults);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PagedSweepTest, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ashlar::paged
