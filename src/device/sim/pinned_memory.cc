// SPDX-License-Identifier: Apache-2.0
//
// Keeps the ranges in a map ordered by address. Does not lock pages: a simulated device can access
// any host memory, and RLIMIT_MEMLOCK limits locked pages.
#include "device/sim/pinned_memory.h"

#include <sys/mman.h>

#include "base/text.h"

namespace ashlar::sim {
namespace {

DeviceAddress address_of(const void* memory) {
  return DeviceAddress(reinterpret_cast<uint64_t>(memory));
}

Status not_allocated_error(const void* memory, DeviceIndex device) {
  return Status::invalid_argument(
      text(address_of(memory), " is not pinned memory allocated by device ", device));
}

}  // namespace

SimPinnedMemory::~SimPinnedMemory() {
  MutexLock lock(mutex_);
  for (const auto& [at, range] : ranges_) {
    if (range.is_allocated) ::munmap(reinterpret_cast<void*>(at.value()), range.bytes);
  }
}

Result<void*> SimPinnedMemory::allocate(size_t bytes, DeviceIndex device) {
  Ranges staged;  // allocated before the first change
  staged[DeviceAddress()] = {bytes, device, true};
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status::out_of_memory(text("the host has no ", bytes, " B for pinned memory"));
  }
  auto node = staged.extract(staged.begin());
  node.key() = address_of(memory);
  MutexLock lock(mutex_);
  ranges_.insert(std::move(node));
  return memory;
}

Status SimPinnedMemory::check_allocated(const void* memory, DeviceIndex device) const {
  MutexLock lock(mutex_);
  if (find_locked(memory, device, true) != ranges_.end()) return {};
  return not_allocated_error(memory, device);
}

Result<size_t> SimPinnedMemory::free(void* memory, DeviceIndex device) {
  MutexLock lock(mutex_);
  const auto found = find_locked(memory, device, true);
  if (found == ranges_.end()) return not_allocated_error(memory, device);
  const size_t bytes = found->second.bytes;
  ::munmap(memory, bytes);
  ranges_.erase(found);
  return bytes;
}

Status SimPinnedMemory::add(void* memory, size_t bytes, DeviceIndex device) {
  const AddressRange range{address_of(memory), bytes};
  if (memory == nullptr || bytes == 0 || range.overflows()) {
    return Status::invalid_argument(
        text("cannot pin ", range, ": expected memory of at least 1 B"));
  }
  MutexLock lock(mutex_);
  const auto next = ranges_.lower_bound(range.begin);
  const bool overlaps_next = next != ranges_.end() && next->first < range.end();
  const bool overlaps_previous = next != ranges_.begin() && range.begin - std::prev(next)->first <
                                                                std::prev(next)->second.bytes;
  if (overlaps_next || overlaps_previous) {
    return Status::invalid_argument(text("cannot pin ", range, ": a part of it is pinned already"));
  }
  ranges_[range.begin] = {bytes, device, false};
  return {};
}

Status SimPinnedMemory::remove(void* memory, DeviceIndex device) {
  MutexLock lock(mutex_);
  const auto found = find_locked(memory, device, false);
  if (found == ranges_.end()) {
    return Status::invalid_argument(text(
        address_of(memory), " is not the start of memory registered with ", "device ", device));
  }
  ranges_.erase(found);
  return {};
}

AddressDescription SimPinnedMemory::describe(DeviceAddress at) const {
  MutexLock lock(mutex_);
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return {};
  const auto& [begin, range] = *std::prev(after);
  if (at - begin >= range.bytes) return {};
  return {MemoryKind::kHost, range.device, {begin, range.bytes}};
}

SimPinnedMemory::Ranges::const_iterator SimPinnedMemory::find_locked(const void* memory,
                                                                     DeviceIndex device,
                                                                     bool is_allocated) const {
  const auto found = ranges_.find(address_of(memory));
  if (found == ranges_.end() || found->second.device != device ||
      found->second.is_allocated != is_allocated) {
    return ranges_.end();
  }
  return found;
}

}  // namespace ashlar::sim
