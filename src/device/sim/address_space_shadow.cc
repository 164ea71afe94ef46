// SPDX-License-Identifier: Apache-2.0
//
// Implements the functions of AddressSpace that change the kernel's mappings in the shadow.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "device/sim/address_space.h"

namespace ashlar::sim {

char* AddressSpace::shadow_of(DeviceAddress at) const {
  const auto reservation = reservation_of(at);
  return reinterpret_cast<char*>(at.value() + reservation->second.shadow_distance);
}

Status AddressSpace::protect_locked(AddressRange range, const std::vector<int>& protections) {
  std::vector<int> before;
  const auto first = mappings_.find(range.begin);
  for (auto it = first; it != mappings_.end() && it->first < range.end(); ++it) {
    before.push_back(it->second.protection);
  }
  set_protections_locked(first, range.end(), protections);
  Status synced =
      run_count_ <= max_mappings_ ? sync_shadow_locked(range) : too_many_mappings_error();
  if (synced.ok()) return synced;
  set_protections_locked(first, range.end(), before);
  (void)sync_shadow_locked(range).ok();  // restores a state that the kernel has accepted before
  return synced;
}

void AddressSpace::set_protections_locked(Mappings::iterator first, DeviceAddress end,
                                          const std::vector<int>& protections) {
  run_count_ -= count_runs_locked(first, end);
  auto it = first;
  for (int protection : protections) (it++)->second.protection = protection;
  run_count_ += count_runs_locked(first, end);
}

size_t AddressSpace::count_runs_locked(Mappings::const_iterator first, DeviceAddress end) const {
  size_t count = 0;
  auto it = first;
  for (; it != mappings_.end() && it->first < end; ++it) {
    if (!continues_previous_locked(it)) ++count;
  }
  if (it != mappings_.end() && !continues_previous_locked(it)) ++count;
  return count;
}

// Makes the kernel's mappings in the range match `mappings_`. Mappings that continue each other are
// changed by one system call and share one kernel entry.
Status AddressSpace::sync_shadow_locked(AddressRange range) {
  if (!has_memory_) return {};
  auto it = mappings_.find(range.begin);
  while (it != mappings_.end() && it->first < range.end()) {
    const auto first = it;
    size_t bytes = 0;
    do {
      bytes += it->second.extent->bytes();
      ++it;
    } while (it != mappings_.end() && it->first < range.end() && continues_previous_locked(it) &&
             it->second.in_shadow == first->second.in_shadow);
    Status synced = sync_shadow_run_locked(first->first, bytes, first->second);
    if (!synced.ok()) return synced;
    for (auto done = first; done != it; ++done) done->second.in_shadow = true;
  }
  return {};
}

Status AddressSpace::sync_shadow_run_locked(DeviceAddress at, size_t bytes, const Mapping& first) {
  // If the extent is mapped already, mprotect suffices and, unlike mmap, keeps the page table
  // entries.
  if (first.in_shadow) {
    if (::mprotect(shadow_of(at), bytes, first.protection) == 0) return {};
  } else {
    const Extent& extent = *first.extent;
    const void* mapped = ::mmap(shadow_of(at), bytes, first.protection, MAP_SHARED | MAP_FIXED,
                                extent.fd(), static_cast<off_t>(extent.offset()));
    if (mapped != MAP_FAILED) return {};
  }
  const int code = errno;
  if (code == ENOMEM) {
    return Status::out_of_memory(text("the host cannot map more memory at ", at,
                                      ": raise vm.max_map_count or the memory limit"));
  }
  return Status::device_fault(first.in_shadow ? "mprotect" : "mmap", code, std::strerror(code));
}

// Unmaps the range, and ignores a failure. The kernel may reject the call at its mapping limit if
// replacing the mappings splits an entry. The pages then stay accessible in the shadow, and an
// invalid access does not fault.
void AddressSpace::unmap_shadow_locked(AddressRange range) {
  if (!has_memory_) return;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  (void)::mmap(shadow_of(range.begin), range.bytes, PROT_NONE, kFlags, -1, 0);
}

}  // namespace ashlar::sim
