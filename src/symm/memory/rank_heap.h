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
#include "symm/memory/carvings.h"
#include "symm/memory/peers.h"

namespace ashlar::symm {

inline constexpr size_t kDefaultPadBytes = 9216;  // 32 channels of 72 ranks
inline constexpr size_t kFrontAlignment = 128;
inline constexpr size_t kMostBlockBytes = size_t{1} << 46;

// One symmetric allocation of this rank. Constant, but for what the arena guards.
struct Block {
  std::string scope{};         // the group it was allocated for; empty: for any
  uint64_t ordinal = 0;        // in its scope, from 0 on
  uint64_t sequence_hash = 0;  // of all allocations in its scope up to this one
  BlockLayout layout{};
  std::shared_ptr<Memory> memory{};  // also owned by tables of peers
  uint64_t lent_as = 0;              // to other ranks of this process
  std::optional<uint64_t> persistent_id{};
  // What a pool has carved from it; null: it is one buffer. Also owned by the pool.
  std::shared_ptr<Carvings> carvings{};
  bool is_hidden = false;  // memory of a group's own
  bool is_live = true;     // false: freed, and kept for its persistent id. The arena's to guard.
  std::map<Token, std::shared_ptr<const Peers>> peers{};  // by group; the arena's to guard

  std::byte* buffer() const { return memory->base() + layout.front_bytes; }
};

struct AllocationOptions {
  std::string group{};                      // empty: all ranks allocate it
  std::optional<uint64_t> persistent_id{};  // the same address again for the same id and group
  std::shared_ptr<Carvings> carvings{};     // it is a segment of a pool; see Block
};

class Arena {
 public:
  struct Options {
    size_t pad_bytes = kDefaultPadBytes;  // of each block, for the user
  };
  struct Found {
    std::shared_ptr<Block> block{};
    size_t offset = 0;                         // in its buffer
    std::shared_ptr<const Carving> carving{};  // of a pool's segment, the buffer that was meant
  };

  // `process` outlives it, with the back end.
  Arena(Process& process, Backend& backend, const Options& options)
      : process_(process), backend_(backend), options_(options) {}
  ~Arena() { let_go_of_multicast(Deadline::Clock::time_point::max()); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

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
  std::shared_ptr<const Peers> peers_of(const Block& block, const Token& group) const;
  void keep_peers(Block& block, const Token& group, std::shared_ptr<const Peers> peers);
  // The group is over: tables that only its blocks know go.
  void forget_group(const Token& group);

  // Of a group that has failed: what its keeper has, and gets, goes with the first allocation after
  // that time, or with the arena.
  void let_go_later(std::shared_ptr<MulticastKeeper> keeper, Deadline deadline);

  // A block that no user sees, and that is not counted: memory of a group's own.
  Result<std::shared_ptr<Block>> make_hidden(size_t bytes, std::string scope, uint64_t ordinal);

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

  Result<std::shared_ptr<Block>> make(size_t bytes, size_t pad_bytes);
  // What was to be kept until then, or for less.
  void let_go_of_multicast(Deadline::Clock::time_point then) ASHLAR_EXCLUDES(mutex_);
  Result<std::byte*> allocate_again(Block& block, size_t bytes) ASHLAR_REQUIRES(mutex_);

  Process& process_;
  Backend& backend_;
  const Options options_;

  mutable Mutex mutex_;
  // By the address of the buffer; live ones and kept ones.
  std::map<const std::byte*, std::shared_ptr<Block>> blocks_ ASHLAR_GUARDED_BY(mutex_);
  std::map<PersistentKey, std::shared_ptr<Block>> persistent_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::string, Sequence> sequences_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<Keeping> kept_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
