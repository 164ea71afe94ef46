// SPDX-License-Identifier: Apache-2.0
//
// The fixture for tests of the native PyTorch allocator on simulated devices and the stand-in for
// PyTorch. Calls go through PyTorch's interface. All tests share the process's devices, so each
// test leaves no memory.
#pragma once

#include <gtest/gtest.h>

#include <stdlib.h>

#include <functional>
#include <string>

#include "api/torch/native/native_allocator.h"
#include "api/torch/torch_plugin.h"

namespace ashlar::torch::native {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kDeviceBytes = 512 * kMiB;
inline constexpr PoolIdPair kNoPool{0, 0};

// A pool's id that no other test uses.
inline PoolIdPair new_pool() {
  static unsigned long long last = 0;
  return {0, ++last};
}

class NativeAllocatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ASHLAR_SIM_CAPACITY", "512MiB", 1);
    ASSERT_EQ(ashlar_torch_configure("sim", "engine:paged,expandable_segments_ipc:True"),
              ASHLAR_OK);
    install(*ashlar_torch_bridge(kBridgeVersion));
  }
  void SetUp() override {
    state().current_device = 0;
    state().total_bytes = kDeviceBytes;
    torch().init(2);
    torch().resetPeakStats(0);
    torch().resetAccumulatedStats(0);
  }
  void TearDown() override {
    for (const auto& [device, stream] : state().streams) {
      if (stream != nullptr) ashlar_stream_destroy(device_handle(device), stream);
    }
    state() = {};
    torch().recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    torch().emptyCache(kNoPool);
    EXPECT_EQ(torch().getDeviceStats(0).allocated_bytes[0].current, 0);
  }

  static StandinState& state() { return standin_state(); }
  static GpuAllocator& torch() { return *caching::allocator.load(); }
  static ashlar_device* device_handle(size_t index) {
    ashlar_device* device = nullptr;
    EXPECT_EQ(ashlar_device_open("sim", index, &device), ASHLAR_OK);
    return device;
  }
  // Makes a new stream the current one.
  static void* use_new_stream() {
    void* stream = nullptr;
    EXPECT_EQ(ashlar_stream_create(device_handle(0), 0, &stream), ASHLAR_OK);
    state().streams[0] = stream;
    return stream;
  }
  static int64_t allocated(int device = 0) {
    return torch().getDeviceStats(static_cast<c10::DeviceIndex>(device)).allocated_bytes[0].current;
  }
  static int64_t reserved() { return torch().getDeviceStats(0).reserved_bytes[0].current; }
  static std::string error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const c10::Error& failure) {
      return failure.what();
    }
    return "no error";
  }
  // Routes the calling thread's allocations to the pool.
  static void begin(PoolIdPair pool) {
    torch().beginAllocateToPool(0, pool, [](GpuStreamHandle) { return true; });
  }
  static void end(PoolIdPair pool) {
    torch().endAllocateToPool(0, pool);
    torch().releasePool(0, pool);
  }
};

}  // namespace ashlar::torch::native
