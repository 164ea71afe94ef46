// SPDX-License-Identifier: Apache-2.0
//
// Collectives of every type over the world, teams and active sets.
#include <complex.h>
#include <string.h>

#include "checks.h"

#define ASHLAR_COUNT 21

static int me;
static int count;

// Returns element `at` of PE `pe`. Values are small, so that products do not overflow.
static int value(int pe, int at) { return pe % 3 + 1 + at % 2; }

#define ASHLAR_MIN(A, B) ((B) < (A) ? (B) : (A))
#define ASHLAR_MAX(A, B) ((A) < (B) ? (B) : (A))
#define ASHLAR_SUM(A, B) ((A) + (B))
#define ASHLAR_PROD(A, B) ((A) * (B))
#define ASHLAR_AND(A, B) ((A) & (B))
#define ASHLAR_OR(A, B) ((A) | (B))
#define ASHLAR_XOR(A, B) ((A) ^ (B))

// Tests one reduction, out of place and in place.
#define ASHLAR_TEST_REDUCTION(NAME, T, OPNAME, ACT)                                           \
  static void test_##OPNAME##_##NAME(void) {                                                  \
    T* source = shmem_malloc(ASHLAR_COUNT * sizeof(T));                                       \
    T* dest = shmem_calloc(ASHLAR_COUNT, sizeof(T));                                          \
    for (int at = 0; at < ASHLAR_COUNT; ++at) source[at] = (T)value(me, at);                  \
    ASHLAR_EXPECT(                                                                            \
        shmem_##NAME##_##OPNAME##_reduce(SHMEM_TEAM_WORLD, dest, source, ASHLAR_COUNT) == 0); \
    for (int at = 0; at < ASHLAR_COUNT; ++at) {                                               \
      T expected = (T)value(0, at);                                                           \
      for (int pe = 1; pe < count; ++pe) expected = (T)ACT(expected, (T)value(pe, at));       \
      ASHLAR_EXPECT(dest[at] == expected);                                                    \
      ASHLAR_EXPECT(source[at] == (T)value(me, at));                                          \
    }                                                                                         \
    shmem_##NAME##_##OPNAME##_reduce(SHMEM_TEAM_WORLD, source, source, ASHLAR_COUNT);         \
    ASHLAR_EXPECT(memcmp(source, dest, sizeof(T)) == 0 || source[0] == dest[0]);              \
    for (int at = 0; at < ASHLAR_COUNT; ++at) ASHLAR_EXPECT(source[at] == dest[at]);          \
    shmem_free(dest);                                                                         \
    shmem_free(source);                                                                       \
  }
#define ASHLAR_TEST(NAME, T)                      \
  ASHLAR_TEST_REDUCTION(NAME, T, and, ASHLAR_AND) \
  ASHLAR_TEST_REDUCTION(NAME, T, or, ASHLAR_OR)   \
  ASHLAR_TEST_REDUCTION(NAME, T, xor, ASHLAR_XOR)
ASHLAR_SHMEM_BITWISE_REDUCE_TYPES(ASHLAR_TEST)
#undef ASHLAR_TEST
#define ASHLAR_TEST(NAME, T)                      \
  ASHLAR_TEST_REDUCTION(NAME, T, min, ASHLAR_MIN) \
  ASHLAR_TEST_REDUCTION(NAME, T, max, ASHLAR_MAX)
ASHLAR_SHMEM_MIN_MAX_REDUCE_TYPES(ASHLAR_TEST)
#undef ASHLAR_TEST
#define ASHLAR_TEST(NAME, T)                      \
  ASHLAR_TEST_REDUCTION(NAME, T, sum, ASHLAR_SUM) \
  ASHLAR_TEST_REDUCTION(NAME, T, prod, ASHLAR_PROD)
ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_TEST)
#undef ASHLAR_TEST

static void test_reductions(void) {
#define ASHLAR_CALL(NAME, T) test_and_##NAME(), test_or_##NAME(), test_xor_##NAME();
  ASHLAR_SHMEM_BITWISE_REDUCE_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
#define ASHLAR_CALL(NAME, T) test_min_##NAME(), test_max_##NAME();
  ASHLAR_SHMEM_MIN_MAX_REDUCE_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
#define ASHLAR_CALL(NAME, T) test_sum_##NAME(), test_prod_##NAME();
  ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_CALL)
#undef ASHLAR_CALL
  /* Reduces more elements than fit in one chunk of the gathered reduction, and no elements. */
  const size_t many = 5000;
  long double* long_doubles = shmem_malloc(many * sizeof(long double));
  for (size_t at = 0; at < many; ++at) long_doubles[at] = (long double)at + me;
  shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, long_doubles, long_doubles, many);
  for (size_t at = 0; at < many; ++at) {
    ASHLAR_EXPECT(long_doubles[at] ==
                  (long double)at * count + (long double)(count * (count - 1) / 2));
  }
  shmem_int_sum_reduce(SHMEM_TEAM_WORLD, NULL, NULL, 0);
  shmem_free(long_doubles);
}

static void test_alltoall(shmem_team_t team, int* dest, int* source) {
  const int rank = shmem_team_my_pe(team);
  const int size = shmem_team_n_pes(team);
  for (int at = 0; at < 2 * size; ++at) source[at] = 1000 * rank + at;
  shmem_int_alltoall(team, dest, source, 2);
  for (int pe = 0; pe < size; ++pe) {
    ASHLAR_EXPECT(dest[2 * pe] == 1000 * pe + 2 * rank);
    ASHLAR_EXPECT(dest[2 * pe + 1] == 1000 * pe + 2 * rank + 1);
  }
  shmem_team_sync(team);
  /* Sends every second element of the source to every third element of the target. */
  memset(dest, 0, sizeof(int) * 16 * 64);
  for (int at = 0; at < 4 * size; ++at) source[at] = 1000 * rank + at;
  shmem_team_sync(team);
  shmem_int_alltoalls(team, dest, source, 3, 2, 2);
  for (int pe = 0; pe < size; ++pe) {
    for (int at = 0; at < 2; ++at) {
      ASHLAR_EXPECT(dest[(2 * pe + at) * 3] == 1000 * pe + (2 * rank + at) * 2);
      ASHLAR_EXPECT(dest[(2 * pe + at) * 3 + 1] == 0);
    }
  }
}

// Broadcast, collect, fcollect, alltoall and a reduction over one team. Called by all PEs.
static void test_data_movement(shmem_team_t team) {
  const int rank = shmem_team_my_pe(team);
  const int size = shmem_team_n_pes(team);
  int* source = shmem_malloc(sizeof(int) * 4 * 64);
  int* dest = shmem_malloc(sizeof(int) * 16 * 64);
  if (team == SHMEM_TEAM_INVALID) { /* not in the team; allocation is collective over the world */
    shmem_free(dest);
    shmem_free(source);
    return;
  }
  for (int root = 0; root < size; ++root) {
    for (int at = 0; at < 4; ++at) source[at] = 100 * rank + at;
    dest[0] = -1;
    shmem_int_broadcast(team, dest, source, 4, root);
    for (int at = 0; at < 4; ++at) ASHLAR_EXPECT(dest[at] == 100 * root + at);
    shmem_int_broadcast(team, source, source, 4, root);
    for (int at = 0; at < 4; ++at) ASHLAR_EXPECT(source[at] == 100 * root + at);
    shmem_team_sync(team);
  }
  for (int at = 0; at < 4; ++at) source[at] = 100 * rank + at;
  shmem_int_fcollect(team, dest, source, 4);
  for (int pe = 0; pe < size; ++pe) {
    for (int at = 0; at < 4; ++at) ASHLAR_EXPECT(dest[4 * pe + at] == 100 * pe + at);
  }
  shmem_team_sync(team);
  /* PE r contributes r % 3 elements. */
  shmem_int_collect(team, dest, source, (size_t)(rank % 3));
  int begin = 0;
  for (int pe = 0; pe < size; ++pe) {
    for (int at = 0; at < pe % 3; ++at) ASHLAR_EXPECT(dest[begin++] == 100 * pe + at);
  }
  shmem_team_sync(team);
  test_alltoall(team, dest, source);
  shmem_team_sync(team);
  shmem_fcollectmem(team, dest, source, 8);
  ASHLAR_EXPECT(dest[2 * (size - 1)] == 1000 * (size - 1));
  source[0] = rank + 1;
  shmem_int_sum_reduce(team, dest, source, 1);
  ASHLAR_EXPECT(dest[0] == size * (size + 1) / 2);
  shmem_team_sync(team);
  shmem_free(dest);
  shmem_free(source);
}

static void test_teams(void) {
  ASHLAR_EXPECT(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me);
  ASHLAR_EXPECT(shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
  ASHLAR_EXPECT(shmem_team_my_pe(SHMEM_TEAM_SHARED) >= 0);
  ASHLAR_EXPECT(shmem_team_translate_pe(SHMEM_TEAM_SHARED, shmem_team_my_pe(SHMEM_TEAM_SHARED),
                                        SHMEM_TEAM_WORLD) == me);
  test_data_movement(SHMEM_TEAM_WORLD);
  /* PEs of SHMEM_TEAM_SHARED map each other's heaps. */
  for (int pe = 0; pe < shmem_team_n_pes(SHMEM_TEAM_SHARED); ++pe) {
    int* word = shmem_malloc(sizeof(int));
    const int world_pe = shmem_team_translate_pe(SHMEM_TEAM_SHARED, pe, SHMEM_TEAM_WORLD);
    ASHLAR_EXPECT(world_pe >= 0 && shmem_ptr(word, world_pe) != NULL);
    shmem_free(word);
    if (shmem_team_n_pes(SHMEM_TEAM_SHARED) != count) break; /* shmem_malloc is collective */
  }
  shmem_team_sync(SHMEM_TEAM_SHARED);

  shmem_team_t evens = SHMEM_TEAM_INVALID;
  ASHLAR_EXPECT(
      shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (count + 1) / 2, NULL, 0, &evens) == 0);
  ASHLAR_EXPECT((evens != SHMEM_TEAM_INVALID) == (me % 2 == 0));
  if (me % 2 == 0) {
    ASHLAR_EXPECT(shmem_team_my_pe(evens) == me / 2);
    ASHLAR_EXPECT(shmem_team_translate_pe(evens, me / 2, SHMEM_TEAM_WORLD) == me);
    ASHLAR_EXPECT(count < 2 || shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1, evens) == -1);
  }
  test_data_movement(evens);
  /* A team split from a team, in reverse order. */
  shmem_team_t backwards = SHMEM_TEAM_INVALID;
  if (me % 2 == 0) {
    const int size = shmem_team_n_pes(evens);
    ASHLAR_EXPECT(shmem_team_split_strided(evens, size - 1, -1, size, NULL, 0, &backwards) == 0);
    ASHLAR_EXPECT(shmem_team_my_pe(backwards) == size - 1 - me / 2);
  }
  test_data_movement(backwards);
  /* A context numbers PEs as its team does. */
  int* word = shmem_calloc(1, sizeof(int));
  if (me % 2 == 0) {
    shmem_ctx_t context = SHMEM_CTX_INVALID;
    shmem_team_t context_team = SHMEM_TEAM_INVALID;
    ASHLAR_EXPECT(shmem_team_create_ctx(backwards, SHMEM_CTX_SERIALIZED, &context) == 0);
    ASHLAR_EXPECT(shmem_ctx_get_team(context, &context_team) == 0 && context_team == backwards);
    /* PE 0 of the context is the last PE of `evens`. */
    shmem_ctx_int_atomic_add(context, word, me + 1, 0);
    shmem_ctx_quiet(context);
    shmem_ctx_destroy(context);
    shmem_team_sync(backwards);
    const int size = shmem_team_n_pes(evens);
    if (shmem_team_my_pe(backwards) == 0) ASHLAR_EXPECT(*word == size * size);
    shmem_team_destroy(backwards);
  }
  shmem_free(word);
  shmem_team_destroy(evens);
}

// Nests teams so deeply that names built from all parents would exceed the length limit of group
// names. The nested teams have a single PE, so that the test is fast.
static void test_deep_teams(void) {
  enum { kDepth = 32 };
  shmem_team_t teams[kDepth];
  shmem_team_t all = SHMEM_TEAM_INVALID;
  ASHLAR_EXPECT(shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, &teams[0], NULL, 0, &all) == 0);
  const int depth = me == 0 ? kDepth : 1;
  for (int at = 1; at < depth; ++at) {
    ASHLAR_EXPECT(shmem_team_split_strided(teams[at - 1], 0, 1, 1, NULL, 0, &teams[at]) == 0);
  }
  long* words = shmem_malloc(2 * sizeof(long));
  words[0] = me;
  shmem_long_sum_reduce(teams[depth - 1], words + 1, words, 1);
  ASHLAR_EXPECT(words[1] == me);
  shmem_free(words);
  for (int at = depth; at > 0; --at) shmem_team_destroy(teams[at - 1]);
  shmem_team_destroy(all);
}

static void test_grids(void) {
  shmem_team_t wrong = SHMEM_TEAM_WORLD;
  ASHLAR_EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, count + 1, NULL, 0, &wrong) != 0);
  ASHLAR_EXPECT(wrong == SHMEM_TEAM_INVALID);

  shmem_team_t row = SHMEM_TEAM_INVALID;
  shmem_team_t column = SHMEM_TEAM_INVALID;
  ASHLAR_EXPECT(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) == 0);
  ASHLAR_EXPECT(shmem_team_my_pe(row) == me % 2 && shmem_team_my_pe(column) == me / 2);
  ASHLAR_EXPECT(shmem_team_n_pes(row) == (me / 2 * 2 + 2 <= count ? 2 : 1));
  test_data_movement(row);
  test_data_movement(column);
  shmem_team_destroy(row);
}

// pSync and pWrk are ignored and may be null.
static void test_active_sets(void) {
  int* source = shmem_malloc(64 * sizeof(int));
  int* dest = shmem_malloc(64 * sizeof(int));
  long* sums = shmem_calloc(2, sizeof(long));
  double _Complex* product = shmem_malloc(2 * sizeof(double _Complex));
  const int half = (count + 1) / 2; /* the number of PEs 0, 2, 4, ... */
  source[0] = 10 + me;
  source[1] = 20 + me;
  dest[0] = -7;
  shmem_barrier(0, 0, count, NULL);
  if (me % 2 == 0) {
    shmem_broadcast32(dest, source, 2, half - 1, 0, 1, half, NULL);
    ASHLAR_EXPECT(dest[0] == (me / 2 == half - 1 ? -7 : 10 + 2 * (half - 1)));
    shmem_sync(0, 1, half, NULL);
    shmem_fcollect32(dest, source, 1, 0, 1, half, NULL);
    for (int at = 0; at < half; ++at) ASHLAR_EXPECT(dest[at] == 10 + 2 * at);
    shmem_barrier(0, 1, half, NULL);
    shmem_collect64(dest, source, (size_t)(me / 2 == 0 ? 1 : 0), 0, 1, half, NULL);
    ASHLAR_EXPECT(dest[0] == 10 && dest[1] == 20);
    sums[0] = me;
    shmem_long_sum_to_all(sums + 1, sums, 1, 0, 1, half, NULL, NULL);
    ASHLAR_EXPECT(sums[1] == (long)half * (half - 1));
    shmem_long_max_to_all(sums + 1, sums, 1, 0, 1, half, NULL, NULL);
    ASHLAR_EXPECT(sums[1] == 2L * (half - 1));
    shmem_long_xor_to_all(sums + 1, sums, 1, 0, 1, half, NULL, NULL);
  }
  shmem_barrier_all();
  for (int at = 0; at < count; ++at) source[at] = 100 * me + at;
  shmem_alltoall32(dest, source, 1, 0, 0, count, NULL);
  for (int pe = 0; pe < count; ++pe) ASHLAR_EXPECT(dest[pe] == 100 * pe + me);
  product[0] = I;
  shmem_complexd_prod_to_all(product + 1, product, 1, 0, 0, count, NULL, NULL);
  double _Complex expected = 1;
  for (int pe = 0; pe < count; ++pe) expected *= I;
  ASHLAR_EXPECT(cabs(product[1] - expected) < 1e-12);
  shmem_free(product);
  shmem_free(sums);
  shmem_free(dest);
  shmem_free(source);
}

static void test_team_configuration(void) {
  shmem_team_config_t config = {7};
  shmem_team_t team = SHMEM_TEAM_INVALID;
  shmem_team_t other = SHMEM_TEAM_INVALID;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, count, &config, SHMEM_TEAM_NUM_CONTEXTS, &team);
  shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &other, &config, SHMEM_TEAM_NUM_CONTEXTS,
                      &other);
  config.num_contexts = -1;
  ASHLAR_EXPECT(shmem_team_get_config(team, 0, &config) == 0 && config.num_contexts == -1);
  ASHLAR_EXPECT(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0);
  ASHLAR_EXPECT(config.num_contexts == 7);
  config.num_contexts = -1;
  ASHLAR_EXPECT(shmem_team_get_config(other, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0);
  ASHLAR_EXPECT(config.num_contexts == 7);
  ASHLAR_EXPECT(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0);
  ASHLAR_EXPECT(config.num_contexts == 0);
  ASHLAR_EXPECT(shmem_team_get_config(SHMEM_TEAM_INVALID, 0, &config) != 0);
  shmem_ctx_session_config_t session = {.total_ops = 8};
  shmem_ctx_session_start(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, &session,
                          SHMEM_CTX_SESSION_TOTAL_OPS);
  shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
}

int main(void) {
  shmem_init();
  me = shmem_my_pe();
  count = shmem_n_pes();
  test_reductions();
  test_teams();
  test_deep_teams();
  test_grids();
  test_active_sets();
  test_team_configuration();
  shmem_finalize();
  shmem_finalize();
  return 0;
}
