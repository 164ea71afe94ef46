// SPDX-License-Identifier: Apache-2.0
//
// The buffers that a pool has allocated in one of its segments. Finds the buffer that covers an
// offset, and records which groups have completed a rendezvous for a buffer. Owned by the segment's
// heap block and by the pool. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "base/mutex.h"
#include "symm/channel/channel.h"
#include "symm/memory/pool_call_log.h"

namespace ashlar::symm {

// One buffer of a pool. The same on all ranks that made the same calls.
struct PoolBuffer {
  uint64_t ordinal = 0;        // number among the pool's allocations
  uint64_t call = 0;           // the number of the call that allocated the buffer
  uint64_t sequence_hash = 0;  // the hash of the pool's calls up to and including that call
  uint64_t segment = 0;        // the number of the segment
  size_t offset = 0;           // the offset in the segment's buffer
  size_t bytes = 0;            // the requested size
};

class SegmentBuffers {
 public:
  explicit SegmentBuffers(std::shared_ptr<const PoolCallLog> log) : log_(std::move(log)) {}

  const PoolCallLog& log() const { return *log_; }

  void add(const PoolBuffer& pool_buffer) ASHLAR_EXCLUDES(mutex_);
  // REQUIRES: a buffer begins at `offset`.
  void remove(size_t offset) ASHLAR_EXCLUDES(mutex_);
  // Returns the buffer that covers the offset, or null. A buffer of 0 bytes is treated as 1 byte.
  std::shared_ptr<const PoolBuffer> find(size_t offset) const ASHLAR_EXCLUDES(mutex_);

  // Whether the group has completed a rendezvous for the buffer, which verifies that all ranks made
  // the same calls up to its allocation.
  bool has_rendezvous(const PoolBuffer& pool_buffer, const Token& group) const
      ASHLAR_EXCLUDES(mutex_);
  void mark_rendezvous(const PoolBuffer& pool_buffer, const Token& group) ASHLAR_EXCLUDES(mutex_);
  // Drops the records of a group that has ended.
  void forget_group(const Token& group) ASHLAR_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<const PoolBuffer> pool_buffer{};  // also owned by a rendezvous in progress
    // The tokens of the groups that have completed a rendezvous for the buffer.
    std::set<Token> groups{};
  };

  const std::shared_ptr<const PoolCallLog> log_;  // also owned by the pool and its other segments

  mutable Mutex mutex_;
  std::map<size_t, Entry> entries_ ASHLAR_GUARDED_BY(mutex_);  // keyed by offset
};

}  // namespace ashlar::symm
