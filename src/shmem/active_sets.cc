// SPDX-License-Identifier: Apache-2.0
//
// The deprecated collectives over active sets: teams that are joined at their first use.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// the names and the shape of macros are OpenSHMEM's.
#include "ashlar/shmem/shmem.h"
#include "shmem/collectives.h"

using ashlar::shmem::ActiveSet;
using ashlar::shmem::guarded;
using ashlar::shmem::refuse;
using ashlar::shmem::RootGets;
using ashlar::shmem::Team;
using ashlar::shmem::World;
using ashlar::symm::ReduceOp;

namespace {

Team& at(const ActiveSet& set) { return World::get().teams().at(set); }

template <typename T>
void reduce(const ActiveSet& set, T* dest, const T* source, int count, ReduceOp op) {
  if (count < 0) refuse("nreduce is ", count, ": expected 0 or more");
  ashlar::shmem::reduce(at(set), dest, source, static_cast<size_t>(count), op);
}

}  // namespace

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long*) {
  guarded("shmem_barrier", [&] {
    World::get().quiet();
    ashlar::shmem::sync(at(ActiveSet{PE_start, logPE_stride, PE_size}));
  });
}

void shmem_sync(int PE_start, int logPE_stride, int PE_size, long*) {
  guarded("shmem_sync", [&] {
    ashlar::shmem::sync(at(ActiveSet{PE_start, logPE_stride, PE_size}));
  });
}

#define ASHLAR_SHMEM_DEFINE(BITS, BYTES)                                                          \
  void shmem_broadcast##BITS(void* dest, const void* source, size_t nelems, int PE_root,          \
                             int PE_start, int logPE_stride, int PE_size, long*) {                \
    guarded("shmem_broadcast" #BITS, [&] {                                                        \
      ashlar::shmem::broadcast(at({PE_start, logPE_stride, PE_size}),                             \
                               {dest, source, nelems, BYTES}, PE_root, RootGets::kNot);           \
    });                                                                                           \
  }                                                                                               \
  void shmem_collect##BITS(void* dest, const void* source, size_t nelems, int PE_start,           \
                           int logPE_stride, int PE_size, long*) {                                \
    guarded("shmem_collect" #BITS, [&] {                                                          \
      ashlar::shmem::collect(at({PE_start, logPE_stride, PE_size}),                               \
                             {dest, source, nelems, BYTES});                                      \
    });                                                                                           \
  }                                                                                               \
  void shmem_fcollect##BITS(void* dest, const void* source, size_t nelems, int PE_start,          \
                            int logPE_stride, int PE_size, long*) {                               \
    guarded("shmem_fcollect" #BITS, [&] {                                                         \
      ashlar::shmem::fcollect(at({PE_start, logPE_stride, PE_size}),                              \
                              {dest, source, nelems, BYTES});                                     \
    });                                                                                           \
  }                                                                                               \
  void shmem_alltoall##BITS(void* dest, const void* source, size_t nelems, int PE_start,          \
                            int logPE_stride, int PE_size, long*) {                               \
    guarded("shmem_alltoall" #BITS, [&] {                                                         \
      ashlar::shmem::alltoall(at({PE_start, logPE_stride, PE_size}),                              \
                              {dest, source, nelems, BYTES});                                     \
    });                                                                                           \
  }                                                                                               \
  void shmem_alltoalls##BITS(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,        \
                             size_t nelems, int PE_start, int logPE_stride, int PE_size, long*) { \
    guarded("shmem_alltoalls" #BITS, [&] {                                                        \
      ashlar::shmem::alltoalls(at({PE_start, logPE_stride, PE_size}),                             \
                               {dest, source, nelems, BYTES}, {dst, sst});                        \
    });                                                                                           \
  }
ASHLAR_SHMEM_DEFINE(32, 4)
ASHLAR_SHMEM_DEFINE(64, 8)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, STEP, OP)                                   \
  void shmem_##NAME##_##STEP##_to_all(T* dest, const T* source, int nreduce, int PE_start, \
                                      int logPE_stride, int PE_size, T*, long*) {          \
    guarded("shmem_" #NAME "_" #STEP "_to_all", [&] {                                      \
      reduce({PE_start, logPE_stride, PE_size}, dest, source, nreduce, ReduceOp::OP);      \
    });                                                                                    \
  }
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_STEPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_TO_ALL_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_ORDERED_STEPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ORDERED_TO_ALL_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_STEPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_TO_ALL_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
