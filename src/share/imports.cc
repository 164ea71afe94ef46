// SPDX-License-Identifier: Apache-2.0
//
// Opens imports, and releases closed imports once the work on their streams is done.
#include "share/imports.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar {

namespace {

struct KeptImport {
  std::shared_ptr<Import> import;
  KeptImport* next = nullptr;
};
// A lock-free list, because a forked child could inherit a locked mutex. Keeps the imports
// reachable; no thread reads the elements.
std::atomic<KeptImport*> kept_imports{nullptr};

// Keeps an import open until the process exits, because work may still use its memory.
void keep_open(std::shared_ptr<Import> import) {
  KeptImport* kept = std::make_unique<KeptImport>(KeptImport{std::move(import)}).release();
  kept->next = kept_imports.load(std::memory_order_relaxed);
  // Release order suffices, because no thread reads the elements.
  while (!kept_imports.compare_exchange_weak(kept->next, kept, std::memory_order_release,
                                             std::memory_order_relaxed)) {
  }
}

}  // namespace

Imports::Imports(Device& device, std::chrono::milliseconds timeout)
    : device_(device), timeout_(timeout), accessors_{device.properties().index} {}

Imports::~Imports() {
  std::vector<PendingClose> closing;
  {
    MutexLock lock(mutex_);
    closing.swap(pending_closes_);
  }
  for (PendingClose& each : closing) {
    if (!wait(each)) keep_open(std::move(each.import));
  }
  closing.clear();
  retry_unclosed();
}

Result<std::shared_ptr<Import>> Imports::open(std::string_view bytes) {
  if (Status collected = collect(); !collected.ok()) return collected;
  const Result<ShareHandle> handle = parse_share_handle(bytes);
  if (!handle.ok()) return handle.status();
  Result<std::shared_ptr<Import>> import =
      imports_.find_or_create(std::string(bytes), [&] { return make_import(*handle); });
  if (!import.ok()) return import;
  // add_accessor does not find an import that is still being created, so access is granted here
  // again.
  if (Status opened = grant_access_to_all(*(*import)->range); !opened.ok()) return opened;
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
    Result<std::unique_ptr<OpenedAllocation>> opened = OpenedAllocation::open(device_, handle);
    if (!opened.ok()) return opened.status();
    OpenedAllocation& allocation = **opened;
    std::shared_ptr<ImportedRange> range = close_on_release(*std::move(opened));
    if (Status queried = allocation.query_size(); !queried.ok()) return queried;
    return range;
  });
}

Result<std::shared_ptr<ImportedRange>> Imports::import_granules(const ShareHandle& handle,
                                                                Lease& lease,
                                                                std::vector<UniqueFd> first) {
  Result<std::unique_ptr<ImportedGranules>> reserved =
      ImportedGranules::reserve(device_, {handle.granule_bytes, handle.granule_count});
  if (!reserved.ok()) return reserved.status();
  ImportedGranules& granules = **reserved;
  std::shared_ptr<ImportedRange> range = close_on_release(*std::move(reserved));
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

void Imports::close(std::shared_ptr<Import> import, std::vector<DeviceStream> uses) {
  PendingClose closing;
  closing.import = std::move(import);
  closing.uses = std::move(uses);
  {
    MutexLock lock(mutex_);
    pending_closes_.push_back(std::move(closing));
  }
  defer_error(collect());
}

Status Imports::collect() {
  std::vector<PendingClose> closing;
  {
    MutexLock lock(mutex_);
    closing.swap(pending_closes_);
  }
  std::vector<PendingClose> left;
  for (PendingClose& each : closing) {
    const Result<bool> done = is_done(each);
    if (done.ok() && *done) continue;
    if (!done.ok() && !std::exchange(each.is_reported, true)) defer_error(done.status());
    left.push_back(std::move(each));
  }
  closing.clear();
  retry_unclosed();
  MutexLock lock(mutex_);
  pending_closes_.insert(pending_closes_.end(), std::make_move_iterator(left.begin()),
                         std::make_move_iterator(left.end()));
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
  std::vector<DeviceStream> left;
  Status first;
  for (const DeviceStream& use : std::exchange(closing.uses, {})) {
    const Result<std::optional<EventId>> event = record_event(use);
    if (event.status().is(StatusKind::kInvalidArgument)) {
      closing.destroyed_stream_devices.push_back(use.device);
    } else if (event.ok() && *event) {
      closing.events.push_back({use.device, **event});
    } else {
      left.push_back(use);
      if (first.ok()) first = event.status();
    }
  }
  closing.uses = std::move(left);
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
  const Status recorded = use.device->record_event(*event, use.stream);
  if (recorded.ok()) return std::optional<EventId>(*event);
  (void)use.device->destroy_event(*event).ok();
  return recorded;
}

Status Imports::trim() {
  std::vector<PendingClose> closing;
  {
    MutexLock lock(mutex_);
    closing.swap(pending_closes_);
  }
  for (PendingClose& each : closing) {
    while (!each.destroyed_stream_devices.empty()) {
      Device& device = *each.destroyed_stream_devices.back();
      const RelaxedCapture relaxed(device);
      const Status waited = device.synchronize_device();
      defer_error(waited);
      if (!waited.ok()) break;
      each.destroyed_stream_devices.pop_back();
    }
  }
  {
    MutexLock lock(mutex_);
    pending_closes_.insert(pending_closes_.end(), std::make_move_iterator(closing.begin()),
                           std::make_move_iterator(closing.end()));
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

std::shared_ptr<ImportedRange> Imports::close_on_release(std::unique_ptr<ImportedRange> range) {
  return {range.release(),
          [this](ImportedRange* last) { close_range(std::unique_ptr<ImportedRange>(last)); }};
}

void Imports::close_range(std::unique_ptr<ImportedRange> range) {
  const Status closed = range->close();
  if (closed.ok()) return;
  defer_error(closed);
  MutexLock lock(mutex_);
  unclosed_.push_back(std::move(range));
}

void Imports::retry_unclosed() {
  std::vector<std::unique_ptr<ImportedRange>> unclosed;
  {
    MutexLock lock(mutex_);
    unclosed.swap(unclosed_);
  }
  for (std::unique_ptr<ImportedRange>& range : unclosed) close_range(std::move(range));
}

void Imports::defer_error(const Status& failure) {
  if (failure.ok()) return;
  MutexLock lock(mutex_);
  if (deferred_error_.ok()) deferred_error_ = failure;
}

}  // namespace ashlar
