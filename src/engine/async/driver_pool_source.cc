// SPDX-License-Identifier: Apache-2.0
//
// Allocates and frees on the stream of each block, and retries frees that the driver rejected.
#include "engine/async/driver_pool_source.h"

#include <utility>

#include "base/text.h"
#include "device/relaxed_capture.h"
#include "device/stream_use.h"

namespace ashlar {

// Sets the release threshold so that all memory stays in the pool, as PyTorch does. With the
// default threshold, the driver returns unused memory at every host synchronization.
Result<std::shared_ptr<DriverPoolSource>> DriverPoolSource::create(Device& device) {
  if (!device.properties().has_stream_ordered_pool) {
    return Status::unsupported(
        text("engine:async needs a driver with a stream-ordered pool, which device ",
             device.properties().index, " (", device.properties().name,
             ") does not have: use engine:paged or engine:classic"));
  }
  const RelaxedCapture relaxed(device);
  if (!relaxed.status().ok()) return relaxed.status();
  if (Status set = device.set_pool_threshold(SIZE_MAX); !set.ok()) return set;
  if (Status reset = device.reset_pool_peaks(); !reset.ok()) return reset;
  return std::shared_ptr<DriverPoolSource>(new DriverPoolSource(device));
}

DriverPoolSource::~DriverPoolSource() { (void)trim().ok(); }

Result<DeviceAddress> DriverPoolSource::allocate(size_t bytes, StreamId stream) {
  if (Status deferred = take_deferred_error(); !deferred.ok()) return deferred;
  (void)retry_frees(Wait::kNever).ok();  // the next trim reports an error that persists
  const Result<DeviceAddress> address = device_.allocate_async(bytes, stream);
  if (address.status().is(StatusKind::kUnsupported)) {
    return Status::invalid_argument(
        text("stream ", stream.value(),
             " is capturing, and the driver's pool has no memory for captures: "
             "route its allocations to a pool (begin_routing)"));
  }
  if (!address.ok()) return address;
  {
    MutexLock lock(mutex_);
    live_[address->value()] = stream;
  }
  const size_t max_bytes = max_bytes_();
  Status below = enforce_limit(max_bytes);
  if (below.ok()) return address;
  free(*address, bytes);
  (void)device_.trim_pool(max_bytes).ok();  // or else the driver keeps the new memory
  return below;
}

// Called after the allocation, because only then does the driver report the pool's new size.
Status DriverPoolSource::enforce_limit(size_t max_bytes) {
  if (max_bytes == SIZE_MAX) return {};
  Result<DriverPoolStats> use = device_.driver_pool_stats();
  if (use.ok() && use->reserved_bytes <= max_bytes) return {};
  if (use.ok()) {
    if (Status trimmed = device_.trim_pool(max_bytes); !trimmed.ok()) return trimmed;
    use = device_.driver_pool_stats();
  }
  if (!use.ok()) return use.status();
  if (use->reserved_bytes <= max_bytes) return {};
  return Status::out_of_memory("above the limit of this process");
}

void DriverPoolSource::free(DeviceAddress address, size_t) {
  FreeRequest request{address, {}};
  {
    MutexLock lock(mutex_);
    const auto found = live_.find(address.value());
    if (found == live_.end()) return;  // the address is not from this source
    request.stream = found->second;
    live_.erase(found);
  }
  Status done = free_on(request, request.stream);
  if (done.ok()) return;
  const bool is_retried =
      done.is(StatusKind::kUnsupported) || done.is(StatusKind::kInvalidArgument);
  MutexLock lock(mutex_);
  queued_frees_.push_back(request);
  if (!is_retried && deferred_error_.ok()) deferred_error_ = std::move(done);
}

// Queues the free on `stream`. kUnsupported: the stream is capturing. kInvalidArgument: the stream
// has been destroyed.
Status DriverPoolSource::free_on(const FreeRequest& request, StreamId stream) {
  Status done = device_.free_async(request.address, stream);
  if (!done.ok()) return done;
  MutexLock lock(mutex_);
  ++free_counts_[stream];
  return {};
}

Status DriverPoolSource::retry_frees(Wait wait) {
  std::vector<FreeRequest> queued;
  {
    MutexLock lock(mutex_);
    queued = std::exchange(queued_frees_, {});
  }
  Status first;
  for (const FreeRequest& each : queued) {
    Status done = free_on(each, each.stream);
    if (done.is(StatusKind::kInvalidArgument) && wait == Wait::kForDevice)
      done = free_after_device_wait(each);
    if (done.ok()) continue;
    const bool is_retried =
        done.is(StatusKind::kUnsupported) || done.is(StatusKind::kInvalidArgument);
    if (!is_retried && first.ok()) first = std::move(done);
    MutexLock lock(mutex_);
    queued_frees_.push_back(each);
  }
  return first;
}

// Waits for the whole device, which covers the remaining work of the destroyed stream but would
// invalidate a capture.
Status DriverPoolSource::free_after_device_wait(const FreeRequest& request) {
  if (has_captures()) return Status::unsupported("a capture is in progress");
  if (Status waited = device_.synchronize_device(); !waited.ok()) return waited;
  return free_on(request, kDefaultStream);
}

Status DriverPoolSource::trim() {
  const RelaxedCapture relaxed(device_);
  if (!relaxed.status().ok()) return relaxed.status();
  const Status freed = retry_frees(Wait::kForDevice);
  const Status waited = wait_for_frees();
  const Status trimmed = device_.trim_pool(0);
  const Status deferred = take_deferred_error();
  for (const Status& each : {freed, waited, trimmed}) {
    if (!each.ok()) return each;
  }
  return deferred;
}

Status DriverPoolSource::trim_to(size_t keep_bytes) {
  if (Status freed = retry_frees(Wait::kNever); !freed.ok()) return freed;
  return device_.trim_pool(keep_bytes);
}

Status DriverPoolSource::wait_for_frees() {
  std::map<StreamId, uint64_t> waited_for;
  {
    MutexLock lock(mutex_);
    waited_for = free_counts_;
  }
  const bool has_captures = this->has_captures();
  for (const auto& [stream, count] : waited_for) {
    if (has_captures && is_capturing(stream)) continue;
    Status waited =
        has_captures ? device_.synchronize_stream(stream) : wait_for({&device_, stream});
    // The stream has been destroyed. Waiting for the whole device would invalidate the capture in
    // progress, so `free_counts_` keeps the entry, and a later call without captures waits.
    if (waited.is(StatusKind::kInvalidArgument)) continue;
    if (!waited.ok()) return waited;
    MutexLock lock(mutex_);
    const auto found = free_counts_.find(stream);
    const bool covers_all = found != free_counts_.end() && found->second == count;
    if (covers_all) free_counts_.erase(found);
  }
  return {};
}

// Without relaxed capture mode, even a query of statistics could invalidate a capture on another
// thread.
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

Status DriverPoolSource::take_deferred_error() {
  MutexLock lock(mutex_);
  return std::exchange(deferred_error_, {});
}

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

// If the query fails, assume a capture. A destroyed stream is not capturing.
bool DriverPoolSource::is_capturing(StreamId stream) const {
  const Result<CaptureState> state = capture_state({&device_, stream});
  if (state.status().is(StatusKind::kInvalidArgument)) return false;
  return !state.ok() || state->status != CaptureStatus::kNone;
}

}  // namespace ashlar
