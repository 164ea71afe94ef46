// SPDX-License-Identifier: Apache-2.0
//
// Initialization and shutdown, the symmetric heap, and access to other PEs' memory.
#include "shmem/runtime.h"

#include <sched.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "shmem/bootstrap.h"
#include "shmem/errors.h"
#include "symm/stores/shmem_exit.h"

namespace ashlar::shmem {
namespace {

using std::chrono::microseconds;

constexpr std::chrono::seconds kExitStoreTimeout{1};
constexpr std::chrono::hours kExitStatusTtl{1};
constexpr int kYieldCount = 40;
constexpr microseconds kShortSleep{50};
constexpr microseconds kLongSleep{500};

// Read by every call; written only by shmem_init and shmem_finalize.
std::atomic<Runtime*> current_runtime{nullptr};
std::unique_ptr<Runtime>& runtime_owner() {
  static std::unique_ptr<Runtime> runtime;
  return runtime;
}

symm::HeapOptions heap_options(const ShmemSettings& settings) {
  symm::HeapOptions options;
  options.machine = settings.machine;
  return options;
}

// Joins the group of all PEs. Before that, PE 0 erases the exit status that an earlier run with the
// same job name may have left. A PE of this run writes an exit status only after PE 0 has joined.
std::unique_ptr<PeGroup> join_world(const ShmemSettings& settings, symm::Heap& heap,
                                    const std::shared_ptr<symm::Store>& store,
                                    const std::shared_ptr<symm::Transport>& transport,
                                    const symm::SymmetricBuffer& memory) {
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
  return std::make_unique<PeGroup>(heap, symm::Group::join(heap, store, options), memory);
}

// These functions copy an aligned word with one atomic access, since a peer may read or write it
// concurrently.
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
bool is_aligned_word(const std::byte* word, size_t bytes) {
  return (bytes == 2 || bytes == 4 || bytes == 8) && reinterpret_cast<uintptr_t>(word) % bytes == 0;
}

void copy_to_peer(std::byte* to, const void* from, size_t bytes) {
  if (!is_aligned_word(to, bytes)) {
    std::memmove(to, from, bytes);
  } else if (bytes == 8) {
    store_word<uint64_t>(to, from);
  } else if (bytes == 4) {
    store_word<uint32_t>(to, from);
  } else {
    store_word<uint16_t>(to, from);
  }
}

void copy_from_peer(void* to, std::byte* from, size_t bytes) {
  if (!is_aligned_word(from, bytes)) {
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

Runtime* Runtime::current() { return current_runtime.load(std::memory_order_acquire); }

Runtime& Runtime::get() {
  Runtime* runtime = current();
  if (runtime == nullptr)
    throw_invalid_argument(
        "OpenSHMEM is not initialized: call shmem_init first, and nothing after shmem_finalize");
  return *runtime;
}

void Runtime::start(int thread_level) {
  if (current() != nullptr) return;
  runtime_owner() = std::make_unique<Runtime>(check(shmem_settings_of_process()), thread_level);
  current_runtime.store(runtime_owner().get(), std::memory_order_release);
}

void Runtime::finish() {
  Runtime& runtime = get();
  runtime.quiet();
  runtime.world_group().group().barrier();
  runtime.teams_.leave_all();
  runtime.world_group().group().leave(runtime.settings_.timeout);
  current_runtime.store(nullptr, std::memory_order_release);
  runtime_owner().reset();
}

Runtime::Runtime(const ShmemSettings& settings, int thread_level)
    : settings_(settings),
      thread_level_(thread_level),
      store_(check(open_store(settings_))),
      transport_(check(open_transport(settings_))),
      heap_(heap_options(settings_)),
      memory_(heap_.allocate(settings_.heap_bytes)),
      teams_(heap_, memory_, join_world(settings_, heap_, store_, transport_, memory_)),
      ranges_(settings_.heap_bytes, reinterpret_cast<uintptr_t>(memory_.data())) {}

std::optional<int> Runtime::exit_status() noexcept {
  return shmem_exit_status(*store_, settings_.job, Deadline::after(kExitStoreTimeout));
}

void Runtime::set_exit_status(int status) noexcept {
  // Best effort: if the store is unreachable, the other PEs detect that this PE has exited.
  (void)store_
      ->set(shmem_exit_key(settings_.job), text(status), kExitStatusTtl,
            Deadline::after(kExitStoreTimeout))
      .ok();
}

void* Runtime::allocate(const CollectiveCall& call, size_t bytes, size_t alignment) {
  world_group().check_same_call(call);
  if (bytes == 0) return nullptr;
  MutexLock lock(mutex_);
  const std::optional<size_t> offset = ranges_.allocate(bytes, alignment);
  return offset ? memory_.data() + *offset : nullptr;
}

void* Runtime::reallocate(void* address, size_t bytes) {
  const bool is_new = address == nullptr;
  const size_t before = is_new ? 0 : offset_of(address, 1);
  quiet();
  world_group().check_same_call({"shmem_realloc", {before, bytes, is_new ? uint64_t{1} : 0}, 2});
  const std::optional<size_t> after = is_new ? allocate_range(bytes) : resize_range(before, bytes);
  // No PE may write to another PE's new range before that PE has copied the old contents into it.
  world_group().group().barrier();
  return after ? memory_.data() + *after : nullptr;
}

std::optional<size_t> Runtime::allocate_range(size_t bytes) {
  MutexLock lock(mutex_);
  return bytes == 0 ? std::nullopt : ranges_.allocate(bytes, alignof(std::max_align_t));
}

std::optional<size_t> Runtime::resize_range(size_t before, size_t bytes) {
  MutexLock lock(mutex_);
  const std::optional<size_t> old_bytes = ranges_.requested_bytes(before);
  if (!old_bytes) {
    throw_invalid_argument(memory_.data() + before, " was not returned by shmem_malloc");
  }
  if (bytes == 0) {
    ranges_.free(before);
    return std::nullopt;
  }
  if (ranges_.resize(before, bytes)) return before;
  const std::optional<size_t> after = ranges_.allocate(bytes, alignof(std::max_align_t));
  if (!after) return std::nullopt;
  // Shrinking always succeeds in place, so the new range is the larger one and `*old_bytes` fit.
  std::memcpy(memory_.data() + *after, memory_.data() + before, *old_bytes);
  ranges_.free(before);
  return after;
}

void Runtime::free(void* address) {
  const size_t offset = address == nullptr ? SIZE_MAX : offset_of(address, 1);
  quiet();
  world_group().check_same_call({"shmem_free", {offset}});
  if (address == nullptr) return;
  MutexLock lock(mutex_);
  if (!ranges_.requested_bytes(offset)) {
    throw_invalid_argument(address, " was not returned by shmem_malloc, or was freed already");
  }
  ranges_.free(offset);
}

RemoteAddress Runtime::resolve(shmem_ctx_t context, const void* address, size_t bytes, int pe) {
  RemoteAddress target;
  if (context == SHMEM_CTX_DEFAULT) {
    target.pe = pe;
    if (pe < 0 || pe >= pe_count())
      throw_invalid_argument("PE ", pe, ": expected 0 to ", pe_count() - 1);
  } else {
    const shmem_team_t team = teams_.team_of(context);
    if (team == SHMEM_TEAM_INVALID) throw_invalid_argument("unknown context; was it destroyed?");
    target.pe = teams_.at(team).world_pe(pe);
  }
  target.offset = offset_of(address, bytes);
  std::byte* base = world_group().memory().buffer_ptrs()[static_cast<size_t>(target.pe)];
  if (base != nullptr) target.direct = base + target.offset;
  return target;
}

bool Runtime::is_symmetric(const void* address, size_t bytes) const {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  return start >= begin && start - begin <= memory_.bytes() &&
         bytes <= memory_.bytes() - (start - begin);
}

size_t Runtime::offset_of(const void* address, size_t bytes) const {
  if (bytes == 0) return 0;
  if (!is_symmetric(address, bytes)) {
    throw_invalid_argument(
        address, " (", bytes,
        " bytes) is not in the symmetric heap. Static and global variables are not symmetric; "
        "allocate it with shmem_malloc");
  }
  return static_cast<size_t>(static_cast<const std::byte*>(address) - memory_.data());
}

void Runtime::put(const RemoteAddress& to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (to.direct != nullptr) return copy_to_peer(to.direct, from, bytes);
  world_group().memory().post(to.pe, {static_cast<const std::byte*>(from), bytes},
                              static_cast<int64_t>(to.offset));
}

void Runtime::get(void* to, const RemoteAddress& from, size_t bytes) {
  if (bytes == 0) return;
  if (from.direct != nullptr) return copy_from_peer(to, from.direct, bytes);
  world_group().memory().get(from.pe, {static_cast<std::byte*>(to), bytes},
                             static_cast<int64_t>(from.offset));
}

uint64_t Runtime::fetch(const RemoteAddress& at, symm::AtomicOp op) {
  op.offset = at.offset;
  return world_group().memory().fetch(at.pe, op);
}

void Runtime::post(const RemoteAddress& at, symm::AtomicOp op) {
  op.offset = at.offset;
  world_group().memory().post(at.pe, op);
}

void Runtime::back_off(int turn) {
  if (transport_ != nullptr) transport_->progress();
  if (turn < kYieldCount) {
    ::sched_yield();
    return;
  }
  if (const Status failed = world_group().group().failure(); !failed.ok()) throw PeerError(failed);
  std::this_thread::sleep_for(turn < 4 * kYieldCount ? kShortSleep : kLongSleep);
}

void Runtime::record_lock(size_t offset) {
  MutexLock lock(mutex_);
  locks_.insert(offset);
}

bool Runtime::erase_lock(size_t offset) {
  MutexLock lock(mutex_);
  return locks_.erase(offset) > 0;
}

}  // namespace ashlar::shmem
