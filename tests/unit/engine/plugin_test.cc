// SPDX-License-Identifier: Apache-2.0
//
// Tests of plug-ins from a shared object: as an engine, as the source of classic segments, and as a
// pool's source. Includes PyTorch's own assertions about plug-ins.
#include <dlfcn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ashlar/allocator.h"
#include "ashlar/plugin.h"
#include "ashlar/sim.h"
#include "base/units.h"

namespace ashlar {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kCounting = ASHLAR_COUNTING_PLUGIN;
constexpr const char* kThrowing = ASHLAR_THROWING_PLUGIN;
constexpr StreamId kStream{0x1234};  // not a stream of the device; passed on unchanged

class PluginTest : public testing::Test {
 protected:
  PluginTest() {
    machine_ = *sim::Machine::try_create({.device_count = 2, .seed = 1});
    for (const char* name : {"called_dummy_alloc", "called_dummy_free", "init_count", "reset_count",
                             "record_count", "begin_count", "end_count", "release_count"}) {
      counter(name) = 0;
    }
    *static_cast<size_t*>(symbol("max_bytes")) = SIZE_MAX;
  }

  static void* symbol(const char* name, const char* library = kCounting) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void* found = dlsym(handle, name);
    EXPECT_NE(found, nullptr) << name;
    return found;
  }
  static int& counter(const char* name) { return *static_cast<int*>(symbol(name)); }
  static size_t bytes(const char* name) { return *static_cast<size_t*>(symbol(name)); }
  static StreamId stream(const char* name) {
    return StreamId(reinterpret_cast<uint64_t>(*static_cast<void**>(symbol(name))));
  }

  Device& device(uint64_t index = 0) { return machine_->device(DeviceIndex(index)); }
  static AllocatorOptions options(const std::string& more = {}) {
    AllocatorOptions parsed = parse_options(
        "engine:plugin,plugin_alloc:dummy_alloc,"
        "plugin_free:dummy_free" +
        more);
    parsed.plugin.library = kCounting;
    return parsed;
  }
  // Creates an allocator with invalid options. Returns the error message.
  std::string error_for(const AllocatorOptions& wrong) {
    try {
      const Allocator allocator(device(), wrong);
    } catch (const InvalidArgument& failure) {
      return failure.status().message();
    }
    return "no complaint";
  }

  std::unique_ptr<sim::Machine> machine_;
};

// --- the allocation and free functions

TEST_F(PluginTest, CallsFunctionsOnFirstUse) {
  Allocator allocator(device(), options());
  EXPECT_EQ(counter("called_dummy_alloc"), 0);
  EXPECT_EQ(counter("called_dummy_free"), 0);
  Buffer buffer = allocator.allocate(1000);
  EXPECT_EQ(counter("called_dummy_alloc"), 123);
  EXPECT_EQ(counter("called_dummy_free"), 0);
  buffer.reset();
  EXPECT_EQ(counter("called_dummy_free"), 321);
}

TEST_F(PluginTest, PassesSizeDeviceAndStream) {
  Allocator allocator(device(1), options());
  Buffer buffer = allocator.allocate(777, kStream);
  EXPECT_EQ(bytes("last_bytes"), 777U);
  EXPECT_EQ(counter("last_device"), 1);
  EXPECT_EQ(stream("last_stream"), kStream);
  buffer.reset();
  EXPECT_EQ(bytes("last_free_bytes"), 777U);
  EXPECT_EQ(stream("last_free_stream"), kStream);
}

TEST_F(PluginTest, ProvidesStatisticsHistoryAndSnapshots) {
  Allocator allocator(device(), options());
  allocator.history().start();
  Buffer kept = allocator.allocate(3000, kStream);
  allocator.allocate(500).reset();
  const AllocatorStats stats = allocator.stats();
  EXPECT_EQ(stats.allocated_bytes.all.current, 3000);
  EXPECT_EQ(stats.reserved_bytes.all.current, 3000) << "nothing is cached";
  EXPECT_EQ(stats.allocated_bytes.all.peak, 3500);
  EXPECT_EQ(stats.device_allocs, 2);
  EXPECT_EQ(stats.device_frees, 1);
  const Snapshot snapshot = allocator.snapshot();
  ASSERT_EQ(snapshot.segments.size(), 1U);
  EXPECT_EQ(snapshot.segments[0].total_bytes, 3000U);
  EXPECT_EQ(snapshot.segments[0].stream, kStream);
  EXPECT_GE(snapshot.device_traces[0].size(), 6U);
}

TEST_F(PluginTest, NullIsOutOfMemory) {
  Allocator allocator(device(), options());
  int heard = 0;
  allocator.hooks().add_oom_observer([&](const OomNotice& notice) {
    ++heard;
    EXPECT_GE(notice.wanted_bytes, 5000U);
  });
  *static_cast<size_t*>(symbol("max_bytes")) = 4000;
  try {
    allocator.allocate(5000);
    ADD_FAILURE() << "null was handed out";
  } catch (const OutOfMemory& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("plug-in"));
  }
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(allocator.stats().ooms, 1);
  EXPECT_GT(counter("reset_count"), 0) << "the plug-in must release its cache";
  allocator.allocate(4000);
}

TEST_F(PluginTest, AllocatorMayEndBeforeProgramFreesBuffers) {
  {
    Allocator allocator(device(), options());
    allocator.allocate_raw(100);
  }
  EXPECT_EQ(counter("called_dummy_free"), 321) << "the destructor also releases memory in use";
}

// --- hooks

TEST_F(PluginTest, CallsEveryHook) {
  Allocator allocator(device(), options());
  EXPECT_EQ(counter("init_count"), 1);
  allocator.set_memory_fraction(0.5);
  EXPECT_EQ(*static_cast<double*>(symbol("last_fraction")), 0.5);
  Buffer buffer = allocator.allocate(1000);
  EXPECT_EQ(allocator.sharing().base_allocation(buffer).bytes, kMiB);
  EXPECT_EQ(allocator.sharing().base_allocation(buffer).begin + 512, buffer.address());
  buffer.record_stream(kStream);
  EXPECT_EQ(counter("record_count"), 1);
  EXPECT_EQ(stream("last_stream"), kStream);
  const PoolId pool = allocator.pools().create();
  allocator.pools().begin_routing(pool, [](StreamId) { return true; });
  EXPECT_EQ(counter("begin_count"), 1);
  EXPECT_EQ(counter("filter_result"), 1) << "the plug-in may call the filter";
  allocator.pools().end_routing(pool);
  EXPECT_EQ(counter("end_count"), 1);
  allocator.pools().release(pool);
  EXPECT_EQ(counter("release_count"), 0) << "routing still holds it";
  allocator.pools().release(pool);
  EXPECT_EQ(counter("release_count"), 1);
  allocator.trim();
  EXPECT_EQ(counter("reset_count"), 1);
}

TEST_F(PluginTest, FreesImmediatelyWithRecordStreamHook) {
  const StreamId busy = *device().create_stream();
  ASSERT_TRUE(machine_->pause_stream(DeviceIndex(0), busy).ok());
  ASSERT_TRUE(device().call_host(busy, [] {}).ok());
  Allocator allocator(device(), options());
  Buffer buffer = allocator.allocate(1000);
  buffer.record_stream(busy);
  buffer.reset();
  EXPECT_EQ(counter("called_dummy_free"), 321);
  ASSERT_TRUE(machine_->resume_stream(DeviceIndex(0), busy).ok());
}

TEST_F(PluginTest, DefersFreeWithoutRecordStreamHook) {
  const StreamId busy = *device().create_stream();
  ASSERT_TRUE(machine_->pause_stream(DeviceIndex(0), busy).ok());
  ASSERT_TRUE(device().call_host(busy, [] {}).ok());
  Allocator allocator(device(), options(",plugin_hooks:short_hooks"));
  Buffer buffer = allocator.allocate(1000);
  buffer.record_stream(busy);
  EXPECT_EQ(counter("record_count"), 0) << "its table ends before that field";
  buffer.reset();
  EXPECT_EQ(counter("called_dummy_free"), 0);
  EXPECT_EQ(allocator.stats().active_bytes.all.current, 1000);
  ASSERT_TRUE(machine_->resume_stream(DeviceIndex(0), busy).ok());
  allocator.trim();
  EXPECT_EQ(counter("called_dummy_free"), 321);
}

// --- plug-ins as segment sources

TEST_F(PluginTest, ProvidesSegmentsForClassicEngine) {
  AllocatorOptions classic = options();
  classic.engine = EngineKind::kClassic;
  Allocator allocator(device(), classic);
  const Buffer first = allocator.allocate(1000);
  EXPECT_EQ(bytes("last_bytes"), 2 * kMiB);
  const Buffer second = allocator.allocate(1000);
  EXPECT_EQ(allocator.stats().device_allocs, 1);
}

TEST_F(PluginTest, ProvidesMemoryForPool) {
  for (const char* engine : {"engine:classic", "engine:paged"}) {
    Allocator allocator(device(), parse_options(engine));
    const auto source = load_plugin(device(), options().plugin);
    const PoolId pool = allocator.pools().create({.source = source});
    allocator.pools().begin_routing(pool, [](StreamId) { return true; });
    Buffer buffer = allocator.allocate(1000, kStream);
    allocator.pools().end_routing(pool);
    EXPECT_EQ(counter("called_dummy_alloc"), 123) << engine;
    EXPECT_EQ(stream("last_stream"), kStream);
    const Snapshot snapshot = allocator.snapshot({.pool = pool});
    ASSERT_EQ(snapshot.segments.size(), 1U);
    EXPECT_EQ(snapshot.segments[0].pool, pool);
    counter("called_dummy_alloc") = 0;
    allocator.allocate(1000);
    EXPECT_EQ(counter("called_dummy_alloc"), 0) << "only the pool's";
  }
}

TEST_F(PluginTest, BufferOutlivesPoolAndSourceHandles) {
  Allocator allocator(device(), parse_options("engine:classic"));
  PoolId pool;
  Buffer buffer;
  {
    const auto source = load_plugin(device(), options().plugin);
    pool = allocator.pools().create({.source = source});
    allocator.pools().begin_routing(pool, [](StreamId) { return true; });
    buffer = allocator.allocate(1000);
    allocator.pools().end_routing(pool);
  }
  allocator.pools().release(pool);
  allocator.pools().release(pool);
  allocator.trim();
  EXPECT_EQ(counter("called_dummy_free"), 0);
  buffer.reset();
  allocator.trim();
  EXPECT_EQ(counter("called_dummy_free"), 321);
}

// --- failures

TEST_F(PluginTest, ReportsLoadErrors) {
  AllocatorOptions wrong = options();
  wrong.plugin.library = "/nowhere/libnothing.so";
  EXPECT_THAT(error_for(wrong), AllOf(HasSubstr("/nowhere/libnothing.so"), HasSubstr("No such")));
  wrong = options();
  wrong.plugin.alloc_symbol = "no_such_alloc";
  EXPECT_THAT(error_for(wrong), HasSubstr("has no symbol no_such_alloc"));
  wrong = options();
  wrong.plugin.free_symbol = "no_such_free";
  EXPECT_THAT(error_for(wrong), HasSubstr("has no symbol no_such_free"));
  wrong = options();
  wrong.plugin.hooks_symbol = "no_such_hooks";
  EXPECT_THAT(error_for(wrong), HasSubstr("has no symbol no_such_hooks"));
}

TEST_F(PluginTest, RejectsHooksOfAnotherVersion) {
  EXPECT_THAT(error_for(options(",plugin_hooks:hooks_of_another_version")),
              HasSubstr("are of version 2 (expected 1)"));
  EXPECT_THAT(error_for(options(",plugin_hooks:hooks_without_size")), HasSubstr("have 0 B"));
}

TEST_F(PluginTest, RejectsConflictingOptions) {
  AllocatorOptions wrong = options();
  wrong.plugin.library.clear();
  EXPECT_THAT(error_for(wrong), HasSubstr("needs a plugin_library"));
  wrong = options();
  wrong.plugin.free_symbol.clear();
  EXPECT_THAT(error_for(wrong), HasSubstr("needs plugin_alloc and plugin_free"));
  wrong = options();
  wrong.engine = EngineKind::kPaged;
  EXPECT_THAT(error_for(wrong), HasSubstr("the paged engine maps its memory itself"));
}

TEST_F(PluginTest, ReportsExceptionAsDeviceFault) {
  AllocatorOptions throwing = options();
  throwing.plugin = {kThrowing, "throwing_alloc", "throwing_free", {}};
  Allocator allocator(device(), throwing);
  try {
    allocator.allocate(100);
    ADD_FAILURE() << "nothing was reported";
  } catch (const DeviceError& failure) {
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("threw in alloc"), HasSubstr("no luck today")));
  }
  EXPECT_EQ(allocator.stats().ooms, 0) << "must not be reported as out of memory";
}

TEST_F(PluginTest, NextCallReportsExceptionInFree) {
  AllocatorOptions throwing = options();
  throwing.plugin = {kThrowing, "plain_alloc", "throwing_free", {}};
  Allocator allocator(device(), throwing);
  Buffer buffer = allocator.allocate(100);
  *static_cast<int*>(symbol("throws_in_free", kThrowing)) = 1;
  buffer.reset();
  *static_cast<int*>(symbol("throws_in_free", kThrowing)) = 0;
  EXPECT_THROW(allocator.trim(), DeviceError);
  EXPECT_NO_THROW(allocator.trim());
}

TEST_F(PluginTest, UndoesRoutingWhenHookFails) {
  AllocatorOptions throwing = options();
  throwing.plugin = {kThrowing, "plain_alloc", "throwing_free", "throwing_hooks"};
  Allocator allocator(device(), throwing);
  const PoolId pool = allocator.pools().create({});
  const auto all = [](StreamId) { return true; };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(allocator.pools().begin_routing(pool, all), DeviceError) << "on every attempt";
  }
  EXPECT_EQ(allocator.pools().use_count(pool), 1) << "its creator retains it";
  const Buffer buffer = allocator.allocate(100);
  EXPECT_EQ(allocator.snapshot({.pool = pool}).segments.size(), 0U);
}

TEST_F(PluginTest, RejectsAddressThatIsStillInUse) {
  AllocatorOptions throwing = options();
  throwing.plugin = {kThrowing, "plain_alloc", "throwing_free", {}};
  Allocator allocator(device(), throwing);
  const Buffer buffer = allocator.allocate(100);
  EXPECT_THROW(allocator.allocate(100), DeviceError);
  EXPECT_EQ(allocator.stats().allocation.all.current, 1);
}

}  // namespace
}  // namespace ashlar
