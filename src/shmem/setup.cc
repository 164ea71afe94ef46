// SPDX-License-Identifier: Apache-2.0
//
// Beginning, end, who is who, and what can be reached.
#include <stdlib.h>

#include <cstring>

#include "ashlar/shmem/shmem.h"
#include "shmem/failing.h"
#include "shmem/world.h"

using ashlar::shmem::end_all;
using ashlar::shmem::guarded;
using ashlar::shmem::refuse;
using ashlar::shmem::World;

namespace {

// A program that leaves main has finalized; one that fails cannot wait for the others. A child that
// it has forked off is no PE.
void at_exit(int status, void*) {
  const World* world = World::current();
  if (world == nullptr || !world->is_here()) return;
  if (status != 0) end_all(status);
  shmem_finalize();
}

void start(const char* call, int thread_level) {
  guarded(call, [&] {
    if (thread_level < SHMEM_THREAD_SINGLE || thread_level > SHMEM_THREAD_MULTIPLE) {
      refuse("thread level ", thread_level, ": expected SHMEM_THREAD_SINGLE to ..._MULTIPLE");
    }
    if (World::current() != nullptr) return;
    World::start(thread_level);
    ::on_exit(at_exit, nullptr);
  });
}

}  // namespace

void shmem_init(void) { start("shmem_init", SHMEM_THREAD_SINGLE); }

int shmem_init_thread(int requested, int* provided) {
  start("shmem_init_thread", requested);
  shmem_query_thread(provided);
  return 0;
}

void shmem_query_thread(int* provided) {
  guarded("shmem_query_thread", [&] { *provided = World::get().thread_level(); });
}

void shmem_finalize(void) {
  guarded("shmem_finalize", [] { World::finish(); });
}

void shmem_global_exit(int status) { end_all(status); }

int shmem_my_pe(void) {
  return guarded("shmem_my_pe", [] { return World::get().rank(); });
}

int shmem_n_pes(void) {
  return guarded("shmem_n_pes", [] { return World::get().world_size(); });
}

void shmem_info_get_version(int* major, int* minor) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char* name) {
  static_assert(sizeof(SHMEM_VENDOR_STRING) <= SHMEM_MAX_NAME_LEN);
  std::memcpy(name, SHMEM_VENDOR_STRING, sizeof(SHMEM_VENDOR_STRING));
}

void* shmem_ptr(const void* dest, int pe) {
  return guarded("shmem_ptr", [&]() -> void* {
    World& world = World::get();
    if (!world.is_symmetric(dest, 1)) return nullptr;
    return world.place(SHMEM_CTX_DEFAULT, dest, 1, pe).direct;
  });
}

int shmem_pe_accessible(int pe) {
  return guarded("shmem_pe_accessible",
                 [&] { return pe >= 0 && pe < World::get().world_size() ? 1 : 0; });
}

int shmem_addr_accessible(const void* addr, int pe) {
  return guarded("shmem_addr_accessible", [&] {
    return shmem_pe_accessible(pe) != 0 && World::get().is_symmetric(addr, 1) ? 1 : 0;
  });
}

void shmem_pcontrol(int, ...) {}

void start_pes(int) { start("start_pes", SHMEM_THREAD_SINGLE); }
int _my_pe(void) { return shmem_my_pe(); }
int _num_pes(void) { return shmem_n_pes(); }
