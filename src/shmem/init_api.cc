// SPDX-License-Identifier: Apache-2.0
//
// C functions: initialization, exit, and queries.
#include <stdlib.h>

#include <cstring>

#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;
using ashlar::shmem::terminate_job;
using ashlar::shmem::throw_invalid_argument;

namespace {

// Finalizes the runtime when the program returns 0 from main or calls exit(0). Any other status
// terminates the job, since a failing PE cannot wait for the other PEs. Does nothing in a forked
// child, which is not a PE.
void at_exit(int status, void*) {
  const Runtime* runtime = Runtime::current();
  if (runtime == nullptr || !runtime->in_owner_process()) return;
  if (status != 0) terminate_job(status);
  pshmem_finalize();
}

void start(const char* call, int thread_level) {
  c_call(call, [&] {
    if (thread_level < SHMEM_THREAD_SINGLE || thread_level > SHMEM_THREAD_MULTIPLE) {
      throw_invalid_argument("thread level ", thread_level,
                             ": expected SHMEM_THREAD_SINGLE to ..._MULTIPLE");
    }
    if (Runtime::current() != nullptr) return;
    Runtime::start(thread_level);
    ::on_exit(at_exit, nullptr);
  });
}

}  // namespace

void shmem_init(void) { start("shmem_init", SHMEM_THREAD_SINGLE); }
ASHLAR_SHMEM_PROFILED(shmem_init)

int shmem_init_thread(int requested, int* provided) {
  start("shmem_init_thread", requested);
  pshmem_query_thread(provided);
  return 0;
}
ASHLAR_SHMEM_PROFILED(shmem_init_thread)

void shmem_query_thread(int* provided) {
  c_call("shmem_query_thread", [&] { *provided = Runtime::get().thread_level(); });
}
ASHLAR_SHMEM_PROFILED(shmem_query_thread)

// A second call does nothing.
void shmem_finalize(void) {
  c_call("shmem_finalize", [] {
    if (Runtime::current() != nullptr) Runtime::finish();
  });
}
ASHLAR_SHMEM_PROFILED(shmem_finalize)

void shmem_global_exit(int status) { terminate_job(status); }
ASHLAR_SHMEM_PROFILED(shmem_global_exit)

int shmem_my_pe(void) {
  return c_call("shmem_my_pe", [] { return Runtime::get().my_pe(); });
}
ASHLAR_SHMEM_PROFILED(shmem_my_pe)

int shmem_n_pes(void) {
  return c_call("shmem_n_pes", [] { return Runtime::get().pe_count(); });
}
ASHLAR_SHMEM_PROFILED(shmem_n_pes)

void shmem_info_get_version(int* major, int* minor) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}
ASHLAR_SHMEM_PROFILED(shmem_info_get_version)

void shmem_info_get_name(char* name) {
  static_assert(sizeof(SHMEM_VENDOR_STRING) <= SHMEM_MAX_NAME_LEN);
  std::memcpy(name, SHMEM_VENDOR_STRING, sizeof(SHMEM_VENDOR_STRING));
}
ASHLAR_SHMEM_PROFILED(shmem_info_get_name)

void* shmem_ptr(const void* dest, int pe) {
  return c_call("shmem_ptr", [&]() -> void* {
    Runtime& runtime = Runtime::get();
    if (!runtime.is_symmetric(dest, 1)) return nullptr;
    if (pe == runtime.my_pe()) return const_cast<void*>(dest);
    return runtime.resolve(SHMEM_CTX_DEFAULT, dest, 1, pe).direct;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_ptr)

int shmem_pe_accessible(int pe) {
  return c_call("shmem_pe_accessible",
                [&] { return pe >= 0 && pe < Runtime::get().pe_count() ? 1 : 0; });
}
ASHLAR_SHMEM_PROFILED(shmem_pe_accessible)

int shmem_addr_accessible(const void* addr, int pe) {
  return c_call("shmem_addr_accessible", [&] {
    return pshmem_pe_accessible(pe) != 0 && Runtime::get().is_symmetric(addr, 1) ? 1 : 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_addr_accessible)

void shmem_pcontrol(int, ...) {}
ASHLAR_SHMEM_PROFILED(shmem_pcontrol)

void start_pes(int) { start("start_pes", SHMEM_THREAD_SINGLE); }
ASHLAR_SHMEM_PROFILED(start_pes)
int _my_pe(void) { return pshmem_my_pe(); }
ASHLAR_SHMEM_PROFILED(_my_pe)
int _num_pes(void) { return pshmem_n_pes(); }
ASHLAR_SHMEM_PROFILED(_num_pes)
