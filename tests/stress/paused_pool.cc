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

void PausedPool::act() {
  if (!pool_) make_pool();
  const uint64_t point = random_.below(100);
  if (!is_awake()) {
    if (point < 30) return resume();
    // The address of a freed block may be reused after the pause.
    if (point < 40 && !live_.empty()) {
      expect_clear(engine().free(live_.take_any(random_).block));
    }
    return;
  }
  if (point < 55) return allocate();
  if (point < 65) return pause();
  if (live_.empty()) return;
  if (point < 80) {
    environment_.look(live_.any(random_), random_);
    return;
  }
  if (point < 98) return environment_.free(live_.take_any(random_));
  free_all();
}

void PausedPool::make_pool() {
  device_ = random_.below(kDeviceCount);
  pool_ = PoolId{0, environment_.next_pool()};
  PoolOptions options;
  options.tag = tag_;
  expect_clear(engine().create_pool(*pool_, options));
}

void PausedPool::allocate() {
  const auto bytes = static_cast<size_t>(std::exp2(9 + 14 * random_.fraction()));
  while (!live_.empty() && live_.bytes() + bytes > kMaxPausedBytes) {
    environment_.free(live_.take_any(random_));
  }
  const PoolSelection wanted(*pool_);
  expect_clear(engine().begin_routing(*pool_, when_selected(*pool_)));
  const Result<LiveBlock> held =
      environment_.allocate(device_, {bytes, environment_.any_stream(device_, random_)});
  if (held.ok()) live_.add(*held);
  expect_clear(engine().end_routing(*pool_));
  expect_clear(engine().release_pool(*pool_));
}

// A failed pause may have begun.
void PausedPool::pause() {
  const bool keeps = random_.below(2) == 0;
  const Status paused = engine().pause(tag_, keeps);
  if (paused.is(StatusKind::kUnsupported)) return;  // a block was allocated while caching was off
  expect_clear(paused);
  contents_ = keeps ? Contents::kKept : Contents::kLost;
}

// Stays paused without enough memory.
void PausedPool::resume() {
  const Status resumed = engine().resume(tag_);
  expect_clear(resumed);
  if (!resumed.ok()) return;
  for (const LiveBlock& held : live_) {
    if (contents_ == Contents::kLost) environment_.stamp(held);
    environment_.check(held);
  }
  contents_ = Contents::kPresent;
}

void PausedPool::free_all() {
  if (!pool_) return;
  if (!is_awake()) resume();
  while (!live_.empty()) {
    const LiveBlock held = live_.take_any(random_);
    if (is_awake()) environment_.check(held);
    expect_clear(engine().free(held.block));
  }
  release_pool_fully(engine(), *pool_);
  pool_.reset();
  contents_ = Contents::kPresent;
}

}  // namespace ashlar::stress
