// Devices, streams and engines of the stress, and the hand that holds streams back.
#include "field.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>

namespace ashlar::stress {

Field::Field(uint64_t seed, size_t capacity_bytes, const AllocatorOptions& options) {
  sim::Options machine_options;
  machine_options.device_count = kDeviceCount;
  machine_options.capacity_bytes = capacity_bytes;
  machine_ = *sim::Machine::create(machine_options);
  for (size_t i = 0; i < kDeviceCount; ++i) {
    for (StreamId& stream : streams_[i]) stream = *device(i).create_stream();
    engines_[i] = std::make_unique<paged::PagedEngine>(device(i), options);
    for (size_t peer = 0; peer < kDeviceCount; ++peer) {
      if (peer == i) continue;
      EXPECT_TRUE(engines_[i]->add_accessor(DeviceIndex(peer)).ok());
      EXPECT_TRUE(device(peer).enable_peer_access(DeviceIndex(i)).ok());
    }
  }
  hand_ = std::thread([this, seed] { hold_and_resume(seed); });
}

Field::~Field() { calm_down(); }

void Field::stamp(const Held& held) {
  const Status queued =
      machine_->launch(DeviceIndex(held.device), held.block->stream, write_stamp(held.stamp));
  EXPECT_TRUE(queued.ok()) << queued.to_string();
}

void Field::check(const Held& held) { check_on(held, held.device, held.block->stream); }

void Field::check_on(const Held& held, size_t device, StreamId stream) {
  const Status queued =
      machine_->launch(DeviceIndex(device), stream, check_stamp(held.stamp, mismatch_count_));
  EXPECT_TRUE(queued.ok()) << queued.to_string();
}

void Field::leave(const Held& held) {
  const std::lock_guard lock(mutex_);
  left_.push_back(held);
}

std::optional<Held> Field::take() {
  const std::lock_guard lock(mutex_);
  if (left_.empty()) return std::nullopt;
  const Held held = left_.front();
  left_.erase(left_.begin());
  return held;
}

size_t Field::left_count(size_t device) const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(
      left_.begin(), left_.end(), [&](const Held& held) { return held.device == device; }));
}

void Field::calm_down() {
  {
    const std::lock_guard lock(mutex_);
    is_calm_ = true;
  }
  calming_.notify_all();
  if (hand_.joinable()) hand_.join();
  machine_->clear_faults();
}

// A few streams are always behind the others, each for a moment; whoever waits for one gets there.
void Field::hold_and_resume(uint64_t seed) {
  struct Stream {
    DeviceIndex device;
    StreamId stream;
  };
  constexpr size_t kMostHeld = kDeviceCount * kStreamCount / 4;
  Random random(seed);
  std::deque<Stream> held;
  const auto resume_first = [&] {
    EXPECT_TRUE(machine_->resume(held.front().device, held.front().stream).ok());
    held.pop_front();
  };
  std::unique_lock lock(mutex_);
  while (!is_calm_) {
    const size_t device = random.below(kDeviceCount);
    const Stream stream{DeviceIndex(device), streams_[device][random.below(kStreamCount)]};
    EXPECT_TRUE(machine_->hold(stream.device, stream.stream).ok());
    held.push_back(stream);
    if (held.size() > random.below(kMostHeld)) resume_first();
    calming_.wait_for(lock, std::chrono::microseconds(200), [this] { return is_calm_; });
  }
  while (!held.empty()) resume_first();
}

}  // namespace ashlar::stress
