// The n-th call to the device fails, for every n, in every way: the paged engine ends in a clear
// error or a success, and never loses memory. Its invariants hold, and afterwards everything can be
// given back; of a lost device, once it is well again. Memory goes from view to view and from
// stream to stream on the way.
#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"
#include "engine/paged/paged_engine.h"
#include "sweep/sweep.h"

namespace ashlar::paged {
namespace {

class PagedWorkload final : public sweep::Workload {
 public:
  explicit PagedWorkload(const sweep::SweepCase& each)
      : Workload(each), engine_(device(), each.options) {}

 private:
  Engine& engine() override { return engine_; }
  Status validate() const override { return engine_.validate(); }
  void run_special() override {
    expect_valid();
    stitch();
    expect_valid();
    lend();
    expect_valid();
  }
  void touch(const Block& block, size_t bytes, StreamId stream) override {
    expect_clear(device().fill(block.address, 1, bytes, stream));  // kUsage: not accessible
  }
  void stitch();
  void lend();

  PagedEngine engine_;
};

// Every other block is freed, and what comes then fits nowhere but across what they leave.
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

// All of the memory goes to the other stream, and comes back: first while the one that has it is at
// work, then while it is idle. The pool that keeps its mappings lends nothing.
void PagedWorkload::lend() {
  for (const StreamId stream : {side(), kDefaultStream}) {
    allocate(40 * kMiB, stream);
    allocate(60 * kMiB, stream);
    if (stream == side()) expect_clear(machine().hold_until_waited(kDevice, side()));
    (void)device().call_host(stream, [] {}).ok();
    free_all();
  }
  (void)device().synchronize_stream(kDefaultStream).ok();
  allocate(50 * kMiB, side());
  free_all();
  expect_clear(machine().resume(kDevice, side()));
}

class PagedSweepTest : public sweep::SweepTest {};

TEST_P(PagedSweepTest, EveryCallMayFailAndNothingIsLost) {
  expect_nothing_lost_whichever_call_fails<PagedWorkload>();
}

TEST(PagedSweepWorkloadTest, MemoryIsMappedTwiceAndGoesFromStreamToStream) {
  PagedWorkload workload({});
  workload.run();
  const sim::CallCosts costs = workload.costs();
  EXPECT_GT(costs.count_of(DeviceCall::kMap), costs.count_of(DeviceCall::kCreate));
  EXPECT_GT(costs.count_of(DeviceCall::kWaitEvent), 2U);
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
