// What a thread of the stress does, one act after the other.
#include "worker.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace ashlar::stress {
namespace {

// What each thread has at most: together somewhat more than there is, so that memory runs out.
constexpr size_t kMostLiveBytes = 70 * kMiB;
constexpr size_t kActsPerPhase = 400;

// What injected faults may come to, and nothing else.
void expect_clear(const Status& status) {
  const bool is_clear =
      status.ok() || status.is_out_of_memory() || status.is(StatusKind::kDeviceFault);
  EXPECT_TRUE(is_clear) << status.to_string();
}

}  // namespace

void Worker::act() {
  ++act_count_;
  const uint64_t point = random_.below(1000);
  if (point < 470) return allocate();
  if (point < 800) return free_one();
  if (point < 880) return use_elsewhere();
  if (point < 970) return exchange();
  if (point < 980) return begin_or_end_session();
  if (point < 986) return limit();
  if (point < 997) return fail_something();
  if (point < 998) return expect_clear(field_.engine(random_.below(kDeviceCount)).trim());
  go_without_cache();
}

// For a few acts of all threads only: it makes everything slow, and nothing is stitched.
void Worker::go_without_cache() {
  paged::PagedEngine& engine = field_.engine(random_.below(kDeviceCount));
  engine.set_caching(false);
  for (int i = 0; i < 8; ++i) allocate();
  engine.set_caching(true);
}

// Phases of small blocks, middling ones, large ones, and all together, so that what one leaves
// behind is of no use to the next unless it is stitched.
size_t Worker::draw_bytes() {
  struct Range {
    double low;
    double high;
  };
  constexpr std::array<Range, 4> kRanges = {{{9, 16}, {18, 22}, {21, 24.4}, {9, 24}}};
  const Range& range = kRanges[(act_count_ / kActsPerPhase + index_) % kRanges.size()];
  const double exponent = range.low + (range.high - range.low) * random_.fraction();
  return static_cast<size_t>(std::exp2(exponent));
}

void Worker::allocate() {
  const size_t bytes = draw_bytes();
  while (!live_.empty() && live_bytes_ + bytes > kMostLiveBytes) free_one();
  const size_t device = session_ ? session_->device : random_.below(kDeviceCount);
  const StreamId stream = field_.stream(device, random_.below(kStreamCount));
  const Result<Block*> block = field_.engine(device).allocate({bytes, stream});
  expect_clear(block.status());
  if (!block.ok()) {
    if (block.status().is_out_of_memory()) free_half();
    return;
  }
  const Held held{device, *block, {(*block)->address, (*block)->bytes, field_.next_name()}};
  EXPECT_EQ((*block)->stream, stream);
  field_.stamp(held);
  live_.push_back(held);
  live_bytes_ += held.stamp.bytes;
}

void Worker::free_one() {
  if (live_.empty()) return;
  const size_t place = random_.below(live_.size());
  const Held held = live_[place];
  live_[place] = live_.back();
  live_.pop_back();
  live_bytes_ -= held.stamp.bytes;
  free(held);
}

void Worker::free(const Held& held) {
  field_.check(held);
  paged::PagedEngine& engine = field_.engine(held.device);
  if (random_.below(20) != 0) return expect_clear(engine.free(held.block));
  // Somebody else has it open: it stays as it is until they let go.
  engine.hold(held.block);
  expect_clear(engine.free(held.block));
  field_.check(held);
  engine.let_go(held.block);
}

void Worker::free_half() {
  for (size_t left = live_.size() / 2; live_.size() > left;) free_one();
}

void Worker::free_all() {
  if (session_) end_session();
  while (!live_.empty()) free_one();
}

size_t Worker::live_count(size_t device) const {
  return static_cast<size_t>(std::count_if(
      live_.begin(), live_.end(), [&](const Held& held) { return held.device == device; }));
}

// Another stream, now and then of another device, looks at the block: after what its own has done
// to it, and perhaps long after it was freed.
void Worker::use_elsewhere() {
  if (live_.empty()) return;
  const Held& held = live_[random_.below(live_.size())];
  const size_t user = random_.below(8) == 0 ? random_.below(kDeviceCount) : held.device;
  const StreamId stream = field_.stream(user, random_.below(kStreamCount));
  Device& owner = field_.device(held.device);
  const Result<EventId> event = owner.create_event();
  if (!event.ok()) return;
  const bool is_ordered = owner.record_event(*event, held.block->stream).ok() &&
                          field_.device(user).wait_event(stream, *event).ok();
  if (is_ordered) {
    field_.check_on(held, user, stream);
    expect_clear(
        field_.engine(held.device).record_stream(held.block, {&field_.device(user), stream}));
  }
  expect_clear(owner.destroy_event(*event));
}

void Worker::exchange() {
  if (!live_.empty() && random_.below(2) == 0) {
    const size_t place = random_.below(live_.size());
    field_.leave(live_[place]);
    live_bytes_ -= live_[place].stamp.bytes;
    live_[place] = live_.back();
    live_.pop_back();
    return;
  }
  if (const std::optional<Held> held = field_.take()) free(*held);
}

void Worker::begin_or_end_session() {
  if (session_) return end_session();
  const Session session{random_.below(kDeviceCount), PoolId{0, 1000 * ++pool_count_ + index_}};
  PoolOptions options;
  options.never_remap = random_.below(3) == 0;
  options.no_split = random_.below(6) == 0;
  options.use_on_oom = random_.below(3) == 0;
  paged::PagedEngine& engine = field_.engine(session.device);
  expect_clear(engine.create_pool(session.pool, options));
  const std::thread::id mine = std::this_thread::get_id();
  expect_clear(engine.begin_routing(
      session.pool, [mine](StreamId) { return std::this_thread::get_id() == mine; }));
  session_ = session;
}

// Its blocks may live on; the pool goes with the last of them.
void Worker::end_session() {
  const Session session = *std::exchange(session_, std::nullopt);
  paged::PagedEngine& engine = field_.engine(session.device);
  expect_clear(engine.end_routing(session.pool));
  for (int left = *engine.pool_use_count(session.pool); left > 0; --left) {
    expect_clear(engine.release_pool(session.pool));
  }
  const Status trimmed = engine.trim(session.pool);
  if (!trimmed.is(StatusKind::kUsage)) expect_clear(trimmed);  // another thread's trim came first
}

void Worker::limit() {
  const double fraction = random_.below(2) == 0 ? 1.0 : 0.5 + random_.fraction() / 2;
  expect_clear(field_.engine(random_.below(kDeviceCount)).set_memory_fraction(fraction));
}

void Worker::fail_something() {
  constexpr std::array kCalls = {DeviceCall::kReserve,
                                 DeviceCall::kCreate,
                                 DeviceCall::kMap,
                                 DeviceCall::kSetAccess,
                                 DeviceCall::kUnmap,
                                 DeviceCall::kRelease,
                                 DeviceCall::kAllocate,
                                 DeviceCall::kFree,
                                 DeviceCall::kCreateEvent,
                                 DeviceCall::kRecordEvent,
                                 DeviceCall::kWaitEvent,
                                 DeviceCall::kIsDone,
                                 DeviceCall::kIsIdle,
                                 DeviceCall::kMemoryUse,
                                 DeviceCall::kFreeAddresses,
                                 DeviceCall::kSynchronizeStream,
                                 DeviceCall::kSynchronizeEvent};
  sim::FaultRule rule;
  rule.call = kCalls[random_.below(kCalls.size())];
  rule.device = DeviceIndex(random_.below(kDeviceCount));
  rule.nth = 1 + random_.below(10);
  switch (random_.below(3)) {
    case 0: rule.status = Status::out_of_memory("injected"); break;
    case 1: rule.status = Status::device_fault("injected", 999, "injected"); break;
    default: rule.action = sim::FaultAction::kDelay; rule.delay = std::chrono::microseconds(100);
  }
  field_.machine().inject(rule);
}

}  // namespace ashlar::stress
