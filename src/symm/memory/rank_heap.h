// SPDX-License-Identifier: Apache-2.0
//
// The symmetric memory of one rank: its blocks, in the order in which they were allocated. All
// ranks are to allocate the same in the same order, which a rendezvous checks by ordinals and a
// hash of the sequence. Ranks of a sub-group that allocate for themselves say so: blocks of each
// group are counted apart. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "symm/membership/process.h"
#include "symm/memory/peer_table.h"
#include "symm/memory/segment_buffers.h"

namespace ashlar::symm {

inline constexpr size_t kDefaultPadBytes = 9216;  // 32 channels of 72 ranks
inline constexpr size_t kBufferAlignment = 128;
inline constexpr size_t kMaxBlockBytes = size_t{1} << 46;

// One symmetric allocation of this rank. Constant, but for what the arena guards.
struct HeapBlock {
  std::string scope{};         // the group it was allocated for; empty: for any
  uint64_t ordinal = 0;        // in its scope, from 0 on
  uint64_t sequence_hash = 0;  // of all allocations in its scope up to this one
  HeapBlockLayout layout{};
  std::shared_ptr<MappedMemory> memory{};  // also owned by tables of peers
  uint64_t registry_id = 0;                // to other ranks of this process
  std::optional<uint64_t> persistent_id{};
  // What a pool has carved from it; null: it is one buffer. Also owned by the pool.
  std::shared_ptr<SegmentBuffers> segment_buffers{};
  bool is_internal = false;  // memory of a group's own
  bool is_live = true;       // false: freed, and kept for its persistent id. The arena's to guard.
  std::map<Token, std::shared_ptr<const PeerTable>> peers{};  // by group; the arena's to guard

  std::byte* buffer() const { return memory->base() + layout.buffer_offset; }
};

struct AllocationOptions {
  std::string group{};                      // empty: all ranks allocate it
  std::optional<uint64_t> persistent_id{};  // the same address again for the same id and group
  std::shared_ptr<SegmentBuffers> segment_buffers{};  // it is a segment of a pool; see Block
};

class RankHeap {
 public:
  struct Options {
    size_t pad_bytes = kDefaultPadBytes;  // of each block, for the user
  };
  struct Found {
    std::shared_ptr<HeapBlock> block{};
    size_t offset = 0;  // in its buffer
    std::shared_ptr<const PoolBuffer>
        pool_buffer{};  // of a pool's segment, the buffer that was meant
  };

  // `process` outlives it, with the back end.
  RankHeap(Process& process, Backend& backend, const Options& options)
      : process_(process), backend_(backend), options_(options) {}
  ~RankHeap() { release_multicast(Deadline::Clock::time_point::max()); }
  RankHeap(const RankHeap&) = delete;
  RankHeap& operator=(const RankHeap&) = delete;

  Process& process() const { return process_; }
  Backend& backend() const { return backend_; }

  // Not collective. The buffer is aligned to 128 B; its pad is zero at first, and stays as
  // it was for a persistent id that is taken again. 0 bytes count as one.
  // kInvalidArgument: the persistent id is in use, or was used for another size.
  Result<std::byte*> allocate(size_t bytes, const AllocationOptions& options);
  // Peers that have it mapped keep it, and so do handles. Persistent ones stay for the next call.
  // kInvalidArgument: not the beginning of a block.
  Status free(const void* pointer);
  // The live block that covers the address; of a pool's segment, what is carved from it.
  std::optional<Found> find(const void* pointer) const;
  // Of blocks that are no pool's.
  size_t live_count() const;

  // The table of a block and a group; null: there was no rendezvous yet.
  std::shared_ptr<const PeerTable> peers_of(const HeapBlock& block, const Token& group) const;
  void add_peers(HeapBlock& block, const Token& group, std::shared_ptr<const PeerTable> peers);
  // The group is over: tables that only its blocks know go.
  void forget_group(const Token& group);

  // Of a group that has failed: what its keeper has, and gets, goes with the first allocation after
  // that time, or with the arena.
  void release_multicast_after(std::shared_ptr<MulticastKeeper> keeper, Deadline deadline);

  // A block that no user sees, and that is not counted: memory of a group's own.
  Result<std::shared_ptr<HeapBlock>> allocate_internal(size_t bytes, std::string scope,
                                                       uint64_t ordinal);

 private:
  struct Sequence {
    uint64_t count = 0;
    uint64_t hash = 0;
  };
  using PersistentKey = std::pair<std::string, uint64_t>;

  struct Keeping {
    std::shared_ptr<MulticastKeeper> keeper{};  // also owned by tables of peers
    Deadline until = Deadline::never();
  };

  Result<std::shared_ptr<HeapBlock>> make(size_t bytes, size_t pad_bytes);
  // What was to be kept until then, or for less.
  void release_multicast(Deadline::Clock::time_point then) ASHLAR_EXCLUDES(mutex_);
  Result<std::byte*> allocate_again(HeapBlock& block, size_t bytes) ASHLAR_REQUIRES(mutex_);

  Process& process_;
  Backend& backend_;
  const Options options_;

  mutable Mutex mutex_;
  // By the address of the buffer; live ones and kept ones.
  std::map<const std::byte*, std::shared_ptr<HeapBlock>> blocks_ ASHLAR_GUARDED_BY(mutex_);
  std::map<PersistentKey, std::shared_ptr<HeapBlock>> persistent_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::string, Sequence> sequences_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<Keeping> kept_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
