// SPDX-License-Identifier: Apache-2.0
//
// The physical memory of one simulated device: extents within a capacity.
//
// Extents that are not exportable, such as plain allocations, are ranges of one sparse memfd.
// Offsets only increase and are never reused, so that extents created one after the other are
// adjacent in the file (the kernel then merges their mappings) and the file does not fragment.
// Releasing an extent punches a hole. An exportable extent has a separate memfd instead, so that
// the kernel counts its users across processes. docs/internals/sim_device.md has the reasons.
//
// Thread safe. `address_space.h` maps extents.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "ashlar/device.h"
#include "ashlar/sim.h"
#include "base/mutex.h"

namespace ashlar::sim {

class PhysicalMemory;

// Physical memory from one create call. The device's table of ids, every mapping of the extent and,
// temporarily, exports share the extent; the memory is freed with the last reference.
class Extent {
 public:
  Extent(const Extent&) = delete;
  Extent& operator=(const Extent&) = delete;
  ~Extent();

  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }               // -1 with Backing::kBookkeeping
  uint64_t offset() const { return offset_; }  // offset of the first byte in the file fd()
  const CreateOptions& export_options() const { return export_options_; }
  bool is_imported() const { return owner_ == nullptr; }

 private:
  friend class PhysicalMemory;
  Extent() = default;

  PhysicalMemory* owner_ = nullptr;  // the memory whose capacity the extent uses; null if imported
  size_t bytes_ = 0;
  int fd_ = -1;
  uint64_t offset_ = 0;
  UniqueFd own_fd_;  // valid if fd_ is not the file of `owner_`
  CreateOptions export_options_;
};

class PhysicalMemory {
 public:
  static Result<std::unique_ptr<PhysicalMemory>> create(const Options& options);

  // Creates an extent. kOutOfMemory: fewer than `bytes` bytes are free, or the device's file has no
  // offsets left.
  Result<std::shared_ptr<Extent>> create_extent(size_t bytes, const CreateOptions& export_options);

  // Imports an exportable extent, whose file is `fd`. Duplicates the descriptor. The import uses no
  // capacity. kInvalidArgument: `fd` is not a writable file of a simulated device, or the file does
  // not have that size.
  static Result<std::shared_ptr<Extent>> import_extent(int fd, size_t bytes);
  // Imports a range of another process's device file. kInvalidArgument: `fd` is not a writable file
  // of a simulated device, or the range does not consist of whole pages of that file.
  static Result<std::shared_ptr<Extent>> import_range(int fd, uint64_t offset, size_t bytes);

  size_t capacity_bytes() const { return capacity_bytes_; }
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Extent;
  PhysicalMemory(size_t capacity_bytes, UniqueFd file, uint64_t file_bytes)
      : capacity_bytes_(capacity_bytes), file_(std::move(file)), file_bytes_(file_bytes) {}
  bool try_charge(size_t bytes);
  Status assign_file_range(Extent& extent);
  void release_extent(const Extent& extent);

  const size_t capacity_bytes_;
  const UniqueFd file_;  // invalid with Backing::kBookkeeping
  const uint64_t file_bytes_;
  // Accessed in relaxed order, because the counters order no other memory accesses.
  std::atomic<size_t> used_bytes_{0};
  std::atomic<uint64_t> next_offset_{0};
};

// The exported extents of one machine, keyed by file. Importing memory of the same machine returns
// the exported extent itself, so that its bytes count only once against the capacity. Thread safe.
class ExportTable {
 public:
  void add(const std::shared_ptr<Extent>& extent);
  // Returns the exported extent whose file is `fd`; null if there is none.
  std::shared_ptr<Extent> find(int fd);

 private:
  using FileId = std::pair<dev_t, ino_t>;  // equal for all descriptors of a file

  Mutex mutex_;
  std::map<FileId, std::weak_ptr<Extent>> extents_ ASHLAR_GUARDED_BY(mutex_);
  // Once `extents_` reaches this size, its expired entries are removed.
  size_t sweep_threshold_ ASHLAR_GUARDED_BY(mutex_) = 64;
};

}  // namespace ashlar::sim
