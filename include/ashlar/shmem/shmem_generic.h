// SPDX-License-Identifier: Apache-2.0
//
// Type-generic names for C11: shmem_put(dest, source, 10, pe) calls shmem_int_put if `dest` is an
// int*. A context may be passed as first argument. Included by shmem.h. Not available in C++.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

#include "shmem_types.h"

// Selection by type. _Generic rejects a type that is listed twice, so the tables list only distinct
// types; size_t, int32_t and the like are aliases of these.
#define ASHLAR_SHMEM_PLAIN(NAME, KIND) shmem_##NAME##_##KIND
#define ASHLAR_SHMEM_IN_CONTEXT(NAME, KIND) shmem_ctx_##NAME##_##KIND

// clang-format off
#define ASHLAR_SHMEM_EITHER(T, FUNCTION) T*: FUNCTION, const T*: FUNCTION
#define ASHLAR_SHMEM_OF_WORDS(KIND, FORM)                    \
  ASHLAR_SHMEM_EITHER(int, FORM(int, KIND)),                 \
  ASHLAR_SHMEM_EITHER(long, FORM(long, KIND)),               \
  ASHLAR_SHMEM_EITHER(long long, FORM(longlong, KIND)),      \
  ASHLAR_SHMEM_EITHER(unsigned int, FORM(uint, KIND)),       \
  ASHLAR_SHMEM_EITHER(unsigned long, FORM(ulong, KIND)),     \
  ASHLAR_SHMEM_EITHER(unsigned long long, FORM(ulonglong, KIND))
#define ASHLAR_SHMEM_OF_SHORTS(KIND, FORM)                   \
  ASHLAR_SHMEM_EITHER(short, FORM(short, KIND)),             \
  ASHLAR_SHMEM_EITHER(unsigned short, FORM(ushort, KIND))
#define ASHLAR_SHMEM_OF_FLOATS(KIND, FORM)                   \
  ASHLAR_SHMEM_EITHER(float, FORM(float, KIND)),             \
  ASHLAR_SHMEM_EITHER(double, FORM(double, KIND))
#define ASHLAR_SHMEM_OF_OTHERS(KIND, FORM)                   \
  ASHLAR_SHMEM_EITHER(char, FORM(char, KIND)),               \
  ASHLAR_SHMEM_EITHER(signed char, FORM(schar, KIND)),       \
  ASHLAR_SHMEM_EITHER(unsigned char, FORM(uchar, KIND)),     \
  ASHLAR_SHMEM_EITHER(long double, FORM(longdouble, KIND))

#define ASHLAR_SHMEM_ANY(POINTER, KIND, FORM)                                      \
  _Generic((POINTER), ASHLAR_SHMEM_OF_WORDS(KIND, FORM), ASHLAR_SHMEM_OF_SHORTS(KIND, FORM), \
           ASHLAR_SHMEM_OF_FLOATS(KIND, FORM), ASHLAR_SHMEM_OF_OTHERS(KIND, FORM))
#define ASHLAR_SHMEM_NUMBER(POINTER, KIND, FORM)                                             \
  _Generic((POINTER), ASHLAR_SHMEM_OF_WORDS(KIND, FORM), ASHLAR_SHMEM_OF_SHORTS(KIND, FORM), \
           ASHLAR_SHMEM_OF_FLOATS(KIND, FORM), ASHLAR_SHMEM_OF_OTHERS(KIND, FORM),           \
           float _Complex*: FORM(complexf, KIND), double _Complex*: FORM(complexd, KIND))
#define ASHLAR_SHMEM_WORD(POINTER, KIND, FORM) \
  _Generic((POINTER), ASHLAR_SHMEM_OF_WORDS(KIND, FORM))
#define ASHLAR_SHMEM_WORD_OR_FLOAT(POINTER, KIND, FORM) \
  _Generic((POINTER), ASHLAR_SHMEM_OF_WORDS(KIND, FORM), ASHLAR_SHMEM_OF_FLOATS(KIND, FORM))
#define ASHLAR_SHMEM_WAITED(POINTER, KIND, FORM) \
  _Generic((POINTER), ASHLAR_SHMEM_OF_WORDS(KIND, FORM), ASHLAR_SHMEM_OF_SHORTS(KIND, FORM))
#define ASHLAR_SHMEM_BITS(POINTER, KIND, FORM)                                      \
  _Generic((POINTER), unsigned int*: FORM(uint, KIND), int32_t*: FORM(int32, KIND), \
           int64_t*: FORM(int64, KIND), unsigned long*: FORM(ulong, KIND),          \
           unsigned long long*: FORM(ulonglong, KIND))
#define ASHLAR_SHMEM_BITS_REDUCED(POINTER, KIND, FORM)                              \
  _Generic((POINTER), unsigned int*: FORM(uint, KIND), int32_t*: FORM(int32, KIND), \
           int64_t*: FORM(int64, KIND), unsigned long*: FORM(ulong, KIND),          \
           unsigned long long*: FORM(ulonglong, KIND), int8_t*: FORM(int8, KIND),   \
           uint8_t*: FORM(uint8, KIND), int16_t*: FORM(int16, KIND), uint16_t*: FORM(uint16, KIND))
// clang-format on

// Selection by argument count: a context adds one argument.
#define ASHLAR_SHMEM_AFTER_3(A, B, C, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_AFTER_4(A, B, C, D, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_AFTER_5(A, B, C, D, E, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_AFTER_7(A, B, C, D, E, F, G, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_AFTER_8(A, B, C, D, E, F, G, H, CHOSEN, ...) CHOSEN
#define ASHLAR_SHMEM_CALL(T, KIND, POINTER, ...) \
  T(POINTER, KIND, ASHLAR_SHMEM_PLAIN)(POINTER, __VA_ARGS__)
#define ASHLAR_SHMEM_CONTEXT_CALL(T, KIND, CONTEXT, POINTER, ...) \
  T(POINTER, KIND, ASHLAR_SHMEM_IN_CONTEXT)(CONTEXT, POINTER, __VA_ARGS__)
#define ASHLAR_SHMEM_TEAM_CALL(T, KIND, TEAM, POINTER, ...) \
  T(POINTER, KIND, ASHLAR_SHMEM_PLAIN)(TEAM, POINTER, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_OF_2(T, KIND, ...)                                         \
  ASHLAR_SHMEM_AFTER_3(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (T, KIND, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_OF_3(T, KIND, ...)                                         \
  ASHLAR_SHMEM_AFTER_4(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (T, KIND, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_OF_4(T, KIND, ...)                                         \
  ASHLAR_SHMEM_AFTER_5(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (T, KIND, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_OF_6(T, KIND, ...)                                         \
  ASHLAR_SHMEM_AFTER_7(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (T, KIND, __VA_ARGS__)
#define ASHLAR_SHMEM_CALL_OF_7(T, KIND, ...)                                         \
  ASHLAR_SHMEM_AFTER_8(__VA_ARGS__, ASHLAR_SHMEM_CONTEXT_CALL, ASHLAR_SHMEM_CALL, 0) \
  (T, KIND, __VA_ARGS__)

// Put and get.
#define shmem_p(...) ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_ANY, p, __VA_ARGS__)
#define shmem_g(...) ASHLAR_SHMEM_CALL_OF_2(ASHLAR_SHMEM_ANY, g, __VA_ARGS__)
#define shmem_put(...) ASHLAR_SHMEM_CALL_OF_4(ASHLAR_SHMEM_ANY, put, __VA_ARGS__)
#define shmem_get(...) ASHLAR_SHMEM_CALL_OF_4(ASHLAR_SHMEM_ANY, get, __VA_ARGS__)
#define shmem_put_nbi(...) ASHLAR_SHMEM_CALL_OF_4(ASHLAR_SHMEM_ANY, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) ASHLAR_SHMEM_CALL_OF_4(ASHLAR_SHMEM_ANY, get_nbi, __VA_ARGS__)
#define shmem_iput(...) ASHLAR_SHMEM_CALL_OF_6(ASHLAR_SHMEM_ANY, iput, __VA_ARGS__)
#define shmem_iget(...) ASHLAR_SHMEM_CALL_OF_6(ASHLAR_SHMEM_ANY, iget, __VA_ARGS__)
#define shmem_put_signal(...) ASHLAR_SHMEM_CALL_OF_7(ASHLAR_SHMEM_ANY, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) \
  ASHLAR_SHMEM_CALL_OF_7(ASHLAR_SHMEM_ANY, put_signal_nbi, __VA_ARGS__)

// Atomics.
#define shmem_atomic_fetch(...) \
  ASHLAR_SHMEM_CALL_OF_2(ASHLAR_SHMEM_WORD_OR_FLOAT, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...) \
  ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_WORD_OR_FLOAT, atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) \
  ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_WORD_OR_FLOAT, atomic_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) \
  ASHLAR_SHMEM_CALL_OF_4(ASHLAR_SHMEM_WORD, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_inc(...) ASHLAR_SHMEM_CALL_OF_2(ASHLAR_SHMEM_WORD, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) \
  ASHLAR_SHMEM_CALL_OF_2(ASHLAR_SHMEM_WORD, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_add(...) ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_WORD, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) \
  ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_WORD, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_and(...) ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_BITS, atomic_and, __VA_ARGS__)
#define shmem_atomic_or(...) ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_BITS, atomic_or, __VA_ARGS__)
#define shmem_atomic_xor(...) ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_BITS, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) \
  ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_BITS, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) \
  ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_BITS, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) \
  ASHLAR_SHMEM_CALL_OF_3(ASHLAR_SHMEM_BITS, atomic_fetch_xor, __VA_ARGS__)

// Waits and tests.
#define shmem_wait_until(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test, __VA_ARGS__)
#define shmem_test_all(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test_all, __VA_ARGS__)
#define shmem_test_any(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test_any, __VA_ARGS__)
#define shmem_test_some(...) ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) \
  ASHLAR_SHMEM_CALL(ASHLAR_SHMEM_WAITED, test_some_vector, __VA_ARGS__)

// Collectives over teams.
#define shmem_broadcast(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, broadcast, __VA_ARGS__)
#define shmem_collect(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, collect, __VA_ARGS__)
#define shmem_fcollect(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, fcollect, __VA_ARGS__)
#define shmem_alltoall(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, alltoalls, __VA_ARGS__)
#define shmem_and_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_BITS_REDUCED, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_BITS_REDUCED, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) \
  ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_BITS_REDUCED, xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_ANY, min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_NUMBER, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) ASHLAR_SHMEM_TEAM_CALL(ASHLAR_SHMEM_NUMBER, prod_reduce, __VA_ARGS__)
// A team takes one argument, an active set four.
#define shmem_sync(...) \
  ASHLAR_SHMEM_AFTER_4(__VA_ARGS__, shmem_sync, 0, 0, shmem_team_sync, 0)(__VA_ARGS__)

#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
