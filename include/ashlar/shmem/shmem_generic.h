// SPDX-License-Identifier: Apache-2.0
//
// Type-generic names for C11: shmem_put(dest, source, 10, pe) calls shmem_int_put if `dest` is an
// int*. The first argument may be a context. Included by shmem.h. Not available in C++.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

#include "shmem_types.h"

// Selection by type. _Generic rejects a type that is listed twice, so the tables list only distinct
// types; size_t, int32_t and the like are aliases of these.
#define ASHLAR_SHMEM_DEFAULT_NAME(TYPE, OP) shmem_##TYPE##_##OP
#define ASHLAR_SHMEM_CONTEXT_NAME(TYPE, OP) shmem_ctx_##TYPE##_##OP

// clang-format off
#define ASHLAR_SHMEM_CASE(T, FUNCTION) T*: FUNCTION, const T*: FUNCTION
#define ASHLAR_SHMEM_WORD_CASES(OP, NAME_OF)                     \
  ASHLAR_SHMEM_CASE(int, NAME_OF(int, OP)),                      \
  ASHLAR_SHMEM_CASE(long, NAME_OF(long, OP)),                    \
  ASHLAR_SHMEM_CASE(long long, NAME_OF(longlong, OP)),           \
  ASHLAR_SHMEM_CASE(unsigned int, NAME_OF(uint, OP)),            \
  ASHLAR_SHMEM_CASE(unsigned long, NAME_OF(ulong, OP)),          \
  ASHLAR_SHMEM_CASE(unsigned long long, NAME_OF(ulonglong, OP))
#define ASHLAR_SHMEM_SHORT_CASES(OP, NAME_OF)                    \
  ASHLAR_SHMEM_CASE(short, NAME_OF(short, OP)),                  \
  ASHLAR_SHMEM_CASE(unsigned short, NAME_OF(ushort, OP))
#define ASHLAR_SHMEM_FLOAT_CASES(OP, NAME_OF)                    \
  ASHLAR_SHMEM_CASE(float, NAME_OF(float, OP)),                  \
  ASHLAR_SHMEM_CASE(double, NAME_OF(double, OP))
#define ASHLAR_SHMEM_CHAR_AND_LONG_DOUBLE_CASES(OP, NAME_OF)     \
  ASHLAR_SHMEM_CASE(char, NAME_OF(char, OP)),                    \
  ASHLAR_SHMEM_CASE(signed char, NAME_OF(schar, OP)),            \
  ASHLAR_SHMEM_CASE(unsigned char, NAME_OF(uchar, OP)),          \
  ASHLAR_SHMEM_CASE(long double, NAME_OF(longdouble, OP))

// These macros select the function of operation OP for the type of POINTER. Each macro accepts the
// types of the table of the same name in shmem_types.h. The OLD_ macros, for the deprecated
// atomics, have no table there; they accept the types of their cases.
#define ASHLAR_SHMEM_SELECT_RMA(POINTER, OP, NAME_OF)                                             \
  _Generic((POINTER), ASHLAR_SHMEM_WORD_CASES(OP, NAME_OF), ASHLAR_SHMEM_SHORT_CASES(OP, NAME_OF), \
           ASHLAR_SHMEM_FLOAT_CASES(OP, NAME_OF),                                                 \
           ASHLAR_SHMEM_CHAR_AND_LONG_DOUBLE_CASES(OP, NAME_OF))
#define ASHLAR_SHMEM_SELECT_ARITHMETIC_REDUCE(POINTER, OP, NAME_OF)                               \
  _Generic((POINTER), ASHLAR_SHMEM_WORD_CASES(OP, NAME_OF), ASHLAR_SHMEM_SHORT_CASES(OP, NAME_OF), \
           ASHLAR_SHMEM_FLOAT_CASES(OP, NAME_OF),                                                 \
           ASHLAR_SHMEM_CHAR_AND_LONG_DOUBLE_CASES(OP, NAME_OF),                                  \
           float _Complex*: NAME_OF(complexf, OP), double _Complex*: NAME_OF(complexd, OP))
#define ASHLAR_SHMEM_SELECT_ATOMIC(POINTER, OP, NAME_OF) \
  _Generic((POINTER), ASHLAR_SHMEM_WORD_CASES(OP, NAME_OF))
#define ASHLAR_SHMEM_SELECT_EXTENDED_ATOMIC(POINTER, OP, NAME_OF) \
  _Generic((POINTER), ASHLAR_SHMEM_WORD_CASES(OP, NAME_OF), ASHLAR_SHMEM_FLOAT_CASES(OP, NAME_OF))
#define ASHLAR_SHMEM_SIGNED_CASES(OP, NAME_OF)                   \
  ASHLAR_SHMEM_CASE(int, NAME_OF(int, OP)),                      \
  ASHLAR_SHMEM_CASE(long, NAME_OF(long, OP)),                    \
  ASHLAR_SHMEM_CASE(long long, NAME_OF(longlong, OP))
#define ASHLAR_SHMEM_SELECT_OLD_ATOMIC(POINTER, OP, NAME_OF) \
  _Generic((POINTER), ASHLAR_SHMEM_SIGNED_CASES(OP, NAME_OF))
#define ASHLAR_SHMEM_SELECT_OLD_EXTENDED_ATOMIC(POINTER, OP, NAME_OF) \
  _Generic((POINTER), ASHLAR_SHMEM_SIGNED_CASES(OP, NAME_OF), ASHLAR_SHMEM_FLOAT_CASES(OP, NAME_OF))
#define ASHLAR_SHMEM_SELECT_WAIT(POINTER, OP, NAME_OF) \
  _Generic((POINTER), ASHLAR_SHMEM_WORD_CASES(OP, NAME_OF), ASHLAR_SHMEM_SHORT_CASES(OP, NAME_OF))
#define ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC(POINTER, OP, NAME_OF)                        \
  _Generic((POINTER), unsigned int*: NAME_OF(uint, OP), int32_t*: NAME_OF(int32, OP),   \
           int64_t*: NAME_OF(int64, OP), unsigned long*: NAME_OF(ulong, OP),            \
           unsigned long long*: NAME_OF(ulonglong, OP))
#define ASHLAR_SHMEM_SELECT_BITWISE_REDUCE(POINTER, OP, NAME_OF)                        \
  _Generic((POINTER), unsigned int*: NAME_OF(uint, OP), int32_t*: NAME_OF(int32, OP),   \
           int64_t*: NAME_OF(int64, OP), unsigned long*: NAME_OF(ulong, OP),            \
           unsigned long long*: NAME_OF(ulonglong, OP), int8_t*: NAME_OF(int8, OP),     \
           uint8_t*: NAME_OF(uint8, OP), int16_t*: NAME_OF(int16, OP),                  \
           uint16_t*: NAME_OF(uint16, OP))
// clang-format on

// Selection by argument count: a context adds one argument. CALL_<n> calls an operation that has n
// arguments, not counting a context.
#define ASHLAR_SHMEM_ARGUMENT_4(A, B, C, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_ARGUMENT_5(A, B, C, D, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_ARGUMENT_6(A, B, C, D, E, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_ARGUMENT_7(A, B, C, D, E, F, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_ARGUMENT_8(A, B, C, D, E, F, G, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_ARGUMENT_9(A, B, C, D, E, F, G, H, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_CALL(SELECT, OP, POINTER, ...) \
  SELECT(POINTER, OP, ASHLAR_SHMEM_DEFAULT_NAME)(POINTER, __VA_ARGS__)
#define ASHLAR_SHMEM_CONTEXT_CALL(SELECT, OP, CONTEXT, POINTER, ...) \
  SELECT(POINTER, OP, ASHLAR_SHMEM_CONTEXT_NAME)(CONTEXT, POINTER, __VA_ARGS__)
#define ASHLAR_SHMEM_TEAM_CALL(SELECT, OP, TEAM, POINTER, ...) \
  SELECT(POINTER, OP, ASHLAR_SHMEM_DEFAULT_NAME)(TEAM, POINTER, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_2(SELECT, OP, ...)                                            \
  ASHLAR_SHMEM_ARGUMENT_4(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (SELECT, OP, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_3(SELECT, OP, ...)                                            \
  ASHLAR_SHMEM_ARGUMENT_5(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (SELECT, OP, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_4(SELECT, OP, ...)                                            \
  ASHLAR_SHMEM_ARGUMENT_6(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (SELECT, OP, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_5(SELECT, OP, ...)                                            \
  ASHLAR_SHMEM_ARGUMENT_7(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (SELECT, OP, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_6(SELECT, OP, ...)                                            \
  ASHLAR_SHMEM_ARGUMENT_8(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (SELECT, OP, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_7(SELECT, OP, ...)                                            \
  ASHLAR_SHMEM_ARGUMENT_9(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (SELECT, OP, __VA_ARGS__)

// Put and get.
#define shmem_p(...) ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_RMA, p, __VA_ARGS__)
#define shmem_g(...) ASHLAR_SHMEM_CALL_2(ASHLAR_SHMEM_SELECT_RMA, g, __VA_ARGS__)
#define shmem_put(...) ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_RMA, put, __VA_ARGS__)
#define shmem_get(...) ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_RMA, get, __VA_ARGS__)
#define shmem_put_nbi(...) ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_RMA, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_RMA, get_nbi, __VA_ARGS__)
#define shmem_iput(...) ASHLAR_SHMEM_CALL_6(ASHLAR_SHMEM_SELECT_RMA, iput, __VA_ARGS__)
#define shmem_iget(...) ASHLAR_SHMEM_CALL_6(ASHLAR_SHMEM_SELECT_RMA, iget, __VA_ARGS__)
#define shmem_put_signal(...) ASHLAR_SHMEM_CALL_7(ASHLAR_SHMEM_SELECT_RMA, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) \
  ASHLAR_SHMEM_CALL_7(ASHLAR_SHMEM_SELECT_RMA, put_signal_nbi, __VA_ARGS__)

// Atomics.
#define shmem_atomic_fetch(...) \
  ASHLAR_SHMEM_CALL_2(ASHLAR_SHMEM_SELECT_EXTENDED_ATOMIC, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_EXTENDED_ATOMIC, atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_EXTENDED_ATOMIC, atomic_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) \
  ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_inc(...) \
  ASHLAR_SHMEM_CALL_2(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) \
  ASHLAR_SHMEM_CALL_2(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_add(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_and(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_and, __VA_ARGS__)
#define shmem_atomic_or(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_or, __VA_ARGS__)
#define shmem_atomic_xor(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_fetch_xor, __VA_ARGS__)

// Non-blocking atomics. The first pointer is the destination of the fetched value.
#define shmem_atomic_fetch_nbi(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_EXTENDED_ATOMIC, atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) \
  ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_EXTENDED_ATOMIC, atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) \
  ASHLAR_SHMEM_CALL_5(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) \
  ASHLAR_SHMEM_CALL_3(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) \
  ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_ATOMIC, atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) \
  ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) \
  ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) \
  ASHLAR_SHMEM_CALL_4(ASHLAR_SHMEM_SELECT_BITWISE_ATOMIC, atomic_fetch_xor_nbi, __VA_ARGS__)

// Deprecated names of atomics.
#define shmem_fetch(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_EXTENDED_ATOMIC, fetch, __VA_ARGS__)
#define shmem_set(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_EXTENDED_ATOMIC, set, __VA_ARGS__)
#define shmem_swap(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_EXTENDED_ATOMIC, swap, __VA_ARGS__)
#define shmem_cswap(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_ATOMIC, cswap, __VA_ARGS__)
#define shmem_fadd(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_ATOMIC, fadd, __VA_ARGS__)
#define shmem_finc(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_ATOMIC, finc, __VA_ARGS__)
#define shmem_add(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_ATOMIC, add, __VA_ARGS__)
#define shmem_inc(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_OLD_ATOMIC, inc, __VA_ARGS__)

// Waits and tests.
#define shmem_wait_until(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test, __VA_ARGS__)
#define shmem_test_all(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test_all, __VA_ARGS__)
#define shmem_test_any(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test_any, __VA_ARGS__)
#define shmem_test_some(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_SELECT_WAIT, test_some_vector, __VA_ARGS__)

// Collectives over teams.
#define shmem_broadcast(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, broadcast, __VA_ARGS__)
#define shmem_collect(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, collect, __VA_ARGS__)
#define shmem_fcollect(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, fcollect, __VA_ARGS__)
#define shmem_alltoall(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, alltoalls, __VA_ARGS__)
#define shmem_and_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_BITWISE_REDUCE, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_BITWISE_REDUCE, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_BITWISE_REDUCE, xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_RMA, min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_ARITHMETIC_REDUCE, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_ARITHMETIC_REDUCE, prod_reduce, __VA_ARGS__)
#define shmem_sum_inscan(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_ARITHMETIC_REDUCE, sum_inscan, __VA_ARGS__)
#define shmem_sum_exscan(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_SELECT_ARITHMETIC_REDUCE, sum_exscan, __VA_ARGS__)
// With one argument, synchronizes a team; with four, an active set.
#define shmem_sync(...) \
  ASHLAR_SHMEM_ARGUMENT_5(__VA_ARGS__, shmem_sync, 0, 0, shmem_team_sync, 0)(__VA_ARGS__)

#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
