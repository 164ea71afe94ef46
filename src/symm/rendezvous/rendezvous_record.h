// SPDX-License-Identifier: Apache-2.0
//
// The record that each rank contributes to a rendezvous: which memory it passed, its allocation
// history, and how the other ranks can access the memory. Every rank reads the same records in the
// same order, so all ranks reach the same conclusions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "symm/memory/rank_heap.h"

namespace ashlar::symm {

// All fields up to `is_mapped` must be the same on all ranks, except for `block_bytes`.
struct RendezvousRecord {
  std::string scope{};
  uint64_t ordinal = 0;
  uint64_t sequence_hash = 0;
  uint64_t pad_bytes = 0;
  uint64_t buffer_offset = 0;
  uint64_t buffer_bytes = 0;
  uint64_t block_bytes = 0;
  // The fields of the PoolBuffer if a pool owns the buffer; 0 if no pool does.
  uint64_t is_pooled = 0;
  uint64_t pooled_ordinal = 0;
  uint64_t pooled_call = 0;
  uint64_t pooled_hash = 0;
  uint64_t pooled_offset = 0;
  uint64_t pooled_bytes = 0;
  // 1 if an earlier rendezvous, for another buffer of the block, has mapped the block. If so, no
  // handles are exchanged.
  uint64_t is_mapped = 0;
  uint64_t registry_id = 0;           // see Process::find_memory
  std::string key{};                  // the transport key; empty if there is none
  std::string no_multicast_reason{};  // why this rank cannot use multicast; empty if it can
  std::string fabric{};               // the fabric handle; empty if there is none
  std::string no_fabric_reason{};     // why there is no fabric handle; also empty if `is_mapped`

  static RendezvousRecord of(const HeapBlock& block, const PoolBuffer* pool_buffer);
  std::string to_bytes() const;
};

// Returns kFormat if a record is malformed.
Result<std::vector<RendezvousRecord>> parse_rendezvous_records(
    const std::string& group, std::span<const std::string> records);

// Checks that all ranks passed matching memory. The message of kInvalidArgument lists the values of
// all ranks for the first field that differs. Returns kFormat if a record is inconsistent.
Status check_rendezvous_records(const std::string& group, const std::vector<RendezvousRecord>& all);
// Whether the ranks made different calls to the pool that owns the buffers, or passed buffers from
// different calls. If so, they exchange their call logs and return the error of
// `describe_pool_divergence`.
bool have_pool_calls_diverged(const std::vector<RendezvousRecord>& all);
// Returns an error that names the first call that differs, or the buffers if the calls agree.
// `tails` are the serialized call logs of all ranks.
Status describe_pool_divergence(const std::string& group, const std::vector<RendezvousRecord>& all,
                                std::span<const std::string> tails);

}  // namespace ashlar::symm
