// SPDX-License-Identifier: Apache-2.0
//
// What a program of OpenSHMEM has from shmem_init to shmem_finalize: all PEs, the symmetric heap
// and who has which part of it, teams and contexts. One for each process; the functions of C, in
// the other files of this folder, ask it. Thread safe.
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
#include "shmem/meeting.h"
#include "shmem/range_allocator.h"
#include "shmem/teams.h"
#include "symm/transports/transport.h"

namespace ashlar::shmem {

class World {
 public:
  // Null: before shmem_init, or after shmem_finalize.
  static World* current();
  // Throws if there is none.
  static World& get();
  // Does nothing if there is one.
  static void start(int thread_level);
  // Collective.
  static void finish();

  explicit World(const ShmemSettings& settings, int thread_level);

  int rank() const { return settings_.rank; }
  int world_size() const { return settings_.world_size; }
  int thread_level() const { return thread_level_; }
  // False: in a child of the process that is the PE.
  bool is_here() const { return fork_guard_.in_creating_process(); }
  Teams& teams() { return teams_; }
  Meeting& everybody() { return *teams_.world().meeting(); }

  // --- the symmetric heap. Collective.
  void* allocate(const Wish& wish, size_t bytes, size_t alignment);
  void* reallocate(void* address, size_t bytes);
  void free(void* address);

  // --- reaching others
  // A place in a PE's heap.
  struct Place {
    int pe = 0;  // in the world
    size_t offset = 0;
    std::byte* direct = nullptr;  // null: on another machine
  };
  // Throws if there is no such PE of the context, or the bytes are not symmetric.
  Place place(shmem_ctx_t context, const void* address, size_t bytes, int pe);
  // As above; where `address` is in the heap.
  size_t offset_of(const void* address, size_t bytes) const;
  bool is_symmetric(const void* address, size_t bytes) const;
  void put(const Place& to, const void* from, size_t bytes);
  void get(void* to, const Place& from, size_t bytes);
  uint64_t fetch(const Place& at, symm::AtomicOp call);
  void post(const Place& at, symm::AtomicOp call);
  void fence() { everybody().memory().fence(); }
  void quiet() { everybody().memory().quiet(); }

  // Until `is_done()`, which looks at memory that others change. Throws when they cannot any more.
  template <typename IsDone>
  void wait(const IsDone& is_done) {
    for (int turn = -kSpinCount; !is_done(); ++turn) {
      if (turn >= 0) rest(turn);
    }
    catch_up();
  }

  // What came through the transport is seen by whoever looks next.
  void catch_up() {
    if (transport_ != nullptr) transport_->progress();
  }

  // Locks that this PE holds, by their offset.
  void note_lock(size_t offset) ASHLAR_EXCLUDES(mutex_);
  // False: it does not hold it.
  bool forget_lock(size_t offset) ASHLAR_EXCLUDES(mutex_);

  // --- the end of all. None: nobody has called for it.
  std::optional<int> exit_status() noexcept;
  void set_exit_status(int status) noexcept;

 private:
  static constexpr int kSpinCount = 100;

  // None: there is no room, or 0 bytes were asked for.
  std::optional<size_t> allocate_range(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  // Where its bytes are then: in the same place, if that can be. None: as above; without room it
  // stays as it was.
  std::optional<size_t> move_range(size_t before, size_t bytes) ASHLAR_EXCLUDES(mutex_);

  // One turn of waiting: lets others run, and looks whether they still do.
  void rest(int turn);

  const ForkGuard fork_guard_;
  const ShmemSettings settings_;
  const int thread_level_;
  const std::shared_ptr<symm::Store> store_;          // also owned by groups, here and below
  const std::shared_ptr<symm::Transport> transport_;  // null: all are on this machine
  symm::Heap heap_;
  const symm::Buffer memory_;
  Teams teams_;

  Mutex mutex_;
  RangeAllocator ranges_ ASHLAR_GUARDED_BY(mutex_);
  std::set<size_t> locks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::shmem
