// SPDX-License-Identifier: Apache-2.0
//
// Keeps reservations in one map and all other ranges in another, both ordered by address.
#include "device/gpu/address_registry.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar::gpu {

AddressRegistry::AddressRegistry(size_t device_count)
    : device_count_(device_count), peer_access_(device_count * device_count, false) {}

// --- allocations

void AddressRegistry::add(RangeKind kind, AddressRange range, DeviceIndex owner) {
  WriterLock lock(mutex_);
  ranges_.insert_or_assign(range.begin, Range{range.bytes, owner, kind, ExtentId(), {}});
}

Result<AddressRange> AddressRegistry::find(RangeKind kind, DeviceAddress at,
                                           DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  if (Status starts = check_start(kind, at, owner); !starts.ok()) return starts;
  return AddressRange{at, ranges_.find(at)->second.bytes};
}

Result<AddressRange> AddressRegistry::remove(RangeKind kind, DeviceAddress at, DeviceIndex owner) {
  WriterLock lock(mutex_);
  if (Status starts = check_start(kind, at, owner); !starts.ok()) return starts;
  const auto found = ranges_.find(at);
  const AddressRange range{at, found->second.bytes};
  ranges_.erase(found);
  return range;
}

Status AddressRegistry::check_start(RangeKind kind, DeviceAddress at, DeviceIndex owner) const {
  const auto found = ranges_.find(at);
  if (found != ranges_.end() && found->second.kind == kind && found->second.owner == owner) {
    return {};
  }
  return Status::invalid_argument(
      text("nothing of this kind starts at ", at, " on device ", owner));
}

// --- reservations

void AddressRegistry::add(const Reservation& reservation) {
  WriterLock lock(mutex_);
  reservations_.insert_or_assign(reservation.range.begin, reservation);
}

Result<AddressRegistry::Reservation> AddressRegistry::find_empty_reservation(
    AddressRange range, DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  const auto found = reservations_.find(range.begin);
  if (found == reservations_.end() || found->second.range != range ||
      found->second.owner != owner) {
    return Status::invalid_argument(
        text("cannot free the addresses ", range, ": not one reservation of device ", owner));
  }
  const auto mapped = ranges_.lower_bound(range.begin);
  if (mapped != ranges_.end() && mapped->first < range.end()) {
    return Status::invalid_argument(text("cannot free the addresses ", range,
                                         ": an extent is mapped at ", mapped->first,
                                         "; unmap it first"));
  }
  return found->second;
}

void AddressRegistry::remove_reservation(DeviceAddress begin) {
  WriterLock lock(mutex_);
  reservations_.erase(begin);
}

// --- mappings

Status AddressRegistry::check_free(AddressRange range, DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  const Reservation* reservation = reservation_at(range.begin);
  if (reservation == nullptr || reservation->owner != owner ||
      !reservation->range.contains(range)) {
    return Status::invalid_argument(
        text("cannot map ", range, ": not inside one reservation of device ", owner));
  }
  const auto next = ranges_.lower_bound(range.begin);
  if (range_at(range.begin) != ranges_.end() ||
      (next != ranges_.end() && next->first < range.end())) {
    return Status::invalid_argument(text("cannot map ", range, ": part of it is mapped already"));
  }
  return {};
}

void AddressRegistry::add_mapping(AddressRange range, ExtentId extent, DeviceIndex owner) {
  std::vector<Access> no_access(device_count_, Access::kNone);
  ByAddress added;  // allocated before the first change
  added[range.begin] = {range.bytes, owner, RangeKind::kMapped, extent, std::move(no_access)};
  WriterLock lock(mutex_);
  ++mapping_counts_[extent];
  ranges_.erase(range.begin);
  ranges_.merge(added);
}

bool AddressRegistry::is_mapped(ExtentId extent) const {
  ReaderLock lock(mutex_);
  return mapping_counts_.contains(extent);
}

Status AddressRegistry::check_whole_extents(AddressRange range, DeviceIndex owner) const {
  const auto refuse = [&](std::string_view why) {
    return Status::invalid_argument(
        text("the range ", range, " ", why, ": expected whole mapped extents without a hole"));
  };
  if (range.bytes == 0) return refuse("is empty");
  if (range.overflows()) return refuse("overflows");
  ReaderLock lock(mutex_);
  DeviceAddress at = range.begin;
  for (auto it = ranges_.find(at); at < range.end(); ++it) {
    if (it == ranges_.end() || it->first != at) return refuse("is not mapped throughout");
    if (it->second.kind != RangeKind::kMapped) return refuse("was not made by map");
    if (it->second.owner != owner) return refuse("belongs to another device");
    at = at + it->second.bytes;
  }
  return at == range.end() ? Status() : refuse("cuts an extent");
}

void AddressRegistry::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  WriterLock lock(mutex_);
  for (auto it = ranges_.find(range.begin); it != ranges_.end() && it->first < range.end(); ++it) {
    it->second.grants[accessor.value()] = access;
  }
}

void AddressRegistry::remove_mappings(AddressRange range) {
  WriterLock lock(mutex_);
  auto it = ranges_.find(range.begin);
  while (it != ranges_.end() && it->first < range.end()) {
    const auto count = mapping_counts_.find(it->second.extent);
    if (--count->second == 0) mapping_counts_.erase(count);
    it = ranges_.erase(it);
  }
}

void AddressRegistry::set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled) {
  WriterLock lock(mutex_);
  peer_access_[accessor.value() * device_count_ + owner.value()] = enabled;
}

// --- queries

std::optional<AddressDescription> AddressRegistry::describe(DeviceAddress at) const {
  ReaderLock lock(mutex_);
  const auto it = range_at(at);
  if (it != ranges_.end()) {
    return AddressDescription{MemoryKind::kDevice, it->second.owner, {it->first, it->second.bytes}};
  }
  if (reservation_at(at) != nullptr) return AddressDescription{};
  return std::nullopt;
}

std::optional<Status> AddressRegistry::check(DeviceIndex accessor, AddressRange range,
                                             Access wanted) const {
  if (range.bytes == 0) return Status::invalid_argument("a range of 0 B");
  if (range.overflows()) return Status::invalid_argument(text("the range ", range, " overflows"));
  ReaderLock lock(mutex_);
  DeviceAddress at = range.begin;
  auto it = range_at(at);
  if (it == ranges_.end() && reservation_at(at) == nullptr) return std::nullopt;
  while (at < range.end()) {
    if (it == ranges_.end() || it->first > at) {
      return Status::invalid_argument(text("no memory at ", at, ", in the range ", range));
    }
    if (!may_access(it->second, accessor, wanted)) {
      return Status::invalid_argument(text("device ", accessor, " may not ",
                                           wanted == Access::kRead ? "read" : "write", " at ", at,
                                           ", which is memory of device ", it->second.owner));
    }
    at = it->first + it->second.bytes;
    ++it;
  }
  return Status();
}

bool AddressRegistry::may_access(const Range& range, DeviceIndex accessor, Access wanted) const {
  if (range.kind == RangeKind::kMapped) {
    const Access granted = range.grants[accessor.value()];
    return granted == Access::kReadWrite || granted == wanted;
  }
  if (range.owner == accessor) return true;
  return peer_access_[accessor.value() * device_count_ + range.owner.value()];
}

AddressRegistry::ByAddress::const_iterator AddressRegistry::range_at(DeviceAddress at) const {
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return ranges_.end();
  const auto candidate = std::prev(after);
  return at - candidate->first < candidate->second.bytes ? candidate : ranges_.end();
}

const AddressRegistry::Reservation* AddressRegistry::reservation_at(DeviceAddress at) const {
  const auto after = reservations_.upper_bound(at);
  if (after == reservations_.begin()) return nullptr;
  const Reservation& candidate = std::prev(after)->second;
  return candidate.range.contains(at) ? &candidate : nullptr;
}

}  // namespace ashlar::gpu
