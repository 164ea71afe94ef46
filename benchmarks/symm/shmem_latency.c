// SPDX-License-Identifier: Apache-2.0
//
// Latencies of small OpenSHMEM operations, in microseconds: the best of many batches, because other
// programs may interrupt a batch. Uses only OpenSHMEM 1.4, so that it also compiles with other
// implementations:
//
//   oshcc -O2 benchmarks/symm/shmem_latency.c -o latency && oshrun -np 2 ./latency
#include <shmem.h>
#include <stdio.h>
#include <time.h>

enum { kBatches = 400, kCallsPerBatch = 20, kMaxSyncSize = 256 };

static long ball;
static long source;
static long result;
static long work[kMaxSyncSize];
static long sync_words[kMaxSyncSize];
static int me;
static int count;

static void barrier(void) { shmem_barrier_all(); }

static void put(void) { shmem_long_p(&result, 1, (me + 1) % count); }

static void ping_pong(void) {
  static long round = 0;
  ++round;
  if (me == 0) {
    shmem_long_p(&ball, round, 1);
    shmem_long_wait_until(&ball, SHMEM_CMP_GE, round);
  } else if (me == 1) {
    shmem_long_wait_until(&ball, SHMEM_CMP_GE, round);
    shmem_long_p(&ball, round, 0);
  }
}

static void reduce(void) {
  shmem_long_sum_to_all(&result, &source, 1, 0, 0, count, work, sync_words);
}

static void broadcast(void) { shmem_broadcast64(&result, &source, 1, 0, 0, 0, count, sync_words); }

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void measure(const char* name, void (*call)(void)) {
  double best_us = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) {
    shmem_barrier_all();
    const double begin = now_us();
    for (int at = 0; at < kCallsPerBatch; ++at) call();
    const double us = (now_us() - begin) / kCallsPerBatch;
    if (us < best_us) best_us = us;
  }
  if (me == 0) printf("%-16s %7.3f us\n", name, best_us);
}

int main(void) {
  shmem_init();
  me = shmem_my_pe();
  count = shmem_n_pes();
  for (int at = 0; at < kMaxSyncSize; ++at) sync_words[at] = SHMEM_SYNC_VALUE;
  measure("barrier", barrier);
  measure("put 8 B", put);
  if (count > 1) measure("ping-pong", ping_pong);
  measure("reduce 8 B", reduce);
  measure("broadcast 8 B", broadcast);
  shmem_finalize();
  return 0;
}
