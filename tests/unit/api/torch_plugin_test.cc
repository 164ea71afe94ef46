// SPDX-License-Identifier: Apache-2.0
//
// Tests of libashlar_torch.so, called as PyTorch calls it: through its exported functions and C++
// types, on the simulated device.
#include "api/torch/torch_plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr TorchPoolId kGraphPool{7, 0};

class TorchPluginTest : public testing::Test {
 protected:
  // Configures the library, which is possible only once per process.
  static void SetUpTestSuite() {
    setenv("ASHLAR_TORCH_BACKEND", "sim", 1);
    setenv("ASHLAR_SIM_CAPACITY", "1GiB", 1);
    ASSERT_EQ(ashlar_torch_configure(nullptr, "engine:paged"), ASHLAR_OK) << ashlar_last_message();
  }
  void TearDown() override { ashlar_torch_reset(); }

  static ashlar_device* device() {
    ashlar_device* found = nullptr;
    EXPECT_EQ(ashlar_device_open("sim", 0, &found), ASHLAR_OK) << ashlar_last_message();
    return found;
  }
  static void* new_stream() {
    ashlar_stream stream = nullptr;
    EXPECT_EQ(ashlar_stream_create(device(), 0, &stream), ASHLAR_OK) << ashlar_last_message();
    return stream;
  }
  static ashlar_stats stats(int of = 0) {
    ashlar_stats found{};
    found.struct_size = sizeof found;
    EXPECT_EQ(ashlar_get_stats(ashlar_torch_allocator(of), &found), ASHLAR_OK);
    return found;
  }
  static void use(void* stream, void* memory, size_t bytes) {
    ASSERT_EQ(ashlar_fill(device(), memory, 1, bytes, stream), ASHLAR_OK);
  }
};

TEST_F(TorchPluginTest, AllocatesAndFreesMemory) {
  void* memory = ashlar_torch_alloc(3 << 20, 0, nullptr);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(stats().allocated_bytes.current, 3 << 20);
  ashlar_torch_free(memory, 3 << 20, 0, nullptr);
  EXPECT_EQ(stats().allocated_bytes.current, 0);
}

TEST_F(TorchPluginTest, CreatesOneAllocatorPerDevice) {
  void* memory = ashlar_torch_alloc(1 << 20, 1, nullptr);
  EXPECT_EQ(stats(1).allocation.current, 1);
  EXPECT_EQ(stats(0).allocation.current, 0);
  ashlar_torch_free(memory, 1 << 20, 1, nullptr);
}

TEST_F(TorchPluginTest, ZeroBytesYieldNullWhichCanBeFreed) {
  EXPECT_EQ(ashlar_torch_alloc(0, 0, nullptr), nullptr);
  EXPECT_EQ(ashlar_torch_pool_alloc(0, 0, nullptr), nullptr);
  ashlar_torch_free(nullptr, 0, 0, nullptr);
}

TEST_F(TorchPluginTest, ThrowsOutOfMemoryWithReport) {
  try {
    ashlar_torch_alloc(size_t{2} << 30, 0, nullptr);
    FAIL() << "PyTorch does not check for null";
  } catch (const std::bad_alloc& failure) {
    EXPECT_THAT(failure.what(), StartsWith("CUDA out of memory. Ashlar tried to allocate"));
  }
}

// A stand-in library exports PyTorch's symbols and catches the exception as PyTorch does.
TEST_F(TorchPluginTest, ThrowsPyTorchErrorIfPyTorchIsLoaded) {
  void* library = dlopen(TORCH_STANDIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using DescribeThrown = const char* (*)(void* (*)(size_t, int, void*), size_t);
  const auto describe_thrown =
      reinterpret_cast<DescribeThrown>(dlsym(library, "torch_standin_catch"));
  const auto live_count = reinterpret_cast<int (*)()>(dlsym(library, "torch_standin_error_count"));
  ASSERT_NE(describe_thrown, nullptr);
  ASSERT_NE(live_count, nullptr);
  EXPECT_THAT(describe_thrown(ashlar_torch_alloc, size_t{2} << 30),
              StartsWith("OutOfMemoryError: CUDA out of memory. Ashlar tried to allocate 2"));
  EXPECT_EQ(live_count(), 0) << "the error was not destroyed";
  EXPECT_STREQ(describe_thrown(ashlar_torch_alloc, 0), "nothing");
  dlclose(library);
}

TEST_F(TorchPluginTest, PoolAllocationReturnsNullIfOutOfMemory) {
  EXPECT_EQ(ashlar_torch_pool_alloc(size_t{2} << 30, 0, nullptr), nullptr);
  EXPECT_THAT(ashlar_last_message(), HasSubstr("tried to allocate"));
}

TEST_F(TorchPluginTest, ReportsUnknownDevice) {
  EXPECT_THROW(ashlar_torch_alloc(100, 5, nullptr), std::exception);
  EXPECT_THROW(ashlar_torch_alloc(100, -1, nullptr), std::exception);
  EXPECT_EQ(ashlar_torch_pool_alloc(100, 1000, nullptr), nullptr);
  EXPECT_EQ(ashlar_torch_allocator(99), nullptr);
  EXPECT_THAT(ashlar_last_message(), HasSubstr("99"));
}

TEST_F(TorchPluginTest, RejectsConfigurationAfterFirstAllocation) {
  ashlar_torch_free(ashlar_torch_alloc(100, 0, nullptr), 100, 0, nullptr);
  EXPECT_EQ(ashlar_torch_configure("sim", "engine:classic"), ASHLAR_INVALID_ARGUMENT);
  EXPECT_EQ(ashlar_torch_configure("sim", "engine:stone"), ASHLAR_INVALID_ARGUMENT);
}

TEST_F(TorchPluginTest, DefersReuseUntilRecordedStreamFinishes) {
  void* own = new_stream();
  void* other = new_stream();
  const size_t bytes = 4 << 20;
  void* memory = ashlar_torch_alloc(bytes, 0, own);
  use(other, memory, bytes);
  ashlar_torch_record_stream(memory, other);
  ashlar_torch_free(memory, bytes, 0, own);
  EXPECT_EQ(stats().allocated_bytes.current, 0);
  EXPECT_EQ(stats().active_bytes.current, static_cast<int64_t>(bytes)) << "not polled yet";
  ASSERT_EQ(ashlar_stream_synchronize(device(), other), ASHLAR_OK);
  ashlar_torch_reset();
  EXPECT_EQ(stats().active_bytes.current, 0);
}

TEST_F(TorchPluginTest, IgnoresMemoryOfOtherLibraries) {
  int elsewhere = 0;
  EXPECT_NO_THROW(ashlar_torch_record_stream(&elsewhere, new_stream()));
  EXPECT_NO_THROW(ashlar_torch_record_stream(nullptr, new_stream()));
  void* freed = ashlar_torch_alloc(4 << 20, 0, nullptr);
  ashlar_torch_free(freed, 4 << 20, 0, nullptr);
  EXPECT_NO_THROW(ashlar_torch_record_stream(freed, new_stream())) << "not allocated";
  EXPECT_EQ(stats().active_bytes.current, 0);
}

TEST_F(TorchPluginTest, ReusesImmediatelyOnOwnStream) {
  void* own = new_stream();
  const size_t bytes = 4 << 20;
  void* memory = ashlar_torch_alloc(bytes, 0, own);
  use(own, memory, bytes);
  ashlar_torch_free(memory, bytes, 0, own);
  EXPECT_EQ(ashlar_torch_alloc(bytes, 0, own), memory);
  ashlar_torch_free(memory, bytes, 0, own);
}

TEST_F(TorchPluginTest, ResetReturnsCachedMemory) {
  ashlar_torch_free(ashlar_torch_alloc(9 << 20, 0, nullptr), 9 << 20, 0, nullptr);
  EXPECT_GE(stats().reserved_bytes.current, 9 << 20);
  ashlar_torch_reset();
  EXPECT_EQ(stats().reserved_bytes.current, 0);
}

TEST_F(TorchPluginTest, EnforcesMemoryFraction) {
  ashlar_torch_memory_fraction(0.25, 0);
  EXPECT_THROW(ashlar_torch_alloc(size_t{300} << 20, 0, nullptr), std::bad_alloc);
  ashlar_torch_memory_fraction(1, 0);
  EXPECT_THROW(ashlar_torch_memory_fraction(2, 0), std::exception);
}

TEST_F(TorchPluginTest, BaseAllocationContainsBlock) {
  void* memory = ashlar_torch_alloc(1000, 0, nullptr);
  size_t bytes = 0;
  const void* base = ashlar_torch_base_alloc(memory, &bytes);
  EXPECT_LE(base, memory);
  EXPECT_GE(static_cast<const char*>(base) + bytes, static_cast<char*>(memory) + 1000);
  ashlar_torch_free(memory, 1000, 0, nullptr);
  int elsewhere = 0;
  EXPECT_EQ(ashlar_torch_base_alloc(&elsewhere, &bytes), &elsewhere);
}

TEST_F(TorchPluginTest, KeepsCaptureMemoryUntilPoolIsReleased) {
  void* captured = new_stream();
  int asked = 0;
  ashlar_torch_begin_allocate_to_pool(0, kGraphPool, [&](void* stream) {
    ++asked;
    return stream == captured;
  });
  void* inside = ashlar_torch_alloc(5 << 20, 0, captured);
  void* outside = ashlar_torch_alloc(5 << 20, 0, nullptr);
  EXPECT_GE(asked, 2);
  ashlar_torch_free(inside, 5 << 20, 0, captured);
  EXPECT_EQ(ashlar_torch_alloc(5 << 20, 0, captured), inside) << "a graph may use it again";
  ashlar_torch_free(inside, 5 << 20, 0, captured);
  ashlar_torch_end_allocate_to_pool(0, kGraphPool);

  void* after = ashlar_torch_alloc(5 << 20, 0, captured);
  EXPECT_NE(after, inside) << "the graph still has its addresses";
  ashlar_torch_free(after, 5 << 20, 0, captured);
  ashlar_torch_free(outside, 5 << 20, 0, nullptr);
  ashlar_torch_reset();
  EXPECT_GE(stats().reserved_bytes.current, 5 << 20) << "the pool is retained";
  ashlar_torch_release_pool(0, kGraphPool);
  ashlar_torch_reset();
  EXPECT_EQ(stats().reserved_bytes.current, 0);
}

TEST_F(TorchPluginTest, ThrowsForInvalidPoolCalls) {
  EXPECT_THROW(ashlar_torch_end_allocate_to_pool(0, kGraphPool), std::exception);
  EXPECT_THROW(ashlar_torch_release_pool(0, {99, 0}), std::exception);
  EXPECT_THROW(ashlar_torch_begin_allocate_to_pool(0, kGraphPool, {}), std::exception);
}

// As in PyTorch's backward pass, several threads with their own streams free memory that other
// threads allocated.
TEST_F(TorchPluginTest, ConcurrencyOfThreadsOnManyStreamsLeaksNothing) {
  constexpr int kThreadCount = 4;
  std::vector<std::atomic<void*>> shared(64);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreadCount; ++thread) {
    threads.emplace_back([&, thread, stream = new_stream(), other = new_stream()] {
      for (int step = 0; step < 2000; ++step) {
        const size_t place = static_cast<size_t>(step * 7 + thread * 13) % shared.size();
        void* memory = ashlar_torch_alloc(static_cast<size_t>(step % 100 + 1) * 1000, 0, stream);
        if (step % 3 == 0) ashlar_torch_record_stream(memory, other);
        ashlar_torch_free(shared[place].exchange(memory), 0, 0, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<void*>& each : shared) ashlar_torch_free(each.load(), 0, 0, nullptr);
  ashlar_torch_reset();
  EXPECT_EQ(stats().allocation.current, 0);
  EXPECT_EQ(stats().reserved_bytes.current, 0);
}

}  // namespace
