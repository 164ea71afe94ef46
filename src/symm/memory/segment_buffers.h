// SPDX-License-Identifier: Apache-2.0
//
// The buffers that a pool has carved from one of its segments, for whoever has an address and wants
// to know whose it is; and which of them the ranks of a group have met for. Owned by the segment's
// block and by the pool. Thread safe.
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

// One buffer of a pool. The same on all ranks, if they did the same.
struct PoolBuffer {
  uint64_t ordinal = 0;        // among the pool's allocations
  uint64_t call = 0;           // the number of the act that made it
  uint64_t sequence_hash = 0;  // of that act and all before
  uint64_t segment = 0;
  size_t offset = 0;  // in the segment's buffer
  size_t bytes = 0;   // as they were asked for
};

class SegmentBuffers {
 public:
  explicit SegmentBuffers(std::shared_ptr<const PoolCallLog> log) : log_(std::move(log)) {}

  const PoolCallLog& log() const { return *log_; }

  void add(const PoolBuffer& pool_buffer) ASHLAR_EXCLUDES(mutex_);
  // REQUIRES: one begins there.
  void remove(size_t offset) ASHLAR_EXCLUDES(mutex_);
  // The one that covers the offset. Null: that is free. One of 0 bytes has one.
  std::shared_ptr<const PoolBuffer> find(size_t offset) const ASHLAR_EXCLUDES(mutex_);

  // Whether the group's ranks have compared what they did up to this carving, and were at one.
  bool has_rendezvous(const PoolBuffer& pool_buffer, const Token& group) const
      ASHLAR_EXCLUDES(mutex_);
  void mark_rendezvous(const PoolBuffer& pool_buffer, const Token& group) ASHLAR_EXCLUDES(mutex_);
  void forget_group(const Token& group) ASHLAR_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<const PoolBuffer> pool_buffer{};  // also owned by whoever is meeting for it
    std::set<Token> met{};
  };

  const std::shared_ptr<const PoolCallLog> log_;  // the pool's, also owned by its other segments

  mutable Mutex mutex_;
  std::map<size_t, Entry> entries_ ASHLAR_GUARDED_BY(mutex_);  // by offset
};

}  // namespace ashlar::symm
