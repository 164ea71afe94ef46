// SPDX-License-Identifier: Apache-2.0
//
// Fences, barriers, contexts, locks.
#include "ashlar/shmem/shmem.h"
#include "shmem/failing.h"
#include "shmem/world.h"

using ashlar::shmem::guarded;
using ashlar::shmem::refuse;
using ashlar::shmem::World;
using ashlar::symm::AtomicKind;

void shmem_fence(void) {
  guarded("shmem_fence", [] { World::get().fence(); });
}

void shmem_quiet(void) {
  guarded("shmem_quiet", [] { World::get().quiet(); });
}

void shmem_barrier_all(void) {
  guarded("shmem_barrier_all", [] {
    World::get().quiet();
    World::get().everybody().group().barrier();
  });
}

void shmem_sync_all(void) {
  guarded("shmem_sync_all", [] { World::get().everybody().group().barrier(); });
}

// --- contexts -----------------------------------------------------------------------------------

int shmem_team_create_ctx(shmem_team_t team, long, shmem_ctx_t* ctx) {
  return guarded("shmem_team_create_ctx", [&] {
    *ctx = SHMEM_CTX_INVALID;
    if (World::get().teams().find(team) == nullptr) return -1;
    *ctx = World::get().teams().add_context(team);
    return 0;
  });
}

int shmem_ctx_create(long options, shmem_ctx_t* ctx) {
  return shmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team) {
  return guarded("shmem_ctx_get_team", [&] {
    *team = World::get().teams().team_of(ctx);
    return *team == SHMEM_TEAM_INVALID ? -1 : 0;
  });
}

void shmem_ctx_destroy(shmem_ctx_t ctx) {
  guarded("shmem_ctx_destroy", [&] {
    World::get().quiet();
    World::get().teams().destroy_context(ctx);
  });
}

void shmem_ctx_fence(shmem_ctx_t ctx) {
  guarded("shmem_ctx_fence", [&] {
    if (ctx != SHMEM_CTX_INVALID) World::get().fence();
  });
}

void shmem_ctx_quiet(shmem_ctx_t ctx) {
  guarded("shmem_ctx_quiet", [&] {
    if (ctx != SHMEM_CTX_INVALID) World::get().quiet();
  });
}

// --- locks --------------------------------------------------------------------------------------

// A word of one PE, which its place chooses: the upper half counts who came, the lower who left.
// Free: both are the same. Whoever comes gets the number of those before him.
namespace {

static_assert(sizeof(long) == 8);
constexpr uint64_t kOneCame = uint64_t{1} << 32;

World::Place offset_in_buffer(World& world, const long* lock) {
  const size_t offset = world.offset_of(lock, sizeof(*lock));
  const int keeper =
      static_cast<int>(offset / sizeof(*lock) % static_cast<size_t>(world.world_size()));
  return world.place(SHMEM_CTX_DEFAULT, lock, sizeof(*lock), keeper);
}
uint32_t came(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
uint32_t left(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace

void shmem_set_lock(long* lock) {
  guarded("shmem_set_lock", [&] {
    World& world = World::get();
    const World::Place at = offset_in_buffer(world, lock);
    const uint32_t own = came(world.fetch(at, {.operand = kOneCame}));
    world.wait([&] { return left(world.fetch(at, {})) == own; });
    world.note_lock(at.offset);
  });
}

int shmem_test_lock(long* lock) {
  return guarded("shmem_test_lock", [&] {
    World& world = World::get();
    const World::Place at = offset_in_buffer(world, lock);
    const uint64_t seen = world.fetch(at, {});
    if (came(seen) != left(seen)) return 1;
    const uint64_t found = world.fetch(
        at, {.kind = AtomicKind::kCompareAndSwap, .operand = seen + kOneCame, .expected = seen});
    if (found != seen) return 1;
    world.note_lock(at.offset);
    return 0;
  });
}

void shmem_clear_lock(long* lock) {
  guarded("shmem_clear_lock", [&] {
    World& world = World::get();
    const World::Place at = offset_in_buffer(world, lock);
    if (!world.forget_lock(at.offset)) refuse("this PE does not hold the lock at ", lock);
    world.quiet();
    // Only its holder changes the lower half, which must not overflow into the upper one.
    const bool is_full = left(world.fetch(at, {})) == UINT32_MAX;
    world.fetch(at, {.operand = is_full ? 1 - kOneCame : 1});
  });
}
