// SPDX-License-Identifier: Apache-2.0
//
// Allocates and frees on the stream of each block, and retries frees that the driver rejected.
#include "engine/async/driver_pool_source.h"

#include <utility>

#include "base/host_memory.h"
#include "base/text.h"
#include "device/relaxed_capture.h"
#include "device/stream_use.h"

namespace ashlar {
namespace {

// Whether a queued free is retried without reporting the error: the stream is capturing or was
// destroyed, or the device lacked host memory.
bool is_retried(const Status& failure) {
  return failure.is(StatusKind::kUnsupported) || failure.is(StatusKind::kInvalidArgument) ||
         failure.is(StatusKind::kHostOutOfMemory);
}

}  // namespace

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

DriverPoolSource::DriverPoolSource(Device& device) : device_(device) {
  MutexLock lock(mutex_);
  streams_[kDefaultStream] = {};
}

DriverPoolSource::~DriverPoolSource() { (void)trim().ok(); }

Result<DeviceAddress> DriverPoolSource::allocate(size_t bytes, StreamId stream) {
  if (Status deferred = take_deferred_error(); !deferred.ok()) return deferred;
  (void)retry_frees(Wait::kNever).ok();  // the next trim reports an error that persists
  const Result<DeviceAddress> address = allocate_counted(bytes, stream);
  if (address.status().is(StatusKind::kUnsupported)) {
    return Status::invalid_argument(
        text("stream ", stream.value(),
             " is capturing, and the driver's pool has no memory for captures: "
             "route its allocations to a pool (begin_routing)"));
  }
  if (!address.ok()) return address;
  const size_t max_bytes = max_bytes_();
  Status below = without_bad_alloc([&] { return enforce_limit(max_bytes); });
  if (below.ok()) return address;
  free(*address, bytes);
  (void)device_.trim_pool(max_bytes).ok();  // otherwise the pool would keep the new memory
  return below;
}

// Allocates host memory for the bookkeeping before it calls the device.
Result<DeviceAddress> DriverPoolSource::allocate_counted(size_t bytes, StreamId stream) {
  Allocations staged = {{0, stream}};
  count_allocation(stream);
  Result<DeviceAddress> address = device_.allocate_async(bytes, stream);
  MutexLock lock(mutex_);
  if (!address.ok()) {
    uncount_allocation_locked(stream);
    return address;
  }
  auto allocation = staged.extract(staged.begin());
  allocation.key() = address->value();
  live_.insert(std::move(allocation));
  return address;
}

void DriverPoolSource::count_allocation(StreamId stream) {
  MutexLock lock(mutex_);
  ++streams_[stream].allocation_count;
}

void DriverPoolSource::uncount_allocation_locked(StreamId stream) {
  const auto found = streams_.find(stream);
  --found->second.allocation_count;
  if (stream != kDefaultStream && found->second.is_unused()) streams_.erase(found);
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
  Allocations::node_type allocation;
  {
    MutexLock lock(mutex_);
    allocation = live_.extract(address.value());
  }
  if (allocation.empty()) return;  // the address is not from this source
  Status done = free_on({allocation.key(), allocation.mapped()}, allocation.mapped());
  if (done.ok()) return;
  MutexLock lock(mutex_);
  queued_frees_.insert(std::move(allocation));
  if (!is_retried(done) && deferred_error_.ok()) deferred_error_ = std::move(done);
}

Status DriverPoolSource::free_on(const Allocations::value_type& allocation, StreamId stream) {
  Status done = device_.free_async(DeviceAddress(allocation.first), stream);
  if (!done.ok()) return done;
  MutexLock lock(mutex_);
  ++streams_.find(stream)->second.free_count;
  uncount_allocation_locked(allocation.second);
  return {};
}

Status DriverPoolSource::retry_frees(Wait wait) {
  Allocations queued;
  {
    MutexLock lock(mutex_);
    queued.swap(queued_frees_);
  }
  Status first;
  while (!queued.empty()) {
    auto allocation = queued.extract(queued.begin());
    const Allocations::value_type request(allocation.key(), allocation.mapped());
    Status done = free_on(request, request.second);
    if (done.is(StatusKind::kInvalidArgument) && wait == Wait::kForDevice) {
      done = without_bad_alloc([&] { return free_after_device_wait(request); });
    }
    if (done.ok()) continue;
    if (!is_retried(done) && first.ok()) first = std::move(done);
    MutexLock lock(mutex_);
    queued_frees_.insert(std::move(allocation));
  }
  return first;
}

// Waits for the whole device, because a destroyed stream cannot be waited for, and frees on the
// default stream. Fails during captures, because the wait would invalidate them.
Status DriverPoolSource::free_after_device_wait(const Allocations::value_type& allocation) {
  if (has_captures()) return Status::unsupported("a capture is in progress");
  if (Status waited = device_.synchronize_device(); !waited.ok()) return waited;
  return free_on(allocation, kDefaultStream);
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

// Needs no host memory, because the destructor calls it.
Status DriverPoolSource::wait_for_frees() {
  const bool has_captures = this->has_captures();
  std::optional<StreamId> previous;
  StreamFrees frees;
  while (const std::optional<StreamId> stream = next_stream_with_frees(previous, frees)) {
    previous = stream;
    if (has_captures && is_capturing(*stream)) continue;
    Status waited =
        has_captures ? device_.synchronize_stream(*stream) : wait_for({&device_, *stream});
    // The stream has been destroyed. Waiting for the whole device would invalidate the capture in
    // progress, so `streams_` keeps the count, and a later call without captures waits.
    if (waited.is(StatusKind::kInvalidArgument)) continue;
    if (!waited.ok()) return waited;
    reset_free_count(*stream, frees.free_count);
  }
  return {};
}

// Returns the first stream after `previous` that has frees, and stores its counts in `frees`.
std::optional<StreamId> DriverPoolSource::next_stream_with_frees(std::optional<StreamId> previous,
                                                                 StreamFrees& frees) const {
  MutexLock lock(mutex_);
  auto each = previous ? streams_.upper_bound(*previous) : streams_.begin();
  while (each != streams_.end() && each->second.free_count == 0) ++each;
  if (each == streams_.end()) return std::nullopt;
  frees = each->second;
  return each->first;
}

// Resets the stream's number of frees, unless more frees were queued on the stream since the wait
// began.
void DriverPoolSource::reset_free_count(StreamId stream, uint64_t waited_for_count) {
  MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.free_count != waited_for_count) return;
  found->second.free_count = 0;
  if (stream != kDefaultStream && found->second.is_unused()) streams_.erase(found);
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
