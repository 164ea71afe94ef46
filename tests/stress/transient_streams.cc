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

void TransientStreams::step() {
  const uint64_t point = random_.below(100);
  if (!orphaned_blocks_.empty() && point < 40) return free_orphaned_block();
  if (!stream_) return make_stream();
  if (point < 60) return allocate();
  if (point < 90 && !live_.empty()) return environment_.free(live_.take_any(random_));
  if (point >= 90) destroy();
}

void TransientStreams::make_stream() {
  while (!orphaned_blocks_.empty()) free_orphaned_block();
  device_ = random_.below(kDeviceCount);
  const Result<StreamId> made = environment_.device(device_).create_stream();
  expect_ok_or_fault(made.status());
  if (made.ok()) stream_ = {&environment_.device(device_), *made};
}

// Often makes the stream wait for a stream that may be paused, so that work is still queued when
// the stream is destroyed.
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

// If blocks are live, makes a successor stream wait for this stream first, because no stream can
// wait for a destroyed stream.
void TransientStreams::destroy() {
  while (!orphaned_blocks_.empty()) free_orphaned_block();
  successor_ = {stream_->device, environment_.any_stream(device_, random_)};
  if (!live_.empty()) Environment::order_with_retries(*stream_, successor_);
  while (!live_.empty() && random_.below(3) != 0) environment_.free(live_.take_any(random_));
  const Status destroyed = stream_->device->destroy_stream(stream_->stream);
  expect_ok_or_fault(destroyed);
  if (!destroyed.ok()) return;
  orphaned_blocks_ = std::exchange(live_, {});
  stream_.reset();
}

void TransientStreams::free_orphaned_block() {
  const LiveBlock held = orphaned_blocks_.take_any(random_);
  paged::PagedEngine& engine = environment_.engine(held.device);
  environment_.check_on(held, successor_);
  expect_ok_or_fault(engine.record_stream(held.block, successor_));
  expect_ok_or_fault(engine.free(held.block));
}

void TransientStreams::free_all() {
  while (!orphaned_blocks_.empty()) free_orphaned_block();
  while (!live_.empty()) environment_.free(live_.take_any(random_));
  if (stream_) destroy();
}

}  // namespace ashlar::stress
