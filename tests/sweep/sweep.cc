// SPDX-License-Identifier: Apache-2.0
//
// Performs the operations that all workloads share, and checks that no memory is lost.
#include "sweep/sweep.h"

#include <chrono>
#include <utility>

#include "base/units.h"

namespace ashlar::sweep {
namespace {

constexpr PoolId kPool{0, 1};
constexpr PoolId kCapturePool{1, 0};

}  // namespace

std::ostream& operator<<(std::ostream& out, const SweepCase& each) { return out << each.name; }

std::vector<NamedFault> single_faults() {
  return {{"Full", {.status = Status::out_of_memory("injected")}},
          {"Fault", {.status = Status::device_fault("injected", 999, "injected")}},
          {"Lost", {.action = sim::FaultAction::kLoseDevice}}};
}

std::vector<SweepCase> combine(const std::vector<SweepCase>& settings,
                               const std::vector<NamedFault>& faults) {
  std::vector<SweepCase> all;
  for (uint64_t setting = 0; setting < settings.size(); ++setting) {
    for (const NamedFault& fault : faults) {
      all.push_back(settings[setting]);
      all.back().name += fault.name;
      all.back().fault = fault.rule;
      all.back().setting = setting;
    }
  }
  return all;
}

Workload::Workload(const SweepCase& each) {
  sim::Options machine_options;
  machine_options.device_count = 2;  // the second device tests peer access
  machine_options.capacity_bytes = 128 * kMiB;
  machine_options.backing = sim::Backing::kBookkeeping;
  machine_options.seed = 1;
  machine_ = *sim::Machine::try_create(machine_options);
  if (each.on_plain_device) {
    plain_ = std::make_unique<contract::PlainDevice>(machine_->device(kDevice));
  }
  side_ = *device().create_stream();
  captured_ = *device().create_stream();
}

// Injects `fault` from the nth call on. Also delays the first call after the failing calls by an
// hour of simulated time, so that had_later_call() can tell from the clock whether that call was
// made.
void Workload::inject(uint64_t nth, sim::FaultRule fault) {
  fault.nth = nth;
  loses_device_ = fault.action == sim::FaultAction::kLoseDevice;
  machine_->inject(fault);
  machine_->inject({.nth = nth + fault.count,
                    .action = sim::FaultAction::kDelay,
                    .delay = std::chrono::hours(1)});
  begin_ns_ = machine_->clock().now_ns();
}

bool Workload::had_later_call() const {
  const std::chrono::nanoseconds passed(machine_->clock().now_ns() - begin_ns_);
  return was_lost_ || passed >= std::chrono::hours(1);
}

void Workload::run() {
  fill_and_use();
  run_engine_operations();
  pin_and_unpin();
  use_pools();
  exhaust_memory();
  capture();
  expect_ok_or_fault(engine().trim({}));
}

void Workload::fill_and_use() {
  for (size_t bytes : {size_t{512}, 3 * kMiB, 15 * kMiB, kMiB, 3 * kMiB}) {
    allocate(bytes);
    record_use_of_last();
    allocate(bytes, side_);
    if (bytes > kMiB) free_first();
  }
  expect_ok_or_fault(engine().trim({}));
  allocate(30 * kMiB);
  free_first();
  free_first();
}

// Frees a block while it is pinned, like a block that another process still has open.
void Workload::pin_and_unpin() {
  allocate(3 * kMiB);
  if (live_.empty()) return;
  record_use_of_last();
  Block* block = live_.back();
  live_.pop_back();
  engine().pin(block);
  expect_ok_or_fault(engine().free(block));
  engine().unpin(block);
}

void Workload::use_pools() {
  expect_ok_or_fault(engine().create_pool(kPool, {}));
  expect_ok_or_fault(engine().begin_routing(kPool, [](StreamId) { return true; }));
  allocate(5 * kMiB);
  record_use_of_last();
  allocate(512);
  expect_ok_or_fault(engine().end_routing(kPool));
  free_first();
  expect_ok_or_fault(engine().release_pool(kPool));
}

void Workload::exhaust_memory() {
  for (int i = 0; i < 4; ++i) allocate(28 * kMiB);
  while (live_.size() > 3) free_first();
  for (int i = 0; i < 2; ++i) allocate(35 * kMiB, side_);
  while (live_.size() > 2) free_first();
}

void Workload::capture() {
  expect_ok_or_fault(engine().begin_routing(
      kCapturePool, [this](StreamId stream) { return stream == captured_; }));
  engine().capture_began();
  const bool began = device().begin_capture(captured_, CaptureMode::kGlobal).ok();
  if (began) {
    allocate(4 * kMiB, captured_);
    record_use_of_last();
    if (!live_.empty()) free_at(live_.size() - 1);
    allocate(4 * kMiB, captured_);
    allocate(512);
    if (!device().end_capture(captured_).ok()) {
      repair_device();
      (void)device().end_capture(captured_).ok();
    }
  }
  EXPECT_TRUE(engine().capture_ended().ok());
  expect_ok_or_fault(engine().end_routing(kCapturePool));
}

void Workload::expect_no_memory_lost() {
  repair_device();
  expect_valid();
  for (Block* block : std::exchange(live_, {})) EXPECT_TRUE(engine().free(block).ok());
  const Result<int> use_count = engine().pool_use_count(kPool);
  if (use_count.ok() && *use_count > 0) {
    EXPECT_TRUE(engine().release_pool(kPool).ok());
  }
  EXPECT_TRUE(engine().release_pool(kCapturePool).ok());
  expect_ok_or_fault(engine().trim({}));  // may still report earlier failures
  const Status trimmed = engine().trim({});
  EXPECT_TRUE(trimmed.ok()) << trimmed.to_string();
  expect_valid();
  const AllocatorStats stats = engine().stats();
  EXPECT_EQ(stats.allocation.all.current, 0);
  EXPECT_EQ(stats.active_bytes.all.current, 0);
  EXPECT_EQ(stats.requested_bytes.all.current, 0);
  EXPECT_EQ(stats.reserved_bytes.all.current, 0);
  EXPECT_EQ(stats.segment.all.current, 0);
  EXPECT_EQ(stats.inactive_split_bytes.all.current, 0);
  EXPECT_FALSE(engine().pool_use_count(kPool).ok()) << "the pool was not destroyed";
  EXPECT_FALSE(engine().pool_use_count(kCapturePool).ok()) << "the pool was not destroyed";
  const DeviceMemoryStats use = *device().memory_stats();
  EXPECT_EQ(use.free_bytes, use.total_bytes);
}

void Workload::expect_ok_or_fault(const Status& status) const {
  const StatusKind worst_kind = loses_device_ ? StatusKind::kDeviceLost : StatusKind::kDeviceFault;
  const bool clear = status.ok() || status.is_out_of_memory() || status.is(worst_kind);
  EXPECT_TRUE(clear) << status.to_string();
  EXPECT_TRUE(status.ok() || !status.message().empty());
}

void Workload::expect_valid() const {
  const Status valid = validate();
  EXPECT_TRUE(valid.ok()) << valid.to_string();
}

void Workload::allocate(size_t bytes, StreamId stream) {
  const Result<Block*> block = engine().allocate({bytes, stream});
  expect_ok_or_fault(block.status());
  if (!block.ok()) return;
  live_.push_back(*block);
  on_allocated(**block, bytes, stream);
}

void Workload::record_use_of_last() {
  if (!live_.empty()) expect_ok_or_fault(engine().record_stream(live_.back(), {&device(), side_}));
}

void Workload::free_at(size_t index) {
  Block* block = live_[index];
  live_.erase(live_.begin() + static_cast<ptrdiff_t>(index));
  expect_ok_or_fault(engine().free(block));
}

void Workload::free_first() {
  if (!live_.empty()) free_at(0);
}

void Workload::free_all() {
  while (!live_.empty()) free_first();
}

void Workload::restore(const PoolCheckpoint& checkpoint) {
  const size_t before = live_.size();
  const Result<RestoreResult> change = engine().restore(checkpoint);
  expect_ok_or_fault(change.status());
  if (!change.ok()) return;
  EXPECT_EQ(change->freed.size(), before);
  live_ = change->allocated;
}

void Workload::repair_device() {
  was_lost_ = was_lost_ || device().last_error().is(StatusKind::kDeviceLost);
  machine_->clear_faults();
  machine_->revive(kDevice);
}

}  // namespace ashlar::sweep
