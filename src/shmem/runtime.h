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
#include "shmem/program_data.h"
#include "shmem/range_allocator.h"
#include "shmem/symmetric_memory.h"
#include "shmem/teams.h"
#include "symm/core/shared_words.h"
#include "symm/transports/transport.h"

namespace ashlar::shmem {

// A location in the symmetric memory of one PE.
struct RemoteAddress {
  int pe = 0;                   // numbered as in SHMEM_TEAM_WORLD
  size_t offset = 0;            // the offset from the beginning of the symmetric memory
  std::byte* direct = nullptr;  // null if the PE's memory is not mapped here
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

  // Allocate, resize and free symmetric memory. Collective over all PEs. `reallocate` allocates if
  // `address` is null, and frees if `bytes` is 0. Three calls are not collective and do nothing: to
  // allocate 0 bytes, to reallocate null to 0 bytes, and to free null. Return null when nothing is
  // allocated, or when the heap is exhausted or does not permit the alignment. Throw if the PEs'
  // calls or arguments differ.
  void* allocate(const CollectiveCall& call, size_t bytes, size_t alignment);
  void* reallocate(void* address, size_t bytes);
  void free(void* address);

  // Translates `address` of this PE's symmetric memory to PE `pe` of the context's team. Throws if
  // the context or the PE does not exist, or if the range is not symmetric.
  RemoteAddress resolve(shmem_ctx_t context, const void* address, size_t bytes, int pe);
  // Returns the offset of a range in the symmetric memory; 0 for an empty range. Throws if the
  // range is not symmetric.
  size_t offset_of(const void* address, size_t bytes) const;
  // Translates a symmetric range from its address in the program to its address in the buffer of
  // ashlar::symm. Returns `address` for an empty range. Throws if the range is not symmetric.
  std::byte* buffer_address(const void* address, size_t bytes) const;
  bool is_symmetric(const void* address, size_t bytes) const {
    return memory_.offset_of(address, bytes).has_value();
  }
  void put(const RemoteAddress& to, const void* from, size_t bytes);
  void get(void* to, const RemoteAddress& from, size_t bytes);
  // Perform an atomic operation. `fetch` returns the old value; `post` is complete after the next
  // `quiet`.
  uint64_t fetch(const RemoteAddress& at, symm::AtomicOp op);
  void post(const RemoteAddress& at, symm::AtomicOp op);
  void fence() { world_group().memory().fence(); }
  void quiet() { world_group().memory().quiet(); }

  // Waits until `is_done()`, which reads memory that other PEs write, returns true. Throws
  // PeerError if a PE has failed, which is checked only after the wait has spun and yielded (see
  // back_off).
  template <typename IsDone>
  void wait(const IsDone& is_done) {
    wait_after_spins(is_done, spin_count_);
  }
  // As `wait`, without spinning, for an `is_done` that sends a request to another machine.
  template <typename IsDone>
  void wait_for_reply(const IsDone& is_done) {
    wait_after_spins(is_done, 0);
  }

  // Makes writes that the transport has received visible to later loads.
  void progress() {
    if (transport_ != nullptr) transport_->progress();
  }

  // Track the locks that this PE holds, identified by their offset in the symmetric memory.
  // `erase_lock` returns false if this PE does not hold the lock.
  void record_lock(size_t offset) ASHLAR_EXCLUDES(mutex_);
  bool erase_lock(size_t offset) ASHLAR_EXCLUDES(mutex_);

  // Get and set the exit status of the job, which PEs share through the store. `exit_status`
  // returns nothing if no PE has terminated the job, or if the store cannot be read.
  std::optional<int> exit_status() noexcept;
  void set_exit_status(int status) noexcept;

 private:
  // The numbers of spins of a wait. The first 100 spins omit the pause instruction, which can take
  // longer than the transfer of a cache line. PEs that have a core each spin 600 times, for about
  // 20 us, which is longer than most exchanges of small messages. PEs that share cores spin only
  // the first 100 times, because spinning delays the PE that is waited for.
  static constexpr int kSpinsWithoutPause = 100;
  static constexpr int kSpinCountWithOwnCore = 600;

  template <typename IsDone>
  void wait_after_spins(const IsDone& is_done, int spin_count) {
    for (int turn = -spin_count; !is_done(); ++turn) {
      if (turn >= 0) {
        back_off(turn);
      } else if (turn >= kSpinsWithoutPause - spin_count) {
        symm::SharedWords::pause();
      }
    }
    progress();
  }

  // Prints the version, the variables and a debug line, as far as the settings enable them.
  void print_start_information() const;
  // Compares the PEs' programs. If the data of one PE is not symmetric or has another layout,
  // disables access to the static data of all PEs.
  void agree_on_program_data();
  // Sets the alignment of the heap to the minimum over all PEs, so that all PEs reject the same
  // alignments.
  void agree_on_heap_alignment();
  // Returns whether the PEs on this machine can have a core each. Collective.
  bool has_core_for_each_pe();
  // Returns the offset of an address in the heap. Throws if it is not in the heap.
  size_t heap_offset_of(const void* address) const;
  // Allocates a range and returns its offset. Returns nothing when the heap is exhausted.
  std::optional<size_t> allocate_range(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  // Resizes a range, in place if possible, and returns its new offset. For 0 bytes, frees the range
  // and returns nothing. If the heap is exhausted, returns nothing and leaves the range unchanged.
  std::optional<size_t> resize_range(size_t before, size_t bytes) ASHLAR_EXCLUDES(mutex_);

  // Called by `wait` between two attempts, once it no longer spins: yields in early turns, and
  // sleeps in later ones. Throws PeerError if a PE has failed, which some early turns and all later
  // turns check.
  void back_off(int turn);

  const ForkGuard fork_guard_;
  const ShmemSettings settings_;
  const int thread_level_;
  ProgramData program_data_;  // before all members that start threads
  symm::Heap heap_;
  SymmetricMemory memory_;
  const std::shared_ptr<symm::Store> store_;          // shared with the groups
  const std::shared_ptr<symm::Transport> transport_;  // null if the settings select none
  Teams teams_;
  int spin_count_ = kSpinsWithoutPause;

  Mutex mutex_;
  RangeAllocator ranges_ ASHLAR_GUARDED_BY(mutex_);
  std::set<size_t> locks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::shmem
