// SPDX-License-Identifier: Apache-2.0
//
// Multicast: a store to a multicast address reaches a block of every rank's memory, and a load
// combines the values of all ranks. Declares the driver interface and a rank's part of a multicast
// object, which multicast_setup.cc sets up on all ranks. Drivers and MulticastReleaser are thread
// safe; Multicast is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "symm/backends/backend.h"

namespace ashlar::symm {

// The calls of a multicast driver. All ranks share an object; its number is local to the process.
class MulticastDriver {
 public:
  using Object = uint64_t;
  struct Shape {
    int device_count = 0;
    size_t bytes = 0;
    bool by_fabric = false;  // the object is exported as a fabric handle, not as a descriptor
  };

  MulticastDriver() = default;
  virtual ~MulticastDriver() = default;
  MulticastDriver(const MulticastDriver&) = delete;
  MulticastDriver& operator=(const MulticastDriver&) = delete;

  // Returns ok, or why this device has no multicast.
  virtual Status availability() const = 0;
  // Returns a power of two. The size of bound memory must be a multiple of the result.
  virtual size_t granularity_bytes() const { return 1; }
  virtual Result<Object> create(const Shape& shape) = 0;
  virtual Result<UniqueFd> export_fd(Object object) = 0;
  virtual Result<Object> import_fd(int fd, const Shape& shape) = 0;
  // Returns kUnsupported if the driver has no fabric handles.
  virtual Result<FabricHandle> export_fabric(Object object);
  virtual Result<Object> import_fabric(const FabricHandle& handle, const Shape& shape);
  // Adds this device. All ranks must have added their devices before a rank calls `bind`.
  virtual Status add_device(Object object) = 0;
  // Binds this rank's memory. REQUIRES: the memory has as many bytes as the object.
  virtual Status bind(Object object, const std::shared_ptr<MappedMemory>& memory) = 0;
  virtual Result<std::byte*> map(Object object) = 0;
  virtual Status unmap(Object object, std::byte* at) = 0;
  virtual Status unbind(Object object) = 0;
  // REQUIRES: the object is neither mapped nor bound.
  virtual Status release(Object object) = 0;
};

// An exported object.
struct MulticastHandle {
  std::shared_ptr<const UniqueFd> fd{};  // shared with ranks of this process; null if by fabric
  FabricHandle fabric{};
};

// A rank's part of a multicast object, which may be only partly set up. Destruction undoes the
// steps in reverse order. The bound memory must outlive this, since unbinding freed memory fails.
class Multicast {
 public:
  // `driver` must outlive this object.
  explicit Multicast(MulticastDriver& driver) : driver_(driver) {}
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  // The caller calls these two functions once each, in this order. If a step fails, the destructor
  // undoes the part of the step that was completed.
  Status import_and_join(const MulticastHandle& handle, const MulticastDriver::Shape& shape);
  Status bind_and_map(const std::shared_ptr<MappedMemory>& memory);

  // Returns the multicast address. REQUIRES: both steps above have succeeded.
  std::byte* base() const { return base_; }

 private:
  MulticastDriver& driver_;
  bool is_imported_ = false;
  bool is_bound_ = false;
  MulticastDriver::Object object_ = 0;
  std::byte* base_ = nullptr;
};

// Multicast, or the reason why it is not available. Either all ranks have multicast or none has.
struct MulticastSetupResult {
  std::unique_ptr<Multicast> multicast{};
  std::string reason{};
};

// Decides when a rank's multicast objects are released after their peer table is destroyed.
//
// Normally they are released immediately: a collective that completed is complete on all ranks.
// After a timeout or a failure of the group, other ranks may still store through the switch into
// memory that this rank frees. From then on, objects stay set up until all ranks have left the
// group. If the group has failed, they are kept until every live rank must have detected the
// failure (see RankHeap). Thread safe.
class MulticastReleaser {
 public:
  // A multicast object, and the memory bound to it, which must outlive it.
  struct Entry {
    std::shared_ptr<MappedMemory> memory{};  // shared with its block and other tables
    std::unique_ptr<Multicast> multicast{};
  };

  // Makes `release` keep objects from now on, because other ranks may still use them.
  void defer_releases() ASHLAR_EXCLUDES(mutex_);
  // Releases the object, or keeps it if releases are deferred.
  void release(Entry entry) ASHLAR_EXCLUDES(mutex_);
  // Releases all kept objects. Objects passed to `release` later are released immediately.
  void release_all() ASHLAR_EXCLUDES(mutex_);

 private:
  enum class Mode { kRelease, kKeep, kReleaseFinally };

  Mutex mutex_;
  Mode mode_ ASHLAR_GUARDED_BY(mutex_) = Mode::kRelease;
  std::vector<Entry> kept_entries_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
