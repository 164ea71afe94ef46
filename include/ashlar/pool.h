// SPDX-License-Identifier: Apache-2.0
//
// What a pool of an allocator can be given: a source of segments of its own, a tag, and rules.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ashlar/status.h"
#include "ashlar/types.h"

namespace ashlar {

// Where a pool's segments come from instead of the device: memory registered with a network card,
// symmetric memory, a user's own allocator. Called with no lock held, from any thread; must not
// throw.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  // kOutOfMemory lets the allocator give something back and ask again.
  virtual Result<DeviceAddress> allocate(size_t bytes, StreamId stream) = 0;
  virtual void free(DeviceAddress address, size_t bytes) = 0;
};

struct PoolOptions {
  // Null: the device. Shared with the pool's blocks, which may outlive the caller's interest.
  std::shared_ptr<SegmentSource> source{};
  bool use_on_oom = false;  // its cached blocks may serve the default pool when nothing else does
  bool no_split = false;    // one block per segment
  // An address keeps the memory that it first had, for registrations that are made once: with
  // networks, with other devices. Costs memory where sizes vary.
  bool never_remap = false;
  // What Allocator::pause and resume call it by, with others of the same tag; empty: none. Not with
  // never_remap.
  std::string tag{};
};

// Which allocations go to a pool, asked by stream. Called while the allocator is locked: it may
// look at the device and at the calling thread, and must neither call the allocator nor throw.
using RouteFilter = std::function<bool(StreamId stream)>;

}  // namespace ashlar
