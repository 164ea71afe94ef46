// SPDX-License-Identifier: Apache-2.0
//
// A C11 program that calls every function of include/ashlar/c/ashlar.h on the simulated device and
// reports failed expectations. tests/c/check_calls.py verifies that no function is missing.
// The file is long because the API is large.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ashlar/c/ashlar.h"

#define ASHLAR_EXPECT(condition)                                                     \
  do {                                                                               \
    if (!(condition)) {                                                              \
      printf("line %d: %s does not hold (last message: %s)\n", __LINE__, #condition, \
             ashlar_last_message());                                                 \
      ++failure_count;                                                               \
    }                                                                                \
  } while (0)
#define ASHLAR_EXPECT_OK(call) ASHLAR_EXPECT((call) == ASHLAR_OK)

static int failure_count = 0;

static void test_versions(void) {
  ASHLAR_EXPECT(ashlar_c_version() == ASHLAR_C_VERSION);
  ASHLAR_EXPECT(strchr(ashlar_version(), '.') != NULL);
  ASHLAR_EXPECT(strcmp(ashlar_status_name(ASHLAR_OK), "ok") == 0);
  ASHLAR_EXPECT(strcmp(ashlar_status_name(ASHLAR_HOST_OUT_OF_MEMORY), "out of host memory") == 0);
  ASHLAR_EXPECT(strcmp(ashlar_status_name(-5), "unknown") == 0);
}

static ashlar_device* test_devices(void) {
  size_t count = 0;
  ASHLAR_EXPECT_OK(ashlar_device_count("sim", &count));
  ASHLAR_EXPECT(count == 2);
  ashlar_device* device = NULL;
  ashlar_device* again = NULL;
  ASHLAR_EXPECT_OK(ashlar_device_open("sim", 0, &device));
  ASHLAR_EXPECT_OK(ashlar_device_open("sim", 0, &again));
  ASHLAR_EXPECT(device == again);

  ASHLAR_EXPECT(ashlar_device_open("abacus", 0, &again) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "abacus") != NULL);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "sim") != NULL);
  ASHLAR_EXPECT(ashlar_device_count("abacus", &count) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_device_open("sim", 99, &again) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_device_open(NULL, 0, &again) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_device_open("sim", 0, NULL) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strcmp(ashlar_last_message(), "device is null") == 0);
  ASHLAR_EXPECT(again == device);

  ashlar_device_properties properties = {.struct_size = sizeof properties};
  ASHLAR_EXPECT_OK(ashlar_device_describe(device, &properties));
  ASHLAR_EXPECT(strcmp(properties.backend, "sim") == 0);
  ASHLAR_EXPECT(properties.index == 0);
  ASHLAR_EXPECT(properties.has_virtual_memory == 1);
  ASHLAR_EXPECT(properties.capacity_bytes == (uint64_t)1 << 30);

  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASHLAR_EXPECT_OK(ashlar_device_memory(device, &free_bytes, &total_bytes));
  ASHLAR_EXPECT(free_bytes == total_bytes && total_bytes == (size_t)1 << 30);
  ASHLAR_EXPECT_OK(ashlar_device_memory(device, NULL, NULL));
  return device;
}

// The library fills a smaller struct of an older caller up to its size, and zeroes a larger struct
// after the fields that it knows. It rejects input structs with unknown fields that are not zero.
static void test_struct_sizes(ashlar_device* device, ashlar_allocator* allocator) {
  ashlar_device_properties properties;
  memset(&properties, 0x55, sizeof properties);
  properties.struct_size = offsetof(ashlar_device_properties, name);
  ASHLAR_EXPECT_OK(ashlar_device_describe(device, &properties));
  ASHLAR_EXPECT(strcmp(properties.backend, "sim") == 0);
  ASHLAR_EXPECT(properties.index == UINT64_C(0x5555555555555555));

  struct {
    ashlar_stats known;
    int64_t later;
  } newer;
  memset(&newer, 0x55, sizeof newer);
  newer.known.struct_size = sizeof newer;
  ASHLAR_EXPECT_OK(ashlar_get_stats(allocator, &newer.known));
  ASHLAR_EXPECT(newer.later == 0);
  newer.known.struct_size = 0;
  ASHLAR_EXPECT(ashlar_get_stats(allocator, &newer.known) == ASHLAR_INVALID_ARGUMENT);
  newer.known.struct_size = (size_t)-1;
  ASHLAR_EXPECT(ashlar_get_stats(allocator, &newer.known) == ASHLAR_INVALID_ARGUMENT);

  struct {
    ashlar_pool_options known;
    int64_t later;
  } options = {.known = {.struct_size = sizeof options}, .later = 7};
  ashlar_pool pool = {0, 0};
  ASHLAR_EXPECT(ashlar_pool_create(allocator, &options.known, &pool) == ASHLAR_UNSUPPORTED);
  ASHLAR_EXPECT(pool.user == 0);
  options.later = 0;
  ASHLAR_EXPECT_OK(ashlar_pool_create(allocator, &options.known, &pool));
  ASHLAR_EXPECT_OK(ashlar_pool_release(allocator, pool));
  pool.user = 0;
  options.known.reserved = 1;
  ASHLAR_EXPECT(ashlar_pool_create(allocator, &options.known, &pool) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "reserved is 1") != NULL);
  ASHLAR_EXPECT(pool.user == 0);
}

static void test_streams_and_work(ashlar_device* device, ashlar_allocator* allocator) {
  ashlar_stream first = NULL;
  ashlar_stream second = NULL;
  ASHLAR_EXPECT_OK(ashlar_stream_create(device, 0, &first));
  ASHLAR_EXPECT_OK(ashlar_stream_create(device, 0, &second));
  ASHLAR_EXPECT(ashlar_stream_create(device, -1, &second) == ASHLAR_INVALID_ARGUMENT);
  ashlar_event event = 0;
  ASHLAR_EXPECT_OK(ashlar_event_create(device, &event));

  const char sent[] = "there and back";
  char received[sizeof sent] = "";
  void* from = NULL;
  void* to = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, sizeof sent, first, &from));
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, sizeof sent, second, &to));
  ASHLAR_EXPECT_OK(ashlar_fill(device, to, 'x', sizeof sent, second));
  ASHLAR_EXPECT_OK(ashlar_copy_to_device(device, from, sent, sizeof sent, first));
  ASHLAR_EXPECT_OK(ashlar_event_record(device, event, first));
  ASHLAR_EXPECT_OK(ashlar_event_wait(device, event, second));
  ASHLAR_EXPECT_OK(ashlar_copy(device, to, from, sizeof sent, second));
  ASHLAR_EXPECT_OK(ashlar_record_stream(allocator, from, second));
  ASHLAR_EXPECT_OK(ashlar_record_stream_of(allocator, from, device, second));
  ASHLAR_EXPECT_OK(ashlar_free(allocator, from));
  ASHLAR_EXPECT_OK(ashlar_copy_to_host(device, received, to, sizeof sent, second));
  ASHLAR_EXPECT_OK(ashlar_stream_synchronize(device, second));
  ASHLAR_EXPECT(strcmp(received, sent) == 0);
  ASHLAR_EXPECT_OK(ashlar_event_synchronize(device, event));
  int32_t is_idle = -1;
  ASHLAR_EXPECT_OK(ashlar_stream_is_idle(device, second, &is_idle));
  ASHLAR_EXPECT(is_idle == 1);
  ASHLAR_EXPECT_OK(ashlar_free(allocator, to));
  ASHLAR_EXPECT_OK(ashlar_device_synchronize(device));
  ASHLAR_EXPECT_OK(ashlar_event_destroy(device, event));
  ASHLAR_EXPECT_OK(ashlar_stream_destroy(device, first));
  ASHLAR_EXPECT_OK(ashlar_stream_destroy(device, second));
  ASHLAR_EXPECT(ashlar_stream_destroy(device, second) == ASHLAR_INVALID_ARGUMENT);
}

// A destroyed stream must be rejected even if its memory is cached and was last allocated on the
// fast path.
static void test_destroyed_streams(ashlar_device* device) {
  const char* const engines[] = {"engine:paged", "engine:classic", "engine:async"};
  for (size_t i = 0; i < sizeof engines / sizeof engines[0]; ++i) {
    ashlar_allocator* allocator = NULL;
    ASHLAR_EXPECT_OK(ashlar_allocator_create(device, engines[i], &allocator));
    ashlar_stream stream = NULL;
    ASHLAR_EXPECT_OK(ashlar_stream_create(device, 0, &stream));
    void* memory = NULL;
    ashlar_block* block = NULL;
    for (int round = 0; round < 200; ++round) {
      ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 1000, stream, &memory));
      ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
    }
    ASHLAR_EXPECT_OK(ashlar_stream_destroy(device, stream));
    ASHLAR_EXPECT(ashlar_allocate(allocator, 1000, stream, &memory) == ASHLAR_INVALID_ARGUMENT);
    ASHLAR_EXPECT(strstr(ashlar_last_message(), "stream") != NULL);
    ASHLAR_EXPECT(ashlar_allocate_block(allocator, 9, stream, &block) == ASHLAR_INVALID_ARGUMENT);
    ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 1000, NULL, &memory));
    ashlar_allocator_destroy(allocator);
  }
}

// Each of two paged and two classic allocators must reject the blocks of the other three.
static void test_foreign_blocks(ashlar_device* device) {
  const char* const engines[] = {"engine:paged", "engine:paged", "engine:classic",
                                 "engine:classic"};
  enum { kCount = sizeof engines / sizeof engines[0] };
  ashlar_allocator* allocators[kCount] = {NULL};
  ashlar_block* blocks[kCount] = {NULL};
  for (size_t i = 0; i < kCount; ++i) {
    ASHLAR_EXPECT_OK(ashlar_allocator_create(device, engines[i], &allocators[i]));
    ASHLAR_EXPECT_OK(ashlar_allocate_block(allocators[i], 1000, NULL, &blocks[i]));
  }
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t j = 0; j < kCount; ++j) {
      if (i == j) continue;
      ASHLAR_EXPECT(ashlar_free_block(allocators[i], blocks[j]) == ASHLAR_INVALID_ARGUMENT);
      ASHLAR_EXPECT(strstr(ashlar_last_message(), "belongs to another allocator") != NULL);
      ASHLAR_EXPECT(ashlar_record_block_stream(allocators[i], blocks[j], NULL) ==
                    ASHLAR_INVALID_ARGUMENT);
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASHLAR_EXPECT_OK(ashlar_record_block_stream(allocators[i], blocks[i], NULL));
    ASHLAR_EXPECT_OK(ashlar_free_block(allocators[i], blocks[i]));
    ashlar_allocator_destroy(allocators[i]);
  }
}

static void test_memory(ashlar_device* device, ashlar_allocator* allocator) {
  void* memory = (void*)1;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 0, NULL, &memory));
  ASHLAR_EXPECT(memory == NULL);
  ASHLAR_EXPECT_OK(ashlar_free(allocator, NULL));
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 1000, NULL, &memory));
  ASHLAR_EXPECT(memory != NULL && (uintptr_t)memory % 256 == 0);
  ASHLAR_EXPECT(ashlar_free(allocator, (char*)memory + 512) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
  ASHLAR_EXPECT(ashlar_free(allocator, memory) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "was freed") != NULL);
  ASHLAR_EXPECT(ashlar_record_stream(allocator, memory, NULL) == ASHLAR_INVALID_ARGUMENT);

  void* untouched = (void*)1;
  ASHLAR_EXPECT(ashlar_allocate(allocator, (size_t)1 << 40, NULL, &untouched) ==
                ASHLAR_OUT_OF_MEMORY);
  ASHLAR_EXPECT(untouched == (void*)1);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "tried to allocate") != NULL);
  ASHLAR_EXPECT(ashlar_last_code() == 0 && ashlar_last_call()[0] == '\0');

  ashlar_block* block = NULL;
  ASHLAR_EXPECT(ashlar_allocate_block(allocator, 0, NULL, &block) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_allocate_block(allocator, 5000, NULL, &block));
  ASHLAR_EXPECT(ashlar_block_bytes(block) == 5000);
  ASHLAR_EXPECT(ashlar_free(allocator, ashlar_block_address(block)) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_record_block_stream(allocator, block, NULL));
  ASHLAR_EXPECT_OK(ashlar_free_block(allocator, block));
  ASHLAR_EXPECT(ashlar_free_block(allocator, block) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_block_address(NULL) == NULL && ashlar_block_bytes(NULL) == 0);

  ashlar_allocator* classic = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocator_create(device, "engine:classic", &classic));
  ASHLAR_EXPECT_OK(ashlar_allocate(classic, 1000, NULL, &memory));
  void* base = NULL;
  size_t base_bytes = 0;
  ASHLAR_EXPECT_OK(ashlar_base_allocation(classic, memory, &base, &base_bytes));
  ASHLAR_EXPECT(base == memory && base_bytes == (size_t)2 << 20);
  ASHLAR_EXPECT(ashlar_base_allocation(classic, NULL, &base, &base_bytes) ==
                ASHLAR_INVALID_ARGUMENT);
  ashlar_allocator_destroy(classic);
  ashlar_allocator_destroy(NULL);

  ASHLAR_EXPECT_OK(ashlar_set_memory_fraction(allocator, 0.5));
  double fraction = 0;
  ASHLAR_EXPECT_OK(ashlar_memory_fraction(allocator, &fraction));
  ASHLAR_EXPECT(fraction == 0.5);
  ASHLAR_EXPECT(ashlar_set_memory_fraction(allocator, 1.5) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_set_memory_fraction(allocator, 1));
  ASHLAR_EXPECT(ashlar_allocate(NULL, 1, NULL, &memory) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_allocate(allocator, 1, NULL, NULL) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_free(NULL, memory) == ASHLAR_INVALID_ARGUMENT);
}

static void count_option(const ashlar_option* option, void* context) {
  if (strcmp(option->name, "expandable_segments") != 0) return;
  ASHLAR_EXPECT(strcmp(option->default_text, "False") == 0);
  ASHLAR_EXPECT(option->help[0] != '\0' && option->type[0] != '\0' && option->unit[0] == '\0');
  ++*(int*)context;
}

static void test_options(ashlar_device* device, ashlar_allocator* allocator) {
  ASHLAR_EXPECT_OK(ashlar_check_options("engine:paged,policy:lean"));
  ASHLAR_EXPECT(ashlar_check_options("engine:stone") == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "stone") != NULL);
  ashlar_allocator* none = NULL;
  ASHLAR_EXPECT(ashlar_allocator_create(device, "engin:paged", &none) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(none == NULL);
  ASHLAR_EXPECT_OK(ashlar_allocator_create(device, NULL, &none));
  ashlar_allocator_destroy(none);
  ashlar_bytes* text = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocator_options(allocator, &text));
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(text), "policy:lean") != NULL);
  ASHLAR_EXPECT(ashlar_bytes_size(text) == strlen(ashlar_bytes_data(text)));
  ashlar_bytes_destroy(text);
  ashlar_bytes_destroy(NULL);
  int found = 0;
  ASHLAR_EXPECT_OK(ashlar_visit_options(count_option, &found));
  ASHLAR_EXPECT(found == 1);
  ASHLAR_EXPECT(ashlar_visit_options(NULL, NULL) == ASHLAR_INVALID_ARGUMENT);
}

static int is_default_stream(ashlar_stream stream, void* context) {
  ++*(int*)context;
  return stream == NULL;
}

// Returns made-up addresses, which are never accessed.
static void* fake_alloc(size_t bytes, int device, void* stream) {
  (void)device;
  (void)stream;
  static uintptr_t next = (uintptr_t)0x510000000000;
  void* memory = (void*)next;
  next += (bytes + 511) / 512 * 512;
  return memory;
}
static int fake_free_count = 0;
static void fake_free(void* memory, size_t bytes, int device, void* stream) {
  (void)memory;
  (void)bytes;
  (void)device;
  (void)stream;
  ++fake_free_count;
}

static void test_pools(ashlar_device* device, ashlar_allocator* allocator) {
  ashlar_pool pool = {0, 0};
  ashlar_pool_options tagged = {.struct_size = sizeof tagged, .tag = "layers"};
  ASHLAR_EXPECT_OK(ashlar_pool_create(allocator, &tagged, &pool));
  ASHLAR_EXPECT(pool.user != 0 && pool.capture == 0);
  int asked = 0;
  ASHLAR_EXPECT_OK(ashlar_pool_begin(allocator, pool, is_default_stream, &asked));
  void* memory = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 3 << 20, NULL, &memory));
  ASHLAR_EXPECT(asked > 0);
  ASHLAR_EXPECT_OK(ashlar_pool_end(allocator, pool));
  ASHLAR_EXPECT_OK(ashlar_pool_retain(allocator, pool));
  int32_t count = 0;
  ASHLAR_EXPECT_OK(ashlar_pool_use_count(allocator, pool, &count));
  ASHLAR_EXPECT(count == 3);

  ASHLAR_EXPECT_OK(ashlar_fill(device, memory, 9, 3 << 20, NULL));
  ASHLAR_EXPECT_OK(ashlar_pause(allocator, "layers", 1));
  ASHLAR_EXPECT_OK(ashlar_resume(allocator, "layers"));
  unsigned char byte = 0;
  ASHLAR_EXPECT_OK(ashlar_copy_to_host(device, &byte, memory, 1, NULL));
  ASHLAR_EXPECT_OK(ashlar_stream_synchronize(device, NULL));
  ASHLAR_EXPECT(byte == 9);
  ASHLAR_EXPECT(ashlar_pause(allocator, "none", 0) == ASHLAR_INVALID_ARGUMENT);

  ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
  for (int i = 0; i < 3; ++i) ASHLAR_EXPECT_OK(ashlar_pool_release(allocator, pool));
  ASHLAR_EXPECT_OK(ashlar_pool_trim(allocator, pool));
  ASHLAR_EXPECT(ashlar_pool_use_count(allocator, pool, &count) == ASHLAR_INVALID_ARGUMENT);

  ashlar_pool captured = {0, 0};
  ASHLAR_EXPECT_OK(ashlar_capture_pool_create(allocator, &captured));
  ASHLAR_EXPECT(captured.capture != 0 && captured.user == 0);
  ASHLAR_EXPECT_OK(ashlar_capture_began(allocator));
  ASHLAR_EXPECT_OK(ashlar_capture_ended(allocator));
  ASHLAR_EXPECT(ashlar_capture_ended(allocator) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_pool_release(allocator, captured));
}

static void test_plugins(ashlar_device* device, ashlar_allocator* allocator, const char* library) {
  ashlar_plugin* plugin = NULL;
  ASHLAR_EXPECT(ashlar_plugin_load(device, "/nowhere.so", "a", "f", &plugin) ==
                ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_plugin_load(device, library, "none", "dummy_free", &plugin) ==
                ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(strstr(ashlar_last_message(), "has no symbol none") != NULL);
  ASHLAR_EXPECT_OK(ashlar_plugin_load(device, library, "dummy_alloc", "dummy_free", &plugin));
  ashlar_plugin_destroy(plugin);
  ASHLAR_EXPECT(ashlar_plugin_wrap(device, NULL, NULL, NULL, &plugin) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_plugin_wrap(device, fake_alloc, fake_free, NULL, &plugin));

  ashlar_pool_options options = {.struct_size = sizeof options, .source = plugin};
  ashlar_pool pool = {0, 0};
  ASHLAR_EXPECT_OK(ashlar_pool_create(allocator, &options, &pool));
  ashlar_plugin_destroy(plugin);
  ASHLAR_EXPECT_OK(ashlar_pool_begin(allocator, pool, NULL, NULL));
  void* memory = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 1000, NULL, &memory));
  ASHLAR_EXPECT((uintptr_t)memory >> 40 == 0x51);
  ASHLAR_EXPECT_OK(ashlar_pool_end(allocator, pool));
  ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
  ASHLAR_EXPECT_OK(ashlar_pool_release(allocator, pool));
  ASHLAR_EXPECT_OK(ashlar_pool_release(allocator, pool));
  size_t released = 77;
  ASHLAR_EXPECT_OK(ashlar_trim_to(allocator, 0, 1, &released));
  ASHLAR_EXPECT(released > 0);
  ASHLAR_EXPECT_OK(ashlar_trim_to(allocator, 0, 0, NULL));
  ASHLAR_EXPECT_OK(ashlar_trim(allocator));
  ASHLAR_EXPECT(fake_free_count == 1);
}

static void find_peak(const char* name, int64_t value, void* context) {
  if (strcmp(name, "allocated_bytes.all.peak") == 0) *(int64_t*)context = value;
}

static void test_statistics(ashlar_allocator* allocator) {
  void* memory = NULL;
  ASHLAR_EXPECT_OK(ashlar_reset_peak_stats(allocator));
  ASHLAR_EXPECT_OK(ashlar_reset_total_stats(allocator));
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 4 << 20, NULL, &memory));
  ashlar_stats stats = {.struct_size = sizeof stats};
  ASHLAR_EXPECT_OK(ashlar_get_stats(allocator, &stats));
  ASHLAR_EXPECT(stats.allocated_bytes.current == 4 << 20);
  ASHLAR_EXPECT(stats.requested_bytes.increased == 4 << 20 && stats.requested_bytes.decreased == 0);
  ASHLAR_EXPECT(stats.allocation.current == 1 && stats.active.current == 1);
  ASHLAR_EXPECT(stats.reserved_bytes.current >= stats.active_bytes.current);
  int64_t peak = 0;
  ASHLAR_EXPECT_OK(ashlar_visit_stats(allocator, find_peak, &peak));
  ASHLAR_EXPECT(peak == 4 << 20);
  ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
  ASHLAR_EXPECT_OK(ashlar_reset_peak_stats(allocator));
  ASHLAR_EXPECT_OK(ashlar_get_stats(allocator, &stats));
  ASHLAR_EXPECT(stats.allocated_bytes.peak == 0);
}

static void count_frame(const char* name, const char* file, int64_t line, void* count) {
  ASHLAR_EXPECT(name != NULL && file != NULL && line >= 0);
  ++*(int*)count;
}

static void test_contexts(ashlar_allocator* allocator) {
  const ashlar_action skipped[] = {ASHLAR_ACTION_FREE_REQUESTED, ASHLAR_ACTION_FREE_COMPLETED};
  ashlar_history_options options = {.struct_size = sizeof options,
                                    .stacks = ASHLAR_STACKS_ALL,
                                    .clear = 1,
                                    .skip_actions = skipped,
                                    .skip_action_count = 2};
  ASHLAR_EXPECT_OK(ashlar_history_start(allocator, &options));
  ASHLAR_EXPECT_OK(ashlar_push_compile_context("region 0/1"));
  ASHLAR_EXPECT_OK(ashlar_set_user_metadata("my batch"));
  void* memory = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 54321, NULL, &memory));
  ashlar_pop_compile_context();
  ashlar_pop_compile_context();
  ashlar_bytes* text = NULL;
  ASHLAR_EXPECT_OK(ashlar_user_metadata(&text));
  ASHLAR_EXPECT(strcmp(ashlar_bytes_data(text), "my batch") == 0);
  ashlar_bytes_destroy(text);
  ASHLAR_EXPECT_OK(ashlar_set_user_metadata(""));
  ASHLAR_EXPECT(ashlar_set_user_metadata(NULL) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_push_compile_context(NULL) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_annotate_memory(allocator, memory, "my weights"));
  ASHLAR_EXPECT(ashlar_annotate_memory(allocator, &memory, "x") == ASHLAR_INVALID_ARGUMENT);

  int frame_count = 0;
  ASHLAR_EXPECT_OK(ashlar_visit_stack(allocator, memory, count_frame, &frame_count));
  ASHLAR_EXPECT(frame_count >= 2);  // at least this function and its caller
  ASHLAR_EXPECT(ashlar_visit_stack(allocator, &memory, count_frame, &frame_count) ==
                ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT(ashlar_visit_stack(allocator, memory, NULL, NULL) == ASHLAR_INVALID_ARGUMENT);

  ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
  ASHLAR_EXPECT_OK(ashlar_snapshot(allocator, ASHLAR_FORMAT_JSON, &text));
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(text), "region 0/1") != NULL);
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(text), "my batch") != NULL);
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(text), "my weights") != NULL);
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(text), "free_requested") == NULL);
  ashlar_bytes_destroy(text);
  const ashlar_action unknown = 99;
  options.skip_actions = &unknown;
  options.skip_action_count = 1;
  ASHLAR_EXPECT(ashlar_history_start(allocator, &options) == ASHLAR_INVALID_ARGUMENT);
  options.skip_actions = NULL;
  ASHLAR_EXPECT(ashlar_history_start(allocator, &options) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_history_stop(allocator));
}

static void test_history(ashlar_allocator* allocator, const char* folder) {
  ashlar_history_options options = {
      .struct_size = sizeof options, .max_entries = 100, .stacks = ASHLAR_STACKS_ALL, .clear = 1};
  ASHLAR_EXPECT_OK(ashlar_history_start(allocator, &options));
  options.stacks = 77;
  ASHLAR_EXPECT(ashlar_history_start(allocator, &options) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_annotate(allocator, "step 1", "START"));
  void* memory = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 12345, NULL, &memory));
  ashlar_bytes* snapshot = NULL;
  ASHLAR_EXPECT_OK(ashlar_snapshot(allocator, ASHLAR_FORMAT_JSON, &snapshot));
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(snapshot), "12345") != NULL);
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(snapshot), "step 1") != NULL);
  ashlar_bytes_destroy(snapshot);
  ASHLAR_EXPECT_OK(ashlar_snapshot(allocator, ASHLAR_FORMAT_PICKLE, &snapshot));
  ASHLAR_EXPECT(ashlar_bytes_size(snapshot) > 100);
  ASHLAR_EXPECT((unsigned char)ashlar_bytes_data(snapshot)[0] == 0x80);
  ashlar_bytes_destroy(snapshot);
  ASHLAR_EXPECT(ashlar_snapshot(allocator, 9, &snapshot) == ASHLAR_INVALID_ARGUMENT);

  char path[4096];
  snprintf(path, sizeof path, "%s/everything.pickle", folder);
  ASHLAR_EXPECT_OK(ashlar_save_snapshot(allocator, path));
  ASHLAR_EXPECT(remove(path) == 0);
  ASHLAR_EXPECT(ashlar_save_snapshot(allocator, "/nowhere/at/all") == ASHLAR_DEVICE_FAULT);
  ASHLAR_EXPECT(ashlar_last_code() != 0);
  ASHLAR_EXPECT(ashlar_last_call()[0] != '\0');
  ASHLAR_EXPECT_OK(ashlar_free(allocator, memory));
  ASHLAR_EXPECT_OK(ashlar_history_stop(allocator));
}

static void test_live_monitoring(void) {
  ashlar_live_server* server = NULL;
  ASHLAR_EXPECT(ashlar_live_server_start(NULL, NULL) == ASHLAR_INVALID_ARGUMENT);
  ASHLAR_EXPECT_OK(ashlar_live_server_start(NULL, &server));
  ashlar_bytes* url = NULL;
  ASHLAR_EXPECT_OK(ashlar_live_server_url(server, &url));
  ASHLAR_EXPECT(ashlar_bytes_size(url) == 0);
  ashlar_bytes_destroy(url);
  ashlar_live_server_stop(server);
  ashlar_live_server_stop(NULL);

  ashlar_live_server_options options = {
      .struct_size = sizeof options, .has_port = 1, .port = 0, .token = "a-token-of-0123456789"};
  ASHLAR_EXPECT_OK(ashlar_live_server_start(&options, &server));
  ASHLAR_EXPECT_OK(ashlar_live_server_url(server, &url));
  ASHLAR_EXPECT(strncmp(ashlar_bytes_data(url), "http://127.0.0.1:", 17) == 0);
  ASHLAR_EXPECT(strstr(ashlar_bytes_data(url), "/a-token-of-0123456789/") != NULL);
  ashlar_bytes_destroy(url);
  ashlar_live_server_stop(server);
  options.token = "short";
  ASHLAR_EXPECT(ashlar_live_server_start(&options, &server) == ASHLAR_INVALID_ARGUMENT);
}

static void count_entry(const ashlar_trace_entry* entry, void* context) {
  if (entry->action == ASHLAR_ACTION_ALLOC && entry->bytes == 4321) ++*(int*)context;
}
static void count_notice(const ashlar_oom_notice* notice, void* context) {
  if (notice->wanted_bytes > notice->limit_bytes) ++*(int*)context;
}
static int count_callback(void* context) {
  ++*(int*)context;
  return 0;
}

static void test_hooks(ashlar_device* device) {
  ashlar_allocator* allocator = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocator_create(device, "", &allocator));
  int entries = 0;
  int notices = 0;
  int callbacks = 0;
  ASHLAR_EXPECT_OK(ashlar_add_tracker(allocator, count_entry, &entries));
  ASHLAR_EXPECT_OK(ashlar_add_oom_observer(allocator, count_notice, &notices));
  ASHLAR_EXPECT_OK(ashlar_add_free_memory_callback(allocator, count_callback, &callbacks));
  ASHLAR_EXPECT(ashlar_add_tracker(allocator, NULL, NULL) == ASHLAR_INVALID_ARGUMENT);
  void* memory = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocate(allocator, 4321, NULL, &memory));
  ASHLAR_EXPECT(ashlar_allocate(allocator, (size_t)2 << 30, NULL, &memory) == ASHLAR_OUT_OF_MEMORY);
  ASHLAR_EXPECT(entries == 1 && notices == 1 && callbacks >= 1);
  ashlar_allocator_destroy(allocator);
}

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    printf("usage: everything PLUGIN FOLDER\n");
    return 2;
  }
  // The first call reads the environment. No other thread exists yet, so setenv is safe.
  setenv("ASHLAR_SIM_CAPACITY", "1GiB", 1);
  ASHLAR_EXPECT(ashlar_last_message()[0] == '\0');
  test_versions();
  ashlar_device* device = test_devices();
  ashlar_allocator* allocator = NULL;
  ASHLAR_EXPECT_OK(ashlar_allocator_create(device, "engine:paged,policy:lean", &allocator));
  if (failure_count > 0) return 1;
  test_struct_sizes(device, allocator);
  test_streams_and_work(device, allocator);
  test_destroyed_streams(device);
  test_foreign_blocks(device);
  test_memory(device, allocator);
  test_options(device, allocator);
  test_pools(device, allocator);
  test_plugins(device, allocator, arguments[1]);
  test_statistics(allocator);
  test_history(allocator, arguments[2]);
  test_contexts(allocator);
  test_live_monitoring();
  test_hooks(device);
  ASHLAR_EXPECT_OK(ashlar_trim(allocator));
  ashlar_allocator_destroy(allocator);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASHLAR_EXPECT_OK(ashlar_device_memory(device, &free_bytes, &total_bytes));
  ASHLAR_EXPECT(free_bytes == total_bytes);
  printf("%d failures\n", failure_count);
  return failure_count == 0 ? 0 : 1;
}
