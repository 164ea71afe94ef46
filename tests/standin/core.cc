// SPDX-License-Identifier: Apache-2.0
//
// Implements devices and memory. core_work.cc implements streams and graphs.
#include "standin/core.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "device/sim/machine_impl.h"
#include "standin/handle_lookup.h"

namespace ashlar::standin {
CaptureMode exchange_mode(CaptureMode mode) {
  return sim::CaptureTable::exchange_thread_mode(mode);
}

Code code_of(const Status& status) {
  switch (status.kind()) {
    case StatusKind::kOk: return kDone;
    case StatusKind::kOutOfMemory:
    case StatusKind::kHostOutOfMemory: return kNoMemory;
    case StatusKind::kInvalidArgument:
    case StatusKind::kFormat: return kInvalidValue;
    case StatusKind::kUnsupported: return kNotSupported;
    case StatusKind::kTimeout:
    case StatusKind::kPeerLost:
    case StatusKind::kDeviceFault: return kUnknown;
    case StatusKind::kDeviceLost: return kLost;
  }
  return kUnknown;
}

// The instance is never destroyed: a driver's functions can also be called until the process exits.
Core& Core::get() {
  static Core* const core = std::make_unique<Core>().release();
  return *core;
}

void Core::restart(const sim::Options& options, const Features& features) {
  forget_all();
  callbacks_.drain();
  const std::lock_guard lock(mutex_);
  features_ = features;
  Result<std::unique_ptr<sim::Machine>> made = sim::Machine::try_create(options);
  if (!made.ok()) abort_on_handle("machine", 0);
  machine_ = *std::move(made);
}

void Core::forget_all() {
  const std::lock_guard lock(mutex_);
  machine_.reset();
  use_counts_.clear();
  peers_.clear();
  streams_.clear();
  events_.clear();
  extents_.clear();
  mappings_.clear();
  results_.clear();
  multicasts_.forget_all();
  graphs_.clear();
  nodes_.clear();
  graph_execs_.clear();
  objects_.clear();
}

sim::Machine& Core::machine() {
  {
    const std::lock_guard lock(mutex_);
    if (machine_ != nullptr) return *machine_;
  }
  sim::Options options;
  options.capacity_bytes = size_t{1} << 30;
  restart(options, {});
  return *machine_;
}

void Core::set_result(const std::string& call, Code code) {
  const std::lock_guard lock(mutex_);
  results_[call] = code;
}

Code Core::result_of(std::string_view call) {
  const std::lock_guard lock(mutex_);
  const auto found = results_.find(call);
  return found == results_.end() ? kDone : found->second;
}

int Core::use_count(size_t device) {
  const std::lock_guard lock(mutex_);
  return use_counts_[device];
}

void Core::change_use_count(size_t device, int change) {
  const std::lock_guard lock(mutex_);
  use_counts_[device] += change;
}

// --- memory

Code Core::allocate(size_t on, uint64_t& at, size_t bytes) {
  const Result<DeviceAddress> made = device(on).allocate(bytes);
  if (made.ok()) at = made->value();
  return code_of(made);
}

Code Core::free(size_t on, uint64_t at) { return code_of(device(on).free(DeviceAddress(at))); }

Code Core::share(size_t on, uint64_t at, void* handle) {
  if (!features_.share_allocations) return kNotSupported;
  const Result<AllocationHandle> shared = device(on).share_allocation(DeviceAddress(at));
  if (shared.ok()) std::memcpy(handle, shared->data(), shared->size());
  return code_of(shared);
}

Code Core::open_shared(size_t on, const void* handle, uint64_t& at) {
  AllocationHandle wanted{};
  std::memcpy(wanted.data(), handle, wanted.size());
  const Result<DeviceAddress> opened = device(on).open_allocation(wanted);
  if (opened.ok()) at = opened->value();
  return code_of(opened);
}

Code Core::close_shared(size_t on, uint64_t at) {
  return code_of(device(on).close_allocation(DeviceAddress(at)));
}

Code Core::reserve(size_t on, size_t bytes, size_t alignment, uint64_t hint, uint64_t& at) {
  if (!features_.virtual_memory) return kNotSupported;
  const size_t granularity = device(on).properties().granularity_bytes;
  if (!features_.reserve_alignment && alignment > granularity) return kNotSupported;
  const Result<DeviceAddress> made =
      device(on).reserve(bytes, {.alignment_bytes = alignment, .hint = DeviceAddress(hint)});
  if (made.ok()) at = made->value();
  return code_of(made);
}

Code Core::create(size_t on, size_t bytes, const CreateOptions& options, uint64_t& extent) {
  if (!features_.virtual_memory) return kNotSupported;
  if (options.can_export_fd && !features_.export_fd) return kNotSupported;
  // cuMemCreate returns this error if the IMEX service, which fabric handles need, is not running.
  if (options.can_export_fabric && !features_.export_fabric) return kNotPermitted;
  if (options.can_export_fd && options.can_export_fabric && !features_.export_both)
    return kNotPermitted;
  const Result<ExtentId> made = device(on).create(bytes, options);
  if (!made.ok()) return code_of(made);
  extent = made->value();
  add_extent(extent, {on, bytes, false});
  return kDone;
}

void Core::add_extent(uint64_t extent, const ExtentRecord& record) {
  const std::lock_guard lock(mutex_);
  extents_[extent] = record;
}

Core::ExtentRecord Core::extent_of(uint64_t extent) {
  const std::lock_guard lock(mutex_);
  return find_or_abort(extents_, "extent", extent);
}

size_t Core::extent_count() {
  const std::lock_guard lock(mutex_);
  return extents_.size();
}

Code Core::release(uint64_t extent) {
  if (multicasts_.has(extent)) return multicasts_.release(extent);
  const Code released = code_of(device(extent_of(extent).device).release(ExtentId(extent)));
  if (released != kDone) return released;
  const std::lock_guard lock(mutex_);
  extents_.erase(extent);
  return kDone;
}

Code Core::map(size_t on, AddressRange range, uint64_t extent) {
  if (multicasts_.has(extent)) {
    const Code wanted = result_of("cuMemMap");
    if (wanted != kDone) return wanted;
    const bool is_aligned = range.begin.value() % multicast_granularity_bytes() == 0;
    return is_aligned ? multicasts_.map(extent, range) : kInvalidValue;
  }
  if (extent_of(extent).bytes != range.bytes) return kNotSupported;
  {
    const std::lock_guard lock(mutex_);
    // A driver that supports only one mapping per extent returns this error.
    if (features_.alias == AliasBehavior::kRefused && is_mapped_locked(extent)) {
      return kInvalidValue;
    }
  }
  const Code mapped = code_of(device(on).map(range.begin, ExtentId(extent)));
  if (mapped != kDone) return mapped;
  const std::lock_guard lock(mutex_);
  const bool is_alias = is_mapped_locked(extent);
  mappings_[range.begin.value()] = {extent, range.bytes, is_alias};
  return kDone;
}

bool Core::is_mapped_locked(uint64_t extent) const {
  return std::any_of(mappings_.begin(), mappings_.end(),
                     [&](const auto& mapping) { return mapping.second.extent == extent; });
}

bool Core::loses_store(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const bool loses_first = features_.alias == AliasBehavior::kLosesStoresThroughFirst;
  const bool loses_second = features_.alias == AliasBehavior::kLosesStoresThroughSecond;
  if (!loses_first && !loses_second) return false;
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return false;
  const uint64_t begin = std::prev(after)->first;
  const Mapping& mapping = std::prev(after)->second;
  if (address - begin >= mapping.bytes) return false;
  const auto mapping_count =
      std::count_if(mappings_.begin(), mappings_.end(),
                    [&](const auto& each) { return each.second.extent == mapping.extent; });
  return mapping_count > 1 && mapping.is_alias == loses_second;
}

Code Core::unmap(size_t on, AddressRange range) {
  if (multicasts_.is_mapped(range)) return multicasts_.unmap(range);
  const Code unmapped = code_of(device(on).unmap(range));
  if (unmapped != kDone) return unmapped;
  const std::lock_guard lock(mutex_);
  mappings_.erase(mappings_.lower_bound(range.begin.value()),
                  mappings_.lower_bound(range.end().value()));
  return kDone;
}

Code Core::set_access(size_t on, AddressRange range, size_t accessor, Access access) {
  if (multicasts_.is_mapped(range)) return result_of("cuMemSetAccess");
  if (access == Access::kRead && !features_.read_only_access) return kInvalidValue;
  return code_of(device(on).set_access(range, DeviceIndex(accessor), access));
}

// Like CUDA 13, does not export imported extents.
Code Core::export_fd(uint64_t extent, int& fd) {
  if (multicasts_.has(extent)) {
    const Code wanted = result_of("cuMemExportToShareableHandle");
    return wanted == kDone ? multicasts_.export_fd(extent, fd) : wanted;
  }
  const ExtentRecord record = extent_of(extent);
  if (record.is_imported) return kInvalidValue;
  Result<UniqueFd> made = device(record.device).export_fd(ExtentId(extent));
  if (made.ok()) fd = made->release();
  return code_of(made);
}

// A driver's import takes no size, so the size comes from the file.
Code Core::import_fd(size_t on, int fd, uint64_t& extent) {
  if (const std::optional<Code> imported = multicasts_.import_fd(fd, extent)) {
    const Code wanted = result_of("cuMemImportFromShareableHandle");
    if (wanted != kDone && *imported == kDone) (void)multicasts_.release(extent);
    return wanted == kDone ? *imported : wanted;
  }
  struct stat file {};
  if (::fstat(fd, &file) != 0 || file.st_size <= 0) return kUnknown;
  const auto bytes = static_cast<size_t>(file.st_size);
  const Result<ExtentId> made = device(on).import_fd(fd, bytes);
  if (made.status().is(StatusKind::kInvalidArgument)) return kUnknown;
  if (!made.ok()) return code_of(made);
  extent = made->value();
  add_extent(extent, {on, bytes, true});
  return kDone;
}

Code Core::export_fabric(uint64_t extent, void* handle) {
  if (const Code wanted = result_of("cuMemExportToShareableHandle"); wanted != kDone) return wanted;
  if (multicasts_.has(extent)) return multicasts_.export_fabric(extent, handle);
  const ExtentRecord record = extent_of(extent);
  if (record.is_imported) return kInvalidValue;
  const Result<FabricHandle> made = device(record.device).export_fabric(ExtentId(extent));
  if (made.ok()) std::memcpy(handle, made->data(), made->size());
  return code_of(made);
}

Code Core::import_fabric(size_t on, const void* handle, uint64_t& extent) {
  if (const Code wanted = result_of("cuMemImportFromShareableHandle"); wanted != kDone)
    return wanted;
  if (const std::optional<Code> imported = multicasts_.import_fabric(handle, extent)) {
    return *imported;
  }
  FabricHandle wanted{};
  std::memcpy(wanted.data(), handle, wanted.size());
  const Result<std::shared_ptr<sim::Extent>> known =
      machine().impl().fabric.import_extent(wanted, sim::HandleKind::kExtent);
  if (!known.ok()) return code_of(known);
  const size_t bytes = (*known)->bytes();
  const Result<ExtentId> made = device(on).import_fabric(wanted, bytes);
  if (!made.ok()) return code_of(made);
  extent = made->value();
  add_extent(extent, {on, bytes, true});
  return kDone;
}

// --- multicast

size_t Core::multicast_granularity_bytes() {
  return features_.multicast_granules * device(0).properties().granularity_bytes;
}

Code Core::create_multicast(const MulticastTable::ObjectOptions& wanted, uint64_t& object) {
  if (!features_.multicast) return kNotSupported;
  if (wanted.bytes == 0 || wanted.bytes % multicast_granularity_bytes() != 0) return kInvalidValue;
  return multicasts_.create(wanted, object);
}

Code Core::add_to_multicast(uint64_t object, size_t added) {
  return multicasts_.add(object, device(added).properties().uuid);
}

Code Core::bind_multicast(uint64_t object, uint64_t extent, size_t bytes) {
  const ExtentRecord record = extent_of(extent);
  if (record.is_imported || bytes > record.bytes) return kInvalidValue;
  Device& owner = device(record.device);
  Result<UniqueFd> fd = owner.export_fd(ExtentId(extent));
  if (!fd.ok()) return code_of(fd);  // the extent was not created for export
  return multicasts_.bind(object, {extent, owner.properties().uuid, bytes}, *std::move(fd));
}

// Like some drivers, cannot unbind memory that was already released.
Code Core::unbind_multicast(uint64_t object, size_t from, size_t bytes) {
  const auto& uuid = device(from).properties().uuid;
  const std::optional<MulticastTable::BoundExtent> bound = multicasts_.bound_extent(object, uuid);
  {
    const std::lock_guard lock(mutex_);
    if (!bound || !extents_.contains(bound->extent)) return kInvalidValue;
  }
  return multicasts_.unbind(object, uuid, bytes);
}

// Enabling access twice is a harmless error, as in real drivers.
Code Core::enable_peer_access(size_t on, size_t peer) {
  const Code enabled = code_of(device(on).enable_peer_access(DeviceIndex(peer)));
  if (enabled != kDone) return enabled;
  const std::lock_guard lock(mutex_);
  return std::exchange(peers_[{on, peer}], true) ? kPeerAlreadyEnabled : kDone;
}

Code Core::disable_peer_access(size_t on, size_t peer) {
  const Code disabled = code_of(device(on).disable_peer_access(DeviceIndex(peer)));
  if (disabled != kDone) return disabled;
  const std::lock_guard lock(mutex_);
  return std::exchange(peers_[{on, peer}], false) ? kDone : kPeerNotEnabled;
}

}  // namespace ashlar::standin
