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
  // The objects that this class uses. They outlive it.
  struct Dependencies {
    Device& device;
    const AllocatorOptions& options;
    const SizePolicy& sizes;
    const MemoryLimit& limit;
    BlockHeap& heap;
    StatsRecorder& stats;
    Tracer& tracer;
  };
  explicit ExpandableSegments(const Dependencies& deps);

  // Returns the policy's granule size, rounded up to the device's mapping granularity.
  size_t granule_bytes(bool is_small) const;
  ReservePolicy& reserve_policy() { return reserve_policy_; }
  const ReservePolicy& reserve_policy() const { return reserve_policy_; }
  std::vector<ExpandableSegmentStats> usage() const;

  // Maps memory until there is a free block of at least params.block_bytes, removes the block from
  // its index and returns it. kOutOfMemory: the device has no memory left, the request exceeds the
  // limit, or the request is larger than an expandable segment.
  Result<ClassicBlock*> grow(const AllocParams& params);
  // Creates a segment with memory mapped at several offsets, for replays. Returns the mapped
  // blocks, which are free and in no index. On failure, memory mapped so far stays in the pool.
  // REQUIRES: offsets and sizes are multiples of the granule, and the parts are sorted, not
  // adjacent and inside the address space that a segment reserves.
  struct MappedPart {
    size_t offset = 0;
    size_t bytes = 0;
  };
  Result<std::vector<ClassicBlock*>> create_mapped(const AllocParams& params,
                                                   const std::vector<MappedPart>& parts);
  // Unmaps `granules` of a free block. The remaining ends of the block stay free. If the device
  // fails to release the memory, `deferred_error` receives the error, and a later call retries.
  // REQUIRES: no queued work uses the memory, and `granules` came from granules_inside.
  Status unmap(ClassicBlock* block, AddressRange granules, Status& deferred_error);
  // Destroys the segments of a pool that have no mapped memory. If the device fails to free the
  // addresses, the segment stays, and `deferred_error` receives the error.
  void destroy_empty(FreePool& pool, Status& deferred_error);

  // Grants another device access to all present and future segments. Initially only the engine's
  // own device has access.
  Status add_accessor(DeviceIndex accessor);
  bool is_accessor(DeviceIndex device) const;

  // Returns a hint for the out-of-memory message if the request fits the device but not the address
  // space that an expandable segment of its stream reserves; otherwise an empty string.
  std::string reserve_hint(const AllocParams& params) const;

 private:
  Result<ClassicBlock*> find_or_create_room(const AllocParams& params);
  Result<ClassicBlock*> create_segment(const AllocParams& params);
  Status map_front(ClassicBlock* block, size_t bytes);
  ClassicBlock* split_unmapped(ClassicBlock* block, DeviceAddress at);

  const Dependencies deps_;
  ReservePolicy reserve_policy_;
  std::vector<DeviceIndex> accessors_;  // the segments refer to this vector
  std::vector<std::unique_ptr<ExpandableSegment>> segments_;
};

// Returns the error for exceeding the memory limit.
Status limit_exceeded_error();

}  // namespace ashlar::classic
