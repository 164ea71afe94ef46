// SPDX-License-Identifier: Apache-2.0
//
// Initialization and shutdown, the symmetric heap, and access to other PEs' memory.
#include "shmem/runtime.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "ashlar/version.h"
#include "shmem/bootstrap.h"
#include "shmem/core_assignment.h"
#include "shmem/errors.h"
#include "symm/stores/shmem_exit.h"

namespace ashlar::shmem {
namespace {

using std::chrono::microseconds;

constexpr std::chrono::seconds kExitStoreTimeout{1};
constexpr std::chrono::hours kExitStatusTtl{1};
constexpr int kYieldCount = 200;
constexpr int kYieldsPerFailureCheck = 50;
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
  symm::Group group = symm::Group::join(heap, store, options);
  try {
    return std::make_unique<PeGroup>(heap, std::move(group), memory);
  } catch (const InvalidArgument& error) {
    throw_invalid_argument(error.status().message(),
                           "; PEs must set SHMEM_SYMMETRIC_SIZE to the same value, and their "
                           "programs must have static data of similar sizes");
  }
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
  current()->print_start_information();
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
      heap_(heap_options(settings_)),
      memory_(heap_, settings_.heap_bytes, program_data_),
      store_(check(open_store(settings_))),
      transport_(check(open_transport(settings_))),
      teams_(heap_, memory_.buffer(),
             join_world(settings_, heap_, store_, transport_, memory_.buffer())),
      ranges_(settings_.heap_bytes) {
  agree_on_program_data();
  agree_on_heap_alignment();
  if (has_core_for_each_pe()) spin_count_ = kSpinCountWithOwnCore;
}

bool Runtime::has_core_for_each_pe() {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof(own), &own) != 0) CPU_ZERO(&own);
  const auto* all =
      reinterpret_cast<const cpu_set_t*>(world_group().gather_bytes(&own, sizeof(own)));
  std::vector<cpu_set_t> affinities;
  for (const int pe : teams_.at(SHMEM_TEAM_SHARED).pes()) affinities.push_back(all[pe]);
  return affinities.size() <= core_limit_of_container() && can_assign_cores(std::move(affinities));
}

void Runtime::agree_on_program_data() {
  constexpr uint64_t kStateBits = 8;
  const uint64_t own =
      program_data_.layout_hash() << kStateBits | static_cast<uint64_t>(program_data_.state());
  const std::vector<uint64_t> all = world_group().gather("shmem_init", own);
  for (size_t pe = 0; pe < all.size(); ++pe) {
    const auto state = static_cast<ProgramDataState>(all[pe] & ((1U << kStateBits) - 1));
    if (state != ProgramDataState::kSymmetric) {
      memory_.set_program_data_error(text("on PE ", pe, ", ", reason(state)));
      return;
    }
    if (all[pe] != all[0]) {
      memory_.set_program_data_error(text("PE ", pe, " runs another program than PE 0"));
      return;
    }
  }
}

void Runtime::agree_on_heap_alignment() {
  memory_.set_heap_alignment(
      std::ranges::min(world_group().gather("shmem_init", memory_.heap_alignment())));
}

void Runtime::print_start_information() const {
  if (my_pe() == 0 && settings_.prints_version) {
    print_information(text(SHMEM_VENDOR_STRING, " ", ASHLAR_VERSION_STRING, ", OpenSHMEM ",
                           SHMEM_MAJOR_VERSION, '.', SHMEM_MINOR_VERSION, '\n'));
  }
  if (my_pe() == 0 && settings_.prints_info) print_information(shmem_variables_text());
  if (!settings_.prints_debug) return;
  const std::string& error = memory_.program_data_error();
  print_debug_line(text("PE ", my_pe(), " of ", pe_count(), ", process ", ::getpid(),
                        ": symmetric heap of ", settings_.heap_bytes, " bytes, static data of ",
                        program_data_.bytes(), " bytes",
                        error.empty() ? "" : ", which is not symmetric because ", error));
}

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
  if (bytes == 0) return nullptr;
  quiet();
  world_group().check_same_call(call);
  if (alignment > memory_.heap_alignment()) return nullptr;
  MutexLock lock(mutex_);
  const std::optional<size_t> offset = ranges_.allocate(bytes, alignment);
  return offset ? memory_.heap() + *offset : nullptr;
}

size_t Runtime::heap_offset_of(const void* address) const {
  if (!memory_.is_in_heap(address, 1)) {
    throw_invalid_argument(address, " is not in the symmetric heap");
  }
  return static_cast<size_t>(static_cast<const std::byte*>(address) - memory_.heap());
}

void* Runtime::reallocate(void* address, size_t bytes) {
  const bool is_new = address == nullptr;
  if (is_new && bytes == 0) return nullptr;
  const size_t before = is_new ? 0 : heap_offset_of(address);
  quiet();
  world_group().check_same_call({"shmem_realloc", {before, bytes, is_new ? uint64_t{1} : 0}, 2});
  const std::optional<size_t> after = is_new ? allocate_range(bytes) : resize_range(before, bytes);
  // No PE may write to another PE's new range before that PE has copied the old contents into it.
  world_group().group().barrier();
  return after ? memory_.heap() + *after : nullptr;
}

std::optional<size_t> Runtime::allocate_range(size_t bytes) {
  MutexLock lock(mutex_);
  return ranges_.allocate(bytes, alignof(std::max_align_t));
}

std::optional<size_t> Runtime::resize_range(size_t before, size_t bytes) {
  MutexLock lock(mutex_);
  const std::optional<size_t> old_bytes = ranges_.requested_bytes(before);
  if (!old_bytes) {
    throw_invalid_argument(memory_.heap() + before, " was not returned by shmem_malloc");
  }
  if (bytes == 0) {
    ranges_.free(before);
    return std::nullopt;
  }
  if (ranges_.resize(before, bytes)) return before;
  const std::optional<size_t> after = ranges_.allocate(bytes, alignof(std::max_align_t));
  if (!after) return std::nullopt;
  // Shrinking always succeeds in place, so the new range is larger and holds `*old_bytes`.
  std::memcpy(memory_.heap() + *after, memory_.heap() + before, *old_bytes);
  ranges_.free(before);
  return after;
}

void Runtime::free(void* address) {
  if (address == nullptr) return;
  const size_t offset = heap_offset_of(address);
  quiet();
  world_group().check_same_call({"shmem_free", {offset}});
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

size_t Runtime::offset_of(const void* address, size_t bytes) const {
  if (bytes == 0) return 0;
  if (const std::optional<size_t> offset = memory_.offset_of(address, bytes)) return *offset;
  const std::string& error = memory_.program_data_error();
  throw_invalid_argument(
      address, " (", bytes, " bytes) is not symmetric: it is not memory from shmem_malloc",
      error.empty() ? " or a global or static variable of the program"
                    : text(". Static variables are not symmetric, because ", error));
}

std::byte* Runtime::buffer_address(const void* address, size_t bytes) const {
  if (bytes == 0) return static_cast<std::byte*>(const_cast<void*>(address));
  return memory_.buffer().data() + offset_of(address, bytes);
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
  if (turn < kYieldCount && turn % kYieldsPerFailureCheck != kYieldsPerFailureCheck - 1) {
    ::sched_yield();
    return;
  }
  if (const Status failed = world_group().group().failure(); !failed.ok()) throw PeerError(failed);
  if (turn < kYieldCount) return;
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
