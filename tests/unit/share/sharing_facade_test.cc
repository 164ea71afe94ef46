// SPDX-License-Identifier: Apache-2.0
//
// Tests of the public sharing API: Share, SharedBuffer, peers and errors.
#include "ashlar/sharing.h"

#include <gmock/gmock.h>

#include "share_fixture.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

template <typename Error>
std::string error_message(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing, or something else, was thrown";
  return {};
}

class SharingFacadeTest : public ::testing::TestWithParam<ShareSource> {
 protected:
  SharingFacadeTest() : exporter_(GetParam()), importer_(importer_source_for(GetParam())) {}
  Side exporter_;
  Side importer_;
};

INSTANTIATE_TEST_SUITE_P(Sources, SharingFacadeTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

TEST_P(SharingFacadeTest, ImporterReadsExporterData) {
  const Buffer other = exporter_.allocator->allocate(3 * kMiB);  // causes a non-zero offset
  const Buffer buffer = exporter_.allocator->allocate(3 * kMiB + 5);
  const Share share = exporter_.allocator->sharing().share(buffer);
  SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  EXPECT_TRUE(seen);
  EXPECT_EQ(seen.bytes(), 3 * kMiB + 5);
  EXPECT_TRUE(seen.is_exporter_alive());
  exporter_.write(buffer.address(), 111);
  EXPECT_EQ(importer_.read(seen.address()), 111U);
  importer_.write(seen.address() + 2 * kMiB, 222);
  EXPECT_EQ(exporter_.read(buffer.address() + 2 * kMiB), 222U);
  EXPECT_EQ(importer_.allocator->sharing().open(share.handle()).address(), seen.address());
}

TEST_P(SharingFacadeTest, SharesPlainAddress) {
  const DeviceAddress address = exporter_.allocator->allocate_raw(3 * kMiB);
  {
    const Share share = exporter_.allocator->sharing().share(address);
    exporter_.write(address, 5);
    EXPECT_EQ(importer_.read(importer_.allocator->sharing().open(share.handle()).address()), 5U);
  }
  EXPECT_THAT(error_message<InvalidArgument>(
                  [&] { (void)exporter_.allocator->sharing().share(address + 512); }),
              HasSubstr("is not an allocation"));
  exporter_.allocator->free_raw(address);
  EXPECT_THAT(
      error_message<InvalidArgument>([&] { (void)exporter_.allocator->sharing().share(address); }),
      HasSubstr("is not an allocation"));
}

TEST_P(SharingFacadeTest, ReusesMemoryAfterShareAndImportEnd) {
  Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  const DeviceAddress address = buffer.address();
  Share share = exporter_.allocator->sharing().share(buffer);
  SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  buffer.reset();
  share.reset();
  EXPECT_FALSE(share);
  EXPECT_NE(exporter_.allocator->allocate(3 * kMiB).address(), address);
  seen.reset();
  EXPECT_FALSE(seen);
  EXPECT_TRUE(eventually([&] { return exporter_.active_bytes() == 0; }));
  EXPECT_EQ(exporter_.allocator->allocate(3 * kMiB).address(), address);
}

TEST_P(SharingFacadeTest, MovesSharesAndSharedBuffers) {
  const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  Share share = exporter_.allocator->sharing().share(buffer);
  const std::string handle = share.handle();
  Share moved = std::move(share);
  EXPECT_FALSE(share);  // NOLINT(bugprone-use-after-move): a moved-from share is empty
  EXPECT_EQ(moved.handle(), handle);
  moved = Share();
  EXPECT_THROW((void)importer_.allocator->sharing().open(handle), DeviceError);

  const Share again = exporter_.allocator->sharing().share(buffer);
  SharedBuffer seen = importer_.allocator->sharing().open(again.handle());
  const DeviceAddress address = seen.address();
  SharedBuffer other = std::move(seen);
  EXPECT_FALSE(seen);  // NOLINT(bugprone-use-after-move): a moved-from buffer is empty
  EXPECT_TRUE(seen.address().is_null());
  EXPECT_EQ(other.address(), address);
  other = SharedBuffer();
  EXPECT_EQ(other.bytes(), 0U);
}

TEST_P(SharingFacadeTest, DetectsEndOfExporter) {
  Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  Share share = exporter_.allocator->sharing().share(buffer);
  exporter_.write(buffer.address(), 77);
  const SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  share.reset();
  buffer.reset();
  exporter_.allocator.reset();
  EXPECT_FALSE(seen.is_exporter_alive());
  if (uses_extents(GetParam())) {
    EXPECT_EQ(importer_.read(seen.address()), 77U) << "extents live on";
  }
}

TEST_P(SharingFacadeTest, CloseWaitsForUsingStreams) {
  const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  const Share share = exporter_.allocator->sharing().share(buffer);
  const StreamId busy = *importer_.device().create_stream();
  SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  const DeviceAddress address = seen.address();
  ASSERT_TRUE(importer_.machine->pause_stream(DeviceIndex(0), busy).ok());
  ASSERT_TRUE(importer_.device().fill(address, 1, 4, busy).ok());
  seen.record_stream(busy);
  seen.record_stream(busy);
  seen.reset();
  importer_.allocator->trim();
  EXPECT_EQ(importer_.device().describe(address)->kind, MemoryKind::kDevice);
  ASSERT_TRUE(importer_.machine->resume_stream(DeviceIndex(0), busy).ok());
  ASSERT_TRUE(importer_.device().synchronize_stream(busy).ok());
  importer_.allocator->trim();
  EXPECT_EQ(importer_.device().describe(address)->kind, MemoryKind::kUnknown);
}

TEST_P(SharingFacadeTest, TrimContinuesAfterImportError) {
  const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  const Share share = exporter_.allocator->sharing().share(buffer);
  SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  importer_.allocator->allocate(3 * kMiB).reset();
  EXPECT_GT(importer_.allocator->stats().reserved_bytes.all.current, 0);
  seen.record_stream(*importer_.device().create_stream());
  importer_.machine->inject({.call = DeviceCall::kCreateEvent});
  seen.reset();
  EXPECT_THROW(importer_.allocator->trim(), DeviceError);
  EXPECT_EQ(importer_.allocator->stats().reserved_bytes.all.current, 0);
  importer_.allocator->trim();
}

// --- errors

TEST_P(SharingFacadeTest, ReportsTypedErrorsWithoutChange) {
  Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  EXPECT_THAT(
      error_message<InvalidArgument>([&] { (void)exporter_.allocator->sharing().share(Buffer()); }),
      HasSubstr("the buffer is empty"));
  EXPECT_THAT(
      error_message<InvalidArgument>([&] { (void)importer_.allocator->sharing().share(buffer); }),
      HasSubstr("another allocator"));
  Share share = exporter_.allocator->sharing().share(buffer);
  EXPECT_THAT(error_message<InvalidArgument>(
                  [&] { (void)exporter_.allocator->sharing().open(share.handle()); }),
              HasSubstr("was shared by this allocator"));
  EXPECT_THAT(
      error_message<FormatError>([&] { (void)importer_.allocator->sharing().open("nonsense"); }),
      HasSubstr("not the handle"));
  std::string newer = share.handle();
  newer[8] = 9;
  EXPECT_THAT(error_message<FormatError>([&] { (void)importer_.allocator->sharing().open(newer); }),
              HasSubstr("from a newer version"));
  const std::string handle = share.handle();
  share.reset();
  EXPECT_THAT(
      error_message<DeviceError>([&] { (void)importer_.allocator->sharing().open(handle); }),
      HasSubstr("ended the share"));
  SharedBuffer nothing;
  EXPECT_THROW(nothing.record_stream(kDefaultStream), InvalidArgument);
  EXPECT_THROW((void)nothing.is_exporter_alive(), InvalidArgument);
  buffer.reset();
  EXPECT_EQ(exporter_.active_bytes(), 0);
}

TEST(BareHandleTest, OpensWholeAllocation) {
  const Side exporter;
  const Side importer;
  const DeviceAddress at = *exporter.device().allocate(2 * kMiB);
  exporter.write(at, 99);
  const AllocationHandle handle = *exporter.device().share_allocation(at);
  SharedBuffer seen = importer.allocator->sharing().open(std::string(handle.begin(), handle.end()));
  EXPECT_EQ(seen.bytes(), 2 * kMiB);
  EXPECT_EQ(importer.read(seen.address()), 99U);
  EXPECT_TRUE(seen.is_exporter_alive());
  seen.reset();
  EXPECT_TRUE(exporter.device().free(at).ok());
}

TEST_P(SharingFacadeTest, BaseAllocationIsTheSegment) {
  const Buffer first = exporter_.allocator->allocate(3 * kMiB);
  const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  const DeviceAddress raw = exporter_.allocator->allocate_raw(3 * kMiB);
  if (uses_extents(GetParam())) {
    EXPECT_THAT(error_message<InvalidArgument>(
                    [&] { (void)exporter_.allocator->sharing().base_allocation(buffer); }),
                HasSubstr("expandable_segments:False"));
    EXPECT_THROW((void)exporter_.allocator->sharing().base_allocation(raw), InvalidArgument);
  } else {
    const AddressRange segment{first.address(), 20 * kMiB};
    EXPECT_EQ(exporter_.allocator->sharing().base_allocation(buffer), segment);
    EXPECT_EQ(exporter_.allocator->sharing().base_allocation(raw), segment);
  }
  EXPECT_THROW((void)exporter_.allocator->sharing().base_allocation(DeviceAddress(1)),
               InvalidArgument);
  EXPECT_THROW((void)importer_.allocator->sharing().base_allocation(buffer), InvalidArgument);
  exporter_.allocator->free_raw(raw);
}

// --- peers

TEST_P(SharingFacadeTest, PeerAccessesPresentAndFutureMemory) {
  Device& peer = exporter_.device(1);
  const Buffer before = exporter_.allocator->allocate(3 * kMiB);
  EXPECT_FALSE(peer.fill(before.address(), 1, 4, kDefaultStream).ok());
  exporter_.allocator->sharing().enable_peer_access(peer);
  exporter_.allocator->sharing().enable_peer_access(peer);
  const Buffer after = exporter_.allocator->allocate(60 * kMiB);
  EXPECT_TRUE(peer.fill(before.address(), 1, 4, kDefaultStream).ok());
  EXPECT_TRUE(peer.fill(after.address(), 1, 4, kDefaultStream).ok());
  EXPECT_TRUE(peer.synchronize_device().ok());
  EXPECT_THROW(exporter_.allocator->sharing().enable_peer_access(exporter_.device(0)),
               InvalidArgument);
}

TEST_P(SharingFacadeTest, PeerAccessesImports) {
  const Buffer buffer = exporter_.allocator->allocate(3 * kMiB);
  const Share share = exporter_.allocator->sharing().share(buffer);
  const SharedBuffer seen = importer_.allocator->sharing().open(share.handle());
  Device& peer = importer_.device(1);
  EXPECT_FALSE(peer.fill(seen.address(), 3, 4, kDefaultStream).ok());
  importer_.allocator->sharing().enable_peer_access(peer);
  EXPECT_TRUE(peer.fill(seen.address(), 3, 4, kDefaultStream).ok());
  EXPECT_TRUE(peer.synchronize_device().ok());
  EXPECT_EQ(exporter_.read(buffer.address()), 0x03030303U);
}

TEST_P(SharingFacadeTest, CopiesDirectlyWithAccess) {
  Allocator other(exporter_.device(1), options_of(GetParam()));
  const Buffer from = exporter_.allocator->allocate(3 * kMiB);
  const Buffer near = exporter_.allocator->allocate(3 * kMiB);
  const Buffer far = other.allocate(3 * kMiB);
  exporter_.write(from.address(), 606);
  const auto copy_to = [&](const Allocator& destination, const Buffer& to) {
    exporter_.allocator->sharing().copy_to(destination,
                                           {to.address(), from.address(), 4, kDefaultStream});
    EXPECT_TRUE(exporter_.device().synchronize_device().ok());
  };
  copy_to(*exporter_.allocator, near);
  EXPECT_EQ(exporter_.read(near.address()), 606U);
  EXPECT_EQ(exporter_.calls(DeviceCall::kCopy), 1U);

  copy_to(other, far);
  EXPECT_EQ(exporter_.calls(DeviceCall::kCopy), 1U);
  EXPECT_EQ(exporter_.calls(DeviceCall::kCopyToPeer), 1U);

  other.sharing().enable_peer_access(exporter_.device(0));
  EXPECT_EQ(exporter_.read(far.address()), 606U);
  copy_to(other, far);
  EXPECT_EQ(exporter_.calls(DeviceCall::kCopy), 2U);
  EXPECT_EQ(exporter_.calls(DeviceCall::kCopyToPeer), 1U);
}

}  // namespace
}  // namespace ashlar
