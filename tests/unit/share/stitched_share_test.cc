// SPDX-License-Identifier: Apache-2.0
//
// Tests of a shared block that the paged engine stitched from several extents: while imported, its
// memory is neither lent nor released.
#include <vector>

#include "share/share_format.h"
#include "share_fixture.h"

namespace ashlar {
namespace {

constexpr size_t kExtentBytes = 20 * kMiB;  // the extent size of large shareable blocks
constexpr size_t kBlockBytes = 3 * kExtentBytes;

class StitchedShareTest : public ::testing::Test {
 protected:
  // Allocates blocks of one extent each and frees every other block. Returns the remaining blocks.
  std::vector<Buffer> leave_holes(size_t count) {
    std::vector<Buffer> left;
    std::vector<Buffer> freed;
    for (size_t i = 0; i < count; ++i) {
      (i % 2 == 0 ? freed : left).push_back(exporter_.allocator->allocate(kExtentBytes));
    }
    return left;
  }
  // Allocates a block that is stitched from idle extents of other views. Expects that no memory is
  // created and that each extent is mapped once more.
  Buffer allocate_stitched(size_t extent_count) {
    const uint64_t created = exporter_.calls(DeviceCall::kCreate);
    const uint64_t mapped = exporter_.calls(DeviceCall::kMap);
    Buffer buffer = exporter_.allocator->allocate(extent_count * kExtentBytes);
    EXPECT_EQ(exporter_.calls(DeviceCall::kCreate), created);
    EXPECT_EQ(exporter_.calls(DeviceCall::kMap), mapped + extent_count);
    return buffer;
  }
  void overwrite(const Buffer& buffer) {
    Device& device = exporter_.device();
    EXPECT_TRUE(device.fill(buffer.address(), 0xEE, buffer.bytes(), kDefaultStream).ok());
    EXPECT_TRUE(device.synchronize_stream(kDefaultStream).ok());
  }
  // Allocates and overwrites blocks until the device is full, and then frees them.
  void fill_device() {
    std::vector<Buffer> all;
    for (size_t bytes : {5 * kExtentBytes, kExtentBytes}) {
      try {
        for (;;) {
          all.push_back(exporter_.allocator->allocate(bytes));
          overwrite(all.back());
        }
      } catch (const OutOfMemory&) {
        EXPECT_FALSE(all.empty());
      }
    }
  }
  static uint32_t value_at(size_t offset) { return static_cast<uint32_t>(offset / kMiB) + 7; }
  void write_pattern(DeviceAddress at) {
    for (size_t i = 0; i < kBlockBytes; i += kMiB) exporter_.write(at + i, value_at(i));
    exporter_.write(at + (kBlockBytes - 4), 4711);
  }
  void expect_pattern(const SharedBuffer& seen) {
    for (size_t i = 0; i < kBlockBytes; i += kMiB) {
      ASSERT_EQ(importer_.read(seen.address() + i), value_at(i)) << "at " << i;
    }
    EXPECT_EQ(importer_.read(seen.address() + (kBlockBytes - 4)), 4711U);
  }

  Side exporter_{ShareSource::kPaged};
  Side importer_{ShareSource::kPaged};
};

TEST_F(StitchedShareTest, FreedBlockIsNotStitchedWhileImported) {
  std::vector<Buffer> others = leave_holes(12);
  Buffer buffer = allocate_stitched(3);
  write_pattern(buffer.address());
  Share share = exporter_.allocator->sharing().share(buffer);
  EXPECT_EQ(parse_share_handle(share.handle())->granule_count, 3U);
  SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  buffer.reset();
  share.reset();

  overwrite(allocate_stitched(3));  // stitched from the remaining holes
  expect_pattern(seen);
  exporter_.allocator->trim();
  others.clear();
  overwrite(exporter_.allocator->allocate(7 * kExtentBytes));
  expect_pattern(seen);
  fill_device();
  expect_pattern(seen);
  exporter_.allocator->trim();
  EXPECT_EQ(exporter_.used_bytes(), kBlockBytes) << "only the shared memory is left";
  EXPECT_EQ(exporter_.active_bytes(), static_cast<int64_t>(kBlockBytes));
  expect_pattern(seen);

  seen.reset();
  EXPECT_TRUE(eventually([&] { return exporter_.active_bytes() == 0; }));
  const uint64_t created = exporter_.calls(DeviceCall::kCreate);
  overwrite(exporter_.allocator->allocate(kBlockBytes));
  EXPECT_EQ(exporter_.calls(DeviceCall::kCreate), created) << "the same memory is used again";
  exporter_.allocator->trim();
  EXPECT_EQ(exporter_.used_bytes(), 0U);
}

// The borrowed extents' addresses in their original views are free and would fit the new requests.
// The requests must nevertheless get new memory, because the importer still uses the extents.
TEST_F(StitchedShareTest, BorrowedExtentsAreNotReturnedWhileImported) {
  const std::vector<Buffer> others = leave_holes(6);
  Buffer buffer = allocate_stitched(3);
  write_pattern(buffer.address());
  Share share = exporter_.allocator->sharing().share(buffer);
  SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  buffer.reset();
  share.reset();
  const uint64_t created = exporter_.calls(DeviceCall::kCreate);
  {
    std::vector<Buffer> new_ones;
    for (int i = 0; i < 3; ++i) new_ones.push_back(exporter_.allocator->allocate(kExtentBytes));
    for (const Buffer& each : new_ones) overwrite(each);
    EXPECT_EQ(exporter_.calls(DeviceCall::kCreate), created + 3);
    expect_pattern(seen);
  }
  seen.reset();
  EXPECT_TRUE(eventually([&] {
    return exporter_.active_bytes() == static_cast<int64_t>(others.size() * kExtentBytes);
  }));
  std::vector<Buffer> six;
  for (int i = 0; i < 6; ++i) six.push_back(exporter_.allocator->allocate(kExtentBytes));
  EXPECT_EQ(exporter_.calls(DeviceCall::kCreate), created + 3) << "the same memory is used again";
}

}  // namespace
}  // namespace ashlar
