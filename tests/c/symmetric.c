// SPDX-License-Identifier: Apache-2.0
//
// A C11 program that calls every function of include/ashlar/c/symm.h with two ranks, which are two
// processes, and reports failed expectations. The parent is rank 0 and serves the store.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ashlar/c/symm.h"

#define ASHLAR_EXPECT(condition)                                                        \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      printf("rank %d, line %d: %s does not hold (last message: %s)\n", rank, __LINE__, \
             #condition, ashlar_last_message());                                        \
      ++failure_count;                                                                  \
    }                                                                                   \
  } while (0)
#define ASHLAR_EXPECT_OK(call) ASHLAR_EXPECT((call) == ASHLAR_OK)

enum { kCount = 8, kTimeoutMs = 60000 };

static int failure_count = 0;
static int rank = 0;
static const char* const kToken = "a-token-for-two-ranks";

static ashlar_symm_collective_options collective(void* out) {
  ashlar_symm_collective_options options = {.struct_size = sizeof(options)};
  options.out = out;
  options.timeout_ms = kTimeoutMs;
  return options;
}

static ashlar_symm_signal_options on_channel(int32_t channel) {
  ashlar_symm_signal_options options = {.struct_size = sizeof(options)};
  options.channel = channel;
  options.timeout_ms = kTimeoutMs;
  return options;
}

static void test_errors(void) {
  ashlar_symm_store* store = NULL;
  ashlar_symm_heap* heap = NULL;
  ashlar_symm_group* group = NULL;
  ASHLAR_EXPECT(ashlar_symm_heap_create(NULL, NULL) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_symm_store_open_folder(NULL, &store) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strcmp(ashlar_last_message(), "folder is null") == 0);
  ASHLAR_EXPECT(ashlar_symm_store_open_tcp("127.0.0.1", 1, "short", 1, &store) ==
                ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_symm_group_join_from_environment(NULL, NULL, &group) ==
                ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_symm_group_rank(NULL) == -1);
  ASHLAR_EXPECT(ashlar_symm_group_world_size(NULL) == -1);
  ASHLAR_EXPECT(ashlar_symm_buffer_data(NULL) == NULL);
  ASHLAR_EXPECT(ashlar_symm_group_failure(NULL) == ASHLAR_INVALID_ARGUMENT);
  ashlar_symm_heap_options options = {0};
  ASHLAR_EXPECT(ashlar_symm_heap_create(&options, &heap) == ASHLAR_INVALID_ARGUMENT);
  ashlar_symm_store_destroy(NULL);
  ashlar_symm_heap_destroy(NULL);
  ashlar_symm_buffer_destroy(NULL);
  ashlar_symm_group_destroy(NULL);
  ashlar_symm_handle_destroy(NULL);
}

// Without a launcher, the job has one rank.
static void test_one_rank(ashlar_symm_heap* heap) {
  ashlar_symm_group* group = NULL;
  ASHLAR_EXPECT_OK(ashlar_symm_group_join_from_environment(heap, NULL, &group));
  ASHLAR_EXPECT(ashlar_symm_group_world_size(group) == 1);
  ASHLAR_EXPECT_OK(ashlar_symm_group_leave(group, kTimeoutMs));
  ASHLAR_EXPECT(ashlar_symm_group_leave(group, kTimeoutMs) == ASHLAR_INVALID_ARGUMENT);
  ashlar_symm_group_destroy(group);
}

static void test_copies_and_signals(ashlar_symm_handle* handle, int32_t* own) {
  const int peer = 1 - rank;
  const int32_t sent = 100 + rank;
  int32_t got = 0;
  void* memory = NULL;
  size_t bytes = 0;
  const ashlar_symm_signal_options first = on_channel(0);
  const ashlar_symm_signal_options second = on_channel(1);
  uint64_t count = 0;

  ASHLAR_EXPECT_OK(ashlar_symm_put(handle, peer, &sent, sizeof(sent), 0));
  ASHLAR_EXPECT_OK(ashlar_symm_post(handle, peer, &sent, sizeof(sent), 4));
  ASHLAR_EXPECT_OK(ashlar_symm_fence(handle));
  ASHLAR_EXPECT_OK(ashlar_symm_quiet(handle));
  ASHLAR_EXPECT_OK(ashlar_symm_put_signal(handle, peer, &first));
  ASHLAR_EXPECT_OK(ashlar_symm_wait_signal(handle, peer, &first));
  ASHLAR_EXPECT(own[0] == 100 + peer && own[1] == 100 + peer);
  ASHLAR_EXPECT_OK(ashlar_symm_get(handle, peer, &got, sizeof(got), 4));
  ASHLAR_EXPECT(got == 100 + rank);
  ASHLAR_EXPECT_OK(ashlar_symm_view(handle, peer, &memory));
  ASHLAR_EXPECT(*(const int32_t*)memory == 100 + rank);
  ASHLAR_EXPECT_OK(ashlar_symm_signal_pad(handle, rank, &memory, &bytes));
  ASHLAR_EXPECT(memory != NULL && bytes >= 1024);

  ASHLAR_EXPECT_OK(ashlar_symm_add_signal(handle, peer, 5, &second));
  ASHLAR_EXPECT_OK(ashlar_symm_wait_for_value(handle, peer, 5, &second));
  ASHLAR_EXPECT_OK(ashlar_symm_counter_value(handle, peer, 1, &count));
  ASHLAR_EXPECT(count == 5);
  ASHLAR_EXPECT_OK(ashlar_symm_barrier(handle, NULL));

  ASHLAR_EXPECT(ashlar_symm_put(handle, 2, &sent, sizeof(sent), 0) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_symm_put(handle, peer, NULL, 4, 0) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_symm_put(NULL, peer, &sent, 4, 0) == ASHLAR_INVALID_ARGUMENT);
}

static void test_collectives(ashlar_symm_handle* handle, int32_t* own) {
  int32_t out[kCount] = {0};
  ashlar_symm_collective_options options = collective(NULL);
  for (int i = 0; i < kCount; ++i) own[i] = rank + 1;
  ASHLAR_EXPECT_OK(
      ashlar_symm_all_reduce(handle, kCount, ASHLAR_SYMM_I32, ASHLAR_SYMM_SUM, &options));
  ASHLAR_EXPECT(own[0] == 3 && own[kCount - 1] == 3);

  own[0] = 10 * (rank + 1);
  options = collective(out);
  ASHLAR_EXPECT_OK(ashlar_symm_reduce(handle, 1, 0, ASHLAR_SYMM_I32, ASHLAR_SYMM_MAX, &options));
  ASHLAR_EXPECT(out[0] == (rank == 0 ? 20 : 0));

  own[0] = rank;
  own[1] = rank + 5;
  ASHLAR_EXPECT_OK(
      ashlar_symm_reduce_scatter(handle, 1, ASHLAR_SYMM_I32, ASHLAR_SYMM_SUM, &options));
  ASHLAR_EXPECT(out[0] == (rank == 0 ? 1 : 11));

  ASHLAR_EXPECT_OK(ashlar_symm_all_to_all(handle, 4, &options));
  ASHLAR_EXPECT(out[0] == (rank == 0 ? 0 : 5) && out[1] == (rank == 0 ? 1 : 6));

  options = collective(NULL);
  const int32_t mine = 7 * (rank + 1);
  ASHLAR_EXPECT_OK(ashlar_symm_all_gather(handle, &mine, sizeof(mine), &options));
  ASHLAR_EXPECT(own[0] == 7 && own[1] == 14);
  own[0] = rank;
  options.offset_bytes = 4;
  own[1] = 40 + rank;
  ASHLAR_EXPECT_OK(ashlar_symm_broadcast(handle, sizeof(int32_t), 1, &options));
  ASHLAR_EXPECT(own[0] == rank && own[1] == 41);

  ASHLAR_EXPECT(ashlar_symm_all_reduce(handle, 1, 99, ASHLAR_SYMM_SUM, NULL) ==
                ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_symm_all_reduce(handle, 1, ASHLAR_SYMM_I32, -1, NULL) ==
                ASHLAR_INVALID_ARGUMENT);
}

// A store for the groups of one process, with a fixed number of keys.

enum { kMaxKeys = 64, kMaxBytes = 4096 };
struct entry {
  char key[600];
  char value[kMaxBytes];
  size_t bytes;
};
struct entries {
  pthread_mutex_t mutex;
  struct entry all[kMaxKeys];  // a free entry has an empty key
  int call_count;
  ashlar_status failure;  // the result of all functions
};

static struct entry* find_entry(struct entries* entries, const char* key) {
  for (int i = 0; i < kMaxKeys; ++i) {
    if (strcmp(entries->all[i].key, key) == 0) return &entries->all[i];
  }
  return NULL;
}

static struct entry* entry_for(struct entries* entries, const char* key) {
  struct entry* entry = find_entry(entries, key);
  if (entry != NULL) return entry;
  entry = find_entry(entries, "");
  if (entry == NULL) abort();
  snprintf(entry->key, sizeof(entry->key), "%s", key);
  entry->bytes = 0;
  return entry;
}

static ashlar_status store_set(void* context, const char* key, const void* value, size_t bytes,
                               int64_t time_to_live_ms, int64_t timeout_ms) {
  (void)time_to_live_ms;
  (void)timeout_ms;
  struct entries* entries = context;
  if (bytes > kMaxBytes) return ASHLAR_INVALID_ARGUMENT;
  pthread_mutex_lock(&entries->mutex);
  ++entries->call_count;
  struct entry* entry = entry_for(entries, key);
  memcpy(entry->value, value, bytes);
  entry->bytes = bytes;
  pthread_mutex_unlock(&entries->mutex);
  return entries->failure;
}

static ashlar_status store_try_get(void* context, const char* const* keys, size_t key_count,
                                   int64_t timeout_ms,
                                   void (*receive)(void* receiver, size_t index, const void* value,
                                                   size_t bytes),
                                   void* receiver) {
  (void)timeout_ms;
  struct entries* entries = context;
  pthread_mutex_lock(&entries->mutex);
  ++entries->call_count;
  for (size_t i = 0; i < key_count; ++i) {
    const struct entry* entry = find_entry(entries, keys[i]);
    if (entry != NULL) receive(receiver, i, entry->value, entry->bytes);
  }
  receive(receiver, key_count, "", 0);  // has no effect
  pthread_mutex_unlock(&entries->mutex);
  return entries->failure;
}

static ashlar_status store_add(void* context, const char* key, int64_t amount,
                               int64_t time_to_live_ms, int64_t timeout_ms, int64_t* value) {
  (void)time_to_live_ms;
  (void)timeout_ms;
  struct entries* entries = context;
  pthread_mutex_lock(&entries->mutex);
  ++entries->call_count;
  struct entry* entry = entry_for(entries, key);
  entry->value[entry->bytes] = '\0';
  *value = strtoll(entry->value, NULL, 10) + amount;
  entry->bytes = (size_t)snprintf(entry->value, kMaxBytes, "%lld", (long long)*value);
  pthread_mutex_unlock(&entries->mutex);
  return entries->failure;
}

static ashlar_status store_erase(void* context, const char* key, int64_t timeout_ms,
                                 int32_t* existed) {
  (void)timeout_ms;
  struct entries* entries = context;
  pthread_mutex_lock(&entries->mutex);
  ++entries->call_count;
  struct entry* entry = find_entry(entries, key);
  *existed = entry != NULL;
  if (entry != NULL) entry->key[0] = '\0';
  pthread_mutex_unlock(&entries->mutex);
  return entries->failure;
}

static void test_store_with_functions(void) {
  static struct entries entries = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  ashlar_symm_store_functions functions = {.struct_size = sizeof(functions)};
  ashlar_symm_store* store = NULL;
  ASHLAR_EXPECT(ashlar_symm_store_create(&functions, &store) == ASHLAR_INVALID_ARGUMENT);
  functions.context = &entries;
  functions.set = store_set;
  functions.try_get = store_try_get;
  functions.add = store_add;
  functions.erase = store_erase;
  ASHLAR_EXPECT_OK(ashlar_symm_store_create(&functions, &store));
  ashlar_symm_heap* heap = NULL;
  ashlar_symm_group* group = NULL;
  ashlar_symm_group_options options = {.struct_size = sizeof(options)};
  options.timeout_ms = kTimeoutMs;
  ASHLAR_EXPECT_OK(ashlar_symm_heap_create(NULL, &heap));
  ASHLAR_EXPECT_OK(ashlar_symm_group_join(heap, store, &options, &group));
  ASHLAR_EXPECT(entries.call_count > 0);
  ASHLAR_EXPECT_OK(ashlar_symm_group_leave(group, kTimeoutMs));
  ashlar_symm_group_destroy(group);
  group = NULL;

  entries.failure = ASHLAR_FORMAT;
  ASHLAR_EXPECT(ashlar_symm_group_join(heap, store, &options, &group) == ASHLAR_FORMAT);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "the program's store") != NULL);
  entries.failure = ASHLAR_OK;

  ashlar_symm_store_close(store);
  ashlar_symm_store_close(NULL);
  const int call_count = entries.call_count;
  ASHLAR_EXPECT(ashlar_symm_group_join(heap, store, &options, &group) == ASHLAR_DEVICE_FAULT);
  ASHLAR_EXPECT(entries.call_count == call_count);
  ashlar_symm_heap_destroy(heap);
  ashlar_symm_store_destroy(store);
}

static void run_rank(ashlar_symm_store* store) {
  ashlar_symm_heap_options heap_options = {.struct_size = sizeof(heap_options)};
  heap_options.lease_ms = 60000;
  ashlar_symm_group_options options = {.struct_size = sizeof(options)};
  options.rank = rank;
  options.world_size = 2;
  options.name = "pair";
  options.skip_measurement = 1;
  options.timeout_ms = kTimeoutMs;
  ashlar_symm_heap* heap = NULL;
  ashlar_symm_group* group = NULL;
  ashlar_symm_group* sub_group = NULL;
  ashlar_symm_buffer* buffer = NULL;
  ashlar_symm_handle* handle = NULL;
  const int32_t both[2] = {0, 1};
  ASHLAR_EXPECT_OK(ashlar_symm_heap_create(&heap_options, &heap));
  test_one_rank(heap);
  ASHLAR_EXPECT_OK(ashlar_symm_group_join(heap, store, &options, &group));
  ASHLAR_EXPECT(ashlar_symm_group_rank(group) == rank);
  ASHLAR_EXPECT_OK(ashlar_symm_group_failure(group));
  ASHLAR_EXPECT_OK(ashlar_symm_buffer_allocate(heap, kCount * sizeof(int32_t), &buffer));
  int32_t* own = ashlar_symm_buffer_data(buffer);
  ASHLAR_EXPECT_OK(ashlar_symm_group_rendezvous(group, own, kTimeoutMs, &handle));
  if (handle != NULL) {
    test_copies_and_signals(handle, own);
    test_collectives(handle, own);
  }
  ASHLAR_EXPECT(ashlar_symm_group_finish(group, NULL) == ASHLAR_UNSUPPORTED);  // no device
  ASHLAR_EXPECT_OK(ashlar_symm_group_sub_group(group, "sub", both, 2, kTimeoutMs, &sub_group));
  ASHLAR_EXPECT_OK(ashlar_symm_group_leave(sub_group, kTimeoutMs));
  ASHLAR_EXPECT_OK(ashlar_symm_group_leave(group, kTimeoutMs));
  ashlar_symm_handle_destroy(handle);
  ashlar_symm_buffer_destroy(buffer);
  ashlar_symm_group_destroy(sub_group);
  ashlar_symm_group_destroy(group);
  ashlar_symm_heap_destroy(heap);
}

// Turns LeakSanitizer off in the forked child; see tests/shmem/rma.c.
static int is_child = 0;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_child; }

int main(void) {
  test_errors();
  uint16_t port = 0;
  ashlar_symm_store* store = NULL;
  ASHLAR_EXPECT_OK(ashlar_symm_store_host_tcp("127.0.0.1", &port, kToken, &store));
  ASHLAR_EXPECT(port != 0);
  fflush(stdout);
  const pid_t child = fork();
  is_child = child == 0;
  if (is_child) {
    rank = 1;
    ASHLAR_EXPECT_OK(ashlar_symm_store_open_tcp("127.0.0.1", port, kToken, kTimeoutMs, &store));
  }
  if (store != NULL) run_rank(store);
  if (!is_child) test_store_with_functions();
  ashlar_symm_store_destroy(store);
  int status = 0;
  if (child > 0) {
    ASHLAR_EXPECT(waitpid(child, &status, 0) == child);
    ASHLAR_EXPECT(status == 0);
  }
  return failure_count == 0 ? 0 : 1;
}
