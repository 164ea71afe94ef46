// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in operations of the public C++ and C APIs.
// The file is long because it lists all operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "api/c/handles.h"
#include "ashlar/allocator.h"
#include "ashlar/c/ashlar.h"
#include "ashlar/sim.h"
#include "ashlar/stream_ordered_resource.h"
#include "base/units.h"
#include "sweep/operation_faults.h"

namespace ashlar {
namespace {

struct ApiEngine {
  const char* name;
  const char* options;
  bool can_pause = false;
};

constexpr const char* kTag = "a tag";

// The engine that constructors of ApiWorld use. A global, because worlds must be
// default-constructible.
ApiEngine world_engine{};

// Throws std::bad_alloc if the call failed for lack of host memory. Other errors fail the test.
void check(ashlar_status status) {
  if (status == ASHLAR_HOST_OUT_OF_MEMORY) throw std::bad_alloc();
  EXPECT_EQ(status, ASHLAR_OK) << ashlar_last_message();
}

// Expects InvalidArgument. Other errors, such as std::bad_alloc, pass through.
void expect_rejected(const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "expected InvalidArgument";
  } catch (const InvalidArgument&) {
    // Expected.
  }
}

// Like check(), and tolerates the rejection of a pause by an engine that cannot pause pools.
void check_pause(ashlar_status status) {
  if (world_engine.can_pause || status == ASHLAR_HOST_OUT_OF_MEMORY) return check(status);
  EXPECT_EQ(status, ASHLAR_UNSUPPORTED) << ashlar_last_message();
}

// Returns the number of pools besides the default pool.
ptrdiff_t pool_count(const AllocatorStats& stats) {
  return std::count_if(stats.pools.begin(), stats.pools.end(),
                       [](const auto& each) { return !each.first.is_default(); });
}

class ApiWorld {
 public:
  ApiWorld() {
    sim::Options options;
    options.device_count = 1;
    options.capacity_bytes = 128 * kMiB;
    options.backing = sim::Backing::kBookkeeping;
    options.seed = 1;
    machine_ = *sim::Machine::try_create(options);
    side_ = *device().create_stream();
    check(ashlar_allocator_create(c_api::handle_of(&device()), world_engine.options, &c));
    buffers.reserve(16);
  }
  ~ApiWorld() {
    scope.reset();
    buffers.clear();
    ashlar_allocator_destroy(c);
  }
  ApiWorld(const ApiWorld&) = delete;
  ApiWorld& operator=(const ApiWorld&) = delete;

  Device& device() { return machine_->device(DeviceIndex{0}); }
  Allocator& allocator() { return c->allocator; }
  StreamId side() const { return side_; }
  ashlar_stream c_side() const { return to_stream_handle<ashlar_stream>(side_); }

  void allocate(size_t bytes) { buffers.push_back(allocator().allocate(bytes)); }
  // An engine that cannot pause pools rejects the call.
  void pause() {
    const auto call = [&] { allocator().pools().pause(kTag, {.backup = PauseBackup::kHost}); };
    world_engine.can_pause ? call() : expect_rejected(call);
  }
  void resume() {
    const auto call = [&] { allocator().pools().resume(kTag); };
    world_engine.can_pause ? call() : expect_rejected(call);
  }
  void keep_side_busy() {
    EXPECT_TRUE(machine_->pause_stream_until_waited(DeviceIndex{0}, side_).ok());
    EXPECT_TRUE(device().call_host(side_, [] {}).ok());
  }

  std::vector<std::string> state() {
    const AllocatorStats stats = allocator().stats();
    return {text("allocations ", stats.allocation.all.current),
            text("active ", stats.active_bytes.all.current),
            text("allocated ", stats.allocated_bytes.all.current),
            text("requested ", stats.requested_bytes.all.current),
            text("reserved ", stats.reserved_bytes.all.current),
            text("pools ", pool_count(stats)),
            text("device free ", device().memory_stats()->free_bytes)};
  }
  void expect_no_memory_lost() {
    EXPECT_TRUE(machine_->resume_stream(DeviceIndex{0}, side_).ok());
    EXPECT_TRUE(device().synchronize_stream(side_).ok());
    scope.reset();
    buffers.clear();
    if (memory != nullptr) check(ashlar_free(c, memory));
    if (block != nullptr) check(ashlar_free_block(c, block));
    if (pool) allocator().pools().release(*pool);
    allocator().trim();
    const AllocatorStats stats = allocator().stats();
    EXPECT_EQ(stats.allocation.all.current, 0);
    EXPECT_EQ(stats.active_bytes.all.current, 0);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    EXPECT_EQ(pool_count(stats), 0);
    const DeviceMemoryStats device_memory = *device().memory_stats();
    EXPECT_EQ(device_memory.free_bytes, device_memory.total_bytes);
  }

  ashlar_allocator* c = nullptr;
  std::vector<Buffer> buffers;  // has room for all buffers of an operation
  std::optional<PoolId> pool;   // to be released
  std::optional<PoolScope> scope;
  PoolCheckpoint checkpoint;
  void* memory = nullptr;         // from ashlar_allocate
  ashlar_block* block = nullptr;  // from ashlar_allocate_block

 private:
  std::unique_ptr<sim::Machine> machine_;
  StreamId side_;
};

using ApiOperation = sweep::FaultOperation<ApiWorld>;

ashlar_pool c_pool(const ApiWorld& w) { return {w.pool->capture, w.pool->user}; }

void allocate_used(ApiWorld& w) {
  w.allocate(3 * kMiB);
  w.keep_side_busy();
  w.buffers.back().record_stream(w.side());
}

// Fills the cache, and leaves one free pending.
void fill_cache(ApiWorld& w) {
  w.allocate(700);
  w.allocate(30 * kMiB);
  allocate_used(w);
  w.buffers.clear();
}

void record_all_stacks(ApiWorld& w) {
  HistoryOptions options;
  options.context = RecordContext::kAll;
  w.allocator().history().start(options);
}

std::vector<ApiOperation> allocator_operations() {
  std::vector<ApiOperation> all;
  all.push_back({.name = "Allocate", .run = [](ApiWorld& w) { w.allocate(3 * kMiB); }});
  all.push_back({.name = "AllocateWithStacks",
                 .prepare = record_all_stacks,
                 .run = [](ApiWorld& w) { w.allocate(3 * kMiB); }});
  all.push_back({.name = "AllocateRaw",
                 .run = [](ApiWorld& w) { w.memory = w.allocator().allocate_raw(3 * kMiB).as(); }});
  all.push_back({.name = "RecordStream",
                 .prepare = [](ApiWorld& w) { w.allocate(3 * kMiB); },
                 .run = [](ApiWorld& w) { w.buffers.back().record_stream(w.side()); }});
  all.push_back({.name = "Reset",
                 .prepare = [](ApiWorld& w) { w.allocate(3 * kMiB); },
                 .run = [](ApiWorld& w) { w.buffers.back().reset(); },
                 .never_fails = true});
  all.push_back({.name = "ResetUsed",
                 .prepare = allocate_used,
                 .run = [](ApiWorld& w) { w.buffers.back().reset(); },
                 .never_fails = true});
  all.push_back({.name = "ResetUsedWithStacks",
                 .prepare =
                     [](ApiWorld& w) {
                       record_all_stacks(w);
                       allocate_used(w);
                     },
                 .run = [](ApiWorld& w) { w.buffers.back().reset(); },
                 .never_fails = true});
  all.push_back(
      {.name = "Deallocate",
       .prepare =
           [](ApiWorld& w) {
             w.memory = StreamOrderedMemory(w.allocator()).allocate(3 * kMiB, 256, kDefaultStream);
           },
       .run =
           [](ApiWorld& w) {
             StreamOrderedMemory(w.allocator()).deallocate(w.memory, w.side());
             w.memory = nullptr;
           },
       .never_fails = true});
  all.push_back({.name = "Trim",
                 .prepare = fill_cache,
                 .run = [](ApiWorld& w) { w.allocator().trim(); },
                 .may_change_caches = true});
  all.push_back({.name = "TrimTo",
                 .prepare = fill_cache,
                 .run = [](ApiWorld& w) { w.allocator().trim_to(10 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "DestroyAllocatorBeforeBuffer", .run = [](ApiWorld& w) {
                   Allocator other(w.device(), parse_options(world_engine.options));
                   w.buffers.push_back(other.allocate(3 * kMiB));
                 }});
  return all;
}

void create_pool(ApiWorld& w) { w.pool = w.allocator().pools().create({.tag = kTag}); }

void fill_pool(ApiWorld& w) {
  create_pool(w);
  w.scope.emplace(w.allocator(), *w.pool);
  w.allocate(3 * kMiB);
  w.allocate(5 * kMiB);
  w.buffers.pop_back();
  w.scope.reset();
}

std::vector<ApiOperation> pause_operations() {
  std::vector<ApiOperation> all;
  all.push_back({.name = "Pause",
                 .prepare = fill_pool,
                 .run = [](ApiWorld& w) { w.pause(); },
                 .may_change_caches = true});
  all.push_back({.name = "Resume",
                 .prepare =
                     [](ApiWorld& w) {
                       fill_pool(w);
                       w.pause();
                     },
                 .run = [](ApiWorld& w) { w.resume(); },
                 .may_change_caches = true});
  return all;
}

std::vector<ApiOperation> pool_operations() {
  std::vector<ApiOperation> all;
  all.push_back({.name = "CreatePool", .run = create_pool});
  all.push_back({.name = "BeginScope", .prepare = create_pool, .run = [](ApiWorld& w) {
                   w.scope.emplace(w.allocator(), *w.pool);
                 }});
  all.push_back({.name = "EndScope",
                 .prepare =
                     [](ApiWorld& w) {
                       create_pool(w);
                       w.scope.emplace(w.allocator(), *w.pool);
                     },
                 .run = [](ApiWorld& w) { w.scope.reset(); },
                 .never_fails = true});
  all.push_back({.name = "Checkpoint", .prepare = fill_pool, .run = [](ApiWorld& w) {
                   (void)w.allocator().pools().checkpoint(*w.pool);
                 }});
  all.push_back({.name = "Restore",
                 .prepare =
                     [](ApiWorld& w) {
                       fill_pool(w);
                       w.checkpoint = w.allocator().pools().checkpoint(*w.pool);
                       w.buffers.clear();
                     },
                 .run =
                     [](ApiWorld& w) {
                       RestoredPool restored = w.allocator().pools().restore(w.checkpoint);
                       for (Buffer& each : restored.allocated) {
                         w.buffers.push_back(std::move(each));
                       }
                     }});
  all.push_back({.name = "TrimPool",
                 .prepare =
                     [](ApiWorld& w) {
                       fill_pool(w);
                       w.buffers.clear();
                       w.allocator().pools().release(*w.pool);
                       w.pool.reset();
                     },
                 .run = [](ApiWorld& w) { w.allocator().trim(); },
                 .may_change_caches = true});
  return all;
}

std::vector<ApiOperation> inspection_operations() {
  std::vector<ApiOperation> all;
  // Records no stacks, because their frames need thousands of allocations.
  all.push_back({.name = "Snapshot",
                 .prepare =
                     [](ApiWorld& w) {
                       w.allocator().history().start({});
                       w.allocate(3 * kMiB);
                     },
                 .run = [](ApiWorld& w) { (void)w.allocator().snapshot(); }});
  all.push_back({.name = "StartHistory", .run = record_all_stacks});
  all.push_back({.name = "RestartHistory",
                 .prepare =
                     [](ApiWorld& w) {
                       record_all_stacks(w);
                       w.allocate(3 * kMiB);
                     },
                 .run =
                     [](ApiWorld& w) {
                       HistoryOptions options;
                       options.max_entries = 100;
                       w.allocator().history().start(options);
                     }});
  all.push_back({.name = "AddTracker", .run = [](ApiWorld& w) {
                   w.allocator().hooks().add_tracker([](const TraceEntry&) {});
                 }});
  all.push_back({.name = "Region", .prepare = record_all_stacks, .run = [](ApiWorld& w) {
                   const Region region(w.allocator(), "a region with a long name");
                 }});
  return all;
}

std::vector<ApiOperation> c_pool_operations() {
  const auto create = [](ApiWorld& w) {
    ashlar_pool_options options{};
    options.struct_size = sizeof options;
    options.tag = kTag;
    ashlar_pool pool{};
    check(ashlar_pool_create(w.c, &options, &pool));
    w.pool = c_api::pool_id(pool);
  };
  const auto fill = [create](ApiWorld& w) {
    create(w);
    check(ashlar_pool_begin(w.c, c_pool(w), nullptr, nullptr));
    w.allocate(5 * kMiB);
    check(ashlar_allocate(w.c, 3 * kMiB, nullptr, &w.memory));
    check(ashlar_allocate_block(w.c, 700, nullptr, &w.block));
    w.buffers.clear();
    check(ashlar_pool_end(w.c, c_pool(w)));
    check(ashlar_pool_release(w.c, c_pool(w)));  // the reference of ashlar_pool_begin
  };
  const auto pause = [](ApiWorld& w) { check_pause(ashlar_pause(w.c, kTag, 1)); };
  std::vector<ApiOperation> all;
  all.push_back({.name = "CCreatePool", .run = create});
  all.push_back({.name = "CBeginPool", .prepare = create, .run = [](ApiWorld& w) {
                   check(ashlar_pool_begin(w.c, c_pool(w), nullptr, nullptr));
                   check(ashlar_pool_end(w.c, c_pool(w)));
                   check(ashlar_pool_release(w.c, c_pool(w)));
                 }});
  all.push_back({.name = "CPause", .prepare = fill, .run = pause, .may_change_caches = true});
  all.push_back({.name = "CResume",
                 .prepare =
                     [=](ApiWorld& w) {
                       fill(w);
                       pause(w);
                     },
                 .run = [](ApiWorld& w) { check_pause(ashlar_resume(w.c, kTag)); },
                 .may_change_caches = true});
  return all;
}

std::vector<ApiOperation> c_operations() {
  const auto allocate = [](ApiWorld& w) {
    check(ashlar_allocate(w.c, 3 * kMiB, nullptr, &w.memory));
  };
  const auto allocate_block = [](ApiWorld& w) {
    check(ashlar_allocate_block(w.c, 3 * kMiB, nullptr, &w.block));
  };
  std::vector<ApiOperation> all;
  all.push_back({.name = "CAllocate", .run = allocate});
  all.push_back({.name = "CAllocateBlock", .run = allocate_block});
  all.push_back({.name = "CRecordStream", .prepare = allocate, .run = [](ApiWorld& w) {
                   check(ashlar_record_stream(w.c, w.memory, w.c_side()));
                 }});
  all.push_back({.name = "CFreeUsed",
                 .prepare =
                     [allocate](ApiWorld& w) {
                       allocate(w);
                       w.keep_side_busy();
                       check(ashlar_record_stream(w.c, w.memory, w.c_side()));
                     },
                 .run =
                     [](ApiWorld& w) {
                       check(ashlar_free(w.c, w.memory));
                       w.memory = nullptr;
                     },
                 .never_fails = true});
  all.push_back({.name = "CRecordBlockStream", .prepare = allocate_block, .run = [](ApiWorld& w) {
                   check(ashlar_record_block_stream(w.c, w.block, w.c_side()));
                 }});
  all.push_back({.name = "CFreeUsedBlock",
                 .prepare =
                     [allocate_block](ApiWorld& w) {
                       allocate_block(w);
                       w.keep_side_busy();
                       check(ashlar_record_block_stream(w.c, w.block, w.c_side()));
                     },
                 .run =
                     [](ApiWorld& w) {
                       check(ashlar_free_block(w.c, w.block));
                       w.block = nullptr;
                     },
                 .never_fails = true});
  all.push_back({.name = "CTrim",
                 .prepare = fill_cache,
                 .run = [](ApiWorld& w) { check(ashlar_trim(w.c)); },
                 .may_change_caches = true});
  all.push_back({.name = "CSnapshot", .prepare = fill_cache, .run = [](ApiWorld& w) {
                   ashlar_bytes* snapshot = nullptr;
                   check(ashlar_snapshot(w.c, ASHLAR_FORMAT_JSON, &snapshot));
                   ashlar_bytes_destroy(snapshot);
                 }});
  all.push_back({.name = "CStartHistory",
                 .run = [](ApiWorld& w) { check(ashlar_history_start(w.c, nullptr)); }});
  all.push_back({.name = "CGetStats", .run = [](ApiWorld& w) {
                   ashlar_stats stats{};
                   stats.struct_size = sizeof stats;
                   check(ashlar_get_stats(w.c, &stats));
                 }});
  return all;
}

class ApiHostFaultsTest : public ::testing::TestWithParam<std::tuple<ApiEngine, ApiOperation>> {};

TEST_P(ApiHostFaultsTest, LosesNothingWhenAnyAllocationFails) {
  world_engine = std::get<0>(GetParam());
  sweep::expect_safe_operation(std::get<1>(GetParam()));
}

std::vector<ApiOperation> api_operations() {
  std::vector<ApiOperation> all;
  for (auto&& part : {allocator_operations(), pool_operations(), pause_operations(),
                      inspection_operations(), c_operations(), c_pool_operations()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

constexpr const char* kPluginOptions = "engine:plugin,plugin_library:" ASHLAR_COUNTING_PLUGIN
                                       ",plugin_alloc:dummy_alloc,plugin_free:dummy_free";

INSTANTIATE_TEST_SUITE_P(
    Engines, ApiHostFaultsTest,
    ::testing::Combine(
        ::testing::Values(ApiEngine{"Paged", "engine:paged", true},
                          ApiEngine{"Classic", "engine:classic"},
                          ApiEngine{"Expandable", "engine:classic,expandable_segments:True"},
                          ApiEngine{"Async", "engine:async"}, ApiEngine{"Plugin", kPluginOptions}),
        ::testing::ValuesIn(api_operations())),
    [](const auto& each) {
      return std::string(std::get<0>(each.param).name) + std::get<1>(each.param).name;
    });

}  // namespace
}  // namespace ashlar
