// SPDX-License-Identifier: Apache-2.0
//
// Contended atomics of every type, waits of every kind, and contended locks.
#include <sched.h>

#include "checks.h"

#define ASHLAR_TURNS 40

static int me;
static int count;

// All PEs update the same words of every PE. No update may be lost; every ticket is issued once.
#define ASHLAR_TEST_TYPE(NAME, T)                                                                 \
  static void test_##NAME(void) {                                                                 \
    T* words = shmem_calloc(8, sizeof(T));                                                        \
    T* tickets = shmem_calloc((size_t)count * ASHLAR_TURNS, sizeof(T));                           \
    for (int pe = 0; pe < count; ++pe) {                                                          \
      for (int turn = 0; turn < ASHLAR_TURNS; ++turn) {                                           \
        shmem_##NAME##_atomic_inc(words, pe);                                                     \
        shmem_##NAME##_atomic_add(words + 1, (T)turn, pe);                                        \
        shmem_##NAME##_atomic_fetch_add(words + 2, (T)2, pe);                                     \
        const T ticket = shmem_##NAME##_atomic_fetch_inc(words + 3, pe);                          \
        ASHLAR_EXPECT((size_t)ticket < (size_t)count * ASHLAR_TURNS);                             \
        shmem_##NAME##_atomic_inc(tickets + ticket, pe);                                          \
        T seen = shmem_##NAME##_atomic_fetch(words + 4, pe);                                      \
        for (;;) {                                                                                \
          const T found = shmem_##NAME##_atomic_compare_swap(words + 4, seen, (T)(seen + 1), pe); \
          if (found == seen) break;                                                               \
          seen = found;                                                                           \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
    shmem_barrier_all();                                                                          \
    const int all = count * ASHLAR_TURNS;                                                         \
    ASHLAR_EXPECT(words[0] == (T)all);                                                            \
    ASHLAR_EXPECT(words[1] == (T)(count * ASHLAR_TURNS * (ASHLAR_TURNS - 1) / 2));                \
    ASHLAR_EXPECT(words[2] == (T)(2 * all));                                                      \
    ASHLAR_EXPECT(words[3] == (T)all && words[4] == (T)all);                                      \
    for (int at = 0; at < all; ++at) ASHLAR_EXPECT(tickets[at] == 1);                             \
    T fetched = 0;                                                                                \
    shmem_ctx_##NAME##_atomic_fetch_inc_nbi(SHMEM_CTX_DEFAULT, &fetched, words + 5, me);          \
    shmem_##NAME##_atomic_fetch_add_nbi(&fetched, words + 5, (T)4, me);                           \
    shmem_quiet();                                                                                \
    ASHLAR_EXPECT(fetched == 1 && words[5] == 5);                                                 \
    shmem_free(tickets);                                                                          \
    shmem_free(words);                                                                            \
  }

#define ASHLAR_TEST_SWAP(NAME, T)                                               \
  static void test_swap_##NAME(void) {                                          \
    T* word = shmem_calloc(1, sizeof(T));                                       \
    const int next = (me + 1) % count;                                          \
    shmem_##NAME##_atomic_set(word, (T)(me + 3), next);                         \
    shmem_barrier_all();                                                        \
    ASHLAR_EXPECT(shmem_##NAME##_atomic_fetch(word, next) == (T)(me + 3));      \
    shmem_barrier_all();                                                        \
    ASHLAR_EXPECT(shmem_##NAME##_atomic_swap(word, (T)1, next) == (T)(me + 3)); \
    shmem_barrier_all();                                                        \
    ASHLAR_EXPECT(*word == (T)1);                                               \
    shmem_free(word);                                                           \
  }

#define ASHLAR_TEST_BITS(NAME, T)                                                            \
  static void test_bits_##NAME(void) {                                                       \
    T* words = shmem_calloc(3, sizeof(T));                                                   \
    words[1] = (T)-1;                                                                        \
    shmem_barrier_all();                                                                     \
    const T bit = (T)((T)1 << (me % 31));                                                    \
    for (int pe = 0; pe < count; ++pe) {                                                     \
      shmem_##NAME##_atomic_or(words, bit, pe);                                              \
      ASHLAR_EXPECT((shmem_##NAME##_atomic_fetch_and(words + 1, (T)~bit, pe) & bit) == bit); \
      ASHLAR_EXPECT((shmem_##NAME##_atomic_fetch_xor(words + 2, bit, pe) & bit) == 0);       \
    }                                                                                        \
    shmem_barrier_all();                                                                     \
    const T expected = (T)(((T)1 << count) - 1);                                             \
    ASHLAR_EXPECT(words[0] == expected && words[1] == (T)~expected && words[2] == expected); \
    ASHLAR_EXPECT(shmem_##NAME##_atomic_fetch_or(words, 0, me) == expected);                 \
    shmem_barrier_all();                                                                     \
    shmem_##NAME##_atomic_and(words, (T)~bit, 0);                                            \
    shmem_##NAME##_atomic_xor(words + 2, bit, 0);                                            \
    shmem_barrier_all();                                                                     \
    if (me == 0) ASHLAR_EXPECT(words[0] == 0 && words[2] == 0);                              \
    shmem_free(words);                                                                       \
  }

// Passes one word around a ring of all PEs, then waits for several words with every wait function.
#define ASHLAR_TEST_WAITS(NAME, T)                                                                \
  static void test_waits_##NAME(void) {                                                           \
    T* word = shmem_calloc(1, sizeof(T));                                                         \
    T* several = shmem_calloc((size_t)count, sizeof(T));                                          \
    const int next = (me + 1) % count;                                                            \
    for (int round = 1; round <= 5; ++round) {                                                    \
      if (me == 0) shmem_##NAME##_p(word, (T)round, next);                                        \
      shmem_##NAME##_wait_until(word, SHMEM_CMP_EQ, (T)round);                                    \
      if (me != 0) shmem_##NAME##_p(word, (T)round, next);                                        \
    }                                                                                             \
    ASHLAR_EXPECT(shmem_##NAME##_test(word, SHMEM_CMP_EQ, (T)5) == 1);                            \
    ASHLAR_EXPECT(shmem_##NAME##_test(word, SHMEM_CMP_LT, (T)5) == 0);                            \
    ASHLAR_EXPECT(shmem_##NAME##_test(word, SHMEM_CMP_GE, (T)5) == 1);                            \
    ASHLAR_EXPECT(shmem_##NAME##_test(word, SHMEM_CMP_NE, (T)5) == 0);                            \
    ASHLAR_EXPECT(shmem_##NAME##_test_any(several, (size_t)count, NULL, SHMEM_CMP_GT, 0) ==       \
                  SIZE_MAX);                                                                      \
    shmem_barrier_all();                                                                          \
    for (int pe = 0; pe < count; ++pe) shmem_##NAME##_p(several + me, (T)(me + 1), pe);           \
    /* wait_until_any returns each word once. */                                                  \
    int status[64] = {0};                                                                         \
    for (int got = 0; got < count; ++got) {                                                       \
      const size_t at =                                                                           \
          shmem_##NAME##_wait_until_any(several, (size_t)count, status, SHMEM_CMP_GT, 0);         \
      ASHLAR_EXPECT(at < (size_t)count && status[at] == 0);                                       \
      ASHLAR_EXPECT(several[at] == (T)(at + 1));                                                  \
      status[at] = 1;                                                                             \
    }                                                                                             \
    ASHLAR_EXPECT(shmem_##NAME##_wait_until_any(several, (size_t)count, status, SHMEM_CMP_GT,     \
                                                0) == SIZE_MAX);                                  \
    shmem_##NAME##_wait_until_all(several, (size_t)count, NULL, SHMEM_CMP_NE, 0);                 \
    size_t indices[64];                                                                           \
    T wanted[64];                                                                                 \
    for (int at = 0; at < count; ++at) wanted[at] = (T)(at + 1);                                  \
    shmem_##NAME##_wait_until_all_vector(several, (size_t)count, NULL, SHMEM_CMP_EQ, wanted);     \
    wanted[0] = 99;                                                                               \
    ASHLAR_EXPECT(                                                                                \
        shmem_##NAME##_test_all_vector(several, (size_t)count, NULL, SHMEM_CMP_EQ, wanted) == 0); \
    ASHLAR_EXPECT(shmem_##NAME##_wait_until_some(several, (size_t)count, indices, NULL,           \
                                                 SHMEM_CMP_LE, 1) == 1);                          \
    ASHLAR_EXPECT(indices[0] == 0);                                                               \
    ASHLAR_EXPECT(shmem_##NAME##_test_some_vector(several, (size_t)count, indices, NULL,          \
                                                  SHMEM_CMP_EQ, wanted) == (size_t)count - 1);    \
    shmem_free(several);                                                                          \
    shmem_free(word);                                                                             \
  }

ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_TEST_TYPE)
ASHLAR_SHMEM_EXTENDED_ATOMIC_TYPES(ASHLAR_TEST_SWAP)
ASHLAR_SHMEM_BITWISE_ATOMIC_TYPES(ASHLAR_TEST_BITS)
ASHLAR_SHMEM_WAIT_TYPES(ASHLAR_TEST_WAITS)

// A counter updated without atomics must stay exact under the lock.
static void test_locks(void) {
  long* locks = shmem_calloc(2, sizeof(long));
  long* numbers = shmem_calloc(2, sizeof(long));
  int tried = 0;
  for (int turn = 0; turn < 25; ++turn) {
    shmem_set_lock(&locks[0]);
    const long number = shmem_long_g(&numbers[0], 0);
    sched_yield(); /* makes a violation of mutual exclusion likely to be seen */
    shmem_long_p(&numbers[0], number + 1, 0);
    shmem_clear_lock(&locks[0]);
    if (shmem_test_lock(&locks[1]) == 0) {
      const long other = shmem_long_g(&numbers[1], count - 1);
      sched_yield();
      shmem_long_p(&numbers[1], other + 1, count - 1);
      ++tried;
      shmem_clear_lock(&locks[1]);
    }
  }
  long* tries = shmem_calloc(1, sizeof(long));
  shmem_long_atomic_add(tries, tried, count - 1);
  shmem_barrier_all();
  if (me == 0) ASHLAR_EXPECT(numbers[0] == 25L * count);
  if (me == count - 1) ASHLAR_EXPECT(numbers[1] == *tries && *tries > 0);
  // shmem_test_lock fails on a held lock.
  if (me == 0) shmem_set_lock(&locks[0]);
  shmem_barrier_all();
  ASHLAR_EXPECT(me == 0 || shmem_test_lock(&locks[0]) == 1);
  shmem_barrier_all();
  if (me == 0) shmem_clear_lock(&locks[0]);
  shmem_free(tries);
  shmem_free(numbers);
  shmem_free(locks);
}

static void test_old_names(void) {
  long* word = shmem_calloc(2, sizeof(long));
  ASHLAR_EXPECT(shmem_long_swap(word, 4, me) == 0 && shmem_long_cswap(word, 4, 6, me) == 4);
  ASHLAR_EXPECT(shmem_long_fadd(word, 2, me) == 6 && shmem_long_finc(word, me) == 8);
  shmem_long_add(word, 1, me);
  shmem_long_inc(word, me);
  shmem_long_set(word + 1, 5, me);
  shmem_quiet();
  ASHLAR_EXPECT(shmem_long_fetch(word, me) == 11);
  shmem_long_wait(word + 1, 0);
  shmem_wait_until(word + 1, SHMEM_CMP_EQ, 5);
  ASHLAR_EXPECT(_my_pe() == me && _num_pes() == count);
  shmem_free(word);
}

int main(void) {
  start_pes(0);
  me = shmem_my_pe();
  count = shmem_n_pes();
#define ASHLAR_CALL(NAME, T) test_##NAME();
  ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
#define ASHLAR_CALL(NAME, T) test_swap_##NAME();
  ASHLAR_SHMEM_EXTENDED_ATOMIC_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
#define ASHLAR_CALL(NAME, T) test_bits_##NAME();
  ASHLAR_SHMEM_BITWISE_ATOMIC_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
#define ASHLAR_CALL(NAME, T) test_waits_##NAME();
  ASHLAR_SHMEM_WAIT_TYPES(ASHLAR_CALL)
  test_locks();
  test_old_names();
  return 0; /* exit calls shmem_finalize */
}
