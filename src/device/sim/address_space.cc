// SPDX-License-Identifier: Apache-2.0
//
// Implements reservations, mappings and access rights. address_space_shadow.cc changes the kernel's
// mappings, address_space_transfer.cc transfers data.
#include "device/sim/address_space.h"

#include <sys/mman.h>

#include <new>

#include "base/align.h"
#include "base/check.h"
#include "base/text.h"

namespace ashlar::sim {
namespace {

// Synthetic addresses lie above all addresses of host mappings, so that they equal no valid
// pointer. Addresses from a hint or from set_next_address are not restricted to this range.
constexpr uint64_t kFirstSyntheticAddress = uint64_t{1} << 50;
constexpr uint64_t kEndSyntheticAddress = uint64_t{1} << 62;
// Addresses from the driver model lie below the synthetic addresses and above user space, so that
// they do not overlap addresses that a replayed process recorded.
constexpr uint64_t kFirstAllocationAddress = uint64_t{1} << 48;

int protection_for(Access access) {
  switch (access) {
    case Access::kNone: return PROT_NONE;
    case Access::kRead: return PROT_READ;
    case Access::kReadWrite: return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

void* as_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

Status out_of_addresses_error(size_t bytes) {
  return Status::out_of_memory(text("no ", bytes, " B of addresses left in this process"));
}

// Reserves `bytes` bytes of inaccessible host addresses at a multiple of `alignment`. Returns 0 on
// failure.
uint64_t reserve_host_addresses(size_t bytes, size_t alignment, uint64_t hint) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const size_t padded_bytes = bytes + alignment;
  if (padded_bytes < bytes) return 0;
  void* reserved = ::mmap(as_pointer(hint), padded_bytes, PROT_NONE, kFlags, -1, 0);
  if (reserved == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<uint64_t>(reserved);
  const uint64_t aligned = align_up(start, alignment);
  if (aligned > start) ::munmap(reserved, aligned - start);
  const uint64_t end = start + padded_bytes;
  if (end > aligned + bytes) ::munmap(as_pointer(aligned + bytes), end - (aligned + bytes));
  return aligned;
}

}  // namespace

AddressSpace::AddressSpace(const Options& options, size_t max_mappings)
    : has_memory_(options.backing == Backing::kMemory),
      granularity_bytes_(options.granularity_bytes),
      device_count_(options.device_count),
      max_mappings_(max_mappings),
      peer_access_(options.device_count * options.device_count, false),
      next_synthetic_(kFirstSyntheticAddress),
      driver_addresses_(kFirstAllocationAddress, kFirstSyntheticAddress) {}

AddressSpace::~AddressSpace() {
  WriterLock lock(mutex_);
  mappings_.clear();
  while (!reservations_.empty()) erase_reservation_locked(reservations_.begin());
}

// --- reserved addresses

Result<DeviceAddress> AddressSpace::reserve(size_t bytes, const ReserveOptions& options,
                                            DeviceIndex owner) {
  const size_t alignment = options.alignment_bytes;
  if (bytes == 0 || !is_aligned(bytes, granularity_bytes_)) {
    return Status::invalid_argument(text("cannot reserve ", bytes,
                                         " B: expected a positive multiple of the ",
                                         "granularity, ", granularity_bytes_));
  }
  if (alignment != 0 && !std::has_single_bit(alignment)) {
    return Status::invalid_argument(
        text("cannot align to ", alignment, ": expected a power of two"));
  }
  WriterLock lock(mutex_);
  return reserve_locked(bytes, options, owner);
}

Result<DeviceAddress> AddressSpace::reserve_locked(size_t bytes, const ReserveOptions& options,
                                                   DeviceIndex owner) {
  const size_t alignment = std::max(options.alignment_bytes, granularity_bytes_);
  // Allocates the map's node first: if this allocation failed later, the reserved addresses would
  // leak.
  Reservations staged;
  Reservation& reservation = staged[DeviceAddress()];
  reservation.bytes = bytes;
  reservation.owner = owner;
  DeviceAddress at;
  if (has_memory_) {
    if (bytes > SIZE_MAX / 4) return out_of_addresses_error(bytes);
    reservation.shadow_distance = bytes + granularity_bytes_;
    const size_t both_halves = 2 * reservation.shadow_distance;
    at = DeviceAddress(reserve_host_addresses(both_halves, alignment, options.hint.value()));
  } else {
    DeviceAddress hint = options.hint;
    if (std::deque<DeviceAddress>& next = next_addresses_[owner]; !next.empty()) {
      hint = next.front();
      next.pop_front();
    }
    at = pick_address_locked(bytes, alignment, hint);
  }
  if (at.is_null()) return out_of_addresses_error(bytes);
  if (has_memory_) reservation.watch = watch_host_access({at, bytes});
  auto node = staged.extract(staged.begin());
  node.key() = at;
  reservations_.insert(std::move(node));
  return at;
}

DeviceAddress AddressSpace::pick_address_locked(size_t bytes, size_t alignment_bytes,
                                                DeviceAddress hint) {
  const bool is_hint_usable = !hint.is_null() && is_aligned(hint.value(), alignment_bytes);
  if (is_hint_usable && is_free_locked({hint, bytes})) return hint;
  for (;;) {
    const uint64_t at = align_up(next_synthetic_, alignment_bytes);
    if (at > kEndSyntheticAddress || bytes > kEndSyntheticAddress - at) return {};
    next_synthetic_ = at + bytes;
    // The range is not free if an earlier reservation was placed here by its hint.
    if (is_free_locked({DeviceAddress(at), bytes})) return DeviceAddress(at);
  }
}

bool AddressSpace::is_free_locked(AddressRange range) const {
  if (range.overflows()) return false;
  const auto after = reservations_.lower_bound(range.begin);
  const bool right_is_free = after == reservations_.end() || after->first >= range.end();
  return right_is_free && reservation_of(range.begin) == reservations_.end();
}

Status AddressSpace::free_addresses(AddressRange range, DeviceIndex owner) {
  WriterLock lock(mutex_);
  const auto reservation = reservations_.find(range.begin);
  if (reservation == reservations_.end() || reservation->second.bytes != range.bytes ||
      reservation->second.is_allocation || reservation->second.owner != owner) {
    return Status::invalid_argument(
        text("cannot free the addresses ", range, ": not one reservation of device ", owner));
  }
  const auto mapping = mappings_.lower_bound(range.begin);
  if (mapping != mappings_.end() && mapping->first < range.end()) {
    return Status::invalid_argument(text("cannot free the addresses ", range,
                                         ": an extent is mapped at ", mapping->first,
                                         "; unmap it first"));
  }
  erase_reservation_locked(reservation);
  return {};
}

void AddressSpace::erase_reservation_locked(Reservations::iterator reservation) {
  const DeviceAddress at = reservation->first;
  driver_addresses_.free(at.value());
  if (has_memory_) {
    unwatch_host_access(reservation->second.watch);
    ::munmap(as_pointer(at.value()), 2 * reservation->second.shadow_distance);
  }
  reservations_.erase(reservation);
}

// --- mapped extents

Status AddressSpace::map(DeviceAddress at, std::shared_ptr<Extent> extent, DeviceIndex owner) {
  const AddressRange range{at, extent->bytes()};
  if (!is_aligned(at.value(), granularity_bytes_)) {
    return Status::invalid_argument(text(
        "cannot map at ", at, ": expected a multiple of the granularity, ", granularity_bytes_));
  }
  WriterLock lock(mutex_);
  const auto reservation = reservation_of(at);
  if (reservation == reservations_.end() || reservation->second.is_allocation ||
      reservation->second.owner != owner ||
      !AddressRange{reservation->first, reservation->second.bytes}.contains(range)) {
    return Status::invalid_argument(
        text("cannot map ", range, ": not inside one reservation of device ", owner));
  }
  const auto next = mappings_.lower_bound(at);
  const bool is_free_before =
      next == mappings_.begin() ||
      at - std::prev(next)->first >= std::prev(next)->second.extent->bytes();
  if (!is_free_before || (next != mappings_.end() && next->first < range.end())) {
    return Status::invalid_argument(text("cannot map ", range, ": part of it is mapped already"));
  }
  std::vector<Access> no_access(device_count_, Access::kNone);
  const auto mapping =
      mappings_.emplace_hint(next, at,
                             Mapping{std::move(extent), owner, MappingKind::kMapped,
                                     std::move(no_access), PROT_NONE, false});
  add_to_run_count_locked(mapping);
  if (run_count_ <= max_mappings_) return {};
  (void)extract_locked(mapping);  // not the last reference, because SimDevice still owns the extent
  return too_many_mappings_error();
}

Status AddressSpace::too_many_mappings_error() const {
  return Status::out_of_memory(text("no more than ", max_mappings_, " separate mappings: unmap ",
                                    "some, or raise vm.max_map_count"));
}

Result<size_t> AddressSpace::set_access(AddressRange range, const AccessGrant& grant,
                                        DeviceIndex owner) {
  const DeviceIndex accessor = grant.accessor;
  if (accessor.value() >= device_count_) {
    return Status::invalid_argument(
        text("cannot give access to device ", accessor, ": there are ", device_count_));
  }
  WriterLock lock(mutex_);
  const Result<size_t> extent_count = count_extents_locked(range, owner);
  if (!extent_count.ok()) return extent_count;
  const auto first = mappings_.find(range.begin);
  // All devices use the same shadow, so the protection of the shadow is the union of all devices'
  // rights.
  std::vector<int> protections;
  for (auto it = first; it != mappings_.end() && it->first < range.end(); ++it) {
    int protection = protection_for(grant.access);
    for (size_t device = 0; device < device_count_; ++device) {
      if (device != accessor.value()) protection |= protection_for(it->second.grants[device]);
    }
    protections.push_back(protection);
  }
  if (Status done = protect_locked(range, protections); !done.ok()) return done;
  for (auto it = first; it != mappings_.end() && it->first < range.end(); ++it) {
    it->second.grants[accessor.value()] = grant.access;
  }
  return extent_count;
}

Result<size_t> AddressSpace::unmap(AddressRange range, DeviceIndex owner) {
  Mappings unmapped;  // destroyed after unlocking; moved nodes need no memory
  WriterLock lock(mutex_);
  const Result<size_t> extent_count = count_extents_locked(range, owner);
  if (!extent_count.ok()) return extent_count;
  unmap_shadow_locked(range);
  auto it = mappings_.find(range.begin);
  while (it != mappings_.end() && it->first < range.end()) {
    unmapped.insert(unmapped.end(), extract_locked(it++));
  }
  return extent_count;
}

Result<size_t> AddressSpace::count_extents_locked(AddressRange range, DeviceIndex owner) const {
  const auto refuse = [&](std::string_view why) -> Result<size_t> {
    return Status::invalid_argument(
        text("the range ", range, " ", why, ": expected whole mapped extents without a hole"));
  };
  if (range.bytes == 0) return refuse("is empty");
  if (range.overflows()) return refuse("overflows");
  DeviceAddress at = range.begin;
  size_t extent_count = 0;
  for (auto it = mappings_.find(at); at < range.end(); ++it) {
    if (it == mappings_.end() || it->first != at) return refuse("is not mapped throughout");
    if (it->second.kind != MappingKind::kMapped) return refuse("was not made by map");
    if (it->second.owner != owner) return refuse("belongs to another device");
    at = at + it->second.extent->bytes();
    ++extent_count;
  }
  if (at != range.end()) return refuse("cuts an extent");
  return extent_count;
}

// --- allocations

Result<DeviceAddress> AddressSpace::allocate(std::shared_ptr<Extent> extent, DeviceIndex owner,
                                             MappingKind kind) {
  const size_t bytes = extent->bytes();
  std::shared_ptr<Extent> not_allocated;  // released after unlocking
  Mappings staged;                        // allocated before the first change
  staged[DeviceAddress()] = {std::move(extent), owner, kind, {}, PROT_NONE, false};
  const std::vector<int> protection = {PROT_READ | PROT_WRITE};
  WriterLock lock(mutex_);
  ReserveOptions options;
  const bool uses_policy = !has_memory_ && next_addresses_[owner].empty();
  if (uses_policy) {
    const size_t rounded_bytes = round_up(bytes, granularity_bytes_);
    const AddressPolicy& choose = address_policies_[owner];
    options.hint =
        choose ? choose(rounded_bytes) : DeviceAddress(driver_addresses_.allocate(rounded_bytes));
  }
  Result<DeviceAddress> at = Status::host_out_of_memory();
  try {
    at = reserve_locked(bytes, options, owner);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `at` reports the error
  }
  if (!at.ok()) {
    if (uses_policy) driver_addresses_.free(options.hint.value());
    return at;
  }
  const auto reservation = reservations_.find(*at);
  reservation->second.is_allocation = true;
  const auto inserted = insert_locked(*at, staged.extract(staged.begin()));
  Status accessible = Status::host_out_of_memory();
  try {
    accessible = protect_locked({*at, bytes}, protection);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `accessible` reports the error
  }
  if (accessible.ok()) return at;
  not_allocated = std::move(extract_locked(inserted).mapped().extent);
  erase_reservation_locked(reservation);
  return accessible;
}

Result<size_t> AddressSpace::free(DeviceAddress at, DeviceIndex owner, MappingKind kind) {
  std::shared_ptr<Extent> extent;
  WriterLock lock(mutex_);
  const auto mapping = mappings_.find(at);
  if (mapping == mappings_.end() || mapping->second.kind != kind ||
      mapping->second.owner != owner) {
    return Status::invalid_argument(
        text("nothing of this kind starts at ", at, " on device ", owner));
  }
  driver_addresses_.free(at.value());  // first, because only this may throw std::bad_alloc
  extent = std::move(extract_locked(mapping).mapped().extent);
  erase_reservation_locked(reservations_.find(at));
  return extent->bytes();
}

Result<std::shared_ptr<Extent>> AddressSpace::find_allocation(DeviceAddress at, DeviceIndex owner,
                                                              MappingKind kind) const {
  ReaderLock lock(mutex_);
  const auto mapping = mappings_.find(at);
  if (mapping == mappings_.end() || mapping->second.kind != kind ||
      mapping->second.owner != owner) {
    return Status::invalid_argument(
        text("nothing of this kind starts at ", at, " on device ", owner));
  }
  return mapping->second.extent;
}

void AddressSpace::set_next_address(DeviceIndex owner, DeviceAddress at) {
  WriterLock lock(mutex_);
  next_addresses_[owner].push_back(at);
}

void AddressSpace::set_address_policy(DeviceIndex owner, AddressPolicy choose) {
  WriterLock lock(mutex_);
  address_policies_[owner] = std::move(choose);
}

void AddressSpace::set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled) {
  WriterLock lock(mutex_);
  peer_access_[accessor.value() * device_count_ + owner.value()] = enabled;
}

// --- look-ups

AddressSpace::Reservations::const_iterator AddressSpace::reservation_of(DeviceAddress at) const {
  auto after = reservations_.upper_bound(at);
  if (after == reservations_.begin()) return reservations_.end();
  const auto candidate = std::prev(after);
  return at - candidate->first < candidate->second.bytes ? candidate : reservations_.end();
}

AddressSpace::Mappings::const_iterator AddressSpace::mapping_of(DeviceAddress at) const {
  auto after = mappings_.upper_bound(at);
  if (after == mappings_.begin()) return mappings_.end();
  const auto candidate = std::prev(after);
  return at - candidate->first < candidate->second.extent->bytes() ? candidate : mappings_.end();
}

bool AddressSpace::continues_previous_locked(Mappings::const_iterator right) const {
  if (right == mappings_.end() || right == mappings_.begin()) return false;
  const auto left = std::prev(right);
  const Extent& before = *left->second.extent;
  const Extent& after = *right->second.extent;
  return left->first + before.bytes() == right->first && before.fd() == after.fd() &&
         before.offset() + before.bytes() == after.offset() &&
         left->second.protection == right->second.protection &&
         reservation_of(left->first) == reservation_of(right->first);
}

AddressSpace::Mappings::iterator AddressSpace::insert_locked(DeviceAddress at,
                                                             Mappings::node_type mapping) {
  mapping.key() = at;
  const auto inserted = mappings_.insert(std::move(mapping)).position;
  add_to_run_count_locked(inserted);
  return inserted;
}

// Updates run_count_ for a new mapping. A mapping that continues the previous mapping adds no run.
// If the next mapping continues the new mapping, the next mapping no longer starts a run.
void AddressSpace::add_to_run_count_locked(Mappings::const_iterator inserted) {
  if (!continues_previous_locked(inserted)) ++run_count_;
  if (continues_previous_locked(std::next(inserted))) --run_count_;
}

AddressSpace::Mappings::node_type AddressSpace::extract_locked(Mappings::iterator mapping) {
  if (!continues_previous_locked(mapping)) --run_count_;
  if (continues_previous_locked(std::next(mapping))) ++run_count_;
  return mappings_.extract(mapping);
}

}  // namespace ashlar::sim
