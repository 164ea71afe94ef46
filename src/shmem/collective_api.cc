// SPDX-License-Identifier: Apache-2.0
//
// C functions: collectives over teams.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.
#include "shmem/collectives.h"
#include "shmem/profiling.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;
using ashlar::shmem::ScanKind;
using ashlar::shmem::Team;
using ashlar::shmem::TypedTransfer;
using ashlar::symm::ReduceOp;

namespace {

Team& team_for(shmem_team_t team) { return Runtime::get().teams().at(team); }

}  // namespace

#define ASHLAR_SHMEM_DEFINE_TRANSFERS(PREFIX, SUFFIX, T, BYTES)                            \
  int shmem_##PREFIX##broadcast##SUFFIX(shmem_team_t team, T* dest, const T* source,       \
                                        size_t nelems, int pe_root) {                      \
    return c_call("shmem_" #PREFIX "broadcast" #SUFFIX, [&] {                              \
      ashlar::shmem::broadcast(team_for(team), {dest, source, nelems, BYTES}, pe_root,     \
                               ashlar::shmem::RootDest::kWritten);                         \
      return 0;                                                                            \
    });                                                                                    \
  }                                                                                        \
  ASHLAR_SHMEM_PROFILED(shmem_##PREFIX##broadcast##SUFFIX)                                 \
  int shmem_##PREFIX##collect##SUFFIX(shmem_team_t team, T* dest, const T* source,         \
                                      size_t nelems) {                                     \
    return c_call("shmem_" #PREFIX "collect" #SUFFIX, [&] {                                \
      ashlar::shmem::collect(team_for(team), {dest, source, nelems, BYTES});               \
      return 0;                                                                            \
    });                                                                                    \
  }                                                                                        \
  ASHLAR_SHMEM_PROFILED(shmem_##PREFIX##collect##SUFFIX)                                   \
  int shmem_##PREFIX##fcollect##SUFFIX(shmem_team_t team, T* dest, const T* source,        \
                                       size_t nelems) {                                    \
    return c_call("shmem_" #PREFIX "fcollect" #SUFFIX, [&] {                               \
      ashlar::shmem::fcollect(team_for(team), {dest, source, nelems, BYTES});              \
      return 0;                                                                            \
    });                                                                                    \
  }                                                                                        \
  ASHLAR_SHMEM_PROFILED(shmem_##PREFIX##fcollect##SUFFIX)                                  \
  int shmem_##PREFIX##alltoall##SUFFIX(shmem_team_t team, T* dest, const T* source,        \
                                       size_t nelems) {                                    \
    return c_call("shmem_" #PREFIX "alltoall" #SUFFIX, [&] {                               \
      ashlar::shmem::alltoall(team_for(team), {dest, source, nelems, BYTES});              \
      return 0;                                                                            \
    });                                                                                    \
  }                                                                                        \
  ASHLAR_SHMEM_PROFILED(shmem_##PREFIX##alltoall##SUFFIX)                                  \
  int shmem_##PREFIX##alltoalls##SUFFIX(shmem_team_t team, T* dest, const T* source,       \
                                        ptrdiff_t dst, ptrdiff_t sst, size_t nelems) {     \
    return c_call("shmem_" #PREFIX "alltoalls" #SUFFIX, [&] {                              \
      ashlar::shmem::alltoalls(team_for(team), {dest, source, nelems, BYTES}, {dst, sst}); \
      return 0;                                                                            \
    });                                                                                    \
  }                                                                                        \
  ASHLAR_SHMEM_PROFILED(shmem_##PREFIX##alltoalls##SUFFIX)
#define ASHLAR_SHMEM_DEFINE(NAME, T) ASHLAR_SHMEM_DEFINE_TRANSFERS(NAME##_, , T, sizeof(T))
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
ASHLAR_SHMEM_DEFINE_TRANSFERS(, mem, void, 1)

#define ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, OPNAME, OP)                          \
  int shmem_##NAME##_##OPNAME##_reduce(shmem_team_t team, T* dest, const T* source, \
                                       size_t nreduce) {                            \
    return c_call("shmem_" #NAME "_" #OPNAME "_reduce", [&] {                       \
      ashlar::shmem::reduce(team_for(team), dest, source, nreduce, ReduceOp::OP);   \
      return 0;                                                                     \
    });                                                                             \
  }                                                                                 \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_##OPNAME##_reduce)
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_OPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_REDUCE_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_MIN_MAX_OPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_MIN_MAX_REDUCE_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_OPS(ASHLAR_SHMEM_DEFINE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#undef ASHLAR_SHMEM_DEFINE_REDUCTION

#define ASHLAR_SHMEM_DEFINE_SCAN(NAME, T, KIND)                                          \
  int shmem_##NAME(shmem_team_t team, T* dest, const T* source, size_t nelems) {         \
    return c_call("shmem_" #NAME, [&] {                                                  \
      ashlar::shmem::scan(team_for(team), TypedTransfer<T>{dest, source, nelems}, KIND); \
      return 0;                                                                          \
    });                                                                                  \
  }                                                                                      \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME)
#define ASHLAR_SHMEM_DEFINE(NAME, T)                                   \
  ASHLAR_SHMEM_DEFINE_SCAN(NAME##_sum_inscan, T, ScanKind::kInclusive) \
  ASHLAR_SHMEM_DEFINE_SCAN(NAME##_sum_exscan, T, ScanKind::kExclusive)
ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
#undef ASHLAR_SHMEM_DEFINE_SCAN
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
