// SPDX-License-Identifier: Apache-2.0
//
// Tests that the C API does not use the heap on the fast path, and that its last error is per
// thread. The counting operator new applies to the whole executable.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "ashlar/c/ashlar.h"

namespace {

std::atomic<uint64_t> heap_count{0};  // relaxed, because only the allocating thread reads it

}  // namespace

void* operator new(size_t bytes) {
  heap_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  heap_count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}
void operator delete(void* memory) noexcept { std::free(memory); }          // NOLINT
void operator delete(void* memory, size_t) noexcept { std::free(memory); }  // NOLINT

namespace {

class CFastPathTest : public testing::Test {
 protected:
  void SetUp() override {
    ashlar_device* device = nullptr;
    ASSERT_EQ(ashlar_device_open("sim", 0, &device), ASHLAR_OK) << ashlar_last_message();
    ASSERT_EQ(ashlar_allocator_create(device, "engine:paged", &allocator_), ASHLAR_OK);
  }
  void TearDown() override { ashlar_allocator_destroy(allocator_); }

  template <typename Pair>
  uint64_t heap_use_of(const Pair& pair) {
    for (int i = 0; i < 3; ++i) pair();
    const uint64_t before = heap_count.load();
    for (int i = 0; i < 100; ++i) pair();
    return heap_count.load() - before;
  }

  ashlar_allocator* allocator_ = nullptr;
};

TEST_F(CFastPathTest, CountsHeapAllocations) {
  EXPECT_EQ(heap_use_of([] { const auto something = std::make_unique<int>(1); }), 100U);
}

TEST_F(CFastPathTest, AllocateAndFreeByPointerDoNotUseHeap) {
  const uint64_t used = heap_use_of([&] {
    void* memory = nullptr;
    ASSERT_EQ(ashlar_allocate(allocator_, 5000, nullptr, &memory), ASHLAR_OK);
    ASSERT_EQ(ashlar_free(allocator_, memory), ASHLAR_OK);
  });
  EXPECT_EQ(used, 0U);
}

TEST_F(CFastPathTest, AllocateAndFreeByHandleDoNotUseHeap) {
  const uint64_t used = heap_use_of([&] {
    ashlar_block* block = nullptr;
    ASSERT_EQ(ashlar_allocate_block(allocator_, 5000, nullptr, &block), ASHLAR_OK);
    ASSERT_EQ(ashlar_free_block(allocator_, block), ASHLAR_OK);
  });
  EXPECT_EQ(used, 0U);
}

TEST_F(CFastPathTest, LastMessageIsPerThread) {
  ASSERT_EQ(ashlar_check_options("engine:mine"), ASHLAR_INVALID_ARGUMENT);
  const std::string mine = ashlar_last_message();
  std::thread([] {
    EXPECT_STREQ(ashlar_last_message(), "");
    EXPECT_EQ(ashlar_check_options("engine:theirs"), ASHLAR_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(ashlar_last_message(), mine);
}

}  // namespace
