// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one simulated device: extents within a capacity.
//
// Extents that stay in the process are ranges of one sparse memfd, given out in rising order and
// never reused, so that neighbours in time are neighbours in the file (the kernel then merges
// their mappings) and no file fragmentation exists. Releasing punches a hole. An extent that is to
// be exported has a memfd of its own instead: the kernel then counts its users across processes,
// whoever dies first. docs/design/sim_device.md says why.
//
// Thread safe. Mapping is the business of `address_space.h`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ashlar/device.h"
#include "ashlar/sim.h"

namespace ashlar::sim {

class PhysicalMemory;

// Physical memory from one create call, given back when the last owner lets go. Owners are the
// device's table of ids, every mapping of it, and whoever is just sharing it.
class Extent {
 public:
  Extent(const Extent&) = delete;
  Extent& operator=(const Extent&) = delete;
  ~Extent();

  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }               // -1 in bookkeeping
  uint64_t offset() const { return offset_; }  // of the first byte, in fd()
  const CreateOptions& exportable() const { return exportable_; }
  bool imported() const { return home_ == nullptr; }

 private:
  friend class PhysicalMemory;
  Extent() = default;

  PhysicalMemory* home_ = nullptr;  // whose capacity it uses; null when imported
  size_t bytes_ = 0;
  int fd_ = -1;
  uint64_t offset_ = 0;
  UniqueFd own_fd_;  // valid exactly when fd_ is not the home's
  CreateOptions exportable_;
};

class PhysicalMemory {
 public:
  static Result<std::unique_ptr<PhysicalMemory>> create(const Options& options);

  // kOutOfMemory: less than `bytes` is free.
  Result<std::shared_ptr<Extent>> create_extent(size_t bytes, const CreateOptions& exportable);

  // kInvalidArgument, in both: the file is not memory of a simulated device that can be written to.
  // Somebody else's extent, by its own file, which is duplicated. Uses nobody's capacity here.
  // kInvalidArgument: not of that size.
  static Result<std::shared_ptr<Extent>> import_extent(int fd, size_t bytes);
  // The same for a part of their device's file.
  static Result<std::shared_ptr<Extent>> import_part(int fd, uint64_t offset, size_t bytes);

  size_t capacity_bytes() const { return capacity_bytes_; }
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Extent;
  PhysicalMemory(size_t capacity_bytes, UniqueFd file, uint64_t file_bytes)
      : capacity_bytes_(capacity_bytes), file_(std::move(file)), file_bytes_(file_bytes) {}
  bool try_take(size_t bytes);
  Status place(Extent& extent);
  void give_back(const Extent& extent);

  const size_t capacity_bytes_;
  const UniqueFd file_;  // invalid in bookkeeping
  const uint64_t file_bytes_;
  // Relaxed throughout: the counters order nothing but themselves.
  std::atomic<size_t> used_bytes_{0};
  std::atomic<uint64_t> next_offset_{0};
};

}  // namespace ashlar::sim
