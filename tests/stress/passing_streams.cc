// SPDX-License-Identifier: Apache-2.0
//
// A stream, what is allocated on it, and what is left when it is gone.
#include "passing_streams.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/units.h"

namespace ashlar::stress {
namespace {

constexpr size_t kMostBytes = 12 * kMiB;

}  // namespace

void PassingStreams::act() {
  const uint64_t point = random_.below(100);
  if (!orphans_.empty() && point < 40) return free_orphan();
  if (!stream_) return make_stream();
  if (point < 60) return allocate();
  if (point < 90 && !live_.empty()) return field_.free(live_.take_any(random_));
  if (point >= 90) destroy();
}

void PassingStreams::make_stream() {
  while (!orphans_.empty()) free_orphan();
  device_ = random_.below(kDeviceCount);
  const Result<StreamId> made = field_.device(device_).create_stream();
  expect_clear(made.status());
  if (made.ok()) stream_ = {&field_.device(device_), *made};
}

// Often behind a stream that may be held back, so that there is work left when it is destroyed.
void PassingStreams::allocate() {
  const auto bytes = static_cast<size_t>(std::exp2(9 + 13.5 * random_.fraction()));
  while (!live_.empty() && live_.bytes() + bytes > kMostBytes) {
    field_.free(live_.take_any(random_));
  }
  if (random_.below(2) == 0) {
    Field::order({stream_->device, field_.any_stream(device_, random_)}, *stream_);
  }
  const Result<Held> held = field_.allocate(device_, {bytes, stream_->stream});
  if (held.ok()) live_.add(*held);
}

// Whoever comes after it must be told from now on: nobody can ask the stream any more.
void PassingStreams::destroy() {
  while (!orphans_.empty()) free_orphan();
  heir_ = {stream_->device, field_.any_stream(device_, random_)};
  if (!live_.empty()) Field::must_order(*stream_, heir_);
  while (!live_.empty() && random_.below(3) != 0) field_.free(live_.take_any(random_));
  const Status destroyed = stream_->device->destroy_stream(stream_->stream);
  expect_clear(destroyed);
  if (!destroyed.ok()) return;
  orphans_ = std::exchange(live_, {});
  stream_.reset();
}

void PassingStreams::free_orphan() {
  const Held held = orphans_.take_any(random_);
  paged::PagedEngine& engine = field_.engine(held.device);
  field_.check_on(held, heir_);
  expect_clear(engine.record_stream(held.block, heir_));
  expect_clear(engine.free(held.block));
}

void PassingStreams::free_all() {
  while (!orphans_.empty()) free_orphan();
  while (!live_.empty()) field_.free(live_.take_any(random_));
  if (stream_) destroy();
}

}  // namespace ashlar::stress
