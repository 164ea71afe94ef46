// SPDX-License-Identifier: Apache-2.0
//
// The expandable segments of a classic engine: finds address space for a request, maps memory into
// it, and unmaps free granules. Guarded by the engine's lock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ashlar/stats.h"
#include "engine/classic/block_heap.h"
#include "engine/classic/expandable_segment.h"
#include "engine/classic/memory_limit.h"
#include "engine/classic/reserve_policy.h"

namespace ashlar::classic {

class ExpandableSegments {
 public:
  // All references outlive the object.
  struct Parts {
    Device& device;
    const AllocatorOptions& options;
    const SizePolicy& sizes;
    const MemoryLimit& limit;
    BlockHeap& heap;
    StatsRecorder& stats;
    Tracer& tracer;
  };
  explicit ExpandableSegments(const Parts& parts);

  ReservePolicy& reserve_policy() { return reserve_policy_; }
  const ReservePolicy& reserve_policy() const { return reserve_policy_; }
  std::vector<ExpandableSegmentStats> usage() const;

  // Maps memory until some block has params.block_bytes, and returns it free and in no index.
  // kOutOfMemory: no memory, above the limit, or larger than a segment.
  Result<ClassicBlock*> grow(const AllocParams& params);
  // Unmaps `granules` of a free block. The remaining ends of the block stay free. `deferred_error`
  // receives the error if the device keeps the memory for now. REQUIRES: no queued work uses the
  // memory, and `granules` came from granules_inside.
  Status unmap(ClassicBlock* block, AddressRange granules, Status& deferred_error);
  // Destroys the segments of a pool that have nothing mapped. If the device keeps the addresses,
  // the segment stays, and the error goes to `deferred_error`.
  void destroy_empty(FreePool& pool, Status& deferred_error);

  // Devices that may access the memory; initially the engine's own.
  Status add_accessor(DeviceIndex accessor);
  bool is_accessor(DeviceIndex device) const;

  // A hint for the out-of-memory message if the request fits the device but not the address space
  // that its stream reserves; else empty.
  std::string reserve_hint(const AllocParams& params) const;

 private:
  Result<ClassicBlock*> find_room(const AllocParams& params);
  Result<ClassicBlock*> create_segment(const AllocParams& params);
  Status map_front(ClassicBlock* block, size_t bytes);
  size_t granule_bytes(bool is_small) const;

  const Parts parts_;
  ReservePolicy reserve_policy_;
  std::vector<DeviceIndex> accessors_;  // the segments refer to it
  std::vector<std::unique_ptr<ExpandableSegment>> segments_;
};

// The error for exceeding the memory limit.
Status limit_exceeded();

}  // namespace ashlar::classic
