// SPDX-License-Identifier: Apache-2.0
//
// Creates streams, and destroys them while they have live and freed blocks.
#include "transient_streams.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/units.h"

namespace ashlar::stress {
namespace {

constexpr size_t kMaxBlockBytes = 12 * kMiB;

}  // namespace

void TransientStreams::act() {
  const uint64_t point = random_.below(100);
  if (!orphans_.empty() && point < 40) return free_orphan();
  if (!stream_) return make_stream();
  if (point < 60) return allocate();
  if (point < 90 && !live_.empty()) return environment_.free(live_.take_any(random_));
  if (point >= 90) destroy();
}

void TransientStreams::make_stream() {
  while (!orphans_.empty()) free_orphan();
  device_ = random_.below(kDeviceCount);
  const Result<StreamId> made = environment_.device(device_).create_stream();
  expect_clear(made.status());
  if (made.ok()) stream_ = {&environment_.device(device_), *made};
}

// Often makes the stream wait for one that may be held back, so that work is left when the stream
// is destroyed.
void TransientStreams::allocate() {
  const auto bytes = static_cast<size_t>(std::exp2(9 + 13.5 * random_.fraction()));
  while (!live_.empty() && live_.bytes() + bytes > kMaxBlockBytes) {
    environment_.free(live_.take_any(random_));
  }
  if (random_.below(2) == 0) {
    Environment::order({stream_->device, environment_.any_stream(device_, random_)}, *stream_);
  }
  const Result<LiveBlock> held = environment_.allocate(device_, {bytes, stream_->stream});
  if (held.ok()) live_.add(*held);
}

// Orders a successor stream now, because the destroyed one cannot be used any more.
void TransientStreams::destroy() {
  while (!orphans_.empty()) free_orphan();
  successor_ = {stream_->device, environment_.any_stream(device_, random_)};
  if (!live_.empty()) Environment::must_order(*stream_, successor_);
  while (!live_.empty() && random_.below(3) != 0) environment_.free(live_.take_any(random_));
  const Status destroyed = stream_->device->destroy_stream(stream_->stream);
  expect_clear(destroyed);
  if (!destroyed.ok()) return;
  orphans_ = std::exchange(live_, {});
  stream_.reset();
}

void TransientStreams::free_orphan() {
  const LiveBlock held = orphans_.take_any(random_);
  paged::PagedEngine& engine = environment_.engine(held.device);
  environment_.check_on(held, successor_);
  expect_clear(engine.record_stream(held.block, successor_));
  expect_clear(engine.free(held.block));
}

void TransientStreams::free_all() {
  while (!orphans_.empty()) free_orphan();
  while (!live_.empty()) environment_.free(live_.take_any(random_));
  if (stream_) destroy();
}

}  // namespace ashlar::stress
