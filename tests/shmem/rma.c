// SPDX-License-Identifier: Apache-2.0
//
// Put and get of every type: ring, all-to-all, strided and with signals. Also the symmetric heap,
// and forked children of a PE.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define ASHLAR_COUNT 37

static int me;
static int count;

// Tests one type: each PE sends a value to the next PE, and a block to every PE.
#define ASHLAR_TEST_TYPE(NAME, T)                                                              \
  static void test_##NAME(void) {                                                              \
    T* all = shmem_calloc((size_t)count * ASHLAR_COUNT, sizeof(T));                            \
    T* one = shmem_malloc(2 * sizeof(T));                                                      \
    const int next = (me + 1) % count;                                                         \
    T own[ASHLAR_COUNT];                                                                       \
    shmem_##NAME##_p(one, (T)(me + 5), next);                                                  \
    shmem_barrier_all();                                                                       \
    ASHLAR_EXPECT(one[0] == (T)((me + count - 1) % count + 5));                                \
    ASHLAR_EXPECT(shmem_##NAME##_g(one, next) == (T)(me + 5));                                 \
    for (int at = 0; at < ASHLAR_COUNT; ++at) own[at] = (T)(me + at);                          \
    for (int pe = 0; pe < count; ++pe) {                                                       \
      if (pe % 2 == 0) shmem_##NAME##_put(all + me * ASHLAR_COUNT, own, ASHLAR_COUNT, pe);     \
      if (pe % 2 == 1) shmem_##NAME##_put_nbi(all + me * ASHLAR_COUNT, own, ASHLAR_COUNT, pe); \
    }                                                                                          \
    shmem_barrier_all();                                                                       \
    for (int pe = 0; pe < count; ++pe) {                                                       \
      for (int at = 0; at < ASHLAR_COUNT; ++at) {                                              \
        ASHLAR_EXPECT(all[pe * ASHLAR_COUNT + at] == (T)(pe + at));                            \
      }                                                                                        \
    }                                                                                          \
    memset(own, 0, sizeof(own));                                                               \
    shmem_##NAME##_get(own, all + next * ASHLAR_COUNT, ASHLAR_COUNT, next);                    \
    for (int at = 0; at < ASHLAR_COUNT; ++at) ASHLAR_EXPECT(own[at] == (T)(next + at));        \
    /* Copies every third element to every second element, and gets them back. */              \
    shmem_barrier_all();                                                                       \
    shmem_##NAME##_iput(all, own, 2, 3, 12, next);                                             \
    shmem_barrier_all();                                                                       \
    for (int at = 0; at < 12; ++at) ASHLAR_EXPECT(all[2 * at] == (T)(me + 3 * at));            \
    shmem_##NAME##_iget(own, all, 1, 2, 12, next);                                             \
    for (int at = 0; at < 12; ++at) ASHLAR_EXPECT(own[at] == (T)(next + 3 * at));              \
    shmem_barrier_all();                                                                       \
    shmem_##NAME##_iput(all, own, 1, 2, 6, me);                                                \
    shmem_quiet();                                                                             \
    for (int at = 0; at < 6; ++at) ASHLAR_EXPECT(all[at] == (T)(next + 6 * at));               \
    shmem_free(one);                                                                           \
    shmem_free(all);                                                                           \
  }
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_TEST_TYPE)

static void test_sizes(void) {
  const int next = (me + 1) % count;
  const int before = (me + count - 1) % count;
  unsigned char* symmetric = shmem_malloc(4096);
  unsigned char own[64];
  memset(symmetric, 0, 4096);
  for (int at = 0; at < 64; ++at) own[at] = (unsigned char)(me + at);
  shmem_barrier_all();
  shmem_put8(symmetric, own, 4, next);
  shmem_put16(symmetric + 64, own, 4, next);
  shmem_put32(symmetric + 128, own, 4, next);
  shmem_put64_nbi(symmetric + 192, own, 4, next);
  shmem_put128(symmetric + 256, own, 4, next);
  shmem_putmem(symmetric + 321, own, 63, next);
  shmem_barrier_all();
  const int bytes[] = {4, 8, 16, 32, 64};
  for (int kind = 0; kind < 5; ++kind) {
    for (int at = 0; at < 64; ++at) {
      const int expected = at < bytes[kind] ? before + at : 0;
      ASHLAR_EXPECT(symmetric[64 * kind + at] == (unsigned char)expected);
    }
  }
  for (int at = 0; at < 63; ++at)
    ASHLAR_EXPECT(symmetric[321 + at] == (unsigned char)(before + at));
  shmem_get128(own, symmetric + 256, 4, next);
  for (int at = 0; at < 64; ++at) ASHLAR_EXPECT(own[at] == (unsigned char)(me + at));
  shmem_getmem_nbi(own, symmetric + 321, 63, before);
  shmem_quiet();
  ASHLAR_EXPECT(own[62] == (unsigned char)((before + count - 1) % count + 62));
  shmem_barrier_all();
  shmem_iput32(symmetric, symmetric + 128, 2, 1, 4, me);
  shmem_quiet();
  ASHLAR_EXPECT(memcmp(symmetric + 8, symmetric + 132, 4) == 0 &&
                memcmp(symmetric + 24, symmetric + 140, 4) == 0);
  shmem_free(symmetric);
}

// Tests large transfers by all PEs at the same time.
static void test_large(void) {
  const size_t words = 300000;
  long* symmetric = shmem_malloc(words * sizeof(long));
  long* own = malloc(words * sizeof(long));
  const int next = (me + 1) % count;
  for (size_t at = 0; at < words; ++at) own[at] = (long)at * (me + 1);
  shmem_long_put(symmetric, own, words, next);
  shmem_barrier_all();
  const int before = (me + count - 1) % count;
  for (size_t at = 0; at < words; ++at) ASHLAR_EXPECT(symmetric[at] == (long)at * (before + 1));
  shmem_long_get(own, symmetric, words, next);
  for (size_t at = 0; at < words; ++at) ASHLAR_EXPECT(own[at] == (long)at * (me + 1));
  free(own);
  shmem_free(symmetric);
}

// Data must arrive before its signal.
static void test_signals(void) {
  const int next = (me + 1) % count;
  long* data = shmem_calloc(64, sizeof(long));
  uint64_t* signals = shmem_calloc(2, sizeof(uint64_t));
  uint64_t* consumed = shmem_calloc(1, sizeof(uint64_t));
  long own[64];
  const int before = (me + count - 1) % count;
  for (uint64_t round = 1; round <= 300; ++round) {
    for (int at = 0; at < 64; ++at) own[at] = (long)round * 100 + at;
    shmem_long_put_signal(data, own, 64, signals, round, SHMEM_SIGNAL_SET, next);
    ASHLAR_EXPECT(shmem_signal_wait_until(signals, SHMEM_CMP_EQ, round) == round);
    for (int at = 0; at < 64; ++at) ASHLAR_EXPECT(data[at] == (long)round * 100 + at);
    /* Tell the sender that the data may be overwritten. */
    shmem_uint64_atomic_set(consumed, round, before);
    shmem_uint64_wait_until(consumed, SHMEM_CMP_GE, round);
  }
  ASHLAR_EXPECT(shmem_signal_fetch(signals) == 300);
  shmem_barrier_all();
  for (int pe = 0; pe < count; ++pe) {
    shmem_putmem_signal_nbi(data + me % 64, own, sizeof(long), signals + 1, 3, SHMEM_SIGNAL_ADD,
                            pe);
  }
  shmem_signal_wait_until(signals + 1, SHMEM_CMP_EQ, (uint64_t)count * 3);
  shmem_barrier_all();
  shmem_free(consumed);
  shmem_free(signals);
  shmem_free(data);
}

static void test_heap(void) {
  /* Calls without an effect need not be made by all PEs. */
  if (me == 0) {
    ASHLAR_EXPECT(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL);
    ASHLAR_EXPECT(shmem_align(64, 0) == NULL && shmem_realloc(NULL, 0) == NULL);
    shmem_free(NULL);
  }
  ASHLAR_EXPECT(shmem_align(63, 100) == NULL);
  for (size_t alignment = 1; alignment <= (size_t)1 << 22; alignment *= 2) {
    char* aligned = shmem_align(alignment, 100);
    ASHLAR_EXPECT(aligned != NULL && (uintptr_t)aligned % alignment == 0);
    shmem_char_p(aligned, 'x', count - 1);
    shmem_free(aligned);
  }
  ASHLAR_EXPECT(shmem_align((size_t)1 << 40, 1 << 23) == NULL);
  void* hinted = shmem_malloc_with_hints(8, 1L << 20); /* an unknown hint */
  ASHLAR_EXPECT(hinted != NULL);
  shmem_free(hinted);
  char* first = shmem_malloc(100);
  char* second = shmem_align(4096, 5000);
  char* third = shmem_calloc(10, 10);
  ASHLAR_EXPECT((uintptr_t)second % 4096 == 0);
  for (int at = 0; at < 100; ++at) ASHLAR_EXPECT(third[at] == 0);
  memset(first, 'x', 100);
  char* grown = shmem_realloc(first, 10000);
  for (int at = 0; at < 100; ++at) ASHLAR_EXPECT(grown[at] == 'x');
  ASHLAR_EXPECT(shmem_malloc((size_t)1 << 50) == NULL);
  ASHLAR_EXPECT(shmem_calloc((size_t)1 << 40, (size_t)1 << 40) == NULL);
  ASHLAR_EXPECT(shmem_addr_accessible(grown + 9999, count - 1) == 1);
  int on_stack = 0;
  ASHLAR_EXPECT(shmem_addr_accessible(&on_stack, me) == 0);
  ASHLAR_EXPECT(shmem_addr_accessible(grown, count) == 0);
  ASHLAR_EXPECT(shmem_ptr(&on_stack, me) == NULL);
  ASHLAR_EXPECT(shmem_ptr(grown, me) == grown);
  ASHLAR_EXPECT(shmem_pe_accessible(count - 1) == 1 && shmem_pe_accessible(count) == 0);
  /* Write through shmem_ptr where the PE's heap is mapped. */
  const int next = (me + 1) % count;
  shmem_barrier_all();
  char* theirs = shmem_ptr(grown + 7, next);
  if (theirs != NULL) *theirs = (char)('a' + me);
  if (theirs == NULL) shmem_char_p(grown + 7, (char)('a' + me), next);
  shmem_barrier_all();
  ASHLAR_EXPECT(grown[7] == (char)('a' + (me + count - 1) % count));
  shmem_free(grown);
  shmem_free(third);
  shmem_free(second);
  /* All of the heap is free again. A shrinking realloc works in place. */
  const size_t all = ((size_t)8 << 20) - 4096;
  char* most = shmem_malloc(all);
  ASHLAR_EXPECT(most != NULL);
  most[999] = 'y';
  ASHLAR_EXPECT(shmem_realloc(most, all + ((size_t)1 << 30)) == NULL);
  char* less = shmem_realloc(most, 1000);
  ASHLAR_EXPECT(less == most && less[999] == 'y');
  char* behind = shmem_malloc(all - 4096);
  ASHLAR_EXPECT(behind != NULL);
  shmem_free(behind);
  ASHLAR_EXPECT(shmem_realloc(less, all) == most && most[999] == 'y');
  ASHLAR_EXPECT(shmem_realloc(most, 0) == NULL);
}

// LeakSanitizer calls this function at exit and skips its check if the result is 1. In a forked
// child, the check would look for the parent's threads and report memory that the child
// deliberately does not free.
static int is_child = 0;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_child; }

// A forked child is not a PE: its exit, with any status, must not affect the job.
static void test_child(void (*live)(void), int expected) {
  const pid_t child = fork();
  is_child = child == 0;
  if (is_child) live();
  int status = 0;
  ASHLAR_EXPECT(waitpid(child, &status, 0) == child);
  ASHLAR_EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == expected);
  shmem_barrier_all();
}
static void exit_with_error(void) { exit(3); }
static void enter_barrier(void) {
  close(STDERR_FILENO);  // hides the expected error message
  shmem_barrier_all();
  _exit(4);
}
static void call_global_exit(void) { shmem_global_exit(5); }

int main(void) {
  int provided = -1;
  shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
  ASHLAR_EXPECT(provided == SHMEM_THREAD_MULTIPLE);
  me = shmem_my_pe();
  count = shmem_n_pes();
#define ASHLAR_CALL(NAME, T) test_##NAME();
  ASHLAR_SHMEM_RMA_TYPES(ASHLAR_CALL)
  test_sizes();
  test_large();
  test_signals();
  test_heap();
  test_child(exit_with_error, 3);
  test_child(enter_barrier, 1);
  test_child(call_global_exit, 5);
  int major = 0;
  int minor = 0;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_version(&major, &minor);
  shmem_info_get_name(name);
  ASHLAR_EXPECT(major == 1 && minor == 5 && strcmp(name, "Ashlar") == 0);
  shmem_finalize();
  return 0;
}
