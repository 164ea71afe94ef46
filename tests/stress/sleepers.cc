// SPDX-License-Identifier: Apache-2.0
//
// Asleep or awake. Nobody else has these blocks, so that nobody works on memory that is not there.
#include "sleepers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/units.h"
#include "routed.h"

namespace ashlar::stress {
namespace {

constexpr size_t kMostBytes = 16 * kMiB;

}  // namespace

void Sleepers::act() {
  if (!pool_) make_pool();
  const uint64_t point = random_.below(100);
  if (!is_awake()) {
    if (point < 30) return resume();
    // The address of a block that is gone may serve another after the pause.
    if (point < 40 && !live_.empty()) {
      expect_clear(engine().free(live_.take_any(random_).block));
    }
    return;
  }
  if (point < 55) return allocate();
  if (point < 65) return pause();
  if (live_.empty()) return;
  if (point < 80) {
    field_.look(live_.any(random_), random_);
    return;
  }
  if (point < 98) return field_.free(live_.take_any(random_));
  free_all();
}

void Sleepers::make_pool() {
  device_ = random_.below(kDeviceCount);
  pool_ = PoolId{0, field_.next_pool()};
  PoolOptions options;
  options.tag = tag_;
  expect_clear(engine().create_pool(*pool_, options));
}

void Sleepers::allocate() {
  const auto bytes = static_cast<size_t>(std::exp2(9 + 14 * random_.fraction()));
  while (!live_.empty() && live_.bytes() + bytes > kMostBytes) {
    field_.free(live_.take_any(random_));
  }
  const Wanted wanted(*pool_);
  expect_clear(engine().begin_routing(*pool_, when_wanted(*pool_)));
  const Result<Held> held = field_.allocate(device_, {bytes, field_.any_stream(device_, random_)});
  if (held.ok()) live_.add(*held);
  expect_clear(engine().end_routing(*pool_));
  expect_clear(engine().release_pool(*pool_));
}

// One that fails may have begun.
void Sleepers::pause() {
  const bool keeps = random_.below(2) == 0;
  const Status paused = engine().pause(tag_, keeps);
  if (paused.is(StatusKind::kUnsupported)) return;  // a block came while caching was off
  expect_clear(paused);
  contents_ = keeps ? Contents::kKept : Contents::kLost;
}

// Without enough memory they sleep on.
void Sleepers::resume() {
  const Status resumed = engine().resume(tag_);
  expect_clear(resumed);
  if (!resumed.ok()) return;
  for (const Held& held : live_) {
    if (contents_ == Contents::kLost) field_.stamp(held);
    field_.check(held);
  }
  contents_ = Contents::kThere;
}

void Sleepers::free_all() {
  if (!pool_) return;
  if (!is_awake()) resume();
  while (!live_.empty()) {
    const Held held = live_.take_any(random_);
    if (is_awake()) field_.check(held);
    expect_clear(engine().free(held.block));
  }
  let_go_of_pool(engine(), *pool_);
  pool_.reset();
  contents_ = Contents::kThere;
}

}  // namespace ashlar::stress
