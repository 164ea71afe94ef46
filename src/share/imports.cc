// SPDX-License-Identifier: Apache-2.0
//
// Opens imports, and releases closed imports once the work on their streams is done.
#include "share/imports.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/check.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar {

struct Imports::KeptImport {
  std::shared_ptr<Import> import;
  KeptImport* next = nullptr;
};

// Keeps the imports reachable; no thread reads the elements.
class Imports::KeptImports {
 public:
  static void add(std::unique_ptr<KeptImport> added) noexcept {
    KeptImport* kept = added.release();
    kept->next = first.load(std::memory_order_relaxed);
    // Release order suffices, because no thread reads the elements.
    while (!first.compare_exchange_weak(kept->next, kept, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }

 private:
  static inline std::atomic<KeptImport*> first{nullptr};
};

Imports::PendingClose::PendingClose() : kept(std::make_unique<KeptImport>()) {}
Imports::PendingClose::~PendingClose() = default;

Imports::Imports(Device& device, std::chrono::milliseconds timeout)
    : device_(device), timeout_(timeout), accessors_{device.properties().index} {}

// An import that cannot be waited for stays open, because work may still use its memory.
Imports::~Imports() {
  PendingCloses closing;
  take_pending(closing);
  for (PendingClose& each : closing) {
    if (catch_bad_alloc([&] { return wait(each); })) continue;
    each.kept->import = std::move(each.import);
    KeptImports::add(std::move(each.kept));
  }
  closing.clear();
  retry_unclosed();
}

Result<std::shared_ptr<Import>> Imports::open(std::string_view bytes) {
  if (Status collected = collect(); !collected.ok()) return collected;
  const Result<ShareHandle> handle = parse_share_handle(bytes);
  if (!handle.ok()) return handle.status();
  PendingCloses prepared;
  prepared.emplace_back();
  Result<std::shared_ptr<Import>> import =
      imports_.find_or_create(std::string(bytes), [&] { return make_import(*handle); });
  if (!import.ok()) return import;
  // add_accessor does not find an import that is still being created, so access is granted here
  // again.
  if (Status opened = grant_access_to_all(*(*import)->range); !opened.ok()) return opened;
  MutexLock lock(mutex_);
  prepared_closes_.splice(prepared_closes_.end(), prepared);
  return import;
}

Result<std::shared_ptr<Import>> Imports::make_import(const ShareHandle& handle) {
  if (Status right = check_device(handle); !right.ok()) return right;
  auto import = std::make_shared<Import>();
  std::vector<UniqueFd> fds;
  if (!handle.is_bare) {
    Result<Lease> lease = Lease::connect(handle, timeout_);
    if (!lease.ok()) return lease.status();
    import->lease = *std::move(lease);
    Result<std::vector<UniqueFd>> first = import->lease->request(0);
    if (!first.ok()) return first.status();
    fds = *std::move(first);
  }
  Result<std::shared_ptr<ImportedRange>> range =
      handle.kind == ShareHandle::Kind::kExtents
          ? import_granules(handle, *import->lease, std::move(fds))
          : open_allocation(handle.allocation);
  if (!range.ok()) return range.status();
  import->range = *std::move(range);
  const AddressRange whole = import->range->range();
  import->block = handle.is_bare ? whole : AddressRange{whole.begin + handle.offset, handle.bytes};
  if (!whole.contains(import->block)) {
    return Status::invalid_argument(text("the handle's block of ", handle.bytes, " B at offset ",
                                         handle.offset, " is not inside the allocation, ", whole));
  }
  return import;
}

Status Imports::check_device(const ShareHandle& handle) const {
  const DeviceProperties& own = device_.properties();
  if (handle.is_bare || handle.device == own.uuid) return {};
  return Status::invalid_argument(text("the shared block lies on device ", to_hex(handle.device),
                                       ", this allocator is for device ", to_hex(own.uuid), " (",
                                       own.backend, " ", own.index,
                                       "): open it with that device's allocator"));
}

Result<std::shared_ptr<ImportedRange>> Imports::open_allocation(const AllocationHandle& handle) {
  const std::string key(handle.begin(), handle.end());
  return allocations_.find_or_create(key, [&]() -> Result<std::shared_ptr<ImportedRange>> {
    UnclosedRanges owner(1);
    Result<std::unique_ptr<OpenedAllocation>> opened = OpenedAllocation::open(device_, handle);
    if (!opened.ok()) return opened.status();
    OpenedAllocation& allocation = **opened;
    owner.front() = *std::move(opened);
    std::shared_ptr<ImportedRange> range = close_on_release(std::move(owner));
    if (Status queried = allocation.query_size(); !queried.ok()) return queried;
    return range;
  });
}

Result<std::shared_ptr<ImportedRange>> Imports::import_granules(const ShareHandle& handle,
                                                                Lease& lease,
                                                                std::vector<UniqueFd> first) {
  UnclosedRanges owner(1);
  Result<std::unique_ptr<ImportedGranules>> reserved =
      ImportedGranules::reserve(device_, {handle.granule_bytes, handle.granule_count});
  if (!reserved.ok()) return reserved.status();
  ImportedGranules& granules = **reserved;
  owner.front() = *std::move(reserved);
  std::shared_ptr<ImportedRange> range = close_on_release(std::move(owner));
  // Requests descriptors in batches, so that only a few descriptors are open at a time.
  std::vector<UniqueFd> fds = std::move(first);
  for (;;) {
    if (fds.size() > handle.granule_count - granules.granule_count()) {
      return Status::format("the exporter sent more granules than its handle has");
    }
    for (const UniqueFd& fd : fds) {
      if (Status added = granules.add(fd.get()); !added.ok()) return added;
    }
    if (granules.granule_count() == handle.granule_count) break;
    fds.clear();
    Result<std::vector<UniqueFd>> next = lease.request(granules.granule_count());
    if (!next.ok()) return next.status();
    fds = *std::move(next);
  }
  if (Status opened = grant_access_to_all(granules); !opened.ok()) return opened;
  return range;
}

Status Imports::grant_access_to_all(ImportedRange& range) {
  std::vector<DeviceIndex> accessors;
  {
    MutexLock lock(mutex_);
    accessors = accessors_;
  }
  for (DeviceIndex accessor : accessors) {
    if (Status opened = range.grant_access(accessor); !opened.ok()) return opened;
  }
  return {};
}

Status Imports::add_accessor(DeviceIndex accessor) {
  {
    MutexLock lock(mutex_);
    if (std::find(accessors_.begin(), accessors_.end(), accessor) == accessors_.end()) {
      accessors_.push_back(accessor);
    }
  }
  for (const std::shared_ptr<Import>& import : imports_.values()) {
    if (Status opened = import->range->grant_access(accessor); !opened.ok()) return opened;
  }
  return {};
}

void Imports::close(std::shared_ptr<Import> import, std::vector<DeviceStream> uses) noexcept {
  {
    MutexLock lock(mutex_);
    ASHLAR_CHECK(!prepared_closes_.empty());
    PendingClose& closing = prepared_closes_.front();
    closing.import = std::move(import);
    closing.uses = std::move(uses);
    pending_closes_.splice(pending_closes_.end(), prepared_closes_, prepared_closes_.begin());
  }
  Status collected = without_bad_alloc([&] { return collect(); });
  // If host memory runs out, a later call collects the import.
  if (!collected.is(StatusKind::kHostOutOfMemory)) defer_error(std::move(collected));
}

void Imports::take_pending(PendingCloses& taken) noexcept {
  MutexLock lock(mutex_);
  taken.splice(taken.end(), pending_closes_);
}

void Imports::put_back_pending(PendingCloses& taken) noexcept {
  MutexLock lock(mutex_);
  pending_closes_.splice(pending_closes_.end(), taken);
}

Status Imports::collect() {
  Status exhausted;  // of host memory
  {
    PendingCloses closing;
    take_pending(closing);
    const ScopeGuard put_back([&] { put_back_pending(closing); });
    for (auto each = closing.begin(); each != closing.end();) {
      Result<bool> done = is_done(*each);
      if (done.ok() && *done) {
        each = closing.erase(each);
        continue;
      }
      if (done.status().is(StatusKind::kHostOutOfMemory)) {
        exhausted = done.status();
      } else if (!done.ok() && !std::exchange(each->is_reported, true)) {
        defer_error(done.status());
      }
      ++each;
    }
  }
  retry_unclosed();
  if (!exhausted.ok()) return exhausted;
  MutexLock lock(mutex_);
  return std::exchange(deferred_error_, {});
}

Result<bool> Imports::is_done(PendingClose& closing) {
  if (Status recorded = record_events(closing); !recorded.ok()) return recorded;
  while (!closing.events.empty()) {
    const PendingClose::RecordedEvent last = closing.events.back();
    const RelaxedCapture relaxed(*last.device);
    if (!relaxed.status().ok()) return relaxed.status();
    const Result<bool> done = last.device->is_done(last.event);
    if (!done.ok() || !*done) return done;
    closing.events.pop_back();
    if (Status destroyed = last.device->destroy_event(last.event); !destroyed.ok()) {
      return destroyed;
    }
  }
  return closing.uses.empty() && closing.destroyed_stream_devices.empty();
}

// Streams are independent of each other: a stream for which a call fails is retried later and does
// not delay other streams.
Status Imports::record_events(PendingClose& closing) {
  // Allocated in advance, so that no event or device is lost.
  reserve_amortized(closing.events, closing.events.size() + closing.uses.size());
  reserve_amortized(closing.destroyed_stream_devices,
                    closing.destroyed_stream_devices.size() + closing.uses.size());
  Status first;
  for (auto use = closing.uses.begin(); use != closing.uses.end();) {
    const Result<std::optional<EventId>> event = record_event(*use);
    if (event.status().is(StatusKind::kInvalidArgument)) {
      closing.destroyed_stream_devices.push_back(use->device);
    } else if (event.ok() && *event) {
      closing.events.push_back({use->device, **event});
    } else {
      if (first.ok()) first = event.status();
      ++use;
      continue;
    }
    use = closing.uses.erase(use);
  }
  return first;
}

// Returns a new event recorded in the stream; nullopt if the stream is capturing, because the event
// would become part of the graph. kInvalidArgument: the stream has been destroyed.
Result<std::optional<EventId>> Imports::record_event(const DeviceStream& use) {
  const Result<CaptureState> state = capture_state(use);
  if (!state.ok()) return state.status();
  if (state->status != CaptureStatus::kNone) return std::optional<EventId>();
  const Result<EventId> event = use.device->create_event();
  if (!event.ok()) return event.status();
  ScopeGuard undo([&] { catch_bad_alloc([&] { return use.device->destroy_event(*event).ok(); }); });
  if (Status recorded = use.device->record_event(*event, use.stream); !recorded.ok())
    return recorded;
  undo.dismiss();
  return std::optional<EventId>(*event);
}

Status Imports::trim() {
  {
    PendingCloses closing;
    take_pending(closing);
    const ScopeGuard put_back([&] { put_back_pending(closing); });
    for (PendingClose& each : closing) {
      while (!each.destroyed_stream_devices.empty()) {
        Device& device = *each.destroyed_stream_devices.back();
        const RelaxedCapture relaxed(device);
        Status waited = device.synchronize_device();
        if (waited.is(StatusKind::kHostOutOfMemory)) return waited;
        const bool is_over = waited.ok();
        defer_error(std::move(waited));
        if (!is_over) break;
        each.destroyed_stream_devices.pop_back();
      }
    }
  }
  return collect();
}

// Waits for the work that uses the import, in relaxed capture mode, because a capture may be in
// progress. Returns whether no work can be using the import any more. The work of a lost device has
// ended. A capturing stream is not waited for, because that would invalidate the capture; the
// import then counts as used.
bool Imports::wait(PendingClose& closing) {
  const auto is_over = [](const Status& waited) {
    return waited.ok() || waited.is(StatusKind::kDeviceLost);
  };
  bool is_unused = true;
  for (const PendingClose::RecordedEvent& each : closing.events) {
    const RelaxedCapture relaxed(*each.device);
    is_unused = is_over(each.device->synchronize_event(each.event)) && is_unused;
    (void)each.device->destroy_event(each.event).ok();
  }
  for (const DeviceStream& use : closing.uses) {
    const RelaxedCapture relaxed(*use.device);
    const Result<CaptureState> state = capture_state(use);
    const bool is_capturing = state.ok() && state->status != CaptureStatus::kNone;
    is_unused = !is_capturing && is_over(wait_for(use)) && is_unused;
  }
  for (Device* device : closing.destroyed_stream_devices) {
    const RelaxedCapture relaxed(*device);
    is_unused = is_over(device->synchronize_device()) && is_unused;
  }
  return is_unused;
}

std::shared_ptr<ImportedRange> Imports::close_on_release(UnclosedRanges owner) {
  ImportedRange* const opened = owner.front().get();
  // If no memory for the reference counter is left, std::shared_ptr calls the function, too.
  return {opened, [this, owner = std::move(owner)](ImportedRange*) mutable {
            close_range(std::move(owner));
          }};
}

void Imports::close_range(UnclosedRanges range) noexcept {
  Status closed = without_bad_alloc([&] { return range.front()->close(); });
  if (closed.ok()) return;
  if (!closed.is(StatusKind::kHostOutOfMemory)) defer_error(std::move(closed));
  MutexLock lock(mutex_);
  unclosed_.splice(unclosed_.end(), range);
}

void Imports::retry_unclosed() noexcept {
  UnclosedRanges unclosed;
  {
    MutexLock lock(mutex_);
    unclosed.swap(unclosed_);
  }
  while (!unclosed.empty()) {
    UnclosedRanges next;
    next.splice(next.end(), unclosed, unclosed.begin());
    close_range(std::move(next));
  }
}

void Imports::defer_error(Status failure) noexcept {
  if (failure.ok()) return;
  MutexLock lock(mutex_);
  if (deferred_error_.ok()) deferred_error_ = std::move(failure);
}

}  // namespace ashlar
