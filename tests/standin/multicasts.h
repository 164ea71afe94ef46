// SPDX-License-Identifier: Apache-2.0
//
// The multicast objects of a stand-in driver, shared between processes through a page of memory.
// Returns errors where a real driver blocks forever or misbehaves: binding or mapping an object to
// which not all devices were added, importing an object that its creator released in that state,
// adding a device twice, or releasing a bound or mapped object. Thread safe.
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
  struct ObjectOptions {
    size_t device_count = 0;
    size_t bytes = 0;
    bool fd = false;
    bool fabric = false;
  };
  // An extent that is bound to an object, and the extent's device.
  struct BoundExtent {
    uint64_t extent = 0;
    Uuid device{};
    size_t bytes = 0;
  };

  ~MulticastTable();

  Code create(const ObjectOptions& options, uint64_t& object);
  Code export_fd(uint64_t object, int& fd);
  Code export_fabric(uint64_t object, void* handle);
  // These functions return nullopt if `fd` or `handle` does not refer to a multicast object.
  std::optional<Code> import_fd(int fd, uint64_t& object);
  std::optional<Code> import_fabric(const void* handle, uint64_t& object);
  Code add(uint64_t object, const Uuid& device);
  // `fd` gives other processes access to `memory` while it is bound.
  Code bind(uint64_t object, const BoundExtent& memory, UniqueFd fd);
  // Returns the bound extent of the device, if any.
  std::optional<BoundExtent> bound_extent(uint64_t object, const Uuid& device);
  Code unbind(uint64_t object, const Uuid& device, size_t bytes);
  Code map(uint64_t object, AddressRange range);
  bool is_mapped(AddressRange range);
  Code unmap(AddressRange range);
  Code release(uint64_t object);

  // Returns host pointers to the memory behind a multicast address, one for each device. The
  // result is empty if `at` is not a multicast address, or if not all devices have bound memory.
  std::vector<std::byte*> copies_at(DeviceAddress at);

  bool has(uint64_t object);
  // Returns the number of objects that have not been released.
  size_t count();
  // REQUIRES: no object is in use.
  void forget_all();

 private:
  struct Shared;
  struct ObjectEntry {
    UniqueFd fd{};
    Shared* shared = nullptr;  // the page, mapped from `fd`
    bool is_creator = false;   // created here, not imported
    std::optional<BoundExtent> bound{};
    UniqueFd bound_fd{};
    std::optional<AddressRange> mapped{};
    std::vector<std::byte*> copies{};  // host mappings, created on first use
  };

  Code add_entry(ObjectEntry entry, uint64_t& object);
  static void destroy_entry(ObjectEntry& entry);
  static void unmap_copies(ObjectEntry& entry);

  std::mutex mutex_;
  uint64_t last_id_ = uint64_t{1} << 40;  // greater than all extent ids
  std::map<uint64_t, ObjectEntry> objects_;
};

}  // namespace ashlar::standin
