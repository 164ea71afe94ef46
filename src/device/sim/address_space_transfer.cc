// SPDX-License-Identifier: Apache-2.0
//
// Implements the queries, access checks and data transfers of AddressSpace.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "device/sim/address_space.h"

namespace ashlar::sim {
namespace {

// The size of one step of a transfer. The lock is released between steps, so that a long copy does
// not block mapping.
constexpr size_t kStepBytes = size_t{1} << 20;

// Calls `move(offset, bytes)` for each step until a call fails.
template <typename Move>
Status transfer_in_steps(size_t bytes, const Move& move) {
  for (size_t offset = 0; offset < bytes; offset += kStepBytes) {
    Status moved = move(offset, std::min(kStepBytes, bytes - offset));
    if (!moved.ok()) return moved;
  }
  return {};
}

}  // namespace

AddressDescription AddressSpace::describe(DeviceAddress at) const {
  ReaderLock lock(mutex_);
  const auto mapping = mapping_of(at);
  if (mapping == mappings_.end()) return {};
  return {MemoryKind::kDevice,
          mapping->second.owner,
          {mapping->first, mapping->second.extent->bytes()}};
}

bool AddressSpace::is_reserved(DeviceAddress at) const {
  ReaderLock lock(mutex_);
  return reservation_of(at) != reservations_.end();
}

size_t AddressSpace::mapping_count() const {
  ReaderLock lock(mutex_);
  return mappings_.size();
}

Status AddressSpace::check(DeviceIndex accessor, AddressRange range, Access wanted) const {
  ReaderLock lock(mutex_);
  return check_locked(accessor, range, wanted);
}

Status AddressSpace::check_locked(DeviceIndex accessor, AddressRange range, Access wanted) const {
  if (range.bytes == 0)
    return Status::invalid_argument("a range of 0 B: expected at least one byte");
  if (range.overflows()) return Status::invalid_argument(text("the range ", range, " overflows"));
  const auto reservation = reservation_of(range.begin);
  if (reservation == reservations_.end() ||
      !AddressRange{reservation->first, reservation->second.bytes}.contains(range)) {
    return Status::invalid_argument(
        text("the range ", range, " is not device memory of this machine"));
  }
  DeviceAddress at = range.begin;
  for (auto it = mapping_of(at); at < range.end(); ++it) {
    if (it == mappings_.end() || it->first > at) {
      return Status::invalid_argument(text("nothing is mapped at ", at, ", in the range ", range));
    }
    if (!may_access_locked(it->second, accessor, wanted)) {
      return Status::invalid_argument(
          text("device ", accessor, " may not ", wanted == Access::kRead ? "read" : "write", " at ",
               at, ", in the range ", range, ": set_access or enable_peer_access"));
    }
    at = it->first + it->second.extent->bytes();
  }
  return {};
}

bool AddressSpace::may_access_locked(const Mapping& mapping, DeviceIndex accessor,
                                     Access wanted) const {
  if (mapping.kind == MappingKind::kMapped) return mapping.grants[accessor.value()] >= wanted;
  return mapping.owner == accessor ||
         peer_access_[accessor.value() * device_count_ + mapping.owner.value()];
}

Result<void*> AddressSpace::shadow(DeviceIndex accessor, AddressRange range, Access wanted) const {
  ReaderLock lock(mutex_);
  if (Status checked = check_locked(accessor, range, wanted); !checked.ok()) return checked;
  return has_memory_ ? static_cast<void*>(shadow_of(range.begin)) : nullptr;
}

Status AddressSpace::write(Endpoint to, const void* from, size_t bytes) const {
  return transfer_in_steps(bytes, [&](size_t offset, size_t step) {
    ReaderLock lock(mutex_);
    const AddressRange range{to.at + offset, step};
    if (Status ok = check_locked(to.accessor, range, Access::kReadWrite); !ok.ok()) return ok;
    if (has_memory_) {
      std::memcpy(shadow_of(range.begin), static_cast<const char*>(from) + offset, step);
    }
    return Status();
  });
}

Status AddressSpace::read(void* to, Endpoint from, size_t bytes) const {
  return transfer_in_steps(bytes, [&](size_t offset, size_t step) {
    ReaderLock lock(mutex_);
    const AddressRange range{from.at + offset, step};
    if (Status ok = check_locked(from.accessor, range, Access::kRead); !ok.ok()) return ok;
    if (has_memory_) std::memcpy(static_cast<char*>(to) + offset, shadow_of(range.begin), step);
    return Status();
  });
}

Status AddressSpace::transfer(Endpoint to, Endpoint from, size_t bytes) const {
  return transfer_in_steps(bytes, [&](size_t offset, size_t step) {
    ReaderLock lock(mutex_);
    const AddressRange target{to.at + offset, step};
    const AddressRange source{from.at + offset, step};
    if (Status ok = check_locked(to.accessor, target, Access::kReadWrite); !ok.ok()) return ok;
    if (Status ok = check_locked(from.accessor, source, Access::kRead); !ok.ok()) return ok;
    // An extent may be mapped at two addresses, so the bytes may overlap even if the ranges do not.
    if (has_memory_) std::memmove(shadow_of(target.begin), shadow_of(source.begin), step);
    return Status();
  });
}

Status AddressSpace::fill(Endpoint at, uint8_t value, size_t bytes) const {
  return transfer_in_steps(bytes, [&](size_t offset, size_t step) {
    ReaderLock lock(mutex_);
    const AddressRange range{at.at + offset, step};
    if (Status ok = check_locked(at.accessor, range, Access::kReadWrite); !ok.ok()) return ok;
    if (has_memory_) std::memset(shadow_of(range.begin), value, step);
    return Status();
  });
}

}  // namespace ashlar::sim
