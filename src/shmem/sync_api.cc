// SPDX-License-Identifier: Apache-2.0
//
// C functions: fences, barriers, contexts and locks.
#include "ashlar/shmem/shmem.h"
#include "shmem/errors.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::RemoteAddress;
using ashlar::shmem::Runtime;
using ashlar::shmem::throw_invalid_argument;
using ashlar::symm::AtomicKind;

void shmem_fence(void) {
  c_call("shmem_fence", [] { Runtime::get().fence(); });
}

void shmem_quiet(void) {
  c_call("shmem_quiet", [] { Runtime::get().quiet(); });
}

void shmem_barrier_all(void) {
  c_call("shmem_barrier_all", [] {
    Runtime::get().quiet();
    Runtime::get().world_group().group().barrier();
  });
}

void shmem_sync_all(void) {
  c_call("shmem_sync_all", [] { Runtime::get().world_group().group().barrier(); });
}

int shmem_team_create_ctx(shmem_team_t team, long, shmem_ctx_t* ctx) {
  return c_call("shmem_team_create_ctx", [&] {
    *ctx = SHMEM_CTX_INVALID;
    if (Runtime::get().teams().find(team) == nullptr) return -1;
    *ctx = Runtime::get().teams().add_context(team);
    return 0;
  });
}

int shmem_ctx_create(long options, shmem_ctx_t* ctx) {
  return shmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team) {
  return c_call("shmem_ctx_get_team", [&] {
    *team = Runtime::get().teams().team_of(ctx);
    return *team == SHMEM_TEAM_INVALID ? -1 : 0;
  });
}

void shmem_ctx_destroy(shmem_ctx_t ctx) {
  c_call("shmem_ctx_destroy", [&] {
    Runtime::get().quiet();
    Runtime::get().teams().destroy_context(ctx);
  });
}

void shmem_ctx_fence(shmem_ctx_t ctx) {
  c_call("shmem_ctx_fence", [&] {
    if (ctx != SHMEM_CTX_INVALID) Runtime::get().fence();
  });
}

void shmem_ctx_quiet(shmem_ctx_t ctx) {
  c_call("shmem_ctx_quiet", [&] {
    if (ctx != SHMEM_CTX_INVALID) Runtime::get().quiet();
  });
}

// A lock is a ticket lock in one word of one PE, which the lock's heap offset determines. The upper
// half counts issued tickets, and the lower half served tickets; the lock is free if both are
// equal.
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

}  // namespace

void shmem_set_lock(long* lock) {
  c_call("shmem_set_lock", [&] {
    Runtime& runtime = Runtime::get();
    const RemoteAddress lock_word = lock_address(runtime, lock);
    const uint32_t ticket = issued(runtime.fetch(lock_word, {.operand = kOneTicket}));
    runtime.wait([&] { return served(runtime.fetch(lock_word, {})) == ticket; });
    runtime.record_lock(lock_word.offset);
  });
}

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
