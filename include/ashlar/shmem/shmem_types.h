// SPDX-License-Identifier: Apache-2.0
//
// Constants, handles, and the tables of types that the typed functions are generated from.
// Included by shmem.h.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <complex>
typedef std::complex<float> ashlar_shmem_complexf;
typedef std::complex<double> ashlar_shmem_complexd;
// The types of C, which compilers also offer in C++.
__extension__ typedef float _Complex ashlar_shmem_c_complexf;
__extension__ typedef double _Complex ashlar_shmem_c_complexd;
#define ASHLAR_SHMEM_HANDLE(T, NUMBER) reinterpret_cast<T>(static_cast<uintptr_t>(NUMBER))
#else
#include <complex.h>
typedef float _Complex ashlar_shmem_complexf;
typedef double _Complex ashlar_shmem_complexd;
#define ASHLAR_SHMEM_HANDLE(T, NUMBER) ((T)(uintptr_t)(NUMBER))
#endif

// Declares a function and the name under which profiling tools call it: a tool may define NAME, and
// pNAME remains the function of the library.
#ifndef ASHLAR_SHMEM_WEAK
#define ASHLAR_SHMEM_WEAK
#endif
#define ASHLAR_SHMEM_API __attribute__((visibility("default")))
#define ASHLAR_SHMEM_FUNCTION(RESULT, NAME, PARAMETERS)      \
  ASHLAR_SHMEM_API ASHLAR_SHMEM_WEAK RESULT NAME PARAMETERS; \
  ASHLAR_SHMEM_API RESULT p##NAME PARAMETERS;

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_VENDOR_STRING "Ashlar"
#define SHMEM_MAX_NAME_LEN 64

// Handles are keys of a table, so that stale handles are detected.
typedef struct ashlar_shmem_team* shmem_team_t;
typedef struct ashlar_shmem_context* shmem_ctx_t;

#define SHMEM_TEAM_INVALID ASHLAR_SHMEM_HANDLE(shmem_team_t, 0)
#define SHMEM_TEAM_WORLD ASHLAR_SHMEM_HANDLE(shmem_team_t, 1)
#define SHMEM_TEAM_SHARED ASHLAR_SHMEM_HANDLE(shmem_team_t, 2)
#define SHMEM_CTX_INVALID ASHLAR_SHMEM_HANDLE(shmem_ctx_t, 0)
#define SHMEM_CTX_DEFAULT ASHLAR_SHMEM_HANDLE(shmem_ctx_t, 1)

typedef struct {
  int num_contexts;
} shmem_team_config_t;

#define SHMEM_TEAM_NUM_CONTEXTS 1L

#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

// Hints of OpenSHMEM 1.6, which have no effect.
typedef struct {
  size_t total_ops;
} shmem_ctx_session_config_t;
#define SHMEM_CTX_SESSION_BATCH 1L
#define SHMEM_CTX_SESSION_TOTAL_OPS 1L

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_GT 3
#define SHMEM_CMP_GE 4
#define SHMEM_CMP_LT 5
#define SHMEM_CMP_LE 6

#define SHMEM_SIGNAL_SET 1
#define SHMEM_SIGNAL_ADD 2

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

// For collectives over active sets, which ignore pSync and pWrk.
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 1
#define SHMEM_BARRIER_SYNC_SIZE 1
#define SHMEM_BCAST_SYNC_SIZE 1
#define SHMEM_COLLECT_SYNC_SIZE 1
#define SHMEM_ALLTOALL_SYNC_SIZE 1
#define SHMEM_ALLTOALLS_SYNC_SIZE 1
#define SHMEM_REDUCE_SYNC_SIZE 1
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

// Deprecated names.
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_ALLTOALL_SYNC_SIZE SHMEM_ALLTOALL_SYNC_SIZE
#define _SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_ALLTOALLS_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

// Type tables: X(name in functions, type).
#define ASHLAR_SHMEM_EXACT_INTEGERS(X) \
  X(int8, int8_t)                      \
  X(int16, int16_t)                    \
  X(int32, int32_t)                    \
  X(int64, int64_t)                    \
  X(uint8, uint8_t)                    \
  X(uint16, uint16_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t)
#define ASHLAR_SHMEM_SIGNED(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
#define ASHLAR_SHMEM_UNSIGNED(X) \
  X(ushort, unsigned short)      \
  X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)
#define ASHLAR_SHMEM_FLOATS(X) X(float, float) X(double, double) X(longdouble, long double)
#define ASHLAR_SHMEM_COMPLEX(X) \
  X(complexf, ashlar_shmem_complexf) X(complexd, ashlar_shmem_complexd)

// Types of put, get and the collectives that move data.
#define ASHLAR_SHMEM_RMA_TYPES(X) \
  ASHLAR_SHMEM_FLOATS(X)          \
  X(char, char)                   \
  X(schar, signed char)           \
  X(uchar, unsigned char)         \
  X(ptrdiff, ptrdiff_t)           \
  ASHLAR_SHMEM_SIGNED(X) ASHLAR_SHMEM_UNSIGNED(X) ASHLAR_SHMEM_EXACT_INTEGERS(X)
// X(bits in the function name, bytes).
#define ASHLAR_SHMEM_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)

// Types of atomic operations.
#define ASHLAR_SHMEM_ATOMIC_TYPES(X) \
  X(int, int)                        \
  X(long, long)                      \
  X(longlong, long long)             \
  X(uint, unsigned int)              \
  X(ulong, unsigned long)            \
  X(ulonglong, unsigned long long)   \
  X(int32, int32_t)                  \
  X(int64, int64_t)                  \
  X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t) X(ptrdiff, ptrdiff_t)
#define ASHLAR_SHMEM_EXTENDED_ATOMIC_TYPES(X) \
  ASHLAR_SHMEM_ATOMIC_TYPES(X) X(float, float) X(double, double)
#define ASHLAR_SHMEM_BITWISE_ATOMIC_TYPES(X) \
  X(uint, unsigned int)                      \
  X(ulong, unsigned long)                    \
  X(ulonglong, unsigned long long)           \
  X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)

// Types of waits and tests.
#define ASHLAR_SHMEM_WAIT_TYPES(X) \
  ASHLAR_SHMEM_ATOMIC_TYPES(X) X(short, short) X(ushort, unsigned short)

// Types of reductions over teams.
#define ASHLAR_SHMEM_BITWISE_REDUCE_TYPES(X) \
  X(uchar, unsigned char) ASHLAR_SHMEM_UNSIGNED(X) ASHLAR_SHMEM_EXACT_INTEGERS(X)
#define ASHLAR_SHMEM_MIN_MAX_REDUCE_TYPES(X) ASHLAR_SHMEM_RMA_TYPES(X)
#define ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(X) ASHLAR_SHMEM_RMA_TYPES(X) ASHLAR_SHMEM_COMPLEX(X)
// Types of reductions over active sets.
#define ASHLAR_SHMEM_BITWISE_TO_ALL_TYPES(X) ASHLAR_SHMEM_SIGNED(X)
#define ASHLAR_SHMEM_MIN_MAX_TO_ALL_TYPES(X) ASHLAR_SHMEM_SIGNED(X) ASHLAR_SHMEM_FLOATS(X)
#define ASHLAR_SHMEM_ARITHMETIC_TO_ALL_TYPES(X) \
  ASHLAR_SHMEM_MIN_MAX_TO_ALL_TYPES(X) ASHLAR_SHMEM_COMPLEX(X)

// The operations of each table: X(name, type, operation in function names, its enumerator in
// ReduceOp and AtomicKind).
#define ASHLAR_SHMEM_BITWISE_OPS(X, NAME, T) \
  X(NAME, T, and, kAnd) X(NAME, T, or, kOr) X(NAME, T, xor, kXor)
#define ASHLAR_SHMEM_MIN_MAX_OPS(X, NAME, T) X(NAME, T, max, kMax) X(NAME, T, min, kMin)
#define ASHLAR_SHMEM_ARITHMETIC_OPS(X, NAME, T) X(NAME, T, sum, kSum) X(NAME, T, prod, kProd)
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
