// SPDX-License-Identifier: Apache-2.0
//
// Opening, and ending what was closed.
#include "share/imports.h"

#include <algorithm>

#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar {

Imports::Imports(Device& device, std::chrono::milliseconds patience)
    : device_(device), patience_(patience), accessors_{device.properties().index} {}

Imports::~Imports() {
  std::vector<Closing> closing;
  {
    MutexLock lock(mutex_);
    closing.swap(closing_);
  }
  for (Closing& each : closing) wait(each);
  closing.clear();
  retry_leftovers();
}

// --- opening ------------------------------------------------------------------------------------

Result<std::shared_ptr<Import>> Imports::open(std::string_view bytes) {
  if (Status collected = collect(); !collected.ok()) return collected;
  const Result<ShareHandle> handle = parse_share_handle(bytes);
  if (!handle.ok()) return handle.status();
  Result<std::shared_ptr<Import>> import =
      imports_.find_or_make(std::string(bytes), [&] { return make(*handle); });
  if (!import.ok()) return import;
  // Somebody may have added an accessor while we made it, and have missed it.
  if (Status opened = open_to_all(*(*import)->range); !opened.ok()) return opened;
  return import;
}

Result<std::shared_ptr<Import>> Imports::make(const ShareHandle& handle) {
  if (Status right = check_device(handle); !right.ok()) return right;
  auto import = std::make_shared<Import>();
  std::vector<UniqueFd> fds;
  if (!handle.is_bare) {
    Result<Lease> lease = Lease::connect(handle, patience_);
    if (!lease.ok()) return lease.status();
    import->lease = *std::move(lease);
    Result<std::vector<UniqueFd>> first = import->lease->ask(0);
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
                                         handle.offset, " is not inside of the allocation, ",
                                         whole));
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
  return allocations_.find_or_make(key, [&]() -> Result<std::shared_ptr<ImportedRange>> {
    Result<std::unique_ptr<OpenedAllocation>> opened = OpenedAllocation::open(device_, handle);
    if (!opened.ok()) return opened.status();
    OpenedAllocation& allocation = **opened;
    std::shared_ptr<ImportedRange> range = owned(*std::move(opened));
    if (Status measured = allocation.measure(); !measured.ok()) return measured;
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
  std::shared_ptr<ImportedRange> range = owned(*std::move(reserved));
  // Few descriptors are open at any time, however large the block.
  std::vector<UniqueFd> fds = std::move(first);
  for (;;) {
    if (fds.size() > handle.granule_count - granules.granule_count()) {
      return Status::format("the exporter gave more granules than its handle names");
    }
    for (const UniqueFd& fd : fds) {
      if (Status added = granules.add(fd.get()); !added.ok()) return added;
    }
    if (granules.granule_count() == handle.granule_count) break;
    fds.clear();
    Result<std::vector<UniqueFd>> next = lease.ask(granules.granule_count());
    if (!next.ok()) return next.status();
    fds = *std::move(next);
  }
  if (Status opened = open_to_all(granules); !opened.ok()) return opened;
  return range;
}

Status Imports::open_to_all(ImportedRange& range) {
  std::vector<DeviceIndex> accessors;
  {
    MutexLock lock(mutex_);
    accessors = accessors_;
  }
  for (DeviceIndex accessor : accessors) {
    if (Status opened = range.open_to(accessor); !opened.ok()) return opened;
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
    if (Status opened = import->range->open_to(accessor); !opened.ok()) return opened;
  }
  return {};
}

// --- closing ------------------------------------------------------------------------------------

void Imports::close(std::shared_ptr<Import> import, std::vector<StreamUse> uses) {
  Closing closing;
  closing.import = std::move(import);
  closing.uses = std::move(uses);
  {
    MutexLock lock(mutex_);
    closing_.push_back(std::move(closing));
  }
  report(collect());
}

Status Imports::collect() {
  std::vector<Closing> closing;
  {
    MutexLock lock(mutex_);
    closing.swap(closing_);
  }
  std::vector<Closing> left;
  for (Closing& each : closing) {
    const Result<bool> done = is_done(each);
    if (done.ok() && *done) continue;
    if (!done.ok() && !std::exchange(each.is_reported, true)) report(done.status());
    left.push_back(std::move(each));
  }
  closing.clear();
  retry_leftovers();
  MutexLock lock(mutex_);
  closing_.insert(closing_.end(), std::make_move_iterator(left.begin()),
                  std::make_move_iterator(left.end()));
  return std::exchange(deferred_error_, {});
}

Result<bool> Imports::is_done(Closing& closing) {
  if (Status recorded = record(closing); !recorded.ok()) return recorded;
  while (!closing.events.empty()) {
    const Closing::Recorded last = closing.events.back();
    const RelaxedCapture relaxed(*last.device);
    if (!relaxed.status().ok()) return relaxed.status();
    const Result<bool> done = last.device->is_done(last.event);
    if (!done.ok() || !*done) return done;
    closing.events.pop_back();
    if (Status destroyed = last.device->destroy_event(last.event); !destroyed.ok()) {
      return destroyed;
    }
  }
  return closing.uses.empty() && closing.gone_on.empty();
}

// Each stream for itself: one that fails is tried again later, and holds up none of the others.
Status Imports::record(Closing& closing) {
  std::vector<StreamUse> left;
  Status first;
  for (const StreamUse& use : std::exchange(closing.uses, {})) {
    const Result<std::optional<EventId>> event = record(use);
    if (event.status().is(StatusKind::kInvalidArgument)) {
      closing.gone_on.push_back(use.device);
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

// A stream that is capturing gets no event: it would become part of the graph. kInvalidArgument:
// there is no such stream any more.
Result<std::optional<EventId>> Imports::record(const StreamUse& use) {
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
  std::vector<Closing> closing;
  {
    MutexLock lock(mutex_);
    closing.swap(closing_);
  }
  for (Closing& each : closing) {
    while (!each.gone_on.empty()) {
      Device& device = *each.gone_on.back();
      const RelaxedCapture relaxed(device);
      const Status waited = device.synchronize_device();
      report(waited);
      if (!waited.ok()) break;
      each.gone_on.pop_back();
    }
  }
  {
    MutexLock lock(mutex_);
    closing_.insert(closing_.end(), std::make_move_iterator(closing.begin()),
                    std::make_move_iterator(closing.end()));
  }
  return collect();
}

// For the destructor, which has nobody to tell: a device that cannot even wait is lost, and does no
// work any more.
void Imports::wait(Closing& closing) {
  for (const Closing::Recorded& each : closing.events) {
    (void)each.device->synchronize_event(each.event).ok();
    (void)each.device->destroy_event(each.event).ok();
  }
  for (const StreamUse& use : closing.uses) (void)use.device->synchronize_device().ok();
  for (Device* device : closing.gone_on) (void)device->synchronize_device().ok();
}

std::shared_ptr<ImportedRange> Imports::owned(std::unique_ptr<ImportedRange> range) {
  return {range.release(),
          [this](ImportedRange* last) { retire(std::unique_ptr<ImportedRange>(last)); }};
}

void Imports::retire(std::unique_ptr<ImportedRange> range) {
  const Status closed = range->close();
  if (closed.ok()) return;
  report(closed);
  MutexLock lock(mutex_);
  leftovers_.push_back(std::move(range));
}

void Imports::retry_leftovers() {
  std::vector<std::unique_ptr<ImportedRange>> leftovers;
  {
    MutexLock lock(mutex_);
    leftovers.swap(leftovers_);
  }
  for (std::unique_ptr<ImportedRange>& range : leftovers) retire(std::move(range));
}

void Imports::report(const Status& failure) {
  if (failure.ok()) return;
  MutexLock lock(mutex_);
  if (deferred_error_.ok()) deferred_error_ = failure;
}

}  // namespace ashlar
