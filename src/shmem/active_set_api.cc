// SPDX-License-Identifier: Apache-2.0
//
// C functions: the deprecated collectives over active sets, which are teams joined on first use.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.
#include "shmem/collectives.h"
#include "shmem/profiling.h"

using ashlar::shmem::ActiveSet;
using ashlar::shmem::c_call;
using ashlar::shmem::RootDest;
using ashlar::shmem::Runtime;
using ashlar::shmem::Team;
using ashlar::shmem::throw_invalid_argument;
using ashlar::symm::ReduceOp;

namespace {

Team& team_for(const ActiveSet& set) { return Runtime::get().teams().at(set); }

template <typename T>
void reduce(const ActiveSet& set, T* dest, const T* source, int count, ReduceOp op) {
  if (count < 0) throw_invalid_argument("nreduce is ", count, ": expected 0 or more");
  ashlar::shmem::reduce(team_for(set), dest, source, static_cast<size_t>(count), op);
}

}  // namespace

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long*) {
  c_call("shmem_barrier", [&] {
    Runtime::get().quiet();
    ashlar::shmem::sync(team_for(ActiveSet{PE_start, logPE_stride, PE_size}));
  });
}
ASHLAR_SHMEM_PROFILED(shmem_barrier)

void shmem_sync(int PE_start, int logPE_stride, int PE_size, long*) {
  c_call("shmem_sync", [&] {
    ashlar::shmem::sync(team_for(ActiveSet{PE_start, logPE_stride, PE_size}));
  });
}
ASHLAR_SHMEM_PROFILED(shmem_sync)

#define ASHLAR_SHMEM_DEFINE(BITS, BYTES)                                                          \
  void shmem_broadcast##BITS(void* dest, const void* source, size_t nelems, int PE_root,          \
                             int PE_start, int logPE_stride, int PE_size, long*) {                \
    c_call("shmem_broadcast" #BITS, [&] {                                                         \
      ashlar::shmem::broadcast(team_for({PE_start, logPE_stride, PE_size}),                       \
                               {dest, source, nelems, BYTES}, PE_root, RootDest::kUntouched);     \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_broadcast##BITS)                                                    \
  void shmem_collect##BITS(void* dest, const void* source, size_t nelems, int PE_start,           \
                           int logPE_stride, int PE_size, long*) {                                \
    c_call("shmem_collect" #BITS, [&] {                                                           \
      ashlar::shmem::collect(team_for({PE_start, logPE_stride, PE_size}),                         \
                             {dest, source, nelems, BYTES});                                      \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_collect##BITS)                                                      \
  void shmem_fcollect##BITS(void* dest, const void* source, size_t nelems, int PE_start,          \
                            int logPE_stride, int PE_size, long*) {                               \
    c_call("shmem_fcollect" #BITS, [&] {                                                          \
      ashlar::shmem::fcollect(team_for({PE_start, logPE_stride, PE_size}),                        \
                              {dest, source, nelems, BYTES});                                     \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_fcollect##BITS)                                                     \
  void shmem_alltoall##BITS(void* dest, const void* source, size_t nelems, int PE_start,          \
                            int logPE_stride, int PE_size, long*) {                               \
    c_call("shmem_alltoall" #BITS, [&] {                                                          \
      ashlar::shmem::alltoall(team_for({PE_start, logPE_stride, PE_size}),                        \
                              {dest, source, nelems, BYTES});                                     \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_alltoall##BITS)                                                     \
  void shmem_alltoalls##BITS(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,        \
                             size_t nelems, int PE_start, int logPE_stride, int PE_size, long*) { \
    c_call("shmem_alltoalls" #BITS, [&] {                                                         \
      ashlar::shmem::alltoalls(team_for({PE_start, logPE_stride, PE_size}),                       \
                               {dest, source, nelems, BYTES}, {dst, sst});                        \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_alltoalls##BITS)
ASHLAR_SHMEM_DEFINE(32, 4)
ASHLAR_SHMEM_DEFINE(64, 8)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, OPNAME, OP)                                   \
  void shmem_##NAME##_##OPNAME##_to_all(T* dest, const T* source, int nreduce, int PE_start, \
                                        int logPE_stride, int PE_size, T*, long*) {          \
    c_call("shmem_" #NAME "_" #OPNAME "_to_all", [&] {                                       \
      reduce({PE_start, logPE_stride, PE_size}, dest, source, nreduce, ReduceOp::OP);        \
    });                                                                                      \
  }                                                                                          \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_##OPNAME##_to_all)
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_OPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_TO_ALL_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_MIN_MAX_OPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_MIN_MAX_TO_ALL_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_OPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_TO_ALL_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#undef ASHLAR_SHMEM_DEFINE_REDUCTION
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
