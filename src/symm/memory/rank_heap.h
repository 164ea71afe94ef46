// SPDX-License-Identifier: Apache-2.0
//
// The symmetric heap of one rank, which consists of blocks. All ranks must allocate the same sizes
// in the same order. A rendezvous verifies that by the ordinal of a block and a hash of the
// allocation sequence. An allocation that only a sub-group makes specifies the group and is
// numbered separately. Thread safe.
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

inline constexpr size_t kDefaultPadBytes = 9216;  // 32 channels for 72 ranks
inline constexpr size_t kBufferAlignment = 128;
inline constexpr size_t kMaxBlockBytes = size_t{1} << 46;

// One symmetric allocation of this rank: the user's signal pad, followed by the buffer. Immutable
// except for the fields that the heap's mutex guards.
struct HeapBlock {
  // The group or pool that the block was allocated for; empty if all ranks allocate the block.
  std::string scope{};
  uint64_t ordinal = 0;        // the number in the scope, from 0
  uint64_t sequence_hash = 0;  // a hash of the allocations in the scope up to this block
  HeapBlockLayout layout{};
  std::shared_ptr<MappedMemory> memory{};  // also owned by peer tables
  uint64_t registry_id = 0;                // see Process::find_memory
  std::optional<uint64_t> persistent_id{};
  // The buffers that a pool has allocated in this block; null if no pool owns it. Also owned by the
  // pool.
  std::shared_ptr<SegmentBuffers> segment_buffers{};
  bool is_internal = false;  // the block is for a group's own use, such as its signal pads
  // False if the block was freed but is kept for its persistent id. Guarded by the heap's mutex.
  bool is_live = true;
  // The block's peer tables, keyed by the token of the group. Guarded by the heap's mutex.
  std::map<Token, std::shared_ptr<const PeerTable>> peers{};

  std::byte* buffer() const { return memory->base() + layout.buffer_offset; }
};

struct AllocationOptions {
  std::string group{};                      // becomes HeapBlock::scope
  std::optional<uint64_t> persistent_id{};  // the same id and group return the same address
  std::shared_ptr<SegmentBuffers> segment_buffers{};  // set for segments of a pool; see HeapBlock
};

class RankHeap {
 public:
  struct Options {
    size_t pad_bytes = kDefaultPadBytes;  // the size of the user's pad in each block
  };
  // An address in the buffer of a live block.
  struct BufferLocation {
    std::shared_ptr<HeapBlock> block{};
    size_t offset = 0;  // the offset of the address in the block's buffer
    // The pool's buffer that covers the address; null if no pool owns the block.
    std::shared_ptr<const PoolBuffer> pool_buffer{};
  };

  // REQUIRES: `process` and `backend` outlive this object.
  RankHeap(Process& process, Backend& backend, const Options& options)
      : process_(process), backend_(backend), options_(options) {}
  ~RankHeap() { release_multicast(Deadline::Clock::time_point::max()); }
  RankHeap(const RankHeap&) = delete;
  RankHeap& operator=(const RankHeap&) = delete;

  Process& process() const { return process_; }
  Backend& backend() const { return backend_; }

  // Allocates a block and returns its buffer, aligned to 128 bytes. Not collective. The pad of a
  // new block is zeroed. A persistent block that is allocated again keeps the contents of its pad
  // and buffer. A buffer of 0 bytes has an address of its own. Returns kInvalidArgument if the
  // persistent id is in use or was used with another size.
  Result<std::byte*> allocate(size_t bytes, const AllocationOptions& options);
  // Frees a block. Peers and handles that have mapped the block keep its memory. A persistent block
  // stays allocated for the next call with its id. Returns kInvalidArgument if `pointer` is not the
  // beginning of a live block's buffer.
  Status free(const void* pointer);
  // Finds the block, and the pool's buffer if a pool owns the block, at an address. Returns nothing
  // if no live block covers the address, or if a pool owns the block and none of the pool's buffers
  // covers the address.
  std::optional<BufferLocation> find(const void* pointer) const;
  // The number of live blocks that no pool owns.
  size_t live_count() const;

  // Returns the peer table of a block and a group, or null before their first rendezvous.
  std::shared_ptr<const PeerTable> peers_of(const HeapBlock& block, const Token& group) const;
  void add_peers(HeapBlock& block, const Token& group, std::shared_ptr<const PeerTable> peers);
  // Drops the heap's references to the peer tables of a group that has ended.
  void forget_group(const Token& group);

  // For a group that has failed: when a block is first created after the deadline, or when the heap
  // is destroyed, releases the multicast objects that `releaser` holds at that time.
  void release_multicast_after(std::shared_ptr<MulticastReleaser> releaser, Deadline deadline);

  // Allocates zeroed memory for a group's own use. The block is not part of the allocation
  // sequence.
  Result<std::shared_ptr<HeapBlock>> allocate_internal(size_t bytes, std::string scope,
                                                       uint64_t ordinal);

 private:
  // The allocations in one scope so far.
  struct Sequence {
    uint64_t count = 0;
    uint64_t hash = 0;
  };
  using PersistentKey = std::pair<std::string, uint64_t>;

  struct DeferredRelease {
    std::shared_ptr<MulticastReleaser> releaser{};  // also owned by peer tables
    Deadline until = Deadline::never();
  };

  Result<std::shared_ptr<HeapBlock>> make_block(size_t bytes, size_t pad_bytes);
  // Performs the deferred releases whose deadline is not after `now`.
  void release_multicast(Deadline::Clock::time_point now) ASHLAR_EXCLUDES(mutex_);
  Result<std::byte*> reuse_persistent_locked(HeapBlock& block, size_t bytes)
      ASHLAR_REQUIRES(mutex_);

  Process& process_;
  Backend& backend_;
  const Options options_;

  mutable Mutex mutex_;
  // Live blocks and freed persistent blocks, keyed by buffer address.
  std::map<const std::byte*, std::shared_ptr<HeapBlock>> blocks_ ASHLAR_GUARDED_BY(mutex_);
  std::map<PersistentKey, std::shared_ptr<HeapBlock>> persistent_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::string, Sequence> sequences_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<DeferredRelease> deferred_releases_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
