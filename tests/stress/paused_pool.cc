// SPDX-License-Identifier: Apache-2.0
//
// Pauses and resumes the pool. Only this thread uses the blocks, so no work accesses paused memory.
#include "paused_pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/units.h"
#include "pool_selection.h"

namespace ashlar::stress {
namespace {

constexpr size_t kMaxPausedBytes = 16 * kMiB;

}  // namespace

void PoolPauseWorkload::step() {
  if (!pool_) make_pool();
  const uint64_t point = random_.below(100);
  if (!is_resumed()) {
    if (point < 30) return resume();
    // Blocks may be freed during a pause. Their addresses may be reused after it.
    if (point < 40 && !live_.empty()) {
      expect_ok_or_fault(engine().free(live_.take_any(random_).block));
    }
    return;
  }
  if (point < 55) return allocate();
  if (point < 65) return pause();
  if (live_.empty()) return;
  if (point < 80) {
    environment_.check_on_random_stream(live_.any(random_), random_);
    return;
  }
  if (point < 98) return environment_.free(live_.take_any(random_));
  free_all();
}

void PoolPauseWorkload::make_pool() {
  device_ = random_.below(kDeviceCount);
  pool_ = PoolId{0, environment_.next_pool()};
  PoolOptions options;
  options.tag = tag_;
  expect_ok_or_fault(engine().create_pool(*pool_, options));
}

void PoolPauseWorkload::allocate() {
  const auto bytes = static_cast<size_t>(std::exp2(9 + 14 * random_.fraction()));
  while (!live_.empty() && live_.bytes() + bytes > kMaxPausedBytes) {
    environment_.free(live_.take_any(random_));
  }
  const PoolSelection selection(*pool_);
  expect_ok_or_fault(engine().begin_routing(*pool_, when_selected(*pool_)));
  const Result<LiveBlock> held =
      environment_.allocate(device_, {bytes, environment_.any_stream(device_, random_)});
  if (held.ok()) live_.add(*held);
  expect_ok_or_fault(engine().end_routing(*pool_));
  expect_ok_or_fault(engine().release_pool(*pool_));
}

// Treats the pool as paused, even if the call failed, because the pause may have begun.
void PoolPauseWorkload::pause() {
  const bool keeps = random_.below(2) == 0;
  const Status paused = engine().pause(tag_, keeps);
  if (paused.is(StatusKind::kUnsupported)) return;  // a block was allocated while caching was off
  expect_ok_or_fault(paused);
  contents_ = keeps ? Contents::kKept : Contents::kLost;
}

// If the call fails, for example because there is not enough memory, the pool stays paused.
void PoolPauseWorkload::resume() {
  const Status resumed = engine().resume(tag_);
  expect_ok_or_fault(resumed);
  if (!resumed.ok()) return;
  for (const LiveBlock& held : live_) {
    if (contents_ == Contents::kLost) environment_.stamp(held);
    environment_.check(held);
  }
  contents_ = Contents::kPresent;
}

void PoolPauseWorkload::free_all() {
  if (!pool_) return;
  if (!is_resumed()) resume();
  while (!live_.empty()) {
    const LiveBlock held = live_.take_any(random_);
    if (is_resumed()) environment_.check(held);
    expect_ok_or_fault(engine().free(held.block));
  }
  release_pool_fully(engine(), *pool_);
  pool_.reset();
  contents_ = Contents::kPresent;
}

}  // namespace ashlar::stress
