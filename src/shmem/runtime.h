// SPDX-License-Identifier: Apache-2.0
//
// The OpenSHMEM runtime of this process, from shmem_init to shmem_finalize: the PEs, the symmetric
// heap, teams, contexts and locks. The C functions in *_api.cc are thin wrappers around Runtime.
// Thread safe, except that collective calls must not run concurrently.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ashlar/shmem/shmem_types.h"
#include "ashlar/store.h"
#include "ashlar/symmetric.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "config/shmem_settings.h"
#include "shmem/pe_group.h"
#include "shmem/range_allocator.h"
#include "shmem/teams.h"
#include "symm/transports/transport.h"

namespace ashlar::shmem {

// A location in the symmetric heap of one PE.
struct RemoteAddress {
  int pe = 0;                   // numbered as in SHMEM_TEAM_WORLD
  size_t offset = 0;            // the offset from the beginning of the heap
  std::byte* direct = nullptr;  // null if the PE's heap is not mapped here
};

class Runtime {
 public:
  // Returns null before shmem_init and after shmem_finalize.
  static Runtime* current();
  // Throws if `current()` is null.
  static Runtime& get();
  // Initializes the runtime. Collective. Does nothing if the runtime is already initialized.
  static void start(int thread_level);
  // Shuts the runtime down. Collective.
  static void finish();

  explicit Runtime(const ShmemSettings& settings, int thread_level);

  int my_pe() const { return settings_.rank; }
  int pe_count() const { return settings_.world_size; }
  int thread_level() const { return thread_level_; }
  // Returns false in a child that this PE forked, which must not use the runtime.
  bool in_owner_process() const { return fork_guard_.in_creating_process(); }
  Teams& teams() { return teams_; }
  PeGroup& world_group() { return *teams_.world().pe_group(); }

  // Allocate, resize and free symmetric memory. Collective over all PEs. Return null for 0 bytes
  // and when the heap is exhausted. Throw if the PEs' calls or arguments differ.
  void* allocate(const CollectiveCall& call, size_t bytes, size_t alignment);
  void* reallocate(void* address, size_t bytes);
  void free(void* address);

  // Translates `address` of this PE's heap to PE `pe` of the context's team. Throws if the context
  // or the PE does not exist, or if the range is not inside the symmetric heap.
  RemoteAddress resolve(shmem_ctx_t context, const void* address, size_t bytes, int pe);
  // Returns the offset of a range in the heap; 0 for an empty range. Throws if the range is not
  // inside the heap.
  size_t offset_of(const void* address, size_t bytes) const;
  bool is_symmetric(const void* address, size_t bytes) const;
  void put(const RemoteAddress& to, const void* from, size_t bytes);
  void get(void* to, const RemoteAddress& from, size_t bytes);
  // Perform an atomic operation. `fetch` returns the old value; `post` is complete after the next
  // `quiet`.
  uint64_t fetch(const RemoteAddress& at, symm::AtomicOp op);
  void post(const RemoteAddress& at, symm::AtomicOp op);
  void fence() { world_group().memory().fence(); }
  void quiet() { world_group().memory().quiet(); }

  // Waits until `is_done()`, which reads memory that other PEs write, returns true. Throws
  // PeerError if a PE has failed and the wait is long enough to sleep (see back_off).
  template <typename IsDone>
  void wait(const IsDone& is_done) {
    for (int turn = -kSpinCount; !is_done(); ++turn) {
      if (turn >= 0) back_off(turn);
    }
    progress();
  }

  // Makes writes that the transport has received visible to later loads.
  void progress() {
    if (transport_ != nullptr) transport_->progress();
  }

  // Track the locks that this PE holds, identified by heap offset. `erase_lock` returns false if
  // this PE does not hold the lock.
  void record_lock(size_t offset) ASHLAR_EXCLUDES(mutex_);
  bool erase_lock(size_t offset) ASHLAR_EXCLUDES(mutex_);

  // Get and set the exit status of the job, which PEs share through the store. `exit_status`
  // returns nothing if no PE has terminated the job, or if the store cannot be read.
  std::optional<int> exit_status() noexcept;
  void set_exit_status(int status) noexcept;

 private:
  static constexpr int kSpinCount = 100;

  // Allocates a range and returns its offset. Returns nothing for 0 bytes and when the heap is
  // exhausted.
  std::optional<size_t> allocate_range(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  // Resizes a range, in place if possible, and returns its new offset. For 0 bytes, frees the range
  // and returns nothing. If the heap is exhausted, returns nothing and leaves the range unchanged.
  std::optional<size_t> resize_range(size_t before, size_t bytes) ASHLAR_EXCLUDES(mutex_);

  // Called by `wait` between two attempts, once it no longer spins. Yields or, in later turns,
  // sleeps. Before sleeping, throws PeerError if a PE has failed.
  void back_off(int turn);

  const ForkGuard fork_guard_;
  const ShmemSettings settings_;
  const int thread_level_;
  const std::shared_ptr<symm::Store> store_;          // shared with the groups
  const std::shared_ptr<symm::Transport> transport_;  // null if the settings select none
  symm::Heap heap_;
  const symm::SymmetricBuffer memory_;  // the symmetric heap
  Teams teams_;

  Mutex mutex_;
  RangeAllocator ranges_ ASHLAR_GUARDED_BY(mutex_);
  std::set<size_t> locks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::shmem
