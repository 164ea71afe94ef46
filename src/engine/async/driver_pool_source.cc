// SPDX-License-Identifier: Apache-2.0
//
// Allocating, freeing in stream order, and what could not be freed at once.
#include "engine/async/driver_pool_source.h"

#include <utility>

#include "base/text.h"
#include "device/relaxed_capture.h"
#include "device/stream_use.h"

namespace ashlar {

// All of it is kept, as PyTorch does it: memory that goes back to the device at each wait of the
// host would make the pool as slow as no pool.
Result<std::shared_ptr<DriverPoolSource>> DriverPoolSource::create(Device& device) {
  if (!device.properties().has_stream_pool) {
    return Status::unsupported(
        text("engine:async needs a driver with a stream-ordered pool, which device ",
             device.properties().index, " (", device.properties().name,
             ") does not have: use engine:paged or engine:classic"));
  }
  const RelaxedCapture relaxed(device);
  if (!relaxed.status().ok()) return relaxed.status();
  if (Status kept = device.set_pool_threshold(SIZE_MAX); !kept.ok()) return kept;
  if (Status reset = device.reset_pool_peaks(); !reset.ok()) return reset;
  return std::shared_ptr<DriverPoolSource>(new DriverPoolSource(device));
}

DriverPoolSource::~DriverPoolSource() { (void)trim().ok(); }

// --- allocate -----------------------------------------------------------------------------------

Result<DeviceAddress> DriverPoolSource::allocate(size_t bytes, StreamId stream) {
  if (Status late = take_late_error(); !late.ok()) return late;
  (void)free_left(Wait::kNever).ok();  // told by the next trim, if it stays so
  const Result<DeviceAddress> at = device_.allocate_async(bytes, stream);
  if (at.status().is(StatusKind::kUnsupported)) {
    return Status::invalid_argument(
        text("stream ", stream.value(),
             " is capturing, and the driver's pool has no memory for captures: "
             "route its allocations to a pool (begin_routing)"));
  }
  if (!at.ok()) return at;
  {
    MutexLock lock(mutex_);
    given_[at->value()] = stream;
  }
  const size_t most_bytes = most_bytes_();
  Status below = stay_below(most_bytes);
  if (below.ok()) return at;
  free(*at, bytes);
  (void)device_.trim_pool(most_bytes).ok();  // or what the driver took for it would stay there
  return below;
}

// The driver says how much it took only afterwards.
Status DriverPoolSource::stay_below(size_t most_bytes) {
  if (most_bytes == SIZE_MAX) return {};
  Result<DriverPoolStats> use = device_.driver_pool_stats();
  if (use.ok() && use->reserved_bytes <= most_bytes) return {};
  if (use.ok()) {
    if (Status trimmed = device_.trim_pool(most_bytes); !trimmed.ok()) return trimmed;
    use = device_.driver_pool_stats();
  }
  if (!use.ok()) return use.status();
  if (use->reserved_bytes <= most_bytes) return {};
  return Status::out_of_memory("above the limit of this process");
}

// --- free ---------------------------------------------------------------------------------------

void DriverPoolSource::free(DeviceAddress address, size_t) {
  Freed freed{address, {}};
  {
    MutexLock lock(mutex_);
    const auto found = given_.find(address.value());
    if (found == given_.end()) return;  // not ours
    freed.stream = found->second;
    given_.erase(found);
  }
  Status done = free_on(freed, freed.stream);
  if (done.ok()) return;
  const bool waits = done.is(StatusKind::kUnsupported) || done.is(StatusKind::kInvalidArgument);
  MutexLock lock(mutex_);
  left_.push_back(freed);
  if (!waits && deferred_error_.ok()) deferred_error_ = std::move(done);
}

// kUnsupported: the stream is capturing. kInvalidArgument: it is gone.
Status DriverPoolSource::free_on(const Freed& freed, StreamId stream) {
  Status done = device_.free_async(freed.address, stream);
  if (!done.ok()) return done;
  MutexLock lock(mutex_);
  ++freed_on_[stream];
  return {};
}

Status DriverPoolSource::free_left(Wait wait) {
  std::vector<Freed> left;
  {
    MutexLock lock(mutex_);
    left = std::exchange(left_, {});
  }
  Status first;
  for (const Freed& each : left) {
    Status done = free_on(each, each.stream);
    if (done.is(StatusKind::kInvalidArgument) && wait == Wait::kForDevice)
      done = free_of_gone_stream(each);
    if (done.ok()) continue;
    const bool waits = done.is(StatusKind::kUnsupported) || done.is(StatusKind::kInvalidArgument);
    if (!waits && first.ok()) first = std::move(done);
    MutexLock lock(mutex_);
    left_.push_back(each);
  }
  return first;
}

// What the stream had left to do is covered by waiting for the device, which would break a capture.
Status DriverPoolSource::free_of_gone_stream(const Freed& freed) {
  if (has_captures()) return Status::unsupported("a capture goes on");
  if (Status waited = device_.synchronize_device(); !waited.ok()) return waited;
  return free_on(freed, kDefaultStream);
}

// --- giving back --------------------------------------------------------------------------------

Status DriverPoolSource::trim() {
  const RelaxedCapture relaxed(device_);
  if (!relaxed.status().ok()) return relaxed.status();
  const Status freed = free_left(Wait::kForDevice);
  const Status waited = wait_for_frees();
  const Status trimmed = device_.trim_pool(0);
  const Status late = take_late_error();
  for (const Status& each : {freed, waited, trimmed}) {
    if (!each.ok()) return each;
  }
  return late;
}

Status DriverPoolSource::trim_to(size_t keep_bytes) {
  if (Status freed = free_left(Wait::kNever); !freed.ok()) return freed;
  return device_.trim_pool(keep_bytes);
}

Status DriverPoolSource::wait_for_frees() {
  std::map<StreamId, uint64_t> waited_for;
  {
    MutexLock lock(mutex_);
    waited_for = freed_on_;
  }
  const bool has_captures = this->has_captures();
  for (const auto& [stream, count] : waited_for) {
    if (has_captures && is_capturing(stream)) continue;
    Status waited =
        has_captures ? device_.synchronize_stream(stream) : wait_for({&device_, stream});
    if (waited.is(StatusKind::kInvalidArgument)) continue;  // gone: after the capture
    if (!waited.ok()) return waited;
    MutexLock lock(mutex_);
    const auto found = freed_on_.find(stream);
    const bool was_all = found != freed_on_.end() && found->second == count;
    if (was_all) freed_on_.erase(found);
  }
  return {};
}

// --- looking ------------------------------------------------------------------------------------

// Even to look at the pool's figures would break a capture, whoever has one under way.
DriverPoolStats DriverPoolSource::stats() const {
  const RelaxedCapture relaxed(device_);
  if (!relaxed.status().ok()) return {};
  const Result<DriverPoolStats> use = device_.driver_pool_stats();
  return use.ok() ? *use : DriverPoolStats{};
}

void DriverPoolSource::reset_peaks() {
  const RelaxedCapture relaxed(device_);
  Status reset = relaxed.status().ok() ? device_.reset_pool_peaks() : relaxed.status();
  if (reset.ok()) return;
  MutexLock lock(mutex_);
  if (deferred_error_.ok()) deferred_error_ = std::move(reset);
}

Status DriverPoolSource::take_late_error() {
  MutexLock lock(mutex_);
  return std::exchange(deferred_error_, {});
}

// --- captures -----------------------------------------------------------------------------------

void DriverPoolSource::capture_began() {
  MutexLock lock(mutex_);
  ++capture_count_;
}

void DriverPoolSource::capture_ended() {
  MutexLock lock(mutex_);
  --capture_count_;
}

bool DriverPoolSource::has_captures() const {
  MutexLock lock(mutex_);
  return capture_count_ > 0;
}

// A device that cannot tell leaves us on the safe side; a stream that is gone captures nothing.
bool DriverPoolSource::is_capturing(StreamId stream) const {
  const Result<CaptureState> state = capture_state({&device_, stream});
  if (state.status().is(StatusKind::kInvalidArgument)) return false;
  return !state.ok() || state->status != CaptureStatus::kNone;
}

}  // namespace ashlar
