// The n-th call to the device fails, for every n, in every way: the paged engine ends in a clear
// error or a success, and never loses memory. Its invariants hold, and afterwards everything can be
// given back; of a lost device, once it is well again. Memory goes from view to view and from
// stream to stream on the way.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/sim.h"
#include "base/units.h"
#include "contract/plain_device.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

constexpr DeviceIndex kDevice{0};
constexpr PoolId kPool{0, 1};
constexpr PoolId kCapturePool{1, 0};

struct SweepCase {
  std::string name;
  AllocatorOptions options;
  bool on_plain_device = false;
  sim::FaultRule fault{};
};

// One run of the workload. Whatever fails is left out; the rest goes on.
class Workload {
 public:
  explicit Workload(const SweepCase& each) {
    sim::Options machine_options;
    machine_options.device_count = 1;
    machine_options.capacity_bytes = 128 * kMiB;
    machine_options.backing = sim::Backing::kBookkeeping;
    machine_options.seed = 1;
    machine_ = *sim::Machine::create(machine_options);
    if (each.on_plain_device) {
      plain_ = std::make_unique<contract::PlainDevice>(machine_->device(kDevice));
    }
    side_ = *device().create_stream();
    captured_ = *device().create_stream();
    engine_ = std::make_unique<PagedEngine>(device(), each.options);
  }

  // The call after those that fail takes an hour of the machine's own time: the clock tells
  // whether the run got that far. A device that was lost says so itself.
  void inject(uint64_t nth, sim::FaultRule fault) {
    fault.nth = nth;
    loses_device_ = fault.action == sim::FaultAction::kLoseDevice;
    machine_->inject(fault);
    machine_->inject({.nth = nth + fault.count,
                      .action = sim::FaultAction::kDelay,
                      .delay = std::chrono::hours(1)});
    begin_ns_ = machine_->clock().now_ns();
  }
  bool went_beyond() const {
    const std::chrono::nanoseconds passed(machine_->clock().now_ns() - begin_ns_);
    return was_lost_ || passed >= std::chrono::hours(1);
  }
  void run() {
    fill_and_use();
    expect_valid();
    stitch();
    expect_valid();
    lend();
    expect_valid();
    hold_and_let_go();
    use_pools();
    run_out();
    capture();
    expect_clear(engine_->trim({}));
  }
  sim::CallCosts costs() const { return machine_->costs(kDevice); }
  // Without faults, everything goes back.
  void expect_nothing_lost();

 private:
  Device& device() { return plain_ != nullptr ? *plain_ : machine_->device(kDevice); }
  void expect_clear(const Status& status) const {
    const StatusKind worst = loses_device_ ? StatusKind::kDeviceLost : StatusKind::kDeviceFault;
    const bool clear = status.ok() || status.is_out_of_memory() || status.is(worst);
    EXPECT_TRUE(clear) << status.to_string();
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
  void allocate(size_t bytes, StreamId stream = kDefaultStream) {
    const Result<Block*> block = engine_->allocate({bytes, stream});
    expect_clear(block.status());
    if (!block.ok()) return;
    live_.push_back(*block);
    expect_clear(device().fill((*block)->address, 1, bytes, stream));  // kUsage: not accessible
  }
  void use_last() {
    if (!live_.empty()) expect_clear(engine_->record_stream(live_.back(), {&device(), side_}));
  }
  void free_first() {
    if (live_.empty()) return;
    Block* block = live_.front();
    live_.erase(live_.begin());
    expect_clear(engine_->free(block));
  }
  void expect_valid() const {
    const Status valid = engine_->validate();
    EXPECT_TRUE(valid.ok()) << valid.to_string();
  }
  void free_all() {
    while (!live_.empty()) free_first();
  }
  void fill_and_use();
  void stitch();
  void lend();
  void hold_and_let_go();
  void use_pools();
  void run_out();
  void capture();
  void make_well() {
    was_lost_ = was_lost_ || device().last_error().is(StatusKind::kDeviceLost);
    machine_->clear_faults();
    machine_->revive(kDevice);
  }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<contract::PlainDevice> plain_;
  std::unique_ptr<PagedEngine> engine_;
  StreamId side_;
  StreamId captured_;
  std::vector<Block*> live_;
  int64_t begin_ns_ = 0;
  bool loses_device_ = false;
  bool was_lost_ = false;
};

void Workload::fill_and_use() {
  for (size_t bytes : {size_t{512}, 3 * kMiB, 15 * kMiB, kMiB, 3 * kMiB}) {
    allocate(bytes);
    use_last();
    allocate(bytes, side_);
    if (bytes > kMiB) free_first();
  }
  expect_clear(engine_->trim({}));
  allocate(30 * kMiB);
  free_first();
  free_first();
}

// Every other block is freed, and what comes then fits nowhere but across what they leave.
void Workload::stitch() {
  free_all();
  for (int i = 0; i < 8; ++i) allocate(6 * kMiB);
  for (size_t i = 0; i < live_.size(); ++i) {
    Block* block = live_[i];
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(i));
    expect_clear(engine_->free(block));
  }
  allocate(23 * kMiB);
  allocate(9 * kMiB, side_);
  free_all();
  allocate(11 * kMiB);
  allocate(31 * kMiB);
  free_all();
}

// All of the memory goes to the other stream, and comes back: first while the one that has it is at
// work, then while it is idle. The pool that keeps its mappings lends nothing.
void Workload::lend() {
  for (const StreamId stream : {side_, kDefaultStream}) {
    allocate(40 * kMiB, stream);
    allocate(60 * kMiB, stream);
    if (stream == side_) expect_clear(machine_->hold_until_waited(kDevice, side_));
    (void)device().call_host(stream, [] {}).ok();
    free_all();
  }
  (void)device().synchronize_stream(kDefaultStream).ok();
  allocate(50 * kMiB, side_);
  free_all();
  expect_clear(machine_->resume(kDevice, side_));
}

// As a block that another process has open when its owner frees it.
void Workload::hold_and_let_go() {
  allocate(3 * kMiB);
  if (live_.empty()) return;
  use_last();
  Block* block = live_.back();
  live_.pop_back();
  engine_->hold(block);
  expect_clear(engine_->free(block));
  engine_->let_go(block);
}

void Workload::use_pools() {
  expect_clear(engine_->create_pool(kPool, {}));
  expect_clear(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  allocate(5 * kMiB);
  use_last();
  allocate(512);
  expect_clear(engine_->end_routing(kPool));
  free_first();
  expect_clear(engine_->release_pool(kPool));
}

void Workload::run_out() {
  for (int i = 0; i < 4; ++i) allocate(28 * kMiB);
  while (live_.size() > 3) free_first();
  for (int i = 0; i < 2; ++i) allocate(35 * kMiB, side_);
  while (live_.size() > 2) free_first();
}

void Workload::capture() {
  expect_clear(engine_->begin_routing(kCapturePool,
                                      [this](StreamId stream) { return stream == captured_; }));
  engine_->capture_began();
  const bool began = device().begin_capture(captured_, CaptureMode::kGlobal).ok();
  if (began) {
    allocate(4 * kMiB, captured_);
    use_last();
    if (!live_.empty()) {
      Block* last = live_.back();
      live_.pop_back();
      expect_clear(engine_->free(last));
    }
    allocate(4 * kMiB, captured_);
    allocate(512);
    if (!device().end_capture(captured_).ok()) {
      make_well();
      (void)device().end_capture(captured_).ok();
    }
  }
  EXPECT_TRUE(engine_->capture_ended().ok());
  expect_clear(engine_->end_routing(kCapturePool));
}

void Workload::expect_nothing_lost() {
  make_well();
  expect_valid();
  for (Block* block : std::exchange(live_, {})) EXPECT_TRUE(engine_->free(block).ok());
  const bool pool_left = engine_->pool_use_count(kPool).ok() && *engine_->pool_use_count(kPool) > 0;
  if (pool_left) {
    EXPECT_TRUE(engine_->release_pool(kPool).ok());
  }
  EXPECT_TRUE(engine_->release_pool(kCapturePool).ok());
  expect_clear(engine_->trim({}));  // may still report what failed before
  const Status trimmed = engine_->trim({});
  EXPECT_TRUE(trimmed.ok()) << trimmed.to_string();
  expect_valid();
  const AllocatorStats stats = engine_->stats();
  EXPECT_EQ(stats.allocation.all.current, 0);
  EXPECT_EQ(stats.active_bytes.all.current, 0);
  EXPECT_EQ(stats.requested_bytes.all.current, 0);
  EXPECT_EQ(stats.reserved_bytes.all.current, 0);
  EXPECT_EQ(stats.segment.all.current, 0);
  EXPECT_EQ(stats.inactive_split_bytes.all.current, 0);
  EXPECT_FALSE(engine_->pool_use_count(kPool).ok()) << "the pool was not destroyed";
  EXPECT_FALSE(engine_->pool_use_count(kCapturePool).ok()) << "the pool was not destroyed";
  const MemoryUse use = *device().memory_use();
  EXPECT_EQ(use.free_bytes, use.total_bytes);
}

std::ostream& operator<<(std::ostream& out, const SweepCase& each) { return out << each.name; }

class PagedSweepTest : public ::testing::TestWithParam<SweepCase> {};

TEST_P(PagedSweepTest, EveryCallMayFailAndNothingIsLost) {
  uint64_t nth = 1;
  for (bool more = true; more; ++nth) {
    SCOPED_TRACE(nth);
    Workload workload(GetParam());
    workload.inject(nth, GetParam().fault);
    workload.run();
    workload.expect_nothing_lost();
    more = workload.went_beyond();
    if (HasFailure()) return;
  }
  EXPECT_GT(nth, 60U) << "the workload hardly calls the device";
  RecordProperty("call_count", std::to_string(nth));
}

TEST(PagedSweepWorkloadTest, MemoryIsMappedTwiceAndGoesFromStreamToStream) {
  Workload workload({});
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

// Every setting with every way to fail.
std::vector<SweepCase> cases() {
  const std::vector<SweepCase> settings = {{"Balanced", with(PagedPolicy::kBalanced)},
                                           {"Lean", with(PagedPolicy::kLean)},
                                           {"Fast", with(PagedPolicy::kFast)},
                                           {"Limited", limited()},
                                           {"Shareable", shareable()},
                                           {"PlainDevice", {}, /*on_plain_device=*/true}};
  const std::vector<std::pair<std::string, sim::FaultRule>> faults = {
      {"Full", {.status = Status::out_of_memory("injected")}},
      {"Fault", {.status = Status::device_fault("injected", 999, "injected")}},
      {"TwoFaults", {.count = 2, .status = Status::device_fault("injected", 999, "injected")}},
      {"Lost", {.action = sim::FaultAction::kLoseDevice}}};
  std::vector<SweepCase> all;
  for (const SweepCase& setting : settings) {
    for (const auto& [fault, rule] : faults) {
      all.push_back(setting);
      all.back().name += fault;
      all.back().fault = rule;
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, PagedSweepTest, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ashlar::paged
