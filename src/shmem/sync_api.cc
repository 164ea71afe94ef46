// SPDX-License-Identifier: Apache-2.0
//
// C functions: fences, barriers, contexts and locks.
#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::RemoteAddress;
using ashlar::shmem::Runtime;
using ashlar::shmem::throw_invalid_argument;
using ashlar::symm::AtomicKind;
using ashlar::symm::SharedWords;

void shmem_fence(void) {
  c_call("shmem_fence", [] { Runtime::get().fence(); });
}
ASHLAR_SHMEM_PROFILED(shmem_fence)

void shmem_quiet(void) {
  c_call("shmem_quiet", [] { Runtime::get().quiet(); });
}
ASHLAR_SHMEM_PROFILED(shmem_quiet)

void shmem_barrier_all(void) {
  c_call("shmem_barrier_all", [] {
    Runtime::get().quiet();
    Runtime::get().world_group().group().barrier();
  });
}
ASHLAR_SHMEM_PROFILED(shmem_barrier_all)

void shmem_sync_all(void) {
  c_call("shmem_sync_all", [] { Runtime::get().world_group().group().barrier(); });
}
ASHLAR_SHMEM_PROFILED(shmem_sync_all)

int shmem_team_create_ctx(shmem_team_t team, long, shmem_ctx_t* ctx) {
  return c_call("shmem_team_create_ctx", [&] {
    *ctx = SHMEM_CTX_INVALID;
    if (Runtime::get().teams().find(team) == nullptr) return -1;
    *ctx = Runtime::get().teams().add_context(team);
    return 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_create_ctx)

int shmem_ctx_create(long options, shmem_ctx_t* ctx) {
  return pshmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx);
}
ASHLAR_SHMEM_PROFILED(shmem_ctx_create)

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team) {
  return c_call("shmem_ctx_get_team", [&] {
    *team = Runtime::get().teams().team_of(ctx);
    return *team == SHMEM_TEAM_INVALID ? -1 : 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_ctx_get_team)

void shmem_ctx_destroy(shmem_ctx_t ctx) {
  c_call("shmem_ctx_destroy", [&] {
    Runtime::get().quiet();
    Runtime::get().teams().destroy_context(ctx);
  });
}
ASHLAR_SHMEM_PROFILED(shmem_ctx_destroy)

void shmem_ctx_fence(shmem_ctx_t ctx) {
  c_call("shmem_ctx_fence", [&] {
    if (ctx != SHMEM_CTX_INVALID) Runtime::get().fence();
  });
}
ASHLAR_SHMEM_PROFILED(shmem_ctx_fence)

void shmem_ctx_quiet(shmem_ctx_t ctx) {
  c_call("shmem_ctx_quiet", [&] {
    if (ctx != SHMEM_CTX_INVALID) Runtime::get().quiet();
  });
}
ASHLAR_SHMEM_PROFILED(shmem_ctx_quiet)

void shmem_ctx_session_start(shmem_ctx_t, long, const shmem_ctx_session_config_t*, long) {}
ASHLAR_SHMEM_PROFILED(shmem_ctx_session_start)
void shmem_ctx_session_stop(shmem_ctx_t) {}
ASHLAR_SHMEM_PROFILED(shmem_ctx_session_stop)

void shmem_set_cache_inv(void) {}
ASHLAR_SHMEM_PROFILED(shmem_set_cache_inv)
void shmem_clear_cache_inv(void) {}
ASHLAR_SHMEM_PROFILED(shmem_clear_cache_inv)
void shmem_set_cache_line_inv(void*) {}
ASHLAR_SHMEM_PROFILED(shmem_set_cache_line_inv)
void shmem_clear_cache_line_inv(void*) {}
ASHLAR_SHMEM_PROFILED(shmem_clear_cache_line_inv)
void shmem_udcflush(void) {}
ASHLAR_SHMEM_PROFILED(shmem_udcflush)
void shmem_udcflush_line(void*) {}
ASHLAR_SHMEM_PROFILED(shmem_udcflush_line)

// A lock is a ticket lock. Only its word on one PE is used; the lock's offset in the symmetric
// memory determines this PE. The upper half of the word counts issued tickets, and the lower half
// served tickets. The lock is free if both counts are equal.
namespace {

static_assert(sizeof(long) == 8);
constexpr uint64_t kOneTicket = uint64_t{1} << 32;

RemoteAddress lock_address(Runtime& runtime, const long* lock) {
  const size_t offset = runtime.offset_of(lock, sizeof(*lock));
  const int home_pe =
      static_cast<int>(offset / sizeof(*lock) % static_cast<size_t>(runtime.pe_count()));
  return runtime.resolve(SHMEM_CTX_DEFAULT, lock, sizeof(*lock), home_pe);
}
uint32_t issued(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
uint32_t served(uint64_t word) { return static_cast<uint32_t>(word); }

// Waits until the ticket is served. A PE that has mapped the word only loads it, because an atomic
// operation would take the cache line from the PE that releases the lock.
void wait_for_turn(Runtime& runtime, const RemoteAddress& lock_word, uint32_t ticket) {
  if (lock_word.direct == nullptr) {
    runtime.wait_for_reply([&] { return served(runtime.fetch(lock_word, {})) == ticket; });
    return;
  }
  const auto* word = reinterpret_cast<const uint64_t*>(lock_word.direct);
  runtime.wait(
      [&] { return served(SharedWords::load(word, std::memory_order_acquire)) == ticket; });
}

}  // namespace

void shmem_set_lock(long* lock) {
  c_call("shmem_set_lock", [&] {
    Runtime& runtime = Runtime::get();
    const RemoteAddress lock_word = lock_address(runtime, lock);
    const uint32_t ticket = issued(runtime.fetch(lock_word, {.operand = kOneTicket}));
    wait_for_turn(runtime, lock_word, ticket);
    runtime.record_lock(lock_word.offset);
  });
}
ASHLAR_SHMEM_PROFILED(shmem_set_lock)

int shmem_test_lock(long* lock) {
  return c_call("shmem_test_lock", [&] {
    Runtime& runtime = Runtime::get();
    const RemoteAddress lock_word = lock_address(runtime, lock);
    const uint64_t seen = runtime.fetch(lock_word, {});
    if (issued(seen) != served(seen)) return 1;
    const uint64_t found = runtime.fetch(
        lock_word,
        {.kind = AtomicKind::kCompareAndSwap, .operand = seen + kOneTicket, .expected = seen});
    if (found != seen) return 1;
    runtime.record_lock(lock_word.offset);
    return 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_test_lock)

void shmem_clear_lock(long* lock) {
  c_call("shmem_clear_lock", [&] {
    Runtime& runtime = Runtime::get();
    const RemoteAddress lock_word = lock_address(runtime, lock);
    if (!runtime.erase_lock(lock_word.offset))
      throw_invalid_argument("this PE does not hold the lock at ", lock);
    runtime.quiet();
    // Only the holder changes the lower half, which must not overflow into the upper half.
    const bool is_full = served(runtime.fetch(lock_word, {})) == UINT32_MAX;
    runtime.fetch(lock_word, {.operand = is_full ? 1 - kOneTicket : 1});
  });
}
ASHLAR_SHMEM_PROFILED(shmem_clear_lock)
