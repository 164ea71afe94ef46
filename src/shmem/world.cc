// SPDX-License-Identifier: Apache-2.0
//
// Beginning, end, and everything that reaches other PEs.
#include "shmem/world.h"

#include <sched.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "shmem/failing.h"
#include "shmem/places.h"
#include "symm/stores/shmem_exit.h"

namespace ashlar::shmem {
namespace {

using std::chrono::microseconds;

constexpr std::chrono::seconds kExitPatience{1};
constexpr std::chrono::hours kExitLives{1};
constexpr int kYieldCount = 40;
constexpr microseconds kShortRest{50};
constexpr microseconds kLongRest{500};

// Read by every call, written by the first and the last of them.
std::atomic<World*> current_world{nullptr};
std::unique_ptr<World>& owner() {
  static std::unique_ptr<World> world;
  return world;
}

symm::HeapOptions heap_options(const ShmemSettings& settings) {
  symm::HeapOptions options;
  options.machine = settings.machine;
  return options;
}

// Rank 0 takes away what an earlier run of this name left, before the others can be told anything.
std::unique_ptr<Meeting> meet_all(const ShmemSettings& settings, symm::Heap& heap,
                                  const std::shared_ptr<symm::Store>& store,
                                  const std::shared_ptr<symm::Transport>& transport,
                                  const symm::Buffer& memory) {
  if (settings.rank == 0) {
    (void)check(store->erase(shmem_exit_key(settings.job), Deadline::of_timeout(settings.timeout)));
  }
  symm::GroupOptions options;
  options.rank = settings.rank;
  options.world_size = settings.world_size;
  options.name = "shmem";
  options.job = settings.job;
  options.channel_count = 1;
  options.measure_thresholds = false;
  options.transport = transport;
  options.timeout = settings.timeout;
  return std::make_unique<Meeting>(heap, symm::Group::join(heap, store, options), memory);
}

// A word that others may look at meanwhile is written in one step.
template <typename Word>
void store_word(std::byte* to, const void* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_relaxed);
}
template <typename Word>
void load_word(void* to, std::byte* from) {
  const Word word =
      std::atomic_ref<Word>(*reinterpret_cast<Word*>(from)).load(std::memory_order_relaxed);
  std::memcpy(to, &word, sizeof(word));
}
bool is_word(const std::byte* at, size_t bytes) {
  return (bytes == 2 || bytes == 4 || bytes == 8) && reinterpret_cast<uintptr_t>(at) % bytes == 0;
}

void copy_there(std::byte* to, const void* from, size_t bytes) {
  if (!is_word(to, bytes)) {
    std::memmove(to, from, bytes);
  } else if (bytes == 8) {
    store_word<uint64_t>(to, from);
  } else if (bytes == 4) {
    store_word<uint32_t>(to, from);
  } else {
    store_word<uint16_t>(to, from);
  }
}

void copy_here(void* to, std::byte* from, size_t bytes) {
  if (!is_word(from, bytes)) {
    std::memmove(to, from, bytes);
  } else if (bytes == 8) {
    load_word<uint64_t>(to, from);
  } else if (bytes == 4) {
    load_word<uint32_t>(to, from);
  } else {
    load_word<uint16_t>(to, from);
  }
}

}  // namespace

// --- beginning and end --------------------------------------------------------------------------

World* World::current() { return current_world.load(std::memory_order_acquire); }

World& World::get() {
  World* world = current();
  if (world == nullptr) refuse("call shmem_init before, and nothing after shmem_finalize");
  return *world;
}

void World::start(int thread_level) {
  if (current() != nullptr) return;
  owner() = std::make_unique<World>(check(shmem_settings_of_process()), thread_level);
  current_world.store(owner().get(), std::memory_order_release);
}

void World::finish() {
  World& world = get();
  world.quiet();
  world.everybody().group().barrier();
  world.teams_.leave_all();
  world.everybody().group().leave(world.settings_.timeout);
  current_world.store(nullptr, std::memory_order_release);
  owner().reset();
}

World::World(const ShmemSettings& settings, int thread_level)
    : settings_(settings),
      thread_level_(thread_level),
      store_(check(open_store(settings_))),
      transport_(check(open_transport(settings_))),
      heap_(heap_options(settings_)),
      memory_(heap_.allocate(settings_.heap_bytes)),
      teams_(heap_, memory_, meet_all(settings_, heap_, store_, transport_, memory_)),
      ranges_(settings_.heap_bytes, reinterpret_cast<uintptr_t>(memory_.data())) {}

std::optional<int> World::exit_status() noexcept {
  return shmem_exit_status(*store_, settings_.job, Deadline::after(kExitPatience));
}

void World::set_exit_status(int status) noexcept {
  // Whoever cannot be told so will notice that this PE is gone.
  (void)store_
      ->set(shmem_exit_key(settings_.job), text(status), kExitLives, Deadline::after(kExitPatience))
      .ok();
}

// --- the symmetric heap -------------------------------------------------------------------------

void* World::allocate(const Wish& wish, size_t bytes, size_t alignment) {
  everybody().agree(wish);
  if (bytes == 0) return nullptr;
  MutexLock lock(mutex_);
  const std::optional<size_t> offset = ranges_.allocate(bytes, alignment);
  return offset ? memory_.data() + *offset : nullptr;
}

void* World::reallocate(void* address, size_t bytes) {
  const bool is_new = address == nullptr;
  const size_t before = is_new ? 0 : offset_of(address, 1);
  quiet();
  everybody().agree({"shmem_realloc", {before, bytes, is_new ? uint64_t{1} : 0}, 2});
  const std::optional<size_t> after = is_new ? allocate_range(bytes) : move_range(before, bytes);
  // Nobody writes there before all have copied.
  everybody().group().barrier();
  return after ? memory_.data() + *after : nullptr;
}

std::optional<size_t> World::allocate_range(size_t bytes) {
  MutexLock lock(mutex_);
  return bytes == 0 ? std::nullopt : ranges_.allocate(bytes, alignof(std::max_align_t));
}

std::optional<size_t> World::move_range(size_t before, size_t bytes) {
  MutexLock lock(mutex_);
  const std::optional<size_t> old_bytes = ranges_.bytes_at(before);
  if (!old_bytes) {
    refuse(memory_.data() + before, " is not the beginning of what shmem_malloc returned");
  }
  if (bytes == 0) {
    ranges_.free(before);
    return std::nullopt;
  }
  if (ranges_.resize(before, bytes)) return before;
  const std::optional<size_t> after = ranges_.allocate(bytes, alignof(std::max_align_t));
  if (!after) return std::nullopt;
  // Only what grows has to go elsewhere.
  std::memcpy(memory_.data() + *after, memory_.data() + before, *old_bytes);
  ranges_.free(before);
  return after;
}

void World::free(void* address) {
  const size_t offset = address == nullptr ? SIZE_MAX : offset_of(address, 1);
  quiet();
  everybody().agree({"shmem_free", {offset}});
  if (address == nullptr) return;
  MutexLock lock(mutex_);
  if (!ranges_.bytes_at(offset)) {
    refuse(address, " is not the beginning of what shmem_malloc returned, or was freed already");
  }
  ranges_.free(offset);
}

// --- reaching others ----------------------------------------------------------------------------

World::Place World::place(shmem_ctx_t context, const void* address, size_t bytes, int pe) {
  Place place;
  if (context == SHMEM_CTX_DEFAULT) {
    place.pe = pe;
    if (pe < 0 || pe >= world_size()) refuse("PE ", pe, ": expected 0 to ", world_size() - 1);
  } else {
    const shmem_team_t team = teams_.team_of(context);
    if (team == SHMEM_TEAM_INVALID) refuse("there is no such context: was it destroyed?");
    place.pe = teams_.at(team).world_pe(pe);
  }
  place.offset = offset_of(address, bytes);
  std::byte* base = everybody().memory().buffer_ptrs()[static_cast<size_t>(place.pe)];
  if (base != nullptr) place.direct = base + place.offset;
  return place;
}

bool World::is_symmetric(const void* address, size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  return at >= begin && at - begin <= memory_.bytes() && bytes <= memory_.bytes() - (at - begin);
}

size_t World::offset_of(const void* address, size_t bytes) const {
  if (bytes == 0) return 0;
  if (!is_symmetric(address, bytes)) {
    refuse(address, " (", bytes,
           " bytes) is not in the symmetric heap; static and global variables are not symmetric "
           "here: allocate it with shmem_malloc");
  }
  return static_cast<size_t>(static_cast<const std::byte*>(address) - memory_.data());
}

void World::put(const Place& to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (to.direct != nullptr) return copy_there(to.direct, from, bytes);
  everybody().memory().post(to.pe, {static_cast<const std::byte*>(from), bytes},
                            static_cast<int64_t>(to.offset));
}

void World::get(void* to, const Place& from, size_t bytes) {
  if (bytes == 0) return;
  if (from.direct != nullptr) return copy_here(to, from.direct, bytes);
  everybody().memory().get(from.pe, {static_cast<std::byte*>(to), bytes},
                           static_cast<int64_t>(from.offset));
}

uint64_t World::fetch(const Place& at, symm::AtomicOp call) {
  call.offset = at.offset;
  return everybody().memory().fetch(at.pe, call);
}

void World::post(const Place& at, symm::AtomicOp call) {
  call.offset = at.offset;
  everybody().memory().post(at.pe, call);
}

void World::rest(int turn) {
  if (transport_ != nullptr) transport_->progress();
  if (turn < kYieldCount) {
    ::sched_yield();
    return;
  }
  if (const Status failed = everybody().group().failure(); !failed.ok()) throw PeerError(failed);
  std::this_thread::sleep_for(turn < 4 * kYieldCount ? kShortRest : kLongRest);
}

void World::note_lock(size_t offset) {
  MutexLock lock(mutex_);
  locks_.insert(offset);
}

bool World::forget_lock(size_t offset) {
  MutexLock lock(mutex_);
  return locks_.erase(offset) > 0;
}

}  // namespace ashlar::shmem
