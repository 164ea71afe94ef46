// SPDX-License-Identifier: Apache-2.0
//
// What a rank brings to a rendezvous: which memory it means, after which allocations, and how the
// others get at it. Every rank reads the same records in the same order, and so finds the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "symm/memory/rank_heap.h"

namespace ashlar::symm {

// The same on all ranks, but for the last five.
struct RendezvousRecord {
  std::string scope{};
  uint64_t ordinal = 0;
  uint64_t sequence_hash = 0;
  uint64_t pad_bytes = 0;
  uint64_t buffer_offset = 0;
  uint64_t buffer_bytes = 0;
  uint64_t block_bytes = 0;
  // Of a buffer that a pool has carved from the block; all 0 otherwise.
  uint64_t is_pooled = 0;
  uint64_t pooled_ordinal = 0;
  uint64_t pooled_call = 0;
  uint64_t pooled_hash = 0;
  uint64_t pooled_offset = 0;
  uint64_t pooled_bytes = 0;
  uint64_t is_mapped = 0;  // the block is, for another of its carvings: nothing is handed over
  uint64_t registry_id = 0;
  std::string key{};        // for ranks on other machines; empty: there are none
  std::string multicast{};  // why this rank can have none; empty: it can
  std::string fabric{};     // the memory's fabric handle; empty: there is none,
  std::string no_fabric{};  // and why

  static RendezvousRecord of(const HeapBlock& block, const PoolBuffer* pool_buffer);
  std::string to_bytes() const;
};

// kFormat: a record is unreadable.
Result<std::vector<RendezvousRecord>> parse_rendezvous_records(
    const std::string& group, std::span<const std::string> records);

// Whether the ranks mean the same. kInvalidArgument lists every rank's value of the first that
// differs; kFormat: one makes no sense.
Status check_rendezvous_records(const std::string& group, const std::vector<RendezvousRecord>& all);
// Whether ranks that use one pool have done different things with it: they had better say what.
bool have_pool_calls_diverged(const std::vector<RendezvousRecord>& all);
// That they have, by the tails of their logs.
Status describe_pool_divergence(const std::string& group, const std::vector<RendezvousRecord>& all,
                                std::span<const std::string> tails);

}  // namespace ashlar::symm
