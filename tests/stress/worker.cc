// SPDX-License-Identifier: Apache-2.0
//
// Performs the operations of a stress thread.
#include "worker.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/units.h"
#include "faults.h"

namespace ashlar::stress {
namespace {

// Per thread; together somewhat more than the capacity, so that memory runs out.
constexpr size_t kMaxLiveBytes = 70 * kMiB;
constexpr size_t kActsPerPhase = 400;

}  // namespace

void Worker::act() {
  ++act_count_;
  const uint64_t point = random_.below(1000);
  if (point < 400) return allocate();
  if (point < 690) return free_one();
  if (point < 760) return look();
  if (point < 840) return exchange();
  if (point < 850) return begin_or_end_session();
  if (point < 890) return sleepers_.act();
  if (point < 930) return graphs_.act();
  if (point < 970) return passing_.act();
  if (point < 975) return limit();
  if (point < 979) return trim_to();
  if (point < 981) return take_snapshot();
  if (point < 998) return environment_.machine().inject(draw_fault(random_));
  if (point < 999) return expect_clear(environment_.engine(random_.below(kDeviceCount)).trim());
  go_without_cache();
}

// Phases of small, medium, large and mixed blocks, so that the memory of one phase serves the next
// only if it is stitched.
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
  while (!live_.empty() && live_.bytes() + bytes > kMaxLiveBytes) free_one();
  const size_t device = session_ ? session_->device() : random_.below(kDeviceCount);
  const AllocationRequest request{bytes, environment_.any_stream(device, random_)};
  const Result<LiveBlock> held =
      session_ ? session_->allocate(request) : environment_.allocate(device, request);
  if (held.ok()) live_.add(*held);
  if (held.status().is_out_of_memory()) free_half();
}

void Worker::free_one() {
  if (!live_.empty()) free(live_.take_any(random_));
}

void Worker::free(const LiveBlock& held) {
  if (random_.below(20) != 0) return environment_.free(held);
  // Another process has it open: it keeps its memory until unpinned.
  paged::PagedEngine& engine = environment_.engine(held.device);
  engine.pin(held.block);
  environment_.free(held);
  environment_.check(held);
  engine.unpin(held.block);
}

void Worker::free_half() {
  for (size_t left = live_.size() / 2; live_.size() > left;) free_one();
}

void Worker::free_all() {
  session_.reset();
  while (!live_.empty()) free_one();
  sleepers_.free_all();
  graphs_.free_all();
  passing_.free_all();
}

size_t Worker::live_count(size_t device) const {
  return live_.count_on(device) + sleepers_.live_count(device) + graphs_.live_count(device) +
         passing_.live_count(device);
}

void Worker::look() {
  if (!live_.empty()) environment_.look(live_.any(random_), random_);
}

void Worker::exchange() {
  if (!live_.empty() && random_.below(2) == 0) return environment_.leave(live_.take_any(random_));
  if (const std::optional<LiveBlock> held = environment_.take()) free(*held);
}

void Worker::begin_or_end_session() {
  if (session_) return session_.reset();
  session_ = std::make_unique<Session>(environment_, random_);
}

void Worker::limit() {
  const double fraction = random_.below(2) == 0 ? 1.0 : 0.5 + random_.fraction() / 2;
  expect_clear(environment_.engine(random_.below(kDeviceCount)).set_memory_fraction(fraction));
}

// Releases idle extents while other threads run.
void Worker::trim_to() {
  const TrimTarget target{.reserved_bytes = random_.below(80 * kMiB),
                          .wait = random_.below(4) == 0 ? TrimWait::kForWork : TrimWait::kNever};
  expect_clear(environment_.engine(random_.below(kDeviceCount)).trim_to(target).status());
}

// Concurrent with other threads: each extent appears once, and segments consist of extents at home.
// Paused pools are in transition.
void Worker::take_snapshot() {
  const EngineSnapshot held = environment_.engine(random_.below(kDeviceCount)).take_snapshot();
  std::set<PoolId> paused;
  size_t segment_bytes = 0;
  for (const SnapshotSegment& segment : held.segments) {
    if (segment.is_paused) paused.insert(segment.pool);
    if (segment.is_expandable && !segment.is_paused) segment_bytes += segment.total_bytes;
  }
  std::set<ExtentId> ids;
  size_t home_bytes = 0;
  for (const SnapshotExtent& extent : held.extents) {
    EXPECT_TRUE(ids.insert(extent.id).second) << "an extent is listed twice";
    if (extent.home && !paused.contains(extent.pool)) home_bytes += extent.bytes;
  }
  EXPECT_EQ(home_bytes, segment_bytes);
}

// For a few operations of all threads only: it is slow, and nothing is stitched.
void Worker::go_without_cache() {
  paged::PagedEngine& engine = environment_.engine(random_.below(kDeviceCount));
  engine.set_caching(false);
  for (int i = 0; i < 8; ++i) allocate();
  engine.set_caching(true);
}

}  // namespace ashlar::stress
