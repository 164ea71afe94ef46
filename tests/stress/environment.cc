// SPDX-License-Identifier: Apache-2.0
//
// Creates the devices, streams and engines, and runs the thread that pauses streams.
#include "environment.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>

namespace ashlar::stress {

void expect_ok_or_fault(const Status& status) {
  const bool is_clear =
      status.ok() || status.is_out_of_memory() || status.is(StatusKind::kDeviceFault);
  EXPECT_TRUE(is_clear) << status.to_string();
}

Environment::Environment(uint64_t seed, size_t capacity_bytes, const AllocatorOptions& options) {
  sim::Options machine_options;
  machine_options.device_count = kDeviceCount;
  machine_options.capacity_bytes = capacity_bytes;
  machine_ = *sim::Machine::try_create(machine_options);
  for (size_t i = 0; i < kDeviceCount; ++i) {
    for (StreamId& stream : streams_[i]) stream = *device(i).create_stream();
    engines_[i] = std::make_unique<paged::PagedEngine>(device(i), options);
    mapping_observers_[i] = std::make_unique<MappingObserver>(*engines_[i]);
    for (size_t peer = 0; peer < kDeviceCount; ++peer) {
      if (peer == i) continue;
      EXPECT_TRUE(engines_[i]->add_accessor(DeviceIndex(peer)).ok());
      EXPECT_TRUE(device(peer).enable_peer_access(DeviceIndex(i)).ok());
    }
  }
  pauser_ = std::thread([this, seed] { pause_and_resume_streams(seed); });
}

Environment::~Environment() { stop_disturbances(); }

// --- memory

Result<LiveBlock> Environment::allocate(size_t device, const AllocationRequest& request) {
  // Tries the fast path first, as the public API does.
  Block* fast_block = engine(device).allocate_fast(request.bytes, request.stream);
  const Result<Block*> block =
      fast_block != nullptr ? Result<Block*>(fast_block) : engine(device).allocate(request);
  expect_ok_or_fault(block.status());
  if (!block.ok()) return block.status();
  EXPECT_EQ((*block)->stream, request.stream);
  mapping_observer(device).expect_reported(**block);
  const LiveBlock held{device, *block, {(*block)->address, (*block)->bytes, ++last_stamp_id_}};
  stamp(held);
  return held;
}

void Environment::free(const LiveBlock& held) {
  check(held);
  expect_ok_or_fault(engine(held.device).free(held.block));
}

void Environment::stamp(const LiveBlock& held) {
  const Status queued =
      machine_->try_launch(DeviceIndex(held.device), held.block->stream, write_stamp(held.stamp));
  EXPECT_TRUE(queued.ok()) << queued.to_string();
}

// --- checking

void Environment::check(const LiveBlock& held) {
  check_on(held, {&device(held.device), held.block->stream});
}

void Environment::check_on(const LiveBlock& held, const DeviceStream& user) {
  const Status queued = machine_->try_launch(user.device->properties().index, user.stream,
                                             check_stamp(held.stamp, mismatches_));
  EXPECT_TRUE(queued.ok()) << queued.to_string();
}

std::optional<DeviceStream> Environment::check_on_random_stream(const LiveBlock& held,
                                                                Random& random) {
  const size_t from = random.below(8) == 0 ? random.below(kDeviceCount) : held.device;
  const DeviceStream user{&device(from), any_stream(from, random)};
  if (!order({&device(held.device), held.block->stream}, user)) return std::nullopt;
  check_on(held, user);
  expect_ok_or_fault(engine(held.device).record_stream(held.block, user));
  return user;
}

bool Environment::order(const DeviceStream& first, const DeviceStream& then) {
  const Result<EventId> event = first.device->create_event();
  if (!event.ok()) return false;
  const bool is_ordered = first.device->record_event(*event, first.stream).ok() &&
                          then.device->wait_event(then.stream, *event).ok();
  expect_ok_or_fault(first.device->destroy_event(*event));
  return is_ordered;
}

void Environment::order_with_retries(const DeviceStream& first, const DeviceStream& then) {
  int left = 100;
  while (!order(first, then) && left > 0) --left;
  EXPECT_GT(left, 0) << "a stream cannot be waited for";
}

// --- exchange between threads

void Environment::offer(const LiveBlock& held) {
  const std::lock_guard lock(mutex_);
  offered_blocks_.push_back(held);
}

std::optional<LiveBlock> Environment::take_offered() {
  const std::lock_guard lock(mutex_);
  if (offered_blocks_.empty()) return std::nullopt;
  const LiveBlock held = offered_blocks_.front();
  offered_blocks_.erase(offered_blocks_.begin());
  return held;
}

size_t Environment::offered_block_count(size_t device) const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(offered_blocks_.begin(), offered_blocks_.end(),
                    [&](const LiveBlock& held) { return held.device == device; }));
}

void Environment::stop_disturbances() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  stopping_.notify_all();
  if (pauser_.joinable()) pauser_.join();
  machine_->clear_faults();
}

// Keeps a few streams paused, each for a short time, so that waits for these streams still end.
void Environment::pause_and_resume_streams(uint64_t seed) {
  struct Stream {
    DeviceIndex device;
    StreamId stream;
  };
  constexpr size_t kMaxPaused = kDeviceCount * kStreamCount / 4;
  Random random(seed);
  std::deque<Stream> held;
  const auto resume_first = [&] {
    EXPECT_TRUE(machine_->resume_stream(held.front().device, held.front().stream).ok());
    held.pop_front();
  };
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    const size_t device = random.below(kDeviceCount);
    const Stream stream{DeviceIndex(device), any_stream(device, random)};
    EXPECT_TRUE(machine_->pause_stream(stream.device, stream.stream).ok());
    held.push_back(stream);
    if (held.size() > random.below(kMaxPaused)) resume_first();
    stopping_.wait_for(lock, std::chrono::microseconds(200), [this] { return is_stopped_; });
  }
  while (!held.empty()) resume_first();
}

}  // namespace ashlar::stress
