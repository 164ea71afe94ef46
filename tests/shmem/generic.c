// SPDX-License-Identifier: Apache-2.0
//
// The type-generic names: each selects a function by the type of its pointer argument, with and
// without a context argument.
#include <complex.h>

#include "checks.h"

static int me;
static int count;

// Tests one type: each PE sends data to the next PE.
#define ASHLAR_TEST(NAME, T)                                                                 \
  static void test_##NAME(void) {                                                            \
    T* symmetric = shmem_calloc(8, sizeof(T));                                               \
    T own[4] = {(T)1, (T)2, (T)3, (T)4};                                                     \
    const int next = (me + 1) % count;                                                       \
    shmem_p(symmetric, (T)(me + 1), next);                                                   \
    shmem_put(symmetric + 1, own, 2, next);                                                  \
    shmem_put(SHMEM_CTX_DEFAULT, symmetric + 3, own, 2, next);                               \
    shmem_iput(symmetric + 5, own, 2, 2, 2, next);                                           \
    shmem_barrier_all();                                                                     \
    ASHLAR_EXPECT(symmetric[0] == (T)((me + count - 1) % count + 1));                        \
    ASHLAR_EXPECT(symmetric[1] == (T)1 && symmetric[2] == (T)2 && symmetric[4] == (T)2);     \
    ASHLAR_EXPECT(symmetric[5] == (T)1 && symmetric[6] == (T)0 && symmetric[7] == (T)3);     \
    ASHLAR_EXPECT(shmem_g(symmetric, next) == (T)(me + 1));                                  \
    const T* source = symmetric;                                                             \
    ASHLAR_EXPECT(shmem_g(SHMEM_CTX_DEFAULT, source + 2, next) == (T)2);                     \
    shmem_get(own, symmetric + 1, 2, next);                                                  \
    shmem_get_nbi(SHMEM_CTX_DEFAULT, own + 2, source + 1, 2, next);                          \
    shmem_quiet();                                                                           \
    ASHLAR_EXPECT(own[1] == (T)2 && own[2] == (T)1);                                         \
    shmem_barrier_all();                                                                     \
    symmetric[0] = (T)1;                                                                     \
    ASHLAR_EXPECT(shmem_max_reduce(SHMEM_TEAM_WORLD, symmetric + 1, symmetric, 1) == 0);     \
    shmem_sum_reduce(SHMEM_TEAM_WORLD, symmetric + 2, symmetric, 1);                         \
    shmem_broadcast(SHMEM_TEAM_WORLD, symmetric + 3, symmetric, 1, 0);                       \
    ASHLAR_EXPECT(symmetric[1] == (T)1 && symmetric[2] == (T)count && symmetric[3] == (T)1); \
    shmem_free(symmetric);                                                                   \
  }
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_TEST)

// Tests the atomics of one type: each PE uses them on its own word.
#define ASHLAR_TEST_WORD(NAME, T)                                                  \
  static void test_word_##NAME(void) {                                             \
    T* word = shmem_calloc(1, sizeof(T));                                          \
    shmem_atomic_inc(word, me);                                                    \
    shmem_atomic_add(SHMEM_CTX_DEFAULT, word, (T)4, me);                           \
    ASHLAR_EXPECT(shmem_atomic_fetch_inc(word, me) == 5);                          \
    ASHLAR_EXPECT(shmem_atomic_fetch_add(SHMEM_CTX_DEFAULT, word, (T)2, me) == 6); \
    ASHLAR_EXPECT(shmem_atomic_compare_swap(word, (T)8, (T)3, me) == 8);           \
    ASHLAR_EXPECT(shmem_atomic_swap(word, (T)9, me) == 3);                         \
    shmem_atomic_set(word, (T)7, me);                                              \
    ASHLAR_EXPECT(shmem_atomic_fetch(word, me) == 7);                              \
    shmem_wait_until(word, SHMEM_CMP_EQ, (T)7);                                    \
    ASHLAR_EXPECT(shmem_test(word, SHMEM_CMP_GT, (T)6) == 1);                      \
    ASHLAR_EXPECT(shmem_wait_until_any(word, 1, NULL, SHMEM_CMP_GT, (T)6) == 0);   \
    T* old = shmem_malloc(sizeof(T));                                              \
    shmem_atomic_fetch_nbi(old, word, me);                                         \
    ASHLAR_EXPECT(*old == 7);                                                      \
    shmem_atomic_swap_nbi(SHMEM_CTX_DEFAULT, old, word, (T)8, me);                 \
    shmem_atomic_compare_swap_nbi(old, word, (T)8, (T)10, me);                     \
    ASHLAR_EXPECT(*old == 8);                                                      \
    shmem_atomic_compare_swap_nbi(SHMEM_CTX_DEFAULT, old, word, (T)9, (T)0, me);   \
    shmem_atomic_fetch_inc_nbi(old, word, me);                                     \
    shmem_atomic_fetch_add_nbi(SHMEM_CTX_DEFAULT, old, word, (T)2, me);            \
    ASHLAR_EXPECT(*old == 11 && *word == 13);                                      \
    shmem_free(old);                                                               \
    shmem_free(word);                                                              \
  }
ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_TEST_WORD)

static void test_bitwise_nbi(void) {
  static unsigned long word = 12;
  static unsigned long old;
  shmem_atomic_fetch_and_nbi(&old, &word, 10UL, me);
  ASHLAR_EXPECT(old == 12 && word == 8);
  shmem_atomic_fetch_or_nbi(SHMEM_CTX_DEFAULT, &old, &word, 3UL, me);
  shmem_atomic_fetch_xor_nbi(&old, &word, 1UL, me);
  ASHLAR_EXPECT(old == 11 && word == 10);
}

static void test_deprecated_atomics(void) {
  static long long word = 1;
  static double number = 2;
  shmem_add(&word, 4LL, me);
  shmem_inc(&word, me);
  ASHLAR_EXPECT(shmem_fadd(&word, 1LL, me) == 6 && shmem_finc(&word, me) == 7);
  ASHLAR_EXPECT(shmem_cswap(&word, 8LL, 3LL, me) == 8 && shmem_fetch(&word, me) == 3);
  shmem_set(&number, 5.5, me);
  ASHLAR_EXPECT(shmem_swap(&number, 6.5, me) == 5.5 && number == 6.5);
}

static void test_scans(void) {
  static int source[2];
  static int dest[2];
  source[0] = me;
  source[1] = 1;
  ASHLAR_EXPECT(shmem_sum_inscan(SHMEM_TEAM_WORLD, dest, source, 2) == 0);
  ASHLAR_EXPECT(dest[0] == me * (me + 1) / 2 && dest[1] == me + 1);
  ASHLAR_EXPECT(shmem_sum_exscan(SHMEM_TEAM_WORLD, source, source, 2) == 0);
  ASHLAR_EXPECT(source[0] == me * (me - 1) / 2 && source[1] == me);
  static double _Complex sum[1];
  sum[0] = 1 + 2 * I;
  shmem_sum_inscan(SHMEM_TEAM_WORLD, sum, sum, 1);
  ASHLAR_EXPECT(creal(sum[0]) == me + 1 && cimag(sum[0]) == 2 * (me + 1));
  static short many_sources[20000];
  static short many[20000];
  for (int at = 0; at < 20000; ++at) many_sources[at] = (short)(at % 100);
  shmem_sum_exscan(SHMEM_TEAM_WORLD, many, many_sources, 20000);
  ASHLAR_EXPECT(many[0] == 0 && many[19999] == 99 * me);
}

static void test_other_names(void) {
  uint32_t* bits = shmem_calloc(2, sizeof(uint32_t));
  shmem_atomic_or(bits, 6U, me);
  shmem_atomic_and(SHMEM_CTX_DEFAULT, bits, 3U, me);
  ASHLAR_EXPECT(shmem_atomic_fetch_xor(bits, 1U, me) == 2U && *bits == 3U);
  shmem_or_reduce(SHMEM_TEAM_WORLD, bits + 1, bits, 1);
  ASHLAR_EXPECT(bits[1] == 3U);
  double* number = shmem_calloc(1, sizeof(double));
  shmem_atomic_set(number, 2.5, me);
  ASHLAR_EXPECT(shmem_atomic_swap(number, 1.0, me) == 2.5);
  double _Complex* sum = shmem_malloc(sizeof(double _Complex));
  *sum = 1 + 2 * I;
  shmem_sum_reduce(SHMEM_TEAM_WORLD, sum, sum, 1);
  ASHLAR_EXPECT(creal(*sum) == count && cimag(*sum) == 2 * count);
  uint64_t* signal = shmem_calloc(1, sizeof(uint64_t));
  shmem_put_signal(number, number, 1, signal, 1, SHMEM_SIGNAL_ADD, (me + 1) % count);
  ASHLAR_EXPECT(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 1) == 1);
  shmem_sync(SHMEM_TEAM_WORLD);
  shmem_sync(0, 0, count, NULL);
  shmem_free(signal);
  shmem_free(sum);
  shmem_free(number);
  shmem_free(bits);
}

int main(void) {
  shmem_init();
  me = shmem_my_pe();
  count = shmem_n_pes();
#define ASHLAR_CALL(NAME, T) test_##NAME();
  ASHLAR_SHMEM_RMA_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
#define ASHLAR_CALL(NAME, T) test_word_##NAME();
  ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_CALL)
  test_bitwise_nbi();
  test_deprecated_atomics();
  test_scans();
  test_other_names();
  shmem_finalize();
  return 0;
}
