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

// The limit of each thread's own live blocks. Blocks of several threads on one device can exceed
// the device's capacity, so that memory runs out.
constexpr size_t kMaxLiveBytes = 70 * kMiB;
constexpr size_t kStepsPerPhase = 400;

}  // namespace

void Worker::step() {
  ++step_count_;
  const uint64_t point = random_.below(1000);
  if (point < 400) return allocate();
  if (point < 690) return free_one();
  if (point < 760) return check_random_block();
  if (point < 840) return exchange();
  if (point < 850) return begin_or_end_session();
  if (point < 890) return paused_pool_.step();
  if (point < 930) return graphs_.step();
  if (point < 970) return transient_streams_.step();
  if (point < 975) return change_limit();
  if (point < 979) return trim_to();
  if (point < 981) return take_snapshot();
  if (point < 998) return environment_.machine().inject(draw_fault(random_));
  if (point < 999)
    return expect_ok_or_fault(environment_.engine(random_.below(kDeviceCount)).trim());
  allocate_without_cache();
}

// Draws sizes in phases of small, medium, large and mixed blocks, so that the memory of one phase
// can serve the next phase only if it is stitched.
size_t Worker::draw_bytes() {
  struct Range {
    double low;
    double high;
  };
  constexpr std::array<Range, 4> kRanges = {{{9, 16}, {18, 22}, {21, 24.4}, {9, 24}}};
  const Range& range = kRanges[(step_count_ / kStepsPerPhase + index_) % kRanges.size()];
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
  // Sometimes frees the block while it is pinned, as if another process had it open. The block
  // keeps its memory until it is unpinned.
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
  paused_pool_.free_all();
  graphs_.free_all();
  transient_streams_.free_all();
}

size_t Worker::live_count(size_t device) const {
  return live_.count_on(device) + paused_pool_.live_count(device) + graphs_.live_count(device) +
         transient_streams_.live_count(device);
}

void Worker::check_random_block() {
  if (!live_.empty()) environment_.check_on_random_stream(live_.any(random_), random_);
}

void Worker::exchange() {
  if (!live_.empty() && random_.below(2) == 0) return environment_.offer(live_.take_any(random_));
  if (const std::optional<LiveBlock> held = environment_.take_offered()) free(*held);
}

void Worker::begin_or_end_session() {
  if (session_) return session_.reset();
  session_ = std::make_unique<Session>(environment_, random_);
}

void Worker::change_limit() {
  const double fraction = random_.below(2) == 0 ? 1.0 : 0.5 + random_.fraction() / 2;
  expect_ok_or_fault(
      environment_.engine(random_.below(kDeviceCount)).set_memory_fraction(fraction));
}

// Releases idle extents while other threads run.
void Worker::trim_to() {
  const TrimTarget target{.reserved_bytes = random_.below(80 * kMiB),
                          .wait = random_.below(4) == 0 ? TrimWait::kForWork : TrimWait::kNever};
  expect_ok_or_fault(environment_.engine(random_.below(kDeviceCount)).trim_to(target).status());
}

// Takes a snapshot while other threads run. Each extent must appear once, and the sizes of the
// attached extents must add up to those of the expandable segments. Skips paused pools, which may
// be changing state.
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
    if (extent.attached_address && !paused.contains(extent.pool)) home_bytes += extent.bytes;
  }
  EXPECT_EQ(home_bytes, segment_bytes);
}

// Turns the cache off for all threads, but only briefly, because without it allocation is slow and
// nothing is stitched.
void Worker::allocate_without_cache() {
  paged::PagedEngine& engine = environment_.engine(random_.below(kDeviceCount));
  engine.set_caching(false);
  for (int i = 0; i < 8; ++i) allocate();
  engine.set_caching(true);
}

}  // namespace ashlar::stress
