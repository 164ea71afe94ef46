// SPDX-License-Identifier: Apache-2.0
//
// Multicast: one address through which a rank's stores reach every rank's memory of a block, and
// loads combine all of it. What a device's driver offers for it, call by call, and what is left in
// a rank's hands when all ranks have set it up (multicast_set_up.cc). Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "symm/backends/backend.h"

namespace ashlar::symm {

// The calls of a driver, each of which may fail. An object is known to all ranks; each has a number
// for it of its own.
class MulticastDriver {
 public:
  using Object = uint64_t;
  struct Shape {
    int device_count = 0;
    size_t bytes = 0;
    bool by_fabric = false;  // it travels as a fabric handle, not as a descriptor
  };

  MulticastDriver() = default;
  virtual ~MulticastDriver() = default;
  MulticastDriver(const MulticastDriver&) = delete;
  MulticastDriver& operator=(const MulticastDriver&) = delete;

  // Ok, or why this device has no multicast.
  virtual Status availability() const = 0;
  // What is to be bound is a multiple of it: a power of two.
  virtual size_t granularity_bytes() const { return 1; }
  virtual Result<Object> create(const Shape& shape) = 0;
  virtual Result<UniqueFd> export_fd(Object object) = 0;
  virtual Result<Object> import_fd(int fd, const Shape& shape) = 0;
  // kUnsupported: not with this driver.
  virtual Result<FabricHandle> export_fabric(Object object);
  virtual Result<Object> import_fabric(const FabricHandle& handle, const Shape& shape);
  // This device takes part. All must, before any binds.
  virtual Status add_device(Object object) = 0;
  // This rank's memory, from its beginning on, is its part. REQUIRES: as many bytes as the object.
  virtual Status bind(Object object, const std::shared_ptr<MappedMemory>& memory) = 0;
  virtual Result<std::byte*> map(Object object) = 0;
  virtual Status unmap(Object object, std::byte* at) = 0;
  virtual Status unbind(Object object) = 0;
  // REQUIRES: not mapped, not bound.
  virtual Status release(Object object) = 0;
};

// An object on its way to other ranks.
struct MulticastHandle {
  std::shared_ptr<const UniqueFd> fd{};  // also lent to ranks of this process; null: by the fabric
  FabricHandle fabric{};
};

// A rank's part of a multicast object, as far as it has come; undone in reverse order. Its memory
// is to outlive it: a driver that is told to unbind what is gone fails.
class Multicast {
 public:
  // `driver` outlives it.
  explicit Multicast(MulticastDriver& driver) : driver_(driver) {}
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  // Each once, in this order. What failed is undone with the rest.
  Status import_and_join(const MulticastHandle& handle, const MulticastDriver::Shape& shape);
  Status bind_and_map(const std::shared_ptr<MappedMemory>& memory);

  // Where all ranks' blocks begin. REQUIRES: mapped.
  std::byte* base() const { return base_; }

 private:
  MulticastDriver& driver_;
  bool is_imported_ = false;
  bool is_bound_ = false;
  MulticastDriver::Object object_ = 0;
  std::byte* base_ = nullptr;
};

// Multicast, or why there is none: the same on all ranks.
struct MulticastOutcome {
  std::unique_ptr<Multicast> multicast{};
  std::string reason{};
};

}  // namespace ashlar::symm
