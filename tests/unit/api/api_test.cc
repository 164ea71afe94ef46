// SPDX-License-Identifier: Apache-2.0
//
// Tests of the RAII types and the error model of the public API: streams, events, pools, typed
// copies, conversions, and buffers that outlive their allocator.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/ashlar.h"
#include "base/units.h"

namespace ashlar {
namespace {

class ApiTest : public ::testing::Test {
 protected:
  Device& device() { return machine_->device(DeviceIndex(0)); }
  std::unique_ptr<sim::Machine> machine_ = sim::Machine::create();
};

TEST(ResultTest, ValueThrowsTheMatchingException) {
  EXPECT_EQ(Result<int>(3).value(), 3);
  EXPECT_THROW((void)Result<int>(Status::out_of_memory("full")).value(), OutOfMemory);
  EXPECT_THROW((void)Result<int>(Status::unsupported("no")).value(), InvalidArgument);
  EXPECT_THROW((void)Result<int>(Status::device_lost("call", 1, "lost")).value(), DeviceError);
  EXPECT_THROW((void)Result<int>(Status::format("bad")).value(), FormatError);
  EXPECT_THROW((void)Result<int>(Status::timeout("late")).value(), TimeoutError);
  EXPECT_THROW((void)Result<int>(Status::peer_lost("dead")).value(), PeerError);
  EXPECT_NO_THROW(throw_if_error(Status()));
}

TEST(VersionTest, HeaderAgreesWithTheBuild) {
  EXPECT_STREQ(ASHLAR_VERSION_STRING, ASHLAR_CMAKE_VERSION);
  const std::string numbers = std::to_string(ASHLAR_VERSION_MAJOR) + "." +
                              std::to_string(ASHLAR_VERSION_MINOR) + "." +
                              std::to_string(ASHLAR_VERSION_PATCH);
  EXPECT_EQ(numbers, ASHLAR_VERSION_STRING);
  EXPECT_EQ(ASHLAR_VERSION_NUMBER, ASHLAR_VERSION_MINOR * 100);
}

TEST(ConversionTest, ConvertsStreamHandlesAndDevicePointers) {
  struct DriverStream;
  auto* handle = reinterpret_cast<DriverStream*>(uintptr_t{0x1000});
  EXPECT_EQ(to_stream_id(handle), StreamId(0x1000));
  EXPECT_EQ(to_stream_handle<DriverStream*>(StreamId(0x1000)), handle);
  EXPECT_EQ(to_stream_id(static_cast<DriverStream*>(nullptr)), kDefaultStream);
  EXPECT_EQ(to_stream_id(reinterpret_cast<DriverStream*>(uintptr_t{1})), kDefaultStream);
  auto* pointer = reinterpret_cast<float*>(uintptr_t{0x2000});
  EXPECT_EQ(DeviceAddress::of(pointer), DeviceAddress(0x2000));
  EXPECT_EQ(DeviceAddress(0x2000).as<float>(), pointer);
}

TEST_F(ApiTest, CopiesThroughStreamsAndEvents) {
  Allocator allocator(device());
  Stream first(device());
  Stream second(device());
  std::vector<int> sent(1000);
  std::iota(sent.begin(), sent.end(), 0);
  Buffer buffer = allocator.allocate(sent.size() * sizeof(int), first);
  copy_to_device(device(), buffer.address(), sent, first);
  Event copied(device());
  copied.record(first);
  second.wait(copied);
  std::vector<int> received(sent.size());
  copy_to_host(device(), received, buffer.address(), second);
  buffer.record_stream(second);
  second.synchronize();
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(copied.is_done());
  EXPECT_TRUE(second.is_idle());

  fill(device(), {buffer.address(), sizeof(int)}, 0xFF, second);
  std::array<int, 1> filled{};
  copy_to_host(device(), filled, buffer.address(), second);
  second.synchronize();
  EXPECT_EQ(filled[0], -1);
  copy_to_device(device(), {}, std::vector<int>(), first);  // nothing to copy
}

TEST_F(ApiTest, MovedStreamsAndEventsAreDestroyedOnce) {
  Stream stream(device());
  const StreamId id = stream.id();
  Stream moved(std::move(stream));
  EXPECT_EQ(moved.id(), id);
  Stream assigned(device());
  assigned = std::move(moved);
  EXPECT_EQ(assigned.id(), id);
  Event begin(device(), {.timing = true});
  Event source(device(), {.timing = true});
  Event end(std::move(source));
  begin.record(assigned);
  end.record(assigned);
  end.synchronize();
  EXPECT_GE(end.elapsed_ms_since(begin), 0);
  EXPECT_THROW(begin.record(StreamId(12345)), InvalidArgument);
}

TEST_F(ApiTest, PoolScopeRoutesAllocationsOfThisThread) {
  Allocator allocator(device());
  Pool pool(allocator, {.tag = "weights"});
  Buffer inside;
  {
    const PoolScope scope(allocator, pool.id());
    inside = allocator.allocate(kMiB);
    std::thread([&] { const Buffer outside = allocator.allocate(kMiB); }).join();
  }
  const Buffer after = allocator.allocate(kMiB);
  EXPECT_EQ(allocator.pools().live_addresses(pool.id()),
            std::vector<DeviceAddress>{inside.address()});
  EXPECT_EQ(allocator.pools().use_count(pool.id()), 1) << "the scope released its reference";
  const PoolId id = pool.id();
  inside.reset();
  Pool moved(std::move(pool));
  EXPECT_FALSE(pool);  // NOLINT(bugprone-use-after-move): a moved pool is empty
  moved.reset();
  EXPECT_EQ(allocator.pools().use_count(id), 0);
}

TEST_F(ApiTest, CaptureScopeBalancesBeginAndEnd) {
  Allocator allocator(device());
  const Pool pool = Pool::for_capture(allocator);
  EXPECT_NE(pool.id().capture, 0U);
  { const CaptureScope scope(allocator); }
  EXPECT_THROW(allocator.pools().notify_capture_end(), InvalidArgument);
}

// AddressSanitizer would report that a buffer uses the freed allocator.
TEST_F(ApiTest, BufferThatOutlivesItsAllocatorIsHarmless) {
  for (const char* engine : {"engine:paged", "engine:classic", "engine:async"}) {
    Buffer survivor;
    Buffer other;
    {
      Allocator allocator(device(), parse_options(engine));
      survivor = allocator.allocate(kMiB);
      other = allocator.allocate(3 * kMiB);
    }
    EXPECT_TRUE(survivor);
    EXPECT_THROW(survivor.record_stream(kDefaultStream), InvalidArgument);
    survivor.reset();
    EXPECT_FALSE(survivor);
    Allocator next(device(), parse_options(engine));
    EXPECT_THROW((void)next.sharing().base_allocation(other), InvalidArgument);
    other = next.allocate(kMiB);
    EXPECT_EQ(next.stats().allocation.all.current, 1);
  }
  EXPECT_EQ(device().memory_stats()->free_bytes, device().properties().capacity_bytes);
}

}  // namespace
}  // namespace ashlar
