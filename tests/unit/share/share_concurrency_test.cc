// SPDX-License-Identifier: Apache-2.0
//
// Tests that many threads can share, open, close and free concurrently, and that no block remains
// pinned at the end.
#include <thread>
#include <vector>

#include "share_fixture.h"

namespace ashlar {
namespace {

class ShareConcurrencyTest : public ::testing::TestWithParam<ShareSource> {
 protected:
  ShareConcurrencyTest() : exporter_(GetParam()), importer_(importer_source_for(GetParam())) {}
  static void run(const std::function<void(int)>& body) {
    constexpr int kThreads = 4;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }
  bool becomes_idle() {
    return eventually([&] { return exporter_.active_bytes() == 0; });
  }
  Side exporter_;
  Side importer_;
};

INSTANTIATE_TEST_SUITE_P(Sources, ShareConcurrencyTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

TEST_P(ShareConcurrencyTest, ConcurrentOpensShareOneImport) {
  {
    const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
    const Share share = exporter_.allocator->sharing().share(buffer);
    run([&](int) {
      for (int i = 0; i < 30; ++i) {
        const SharedBuffer one = importer_.allocator->sharing().open(share.handle());
        const SharedBuffer two = importer_.allocator->sharing().open(share.handle());
        EXPECT_EQ(one.address(), two.address());
      }
    });
  }
  EXPECT_TRUE(becomes_idle());
  importer_.allocator->trim();
  EXPECT_EQ(importer_.calls(DeviceCall::kReserve), importer_.calls(DeviceCall::kFreeAddresses));
  EXPECT_EQ(importer_.calls(DeviceCall::kOpenAllocation),
            importer_.calls(DeviceCall::kCloseAllocation));
}

TEST_P(ShareConcurrencyTest, SharesOpensAndFreesInAnyOrder) {
  run([&](int thread) {
    const StreamId stream = *importer_.device().create_stream();
    for (int i = 0; i < 25; ++i) {
      Buffer buffer = exporter_.allocator->allocate((1 + thread) * kMiB);
      Share share = exporter_.allocator->sharing().share(buffer);
      SharedBuffer seen = importer_.allocator->sharing().open(share.handle(), stream);
      if (i % 2 == 0) buffer.reset();
      if (i % 3 == 0) share.reset();
      EXPECT_TRUE(importer_.device().fill(seen.address(), 1, 512, stream).ok());
      if (i % 5 == 0) exporter_.allocator->trim();
      if (i % 7 == 0) importer_.allocator->trim();
    }
    EXPECT_TRUE(importer_.device().synchronize_stream(stream).ok());
  });
  importer_.allocator->trim();
  EXPECT_TRUE(becomes_idle());
  exporter_.allocator->trim();
  EXPECT_EQ(exporter_.used_bytes(), 0U);
}

TEST_P(ShareConcurrencyTest, SharesOneBlockConcurrently) {
  {
    const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
    const Share keeper = exporter_.allocator->sharing().share(buffer);
    run([&](int) {
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(exporter_.allocator->sharing().share(buffer).handle(), keeper.handle());
      }
    });
  }
  EXPECT_TRUE(becomes_idle());
}

}  // namespace
}  // namespace ashlar
