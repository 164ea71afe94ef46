// SPDX-License-Identifier: Apache-2.0
//
// Global and static variables are symmetric: puts, gets, atomics, waits, locks and collectives on
// them, and their values in signal handlers and fork handlers, in forked children and after
// shmem_finalize. Built with and without position-independent code.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

enum { kMaxPes = 16, kLargeCount = 1 << 20, kReduceCount = 3000 };

static int initialized[kMaxPes] = {11, 22, 33};
long uninitialized[kMaxPes];
static long large[kLargeCount]; /* several megabytes, of which few pages are used */
static long counter = 5;
static long lock;
static uint64_t signal_word;
static const int constant = 7;
static double source[kReduceCount];
static double dest[kReduceCount];
static int all[kMaxPes];
static long pSync[SHMEM_REDUCE_SYNC_SIZE];
static int status_of_child;
static pthread_t main_thread;
static volatile long signal_count = 1;
static volatile long* signal_count_on_heap;
static int is_fork_prepared;
static int child_handler_count;

static int* local_static(void) {
  static int value = 40;
  return &value;
}

static void test_rma(int me, int count) {
  const int next = (me + 1) % count;
  const int previous = (me + count - 1) % count;
  ASHLAR_EXPECT(initialized[0] == 11 && initialized[2] == 33 && initialized[3] == 0);
  shmem_barrier_all();
  shmem_int_p(&initialized[3], 100 + me, next);
  shmem_int_p(local_static(), 50 + me, next);
  shmem_long_p(&large[kLargeCount - 1], me, next);
  shmem_barrier_all();
  ASHLAR_EXPECT(initialized[3] == 100 + previous);
  ASHLAR_EXPECT(*local_static() == 50 + previous);
  ASHLAR_EXPECT(large[kLargeCount - 1] == previous && large[0] == 0);
  ASHLAR_EXPECT(shmem_int_g(&initialized[3], next) == 100 + me);

  /* Copies between a variable, the heap and the stack. */
  long stack[kMaxPes];
  long* heap = shmem_calloc(kMaxPes, sizeof(long));
  for (int at = 0; at < kMaxPes; ++at) stack[at] = 1000 * me + at;
  shmem_long_put(uninitialized, stack, kMaxPes, next);
  shmem_barrier_all();
  ASHLAR_EXPECT(uninitialized[kMaxPes - 1] == 1000 * previous + kMaxPes - 1);
  shmem_long_put(heap, uninitialized, kMaxPes, next);
  shmem_barrier_all();
  shmem_long_get(stack, heap, kMaxPes, me);
  ASHLAR_EXPECT(memcmp(stack, heap, sizeof(stack)) == 0);
  shmem_free(heap);
}

static void test_addresses(int me, int count) {
  int on_stack = 0;
  ASHLAR_EXPECT(shmem_addr_accessible(&counter, me) == 1);
  ASHLAR_EXPECT(shmem_addr_accessible(local_static(), count - 1) == 1);
  ASHLAR_EXPECT(shmem_addr_accessible(&constant, me) == 0);
  ASHLAR_EXPECT(shmem_addr_accessible(&on_stack, me) == 0);
  ASHLAR_EXPECT(shmem_ptr(&counter, me) == &counter);
  ASHLAR_EXPECT(shmem_team_ptr(SHMEM_TEAM_WORLD, &counter, me) == &counter);
  ASHLAR_EXPECT(shmem_team_ptr(SHMEM_TEAM_WORLD, &counter, count) == NULL);
  ASHLAR_EXPECT(shmem_team_ptr(SHMEM_TEAM_INVALID, &counter, 0) == NULL);
  long* other = shmem_ptr(&counter, (me + 1) % count);
  ASHLAR_EXPECT(other == NULL || *other == 5);
  shmem_barrier_all();
}

static void test_atomics(int me, int count) {
  shmem_long_atomic_add(&counter, me + 1, 0);
  shmem_barrier_all();
  if (me == 0) ASHLAR_EXPECT(counter == 5 + count * (count + 1) / 2);
  shmem_set_lock(&lock);
  const long before = shmem_long_g(&uninitialized[0], 0);
  shmem_long_p(&uninitialized[0], before + 1, 0);
  shmem_clear_lock(&lock);
  if (me != 0) shmem_putmem_signal(&large[me], &counter, 8, &signal_word, 1, SHMEM_SIGNAL_ADD, 0);
  if (me == 0) shmem_signal_wait_until(&signal_word, SHMEM_CMP_EQ, (uint64_t)count - 1);
  shmem_barrier_all();
}

static void test_collectives(int me, int count) {
  for (int at = 0; at < kReduceCount; ++at) source[at] = me + at;
  shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, kReduceCount);
  ASHLAR_EXPECT(dest[kReduceCount - 1] == count * (count - 1) / 2.0 + count * (kReduceCount - 1.0));
  shmem_double_max_reduce(SHMEM_TEAM_WORLD, source, source, kReduceCount);
  ASHLAR_EXPECT(source[1] == count);
  shmem_int_fcollect(SHMEM_TEAM_WORLD, all, local_static(), 1);
  for (int pe = 0; pe < count; ++pe) ASHLAR_EXPECT(all[pe] == 50 + (pe + count - 1) % count);
  initialized[0] = me;
  shmem_broadcast32(all, initialized, 1, 0, 0, 0, count, pSync);
  ASHLAR_EXPECT(me == 0 || all[0] == 0);
  shmem_int_collect(SHMEM_TEAM_WORLD, all, initialized, 1);
  ASHLAR_EXPECT(all[count - 1] == count - 1);
}

/* Threads of UCX receive signals, too, and would count concurrently. */
static void count_signal(int number) {
  (void)number;
  if (!pthread_equal(pthread_self(), main_thread)) return;
  ++signal_count;
  ++*signal_count_on_heap;
}

/* Counts signals while shmem_init moves the variables. */
static void init_with_signals(void) {
  main_thread = pthread_self();
  signal_count_on_heap = malloc(sizeof(long));
  *signal_count_on_heap = signal_count;
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval interval = {{0, 100}, {0, 100}}; /* 100 us */
  const struct itimerval none = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &interval, NULL);
  shmem_init();
  setitimer(ITIMER_REAL, &none, NULL);
  ASHLAR_EXPECT(signal_count == *signal_count_on_heap);
  free((void*)signal_count_on_heap);
}

static void prepare_fork(void) { is_fork_prepared = 1; }
static void end_fork_in_parent(void) { is_fork_prepared = 0; }
static void end_fork_in_child(void) {
  ++child_handler_count;
  if (!is_fork_prepared) _exit(71);
}

/* The handlers were registered before shmem_init. */
static void test_fork_handlers(void) {
  const pid_t child = fork();
  if (child == 0) _exit(child_handler_count == 1 ? 0 : 1);
  int status = 1;
  ASHLAR_EXPECT(waitpid(child, &status, 0) == child && status == 0);
  ASHLAR_EXPECT(child_handler_count == 0 && is_fork_prepared == 0);
}

/* Returns how much shared memory this process has touched, in KiB; 0 if unknown. */
static long shared_kib(void) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  long kib = 0;
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "RssShmem: %ld", &kib) == 1) break;
  }
  if (file != NULL) fclose(file);
  return kib;
}

/* Pages that were never written use no memory. */
static void test_memory_of_fork(void) {
  const long before = shared_kib();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  ASHLAR_EXPECT(shared_kib() - before < (long)sizeof(large) / 2 / 1024);
}

/* A child gets its own copy of the variables, which later changes of the parent do not affect. */
static void test_fork(int me) {
  int to_child[2];
  ASHLAR_EXPECT(pipe(to_child) == 0);
  uninitialized[1] = 77;
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    const int is_read = read(to_child[0], &byte, 1) == 1;
    const int is_right = is_read && uninitialized[1] == 77 && large[kLargeCount - 2] == 0;
    uninitialized[1] = 88;
    large[5] = 99;
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(uninitialized[1] == 88 ? 0 : 1);
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(is_right && status == 0 ? 0 : 1);
  }
  uninitialized[1] = 78;
  large[kLargeCount - 2] = 3;
  ASHLAR_EXPECT(write(to_child[1], "x", 1) == 1);
  ASHLAR_EXPECT(waitpid(child, &status_of_child, 0) == child && status_of_child == 0);
  ASHLAR_EXPECT(uninitialized[1] == 78);
  ASHLAR_EXPECT(large[5] != 99);
  shmem_long_p(&uninitialized[2], 6, me);
  ASHLAR_EXPECT(uninitialized[2] == 6);
}

int main(void) {
  counter = 5;
  pthread_atfork(prepare_fork, end_fork_in_parent, end_fork_in_child);
  init_with_signals();
  const int me = shmem_my_pe();
  const int count = shmem_n_pes();
  test_rma(me, count);
  test_addresses(me, count);
  test_atomics(me, count);
  test_collectives(me, count);
  test_memory_of_fork();
  test_fork_handlers();
  test_fork(me);
  shmem_finalize();
  if (uninitialized[1] != 78 || initialized[0] != me) return 1;
  uninitialized[1] = 79;
  return uninitialized[1] == 79 ? 0 : 1;
}
