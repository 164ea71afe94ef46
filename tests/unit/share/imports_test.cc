// SPDX-License-Identifier: Apache-2.0
//
// Tests of the importer: one import per handle, deferred closing, and cleanup after failures.
#include "share/imports.h"

#include <gmock/gmock.h>

#include <thread>

#include "share_fixture.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

class ImportsFixture : public ::testing::Test {
 protected:
  explicit ImportsFixture(ShareSource source) : exporter_(source) { importer_.allocator.reset(); }
  Device& device() { return importer_.device(); }
  std::shared_ptr<Import> open(Imports& imports, const std::string& handle) {
    Result<std::shared_ptr<Import>> import = imports.open(handle);
    EXPECT_TRUE(import.ok()) << import.status().to_string();
    return import.ok() ? *import : nullptr;
  }
  // A block of the exporter and its share.
  struct SharedBlock {
    Buffer buffer;
    Share share;
  };
  SharedBlock share_block(size_t bytes) {
    Buffer buffer = exporter_.allocator->allocate(bytes);
    Share share = exporter_.allocator->sharing().share(buffer);
    return {std::move(buffer), std::move(share)};
  }
  static bool must(const Status& status) {
    EXPECT_TRUE(status.ok()) << status.to_string();
    return status.ok();
  }

  Side exporter_;
  Side importer_;  // only its machine is used
};

class PlainImportsTest : public ImportsFixture {
 protected:
  PlainImportsTest() : ImportsFixture(ShareSource::kPlain) {}
};

class ExtentImportsTest : public ImportsFixture, public ::testing::WithParamInterface<ShareSource> {
 protected:
  ExtentImportsTest() : ImportsFixture(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Sources, ExtentImportsTest,
                         ::testing::Values(ShareSource::kExpandable, ShareSource::kPaged),
                         ::testing::PrintToStringParamName());

class ImportsTest : public ImportsFixture, public ::testing::WithParamInterface<ShareSource> {
 protected:
  ImportsTest() : ImportsFixture(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Sources, ImportsTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

TEST_P(ImportsTest, OpensTheSameHandleOnce) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> first = open(imports, block.share.handle());
  std::shared_ptr<Import> second = open(imports, block.share.handle());
  EXPECT_EQ(first, second);
  imports.close(std::move(first), {});
  exporter_.write(block.buffer.address(), 41);
  EXPECT_EQ(importer_.read(second->block.begin), 41U) << "closing one of two closes nothing";
  imports.close(std::move(second), {});
}

TEST_F(PlainImportsTest, OpensAnAllocationOnceForTwoBlocks) {
  Imports imports(device());
  const SharedBlock a = share_block(3 * kMiB);
  const SharedBlock b = share_block(3 * kMiB);
  std::shared_ptr<Import> first = open(imports, a.share.handle());
  std::shared_ptr<Import> second = open(imports, b.share.handle());
  EXPECT_EQ(importer_.calls(DeviceCall::kOpenAllocation), 1U);
  EXPECT_EQ(second->block.begin - first->block.begin, b.buffer.address() - a.buffer.address());
  imports.close(std::move(first), {});
  EXPECT_EQ(importer_.calls(DeviceCall::kCloseAllocation), 0U);
  imports.close(std::move(second), {});
  EXPECT_EQ(importer_.calls(DeviceCall::kCloseAllocation), 1U);
}

TEST_P(ExtentImportsTest, ReservesExactlyTheSharedGranules) {
  Imports imports(device());
  const Buffer front = exporter_.allocator->allocate(15 * kMiB);
  const SharedBlock block = share_block(20 * kMiB + 5);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  EXPECT_EQ(import->range->range().bytes, 40 * kMiB);
  EXPECT_EQ(import->block.begin - import->range->range().begin, 15 * kMiB);
  imports.close(std::move(import), {});
}

TEST_P(ImportsTest, ClosesAfterStreamsFinish) {
  Imports imports(device());
  SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  const StreamId busy = *device().create_stream();
  ASSERT_TRUE(must(importer_.machine->pause_stream(DeviceIndex(0), busy)));
  ASSERT_TRUE(must(device().fill(import->block.begin, 7, 4, busy)));
  const DeviceAddress address = import->block.begin;
  imports.close(std::move(import), {{&device(), busy}});
  block.buffer.reset();
  block.share.reset();
  EXPECT_TRUE(must(imports.collect()));
  EXPECT_EQ(importer_.read(address), 0U) << "still mapped, though the work is not done";
  EXPECT_GT(exporter_.active_bytes(), 0) << "the lease must still exist";

  ASSERT_TRUE(must(importer_.machine->resume_stream(DeviceIndex(0), busy)));
  ASSERT_TRUE(must(device().synchronize_stream(busy)));
  EXPECT_TRUE(must(imports.collect()));
  EXPECT_TRUE(eventually([&] { return exporter_.active_bytes() == 0; }));
  EXPECT_EQ(device().describe(address)->kind, MemoryKind::kUnknown);
}

TEST_P(ImportsTest, ReopensDuringPendingClose) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  const DeviceAddress address = import->block.begin;
  const StreamId busy = *device().create_stream();
  ASSERT_TRUE(must(importer_.machine->pause_stream(DeviceIndex(0), busy)));
  ASSERT_TRUE(must(device().call_host(busy, [] {})));
  imports.close(std::move(import), {{&device(), busy}});
  std::shared_ptr<Import> again = open(imports, block.share.handle());
  EXPECT_EQ(again->block.begin, address);
  ASSERT_TRUE(must(importer_.machine->resume_stream(DeviceIndex(0), busy)));
  ASSERT_TRUE(must(device().synchronize_stream(busy)));
  EXPECT_TRUE(must(imports.collect()));
  EXPECT_EQ(importer_.read(address), 0U);
  imports.close(std::move(again), {});
}

TEST_P(ImportsTest, DestructorWaitsForStreams) {
  const SharedBlock block = share_block(3 * kMiB);
  const StreamId side = *device().create_stream();
  {
    Imports imports(device());
    std::shared_ptr<Import> import = open(imports, block.share.handle());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(must(device().fill(import->block.begin, 9, 3 * kMiB, side)));
    }
    imports.close(std::move(import), {{&device(), side}});
  }
  EXPECT_TRUE(*device().is_idle(side));
  EXPECT_EQ(exporter_.read(block.buffer.address()), 0x09090909U);
}

// Without relaxed capture mode, the waits would fail and invalidate the capture.
TEST_P(ImportsTest, DestructorWaitsDuringCapture) {
  const SharedBlock block = share_block(3 * kMiB);
  const StreamId captured = *device().create_stream();
  const StreamId busy = *device().create_stream();
  auto imports = std::make_unique<Imports>(device());
  std::shared_ptr<Import> import = open(*imports, block.share.handle());
  const DeviceAddress address = import->block.begin;
  ASSERT_TRUE(must(importer_.machine->pause_stream(DeviceIndex(0), busy)));
  ASSERT_TRUE(must(device().fill(address, 9, 3 * kMiB, busy)));
  imports->close(std::move(import), {{&device(), busy}});
  ASSERT_TRUE(must(device().begin_capture(captured, CaptureMode::kGlobal)));
  std::thread resumer(
      [&] { EXPECT_TRUE(must(importer_.machine->resume_stream(DeviceIndex(0), busy))); });
  imports.reset();
  resumer.join();
  EXPECT_EQ(device().capture_state(captured)->status, CaptureStatus::kActive);
  ASSERT_TRUE(device().end_capture(captured).ok());
  EXPECT_TRUE(*device().is_idle(busy));
  EXPECT_EQ(device().describe(address)->kind, MemoryKind::kUnknown);
  EXPECT_EQ(exporter_.read(block.buffer.address()), 0x09090909U);
}

TEST_P(ImportsTest, DestructorKeepsImportOfCapturingStream) {
  const SharedBlock block = share_block(3 * kMiB);
  const StreamId captured = *device().create_stream();
  auto imports = std::make_unique<Imports>(device());
  std::shared_ptr<Import> import = open(*imports, block.share.handle());
  const DeviceAddress address = import->block.begin;
  ASSERT_TRUE(must(importer_.machine->pause_stream(DeviceIndex(0), captured)));
  ASSERT_TRUE(must(device().fill(address, 9, 3 * kMiB, captured)));
  ASSERT_TRUE(must(device().begin_capture(captured, CaptureMode::kGlobal)));
  imports->close(std::move(import), {{&device(), captured}});
  imports.reset();
  EXPECT_EQ(device().capture_state(captured)->status, CaptureStatus::kActive);
  ASSERT_TRUE(device().end_capture(captured).ok());
  EXPECT_NE(device().describe(address)->kind, MemoryKind::kUnknown) << "work still uses it";
  ASSERT_TRUE(must(importer_.machine->resume_stream(DeviceIndex(0), captured)));
  ASSERT_TRUE(must(device().synchronize_stream(captured)));
  EXPECT_EQ(exporter_.read(block.buffer.address()), 0x09090909U);
}

// An event recorded on a capturing stream would become part of the stream's graph.
TEST_P(ImportsTest, DoesNotTouchCapturingStreams) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  const DeviceAddress address = import->block.begin;
  const StreamId stream = *device().create_stream();
  ASSERT_TRUE(must(device().begin_capture(stream, CaptureMode::kGlobal)));
  ASSERT_TRUE(must(device().fill(address, 1, 4, stream)));
  imports.close(std::move(import), {{&device(), stream}});
  EXPECT_TRUE(must(imports.collect()));
  EXPECT_EQ(device().describe(address)->kind, MemoryKind::kDevice);
  const Result<GraphId> graph = device().end_capture(stream);
  ASSERT_TRUE(graph.ok()) << "closing broke the capture: " << graph.status().to_string();
  EXPECT_TRUE(eventually([&] {
    return imports.collect().ok() && device().describe(address)->kind == MemoryKind::kUnknown;
  }));
}

TEST_P(ImportsTest, RejectsHandleOfAnotherDevice) {
  Imports imports(importer_.device(1));
  const SharedBlock block = share_block(3 * kMiB);
  const Status refused = imports.open(block.share.handle()).status();
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr(to_hex(importer_.device(0).properties().uuid)));
  EXPECT_THAT(refused.message(), HasSubstr(to_hex(importer_.device(1).properties().uuid)));
}

TEST_P(ImportsTest, RejectsForgedHandles) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  ShareHandle forged = *parse_share_handle(block.share.handle());
  if (uses_extents(GetParam())) {
    forged.granule_count = 2;
    forged.range_bytes = 2 * forged.granule_bytes;
    forged.bytes = forged.range_bytes;
  } else {
    forged.range_bytes = kGiB;
    forged.offset = kGiB - forged.bytes;
  }
  EXPECT_FALSE(imports.open(to_bytes(forged)).ok());
  EXPECT_TRUE(must(imports.collect()));
  std::shared_ptr<Import> right = open(imports, block.share.handle());
  imports.close(std::move(right), {});
}

TEST_P(ExtentImportsTest, AccessorGetsPresentAndFutureImports) {
  Imports imports(device());
  const SharedBlock a = share_block(3 * kMiB);
  const SharedBlock b = share_block(3 * kMiB);
  std::shared_ptr<Import> before = open(imports, a.share.handle());
  Device& peer = importer_.device(1);
  EXPECT_FALSE(peer.fill(before->block.begin, 1, 4, kDefaultStream).ok());
  ASSERT_TRUE(must(imports.add_accessor(DeviceIndex(1))));
  std::shared_ptr<Import> after = open(imports, b.share.handle());
  EXPECT_TRUE(must(peer.fill(before->block.begin, 1, 4, kDefaultStream)));
  EXPECT_TRUE(must(peer.fill(after->block.begin, 1, 4, kDefaultStream)));
  ASSERT_TRUE(must(peer.synchronize_device()));
  imports.close(std::move(before), {});
  imports.close(std::move(after), {});
}

// No event can be recorded on a destroyed stream, so the trim waits for the whole device.
TEST_P(ImportsTest, TrimWaitsForDestroyedStreams) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  const DeviceAddress address = import->block.begin;
  const StreamId destroyed = *device().create_stream();
  ASSERT_TRUE(must(device().fill(address, 7, 4, destroyed)));
  ASSERT_TRUE(must(device().destroy_stream(destroyed)));
  imports.close(std::move(import), {{&device(), destroyed}});
  EXPECT_TRUE(must(imports.collect())) << "not an error";
  EXPECT_EQ(device().describe(address)->kind, MemoryKind::kDevice);
  EXPECT_TRUE(must(imports.trim()));
  EXPECT_EQ(device().describe(address)->kind, MemoryKind::kUnknown);
  EXPECT_EQ(exporter_.read(block.buffer.address()), 0x07070707U);
}

TEST_P(ImportsTest, FailingStreamDoesNotDelayOtherStreams) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  const StreamId first = *device().create_stream();
  const StreamId second = *device().create_stream();
  importer_.machine->inject({.call = DeviceCall::kRecordEvent});
  imports.close(std::move(import), {{&device(), first}, {&device(), second}});
  EXPECT_EQ(importer_.calls(DeviceCall::kRecordEvent), 1U) << "of the second stream";
  EXPECT_FALSE(imports.collect().ok()) << "the error from the close";
  EXPECT_TRUE(must(imports.collect()));
}

TEST_P(ImportsTest, ReportsTheFirstOfSeveralErrors) {
  Imports imports(device());
  const SharedBlock a = share_block(3 * kMiB);
  const SharedBlock b = share_block(3 * kMiB);
  std::shared_ptr<Import> import_a = open(imports, a.share.handle());
  std::shared_ptr<Import> import_b = open(imports, b.share.handle());
  const StreamId stream = *device().create_stream();
  const auto fail = [&](const char* why) {
    importer_.machine->inject({.call = DeviceCall::kCreateEvent,
                               .count = 2,
                               .status = Status::device_fault("create_event", 1, why)});
  };
  fail("first");
  imports.close(std::move(import_a), {{&device(), stream}});
  importer_.machine->clear_faults();
  fail("second");
  imports.close(std::move(import_b), {{&device(), stream}});
  importer_.machine->clear_faults();
  EXPECT_THAT(imports.collect().message(), HasSubstr("first"));
  EXPECT_TRUE(must(imports.collect()));
}

// --- failures

// Opens and closes an import while the n-th device call fails, for every n.
TEST_P(ImportsTest, SurvivesFailureOfAnyCall) {
  SharedBlock block = share_block(50 * kMiB);
  const size_t mapped_before = importer_.used_bytes();
  uint64_t nth = 1;
  for (bool any_failed = true; any_failed; ++nth) {
    ASSERT_LT(nth, 200U) << "the import never succeeded";
    any_failed = false;
    uint64_t calls_undone = 0;
    {
      Imports imports(device());
      importer_.machine->inject(
          {.nth = nth, .status = Status::device_fault("injected", 1, "injected")});
      Result<std::shared_ptr<Import>> import = imports.open(block.share.handle());
      if (import.ok()) {
        imports.close(*std::move(import), {{&device(), kDefaultStream}});
      } else {
        any_failed = true;
        EXPECT_THAT(import.status().message(), HasSubstr("injected"));
      }
      const Status collect_status = imports.collect();
      if (!collect_status.ok()) any_failed = true;
      importer_.machine->clear_faults();
      // This call completes rollbacks that failed earlier.
      EXPECT_TRUE(must(device().synchronize_device()));
      EXPECT_TRUE(must(imports.collect())) << nth;
      calls_undone = importer_.calls(DeviceCall::kReserve) +
                     importer_.calls(DeviceCall::kOpenAllocation) -
                     importer_.calls(DeviceCall::kFreeAddresses) -
                     importer_.calls(DeviceCall::kCloseAllocation);
      EXPECT_EQ(importer_.calls(DeviceCall::kImportFd), importer_.calls(DeviceCall::kRelease));
    }
    EXPECT_EQ(calls_undone, 0U) << "call " << nth << " failed, and addresses were left";
    EXPECT_EQ(importer_.used_bytes(), mapped_before);
  }
  EXPECT_GT(nth, 5U) << "no call was ever failed";
  block.buffer.reset();
  block.share.reset();
  EXPECT_TRUE(eventually([&] { return exporter_.active_bytes() == 0; })) << "a lease was left";
}

TEST_P(ImportsTest, ReportsFailedCloseOnceAndRetries) {
  Imports imports(device());
  const SharedBlock block = share_block(3 * kMiB);
  std::shared_ptr<Import> import = open(imports, block.share.handle());
  const DeviceAddress address = import->block.begin;
  importer_.machine->inject(
      {.call = uses_extents(GetParam()) ? DeviceCall::kUnmap : DeviceCall::kCloseAllocation});
  imports.close(std::move(import), {});
  EXPECT_EQ(imports.collect().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(device().describe(address)->kind, MemoryKind::kUnknown) << "the second try succeeded";
  EXPECT_TRUE(must(imports.collect()));
}

}  // namespace
}  // namespace ashlar
