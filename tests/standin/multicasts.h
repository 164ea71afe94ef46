// SPDX-License-Identifier: Apache-2.0
//
// The multicast objects of a stand-in driver, shared between processes through a page of memory.
// Returns errors where a real driver blocks for ever or misbehaves: binding and mapping before all
// devices were added, importing after the creator released too early, adding a device twice,
// unbinding released memory, releasing a bound or mapped object. Thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "ashlar/device.h"

namespace ashlar::standin {

using Code = int;

class MulticastTable {
 public:
  using Uuid = std::array<uint8_t, 16>;
  struct Wanted {
    size_t device_count = 0;
    size_t bytes = 0;
    bool fd = false;
    bool fabric = false;
  };
  // A bound extent and its device.
  struct Bound {
    uint64_t extent = 0;
    Uuid device{};
    size_t bytes = 0;
  };

  ~MulticastTable();

  Code create(const Wanted& wanted, uint64_t& object);
  Code export_fd(uint64_t object, int& fd);
  Code export_fabric(uint64_t object, void* handle);
  // Empty: not a multicast object.
  std::optional<Code> import_fd(int fd, uint64_t& object);
  std::optional<Code> import_fabric(const void* handle, uint64_t& object);
  Code add(uint64_t object, const Uuid& device);
  // `fd` gives other processes access to `memory` while it is bound.
  Code bind(uint64_t object, const Bound& memory, UniqueFd fd);
  // The extent of that device that is bound, if any.
  std::optional<Bound> bound_of(uint64_t object, const Uuid& device);
  Code unbind(uint64_t object, const Uuid& device, size_t bytes);
  Code map(uint64_t object, AddressRange range);
  bool is_mapped(AddressRange range);
  Code unmap(AddressRange range);
  Code release(uint64_t object);

  // The host pointers to an address of an object on each device. Empty: not a multicast address, or
  // not all devices have bound memory.
  std::vector<std::byte*> copies_at(DeviceAddress at);

  bool has(uint64_t object);
  // The number of objects that were not released.
  size_t count();
  // REQUIRES: no object is in use.
  void forget_all();

 private:
  struct Shared;
  struct Entry {
    UniqueFd fd{};
    Shared* shared = nullptr;  // mapped from fd
    bool is_creation = false;
    std::optional<Bound> bound{};
    UniqueFd bound_fd{};
    std::optional<AddressRange> mapped{};
    std::vector<std::byte*> copies{};  // host mappings, created on first use
  };

  Code keep(Entry entry, uint64_t& object);
  static void drop(Entry& entry);
  static void drop_copies(Entry& entry);

  std::mutex mutex_;
  uint64_t last_ = uint64_t{1} << 40;  // above all extent ids
  std::map<uint64_t, Entry> objects_;
};

}  // namespace ashlar::standin
