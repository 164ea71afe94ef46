// SPDX-License-Identifier: Apache-2.0
//
// Error cases, selected by name. Each terminates all PEs, with a message or a status that
// shmem_test.cc expects.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checks.h"

static int me;
static int count;
static long global_word;
enum { kLargestPage = 1 << 16 };
static _Alignas(kLargestPage) char protected_page[kLargestPage];

// Waits until the job, and with it this process, is terminated.
static void wait_forever(void) {
  long* word = shmem_calloc(1, sizeof(long));
  shmem_long_wait_until(word, SHMEM_CMP_EQ, 1);
}

static void heap_errors(const char* name) {
  if (strcmp(name, "sizes") == 0) shmem_malloc(me == 1 ? 128 : 64);
  char* block = shmem_malloc(64);
  if (strcmp(name, "calls") == 0) me == 1 ? shmem_free(block) : (void)shmem_malloc(64);
  if (strcmp(name, "interior") == 0) shmem_free(block + 64);
  if (strcmp(name, "twice") == 0) {
    shmem_free(block);
    shmem_free(block);
  }
  if (strcmp(name, "freed-static") == 0) shmem_free(&global_word);
}

static void access_errors(const char* name) {
  long* words = shmem_calloc(4, sizeof(long));
  long* private_words = malloc(4 * sizeof(long));
  if (strcmp(name, "private") == 0) shmem_long_p(private_words, 1, 0);
  if (strcmp(name, "rank") == 0) shmem_long_p(words, 1, count);
  if (strcmp(name, "beyond") == 0) shmem_long_put(words, words, (size_t)1 << 40, 0);
  if (strcmp(name, "overflow") == 0) shmem_long_put(words, words, SIZE_MAX / 4, 0);
  if (strcmp(name, "unaligned") == 0) shmem_long_atomic_inc((long*)(void*)((char*)words + 4), 0);
  if (strcmp(name, "stride") == 0) shmem_long_iput(words, words, 0, 1, 2, 0);
  if (strcmp(name, "lock") == 0) shmem_clear_lock(words);
  if (strcmp(name, "comparison") == 0) shmem_long_wait_until(words, 99, 0);
  if (strcmp(name, "private-wait") == 0) shmem_long_wait_until(private_words, SHMEM_CMP_EQ, 1);
  if (strcmp(name, "signal") == 0) {
    shmem_putmem_signal(words, words, 8, (uint64_t*)(void*)(words + 1), 1, 77, 0);
  }
  if (strcmp(name, "team") == 0) shmem_team_sync((shmem_team_t)(uintptr_t)1000);
  if (strcmp(name, "context") == 0) shmem_ctx_long_p((shmem_ctx_t)(uintptr_t)1000, words, 1, 0);
  if (strcmp(name, "counts") == 0) {
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words + 2, words, me == 1 ? 2 : 1);
  }
  if (strcmp(name, "overlap") == 0) {
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words + 1, words, 2);
  }
  if (strcmp(name, "overlap-gathered") == 0) {
    long double* numbers = shmem_malloc(4 * sizeof(long double));
    shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, numbers + 1, numbers, 2);
  }
  if (strcmp(name, "count-overflow") == 0) {
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words + 2, words, SIZE_MAX / 4);
  }
  if (strcmp(name, "words-overflow") == 0) {
    shmem_long_wait_until_all(words, SIZE_MAX / 4, NULL, SHMEM_CMP_EQ, 1);
  }
  if (strcmp(name, "alltoalls-source") == 0) {
    shmem_long_alltoalls(SHMEM_TEAM_WORLD, words, private_words, 1, 1, 1);
  }
  if (strcmp(name, "alltoalls-end") == 0) {
    /* The block for the last PE begins beyond the heap; the other blocks are inside. */
    shmem_long_alltoalls(SHMEM_TEAM_WORLD, words, words, 1, 1 << 20, 1);
  }
  if (strcmp(name, "alltoalls-overflow") == 0) {
    shmem_long_alltoalls(SHMEM_TEAM_WORLD, words, words, 1, PTRDIFF_MAX / 4, 1);
  }
  if (strcmp(name, "signal-unaligned") == 0) {
    shmem_signal_fetch((uint64_t*)(void*)((char*)words + 4));
  }
  if (strcmp(name, "set") == 0) shmem_barrier(1, 0, count, NULL);
  free(private_words);
}

static void exit_cases(const char* name) {
  long* words = shmem_calloc(4, sizeof(long));
  if (strcmp(name, "killed") == 0 && me == 1) raise(SIGKILL);
  /* PE 2 exits and so terminates the job. PE 1 ignores the SIGTERM and is killed later. */
  if (strcmp(name, "killed-later") == 0) {
    if (me == 1) signal(SIGTERM, SIG_IGN);
    shmem_barrier_all();
    if (me == 2) _exit(1);
    if (me == 1) {
      sleep(1);
      raise(SIGKILL);
    }
  }
  if (strcmp(name, "killed-in-lock") == 0) {
    if (me == 1) shmem_set_lock(words);
    shmem_barrier_all();
    if (me == 1) raise(SIGKILL);
    shmem_set_lock(words);
  }
  if (strcmp(name, "exit-0") == 0 && me == 1) shmem_global_exit(0);
  /* All PEs get memory, or all get null. */
  if (strcmp(name, "alignment") == 0) {
    words[0] = shmem_align((size_t)1 << 20, 64) != NULL;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words + 1, words, 1);
    shmem_global_exit(words[1] == 0 ? 20 : words[1] == count ? 21 : 22);
  }
  if (strcmp(name, "exit-7") == 0 && me == 1) shmem_global_exit(7);
  if (strcmp(name, "return-9") == 0 && me == 1) exit(9);
  if (strcmp(name, "busy") == 0) {
    if (me == 1) shmem_global_exit(5);
    for (;;) sleep(1); /* makes no OpenSHMEM call */
  }
  if (strcmp(name, "barrier") == 0 && me != 1) shmem_barrier_all();
  if (strcmp(name, "barrier") == 0) raise(SIGKILL);
  wait_forever();
}

static void* pause_thread(void* unused) {
  pause();
  return unused;
}

int main(int argument_count, char** arguments) {
  const char* name = argument_count > 1 ? arguments[1] : "";
  alarm(60); /* ends the program if an error goes undetected */
  if (strcmp(name, "early") == 0) shmem_my_pe();
  pthread_t thread;
  if (strcmp(name, "threads") == 0) pthread_create(&thread, NULL, pause_thread, NULL);
  if (strcmp(name, "protected") == 0) mprotect(protected_page, kLargestPage, PROT_READ);
  shmem_init();
  me = shmem_my_pe();
  count = shmem_n_pes();
  if (strcmp(name, "static") == 0 || strcmp(name, "threads") == 0 ||
      strcmp(name, "protected") == 0) {
    shmem_long_p(&global_word, 1, 0);
  }
  heap_errors(name);
  access_errors(name);
  if (strcmp(name, "late") == 0) {
    shmem_finalize();
    shmem_barrier_all();
  }
  exit_cases(name);
  return 0;
}
