// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in opening and closing blocks of another
// process. Closing never fails, and a failed operation keeps no memory of the exporter in use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "ashlar/sharing.h"
#include "base/text.h"
#include "share/imports.h"
#include "sweep/operation_faults.h"
#include "unit/share/share_fixture.h"

namespace ashlar {
namespace {

// The source of the memory that ShareWorld shares. A global, because worlds must be
// default-constructible.
ShareSource world_source = ShareSource::kPlain;

// A block of an exporter, and an importer with a busy stream.
class ShareWorld {
 public:
  ShareWorld() : exporter_(world_source), importer_(importer_source_for(world_source)) {
    buffer_ = exporter_.allocator->allocate(30 * kMiB);
    share_ = exporter_.allocator->sharing().share(buffer_);
    imports.emplace(importer_.device());
    busy_ = *importer_.device().create_stream();
    EXPECT_TRUE(importer_.machine->pause_stream(DeviceIndex(0), busy_).ok());
    EXPECT_TRUE(importer_.device().call_host(busy_, [] {}).ok());
    destroyed_ = *importer_.device().create_stream();
    EXPECT_TRUE(importer_.device().destroy_stream(destroyed_).ok());
    used_before_ = importer_.used_bytes();
  }
  ~ShareWorld() { finish_streams(); }
  ShareWorld(const ShareWorld&) = delete;
  ShareWorld& operator=(const ShareWorld&) = delete;

  AllocatorSharing& importer() { return importer_.allocator->sharing(); }
  Device& device() { return importer_.device(); }
  sim::Machine& machine() { return *importer_.machine; }
  const std::string& handle() const { return share_.handle(); }
  std::vector<DeviceStream> uses() {
    return {{&device(), busy_}, {&device(), destroyed_}, {&device(), kDefaultStream}};
  }

  // Throws std::bad_alloc if no memory was left. Other errors fail the test.
  static void check(const Status& status) {
    if (status.is(StatusKind::kHostOutOfMemory)) throw std::bad_alloc();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  void open() {
    Result<std::shared_ptr<Import>> opened = imports->open(handle());
    check(opened.status());
    import = *std::move(opened);
  }
  void close() { imports->close(std::move(import), uses()); }

  std::vector<std::string> state() {
    return {
        text("reservations ", calls(DeviceCall::kReserve) - calls(DeviceCall::kFreeAddresses)),
        text("opened ", calls(DeviceCall::kOpenAllocation) - calls(DeviceCall::kCloseAllocation))};
  }
  void expect_no_memory_lost() {
    finish_streams();
    shared.reset();
    if (import != nullptr) imports->close(std::move(import), {});
    EXPECT_TRUE(imports->trim().ok());
    EXPECT_TRUE(imports->trim().ok()) << "an event, a stream or an error was left";
    imports.reset();
    // The first call may report an error of the close.
    try {
      importer_.allocator->trim();
    } catch (const DeviceError& deferred) {
      EXPECT_THAT(deferred.what(), ::testing::HasSubstr("injected"));
    }
    importer_.allocator->trim();
    EXPECT_EQ(calls(DeviceCall::kReserve), calls(DeviceCall::kFreeAddresses));
    EXPECT_EQ(calls(DeviceCall::kOpenAllocation), calls(DeviceCall::kCloseAllocation));
    EXPECT_EQ(calls(DeviceCall::kImportFd), calls(DeviceCall::kRelease));
    EXPECT_EQ(calls(DeviceCall::kCreateEvent), calls(DeviceCall::kDestroyEvent));
    EXPECT_EQ(importer_.used_bytes(), used_before_);
    buffer_.reset();
    share_.reset();
    EXPECT_TRUE(eventually([&] { return exporter_.active_bytes() == 0; })) << "a lease was left";
  }

  void finish_streams() {
    EXPECT_TRUE(machine().resume_stream(DeviceIndex(0), busy_).ok());
    EXPECT_TRUE(device().synchronize_device().ok());
  }

  std::optional<Imports> imports;
  std::shared_ptr<Import> import;
  SharedBuffer shared;

 private:
  uint64_t calls(DeviceCall call) const { return importer_.calls(call); }

  Side exporter_;
  Side importer_;
  Buffer buffer_;
  Share share_;
  StreamId busy_;
  StreamId destroyed_;
  size_t used_before_ = 0;
};

using ShareOperation = sweep::FaultOperation<ShareWorld>;

std::vector<ShareOperation> buffer_operations() {
  std::vector<ShareOperation> all;
  all.push_back({.name = "OpenBuffer",
                 .run = [](ShareWorld& w) { w.shared = w.importer().open(w.handle()); }});
  all.push_back({.name = "ResetBuffer",
                 .prepare =
                     [](ShareWorld& w) {
                       w.shared = w.importer().open(w.handle());
                       for (const DeviceStream& each : w.uses()) {
                         w.shared.record_stream(each.stream);
                       }
                     },
                 .run = [](ShareWorld& w) { w.shared.reset(); },
                 .never_fails = true});
  all.push_back({.name = "ResetBufferWithFailingDevice",
                 .prepare =
                     [](ShareWorld& w) {
                       w.shared = w.importer().open(w.handle());
                       w.machine().inject({.call = DeviceCall::kUnmap});
                       w.machine().inject({.call = DeviceCall::kCloseAllocation});
                       w.machine().inject({.call = DeviceCall::kRecordEvent});
                     },
                 .run =
                     [](ShareWorld& w) {
                       w.shared.reset();
                       w.machine().clear_faults();
                     },
                 .never_fails = true});
  return all;
}

std::vector<ShareOperation> import_operations() {
  std::vector<ShareOperation> all;
  all.push_back({.name = "Open", .run = [](ShareWorld& w) { w.open(); }});
  all.push_back({.name = "Collect",
                 .prepare =
                     [](ShareWorld& w) {
                       w.machine().inject({.call = DeviceCall::kRecordEvent, .count = 100});
                       w.open();
                       w.close();
                       w.machine().clear_faults();
                       EXPECT_FALSE(w.imports->collect().ok()) << "the error of the close";
                     },
                 .run = [](ShareWorld& w) { ShareWorld::check(w.imports->collect()); },
                 .may_change_caches = true});
  all.push_back({.name = "Trim",
                 .prepare =
                     [](ShareWorld& w) {
                       w.open();
                       w.close();
                       w.finish_streams();
                     },
                 .run = [](ShareWorld& w) { ShareWorld::check(w.imports->trim()); },
                 .may_change_caches = true});
  return all;
}

std::vector<ShareOperation> share_operations() {
  std::vector<ShareOperation> all = buffer_operations();
  for (const ShareOperation& each : import_operations()) all.push_back(each);
  return all;
}

class ShareHostFaultsTest
    : public ::testing::TestWithParam<std::tuple<ShareSource, ShareOperation>> {};

TEST_P(ShareHostFaultsTest, SurvivesFailureOfAnyAllocation) {
  world_source = std::get<0>(GetParam());
  sweep::expect_safe_operation(std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Sweep, ShareHostFaultsTest,
    ::testing::Combine(::testing::Values(ShareSource::kPlain, ShareSource::kPaged),
                       ::testing::ValuesIn(share_operations())),
    [](const auto& each) { return text(std::get<0>(each.param)) + std::get<1>(each.param).name; });

// An import that cannot be waited for stays open, because work may still use its memory.
TEST(ShareHostFaults, DestructorKeepsImportsThatItCannotWaitFor) {
  uint64_t nth = 1;
  for (bool has_failed = true; has_failed; ++nth) {
    ShareWorld world;
    world.open();
    const DeviceAddress address = world.import->block.begin;
    world.close();
    world.finish_streams();
    {
      const sweep::HostAllocationFault fault(nth);
      world.imports.reset();
      has_failed = fault.has_failed();
    }
    const MemoryKind kind = world.device().describe(address)->kind;
    EXPECT_EQ(kind, has_failed ? MemoryKind::kDevice : MemoryKind::kUnknown) << nth;
  }
  EXPECT_GT(nth, 2U) << "no allocation was ever failed";
}

}  // namespace
}  // namespace ashlar
