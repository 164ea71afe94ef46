// SPDX-License-Identifier: Apache-2.0
//
// Several threads per PE: collectives on different teams, which each PE starts in a different
// order; concurrent puts, atomics and waits; one contended lock.
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

#define ASHLAR_THREADS 4
#define ASHLAR_ROUNDS 3
#define ASHLAR_TURNS 10
#define ASHLAR_WORDS 64
// The time after which a deadlocked PE ends itself. It suffices on a slow machine with a sanitizer.
#define ASHLAR_TIMEOUT_SECONDS 90

static int me;
static int count;

// The state of one thread.
struct thread_state {
  int number;
  shmem_team_t team;
  long* source;
  long* dest;
};

static long* tickets;  // a counter, followed by one word per ticket
static long* blocks;   // one block per thread
static uint64_t* signals;
static long* lock;
static long* number; /* protected by `lock` */

/* The call that each thread is in, for the report of a deadlock. */
static const char* volatile current_call[ASHLAR_THREADS];

/* The handler of SIGALRM: reports the calls and ends the PE. Calls only async-signal-safe
 * functions. */
static void report_deadlock(int signal) {
  char line[] = "PE 0, thread 0: ";
  line[3] = (char)('0' + me);
  for (int at = 0; at < ASHLAR_THREADS; ++at) {
    const char* call = current_call[at] != NULL ? current_call[at] : "not started";
    line[13] = (char)('0' + at);
    if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0 ||
        write(STDERR_FILENO, call, strlen(call)) < 0 || write(STDERR_FILENO, "\n", 1) < 0) {
      break;
    }
  }
  struct sigaction by_default = {.sa_handler = SIG_DFL};
  sigaction(signal, &by_default, NULL);
  raise(signal);
}

static void run_threads(void* (*function)(void*), struct thread_state* states) {
  pthread_t threads[ASHLAR_THREADS];
  for (int at = 0; at < ASHLAR_THREADS; ++at) {
    ASHLAR_EXPECT(pthread_create(&threads[at], NULL, function, &states[at]) == 0);
  }
  for (int at = 0; at < ASHLAR_THREADS; ++at) {
    ASHLAR_EXPECT(pthread_join(threads[at], NULL) == 0);
  }
}

// Runs collectives on one team from one thread.
static void* collect(void* given) {
  struct thread_state* own = given;
  const int rank = shmem_team_my_pe(own->team);
  const int size = shmem_team_n_pes(own->team);
  for (int turn = 0; turn < ASHLAR_TURNS; ++turn) {
    const long base = 1000L * own->number + turn;
    for (int at = 0; at < 4; ++at) own->source[at] = base + rank;
    current_call[own->number] = "reduce";
    shmem_long_sum_reduce(own->team, own->dest, own->source, 4);
    ASHLAR_EXPECT(own->dest[3] == size * base + size * (size - 1) / 2);
    current_call[own->number] = "fcollect";
    shmem_long_fcollect(own->team, own->dest, own->source, 1);
    for (int pe = 0; pe < size; ++pe) ASHLAR_EXPECT(own->dest[pe] == base + pe);
    current_call[own->number] = "sync before broadcast";
    shmem_team_sync(own->team);
    current_call[own->number] = "broadcast";
    shmem_long_broadcast(own->team, own->dest, own->source, 2, turn % size);
    ASHLAR_EXPECT(own->dest[1] == base + turn % size);
    current_call[own->number] = "sync after broadcast";
    shmem_team_sync(own->team);
  }
  current_call[own->number] = "no collective";
  return NULL;
}

// A PE joins a team's group in the team's first collective. Thread t of PE p uses team t + p,
// modulo the number of threads, so that the PEs join the groups in different orders. The last team
// is the world.
static void test_teams(void) {
  struct thread_state states[ASHLAR_THREADS];
  long* memory = shmem_malloc(ASHLAR_THREADS * 2 * ASHLAR_WORDS * sizeof(long));
  for (int round = 0; round < ASHLAR_ROUNDS; ++round) {
    for (int at = 0; at < ASHLAR_THREADS; ++at) {
      struct thread_state* own =
          &states[(at + ASHLAR_THREADS - me % ASHLAR_THREADS) % ASHLAR_THREADS];
      own->number = at;
      own->source = memory + at * 2 * ASHLAR_WORDS;
      own->dest = own->source + ASHLAR_WORDS;
      own->team = SHMEM_TEAM_WORLD;
      if (at == ASHLAR_THREADS - 1) continue;
      ASHLAR_EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, count, NULL, 0, &own->team) ==
                    0);
    }
    run_threads(collect, states);
    for (int at = 0; at < ASHLAR_THREADS; ++at) {
      const int thread = (at + ASHLAR_THREADS - me % ASHLAR_THREADS) % ASHLAR_THREADS;
      if (states[thread].team != SHMEM_TEAM_WORLD) shmem_team_destroy(states[thread].team);
    }
  }
  shmem_free(memory);
}

// Accesses the same remote words from many threads.
static void* access_shared_words(void* given) {
  const struct thread_state* own = given;
  const int next = (me + 1) % count;
  shmem_ctx_t context = SHMEM_CTX_INVALID;
  ASHLAR_EXPECT(shmem_ctx_create(SHMEM_CTX_PRIVATE, &context) == 0);
  for (int turn = 0; turn < ASHLAR_TURNS; ++turn) {
    current_call[own->number] = "atomic_fetch_inc";
    for (int pe = 0; pe < count; ++pe) {
      const long ticket = shmem_long_atomic_fetch_inc(tickets, pe);
      shmem_ctx_long_atomic_inc(context, tickets + 1 + ticket, pe);
    }
    /* Each thread sends its own block to the next PE. The block must arrive before its signal. */
    long block[ASHLAR_WORDS];
    for (int at = 0; at < ASHLAR_WORDS; ++at) block[at] = 1000L * turn + 10 * at + own->number;
    uint64_t* signal = signals + 2 * own->number;
    current_call[own->number] = "put_signal";
    shmem_ctx_long_put_signal(context, blocks + own->number * ASHLAR_WORDS, block, ASHLAR_WORDS,
                              signal, 1, SHMEM_SIGNAL_ADD, next);
    current_call[own->number] = "signal_wait_until";
    shmem_signal_wait_until(signal, SHMEM_CMP_GT, (uint64_t)turn);
    for (int at = 0; at < ASHLAR_WORDS; ++at) {
      ASHLAR_EXPECT(blocks[own->number * ASHLAR_WORDS + at] == block[at]);
    }
    shmem_uint64_atomic_inc(signal + 1, (me + count - 1) % count); /* the block may be reused */
    current_call[own->number] = "wait_until";
    shmem_uint64_wait_until(signal + 1, SHMEM_CMP_GT, (uint64_t)turn);

    current_call[own->number] = "set_lock";
    shmem_set_lock(lock);
    current_call[own->number] = "g, p or clear_lock";
    const long seen = shmem_long_g(number, 0);
    shmem_long_p(number, seen + 1, 0);
    shmem_clear_lock(lock);
  }
  current_call[own->number] = "ctx_quiet";
  shmem_ctx_quiet(context);
  shmem_ctx_destroy(context);
  current_call[own->number] = "barrier_all, after all threads";
  return NULL;
}

static void test_words(void) {
  struct thread_state states[ASHLAR_THREADS];
  for (int at = 0; at < ASHLAR_THREADS; ++at) states[at].number = at;
  const int all = count * ASHLAR_THREADS * ASHLAR_TURNS;
  tickets = shmem_calloc(1 + (size_t)all, sizeof(long));
  blocks = shmem_calloc(ASHLAR_THREADS * ASHLAR_WORDS, sizeof(long));
  signals = shmem_calloc(2 * ASHLAR_THREADS, sizeof(uint64_t));
  lock = shmem_calloc(1, sizeof(long));
  number = shmem_calloc(1, sizeof(long));
  run_threads(access_shared_words, states);
  shmem_barrier_all();
  ASHLAR_EXPECT(tickets[0] == all);
  for (int at = 0; at < all; ++at) ASHLAR_EXPECT(tickets[1 + at] == 1);
  if (me == 0) ASHLAR_EXPECT(*number == all);
  shmem_free(number);
  shmem_free(lock);
  shmem_free(signals);
  shmem_free(blocks);
  shmem_free(tickets);
}

int main(void) {
  struct sigaction on_alarm = {.sa_handler = report_deadlock};
  sigaction(SIGALRM, &on_alarm, NULL);
  alarm(ASHLAR_TIMEOUT_SECONDS);
  int provided = -1;
  shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
  ASHLAR_EXPECT(provided == SHMEM_THREAD_MULTIPLE);
  me = shmem_my_pe();
  count = shmem_n_pes();
  test_teams();
  test_words();
  shmem_finalize();
  return 0;
}
