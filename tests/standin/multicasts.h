// SPDX-License-Identifier: Apache-2.0
//
// Multicast objects of a stand-in driver: known to all processes that import them, by a page that
// they share. Strict where a driver waits for ever or misbehaves: binding and mapping before all
// devices were added, importing after the creator let go too early, adding a device twice,
// unbinding memory that is gone, releasing what is bound or mapped. Thread safe.
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

class Multicasts {
 public:
  using Uuid = std::array<uint8_t, 16>;
  struct Wanted {
    size_t device_count = 0;
    size_t bytes = 0;
    bool fd = false;
    bool fabric = false;
  };
  // An extent that is bound, and where it lies.
  struct Bound {
    uint64_t extent = 0;
    Uuid device{};
    size_t bytes = 0;
  };

  ~Multicasts();

  Code create(const Wanted& wanted, uint64_t& object);
  Code export_fd(uint64_t object, int& fd);
  Code export_fabric(uint64_t object, void* handle);
  // Empty: this is something else.
  std::optional<Code> import_fd(int fd, uint64_t& object);
  std::optional<Code> import_fabric(const void* handle, uint64_t& object);
  Code add(uint64_t object, const Uuid& device);
  // `memory` is what `fd` gives to other processes, as long as it is bound.
  Code bind(uint64_t object, const Bound& memory, UniqueFd fd);
  // What is bound of that device, if anything.
  std::optional<Bound> bound_of(uint64_t object, const Uuid& device);
  Code unbind(uint64_t object, const Uuid& device, size_t bytes);
  Code map(uint64_t object, AddressRange range);
  bool is_mapped(AddressRange range);
  Code unmap(AddressRange range);
  Code release(uint64_t object);

  // What an address stands for on every device, as this process sees it; empty: it is none, or not
  // all have bound.
  std::vector<std::byte*> copies_at(DeviceAddress at);

  bool has(uint64_t object);
  // Those that were not released.
  size_t count();
  // Nobody uses any more what there is.
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
    std::vector<std::byte*> copies{};  // mapped for the host, when first asked for
  };

  Code keep(Entry entry, uint64_t& object);
  static void drop(Entry& entry);
  static void drop_copies(Entry& entry);

  std::mutex mutex_;
  uint64_t last_ = uint64_t{1} << 40;  // no extent has such a number
  std::map<uint64_t, Entry> objects_;
};

}  // namespace ashlar::standin
