// SPDX-License-Identifier: Apache-2.0
//
// Two ordered maps and the questions about them.
#include "device/gpu/places.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar::gpu {

Places::Places(size_t device_count)
    : device_count_(device_count), peer_access_(device_count * device_count, false) {}

// --- memory with an address of its own ----------------------------------------------------------

void Places::add(PlaceKind kind, AddressRange range, DeviceIndex owner) {
  WriterLock lock(mutex_);
  places_.insert_or_assign(range.begin, Place{range.bytes, owner, kind, ExtentId(), {}});
}

Result<AddressRange> Places::find(PlaceKind kind, DeviceAddress at, DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  if (Status starts = check_start(kind, at, owner); !starts.ok()) return starts;
  return AddressRange{at, places_.find(at)->second.bytes};
}

Result<AddressRange> Places::remove(PlaceKind kind, DeviceAddress at, DeviceIndex owner) {
  WriterLock lock(mutex_);
  if (Status starts = check_start(kind, at, owner); !starts.ok()) return starts;
  const auto found = places_.find(at);
  const AddressRange range{at, found->second.bytes};
  places_.erase(found);
  return range;
}

Status Places::check_start(PlaceKind kind, DeviceAddress at, DeviceIndex owner) const {
  const auto found = places_.find(at);
  if (found != places_.end() && found->second.kind == kind && found->second.owner == owner) {
    return {};
  }
  return Status::invalid_argument(
      text("nothing of this kind starts at ", at, " on device ", owner));
}

// --- reserved addresses -------------------------------------------------------------------------

void Places::add(const Reservation& reservation) {
  WriterLock lock(mutex_);
  reservations_.insert_or_assign(reservation.range.begin, reservation);
}

Result<Places::Reservation> Places::find_empty_reservation(AddressRange range,
                                                           DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  const auto found = reservations_.find(range.begin);
  if (found == reservations_.end() || found->second.range != range ||
      found->second.owner != owner) {
    return Status::invalid_argument(
        text("cannot free the addresses ", range, ": not one reservation of device ", owner));
  }
  const auto mapped = places_.lower_bound(range.begin);
  if (mapped != places_.end() && mapped->first < range.end()) {
    return Status::invalid_argument(text("cannot free the addresses ", range,
                                         ": an extent is mapped at ", mapped->first,
                                         "; unmap it first"));
  }
  return found->second;
}

void Places::remove_reservation(DeviceAddress begin) {
  WriterLock lock(mutex_);
  reservations_.erase(begin);
}

// --- mapped extents -----------------------------------------------------------------------------

Status Places::check_free(AddressRange range, DeviceIndex owner) const {
  ReaderLock lock(mutex_);
  const Reservation* reservation = reservation_at(range.begin);
  if (reservation == nullptr || reservation->owner != owner ||
      !reservation->range.contains(range)) {
    return Status::invalid_argument(
        text("cannot map ", range, ": not inside one reservation of device ", owner));
  }
  const auto next = places_.lower_bound(range.begin);
  if (place_at(range.begin) != places_.end() ||
      (next != places_.end() && next->first < range.end())) {
    return Status::invalid_argument(
        text("cannot map ", range, ": something is mapped there already"));
  }
  return {};
}

void Places::add_mapping(AddressRange range, ExtentId extent, DeviceIndex owner) {
  std::vector<Access> nobody(device_count_, Access::kNone);
  WriterLock lock(mutex_);
  places_.insert_or_assign(
      range.begin, Place{range.bytes, owner, PlaceKind::kMapped, extent, std::move(nobody)});
  ++mapping_counts_[extent];
}

bool Places::is_mapped(ExtentId extent) const {
  ReaderLock lock(mutex_);
  return mapping_counts_.contains(extent);
}

Status Places::check_whole_extents(AddressRange range, DeviceIndex owner) const {
  const auto refuse = [&](std::string_view why) {
    return Status::invalid_argument(
        text("the range ", range, " ", why, ": expected whole mapped extents without a hole"));
  };
  if (range.bytes == 0) return refuse("is empty");
  if (range.overflows()) return refuse("overflows");
  ReaderLock lock(mutex_);
  DeviceAddress at = range.begin;
  for (auto place = places_.find(at); at < range.end(); ++place) {
    if (place == places_.end() || place->first != at) return refuse("is not mapped throughout");
    if (place->second.kind != PlaceKind::kMapped) return refuse("was not made by map");
    if (place->second.owner != owner) return refuse("belongs to another device");
    at = at + place->second.bytes;
  }
  return at == range.end() ? Status() : refuse("cuts an extent");
}

void Places::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  WriterLock lock(mutex_);
  for (auto place = places_.find(range.begin); place != places_.end() && place->first < range.end();
       ++place) {
    place->second.grants[accessor.value()] = access;
  }
}

void Places::remove_mappings(AddressRange range) {
  WriterLock lock(mutex_);
  auto place = places_.find(range.begin);
  while (place != places_.end() && place->first < range.end()) {
    const auto count = mapping_counts_.find(place->second.extent);
    if (--count->second == 0) mapping_counts_.erase(count);
    place = places_.erase(place);
  }
}

// --- questions ----------------------------------------------------------------------------------

void Places::set_peer_access(DeviceIndex accessor, DeviceIndex owner, bool enabled) {
  WriterLock lock(mutex_);
  peer_access_[accessor.value() * device_count_ + owner.value()] = enabled;
}

std::optional<AddressDescription> Places::describe(DeviceAddress at) const {
  ReaderLock lock(mutex_);
  const auto place = place_at(at);
  if (place != places_.end()) {
    return AddressDescription{
        MemoryKind::kDevice, place->second.owner, {place->first, place->second.bytes}};
  }
  if (reservation_at(at) != nullptr) return AddressDescription{};
  return std::nullopt;
}

std::optional<Status> Places::check(DeviceIndex accessor, AddressRange range, Access wanted) const {
  if (range.bytes == 0) return Status::invalid_argument("a range of 0 B");
  if (range.overflows()) return Status::invalid_argument(text("the range ", range, " overflows"));
  ReaderLock lock(mutex_);
  DeviceAddress at = range.begin;
  auto place = place_at(at);
  if (place == places_.end() && reservation_at(at) == nullptr) return std::nullopt;
  while (at < range.end()) {
    if (place == places_.end() || place->first > at) {
      return Status::invalid_argument(text("no memory at ", at, ", in the range ", range));
    }
    if (!may_access(place->second, accessor, wanted)) {
      return Status::invalid_argument(text("device ", accessor, " may not ",
                                           wanted == Access::kRead ? "read" : "write", " at ", at,
                                           ", which is memory of device ", place->second.owner));
    }
    at = place->first + place->second.bytes;
    ++place;
  }
  return Status();
}

bool Places::may_access(const Place& place, DeviceIndex accessor, Access wanted) const {
  if (place.kind == PlaceKind::kMapped) {
    const Access granted = place.grants[accessor.value()];
    return granted == Access::kReadWrite || granted == wanted;
  }
  if (place.owner == accessor) return true;
  return peer_access_[accessor.value() * device_count_ + place.owner.value()];
}

Places::ByAddress::const_iterator Places::place_at(DeviceAddress at) const {
  const auto after = places_.upper_bound(at);
  if (after == places_.begin()) return places_.end();
  const auto candidate = std::prev(after);
  return at - candidate->first < candidate->second.bytes ? candidate : places_.end();
}

const Places::Reservation* Places::reservation_at(DeviceAddress at) const {
  const auto after = reservations_.upper_bound(at);
  if (after == reservations_.begin()) return nullptr;
  const Reservation& candidate = std::prev(after)->second;
  return candidate.range.contains(at) ? &candidate : nullptr;
}

}  // namespace ashlar::gpu
