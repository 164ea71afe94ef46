// SPDX-License-Identifier: Apache-2.0
//
// Tests a device's properties, memory statistics and last error.
#include <bit>
#include <set>
#include <thread>

#include <unistd.h>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(IdentityContract, PropertiesDescribeAUsableDevice) {
  for (size_t i = 0; i < device_count(); ++i) {
    const DeviceProperties& found = device_at(i).properties();
    EXPECT_FALSE(found.backend.empty());
    EXPECT_FALSE(found.name.empty());
    EXPECT_EQ(found.index, DeviceIndex(i));
    EXPECT_GT(found.capacity_bytes, 0U);
    EXPECT_TRUE(std::has_single_bit(found.allocation_alignment_bytes));
    EXPECT_GE(found.greatest_priority, 0);
    EXPECT_NE(found.uuid, (std::array<uint8_t, 16>{}));
  }
}

TEST_P(IdentityContract, CapabilitiesAreConsistent) {
  const DeviceProperties& found = properties();
  if (found.has_virtual_memory) {
    EXPECT_TRUE(std::has_single_bit(found.granularity_bytes));
    EXPECT_LE(found.granularity_bytes, found.capacity_bytes);
  } else {
    EXPECT_FALSE(found.can_alias);
    EXPECT_FALSE(found.can_export_fd);
    EXPECT_FALSE(found.can_export_fabric);
  }
  EXPECT_EQ(found.alias_probe.starts_with("works: "), found.can_alias) << found.alias_probe;
}

TEST_P(IdentityContract, TwoDevicesShareABackEndButNotAUuid) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  EXPECT_EQ(properties().backend, other().properties().backend);
  EXPECT_NE(properties().uuid, other().properties().uuid);
}

TEST_P(IdentityContract, PropertiesAreConstant) {
  const DeviceProperties before = properties();
  const DeviceAddress address = allocate(granule_bytes());
  ASSERT_TRUE(is_usable(address));
  const DeviceProperties& after = properties();
  EXPECT_EQ(after.capacity_bytes, before.capacity_bytes);
  EXPECT_EQ(after.uuid, before.uuid);
  EXPECT_EQ(after.max_mappings, before.max_mappings);
  EXPECT_EQ(after.granularity_bytes, before.granularity_bytes);
}

TEST_P(IdentityContract, MemoryStatsStayWithinTheCapacity) {
  const DeviceMemoryStats use = require_ok(device().memory_stats());
  EXPECT_GT(use.free_bytes, 0U);
  EXPECT_LE(use.free_bytes, use.total_bytes);
  EXPECT_LE(use.total_bytes, properties().capacity_bytes);
}

TEST_P(IdentityContract, MemoryStatsArePerDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t free_before = free_bytes(other());
  const size_t bytes = 16 * granule_bytes();
  const size_t own_before = free_bytes();
  allocate(bytes);
  EXPECT_TRUE(equal_within_slack(free_bytes(), own_before - bytes));
  EXPECT_TRUE(equal_within_slack(free_bytes(other()), free_before));
}

TEST_P(IdentityContract, ProcessesAreListedOnceWithTheirMemory) {
  const size_t bytes = 16 * granule_bytes();
  allocate(bytes);
  const Result<std::vector<ProcessMemoryUsage>> listed = device().processes();
  if (listed.status().is(StatusKind::kUnsupported)) {
    GTEST_SKIP() << "the driver does not list processes: " << listed.status().message();
  }
  ASSERT_TRUE(ok(listed));
  EXPECT_FALSE(listed->empty()) << "this process uses the device";
  std::set<int64_t> seen;
  for (const ProcessMemoryUsage& process : *listed) {
    EXPECT_GT(process.pid, 0);
    EXPECT_TRUE(seen.insert(process.pid).second) << process.pid << " is listed twice";
    // An entry with this PID is not required: in a container, the driver may report another PID.
    if (process.pid == getpid()) {
      EXPECT_GE(process.used_bytes, bytes);
    }
  }
}

TEST_P(IdentityContract, LastErrorIsOkUntilACallFails) {
  EXPECT_TRUE(ok(device().last_error()));
  EXPECT_TRUE(ok(device().take_last_error()));
}

TEST_P(IdentityContract, LastErrorSurvivesLaterSuccesses) {
  const Result<DeviceAddress> none = device().allocate(0);
  ASSERT_FALSE(none.ok());
  const Result<DeviceAddress> too_much = device().allocate(properties().capacity_bytes * 2);
  ASSERT_FALSE(too_much.ok());
  allocate(granule_bytes());
  EXPECT_EQ(device().last_error().to_string(), too_much.status().to_string());
  EXPECT_EQ(device().last_error().kind(), StatusKind::kOutOfMemory)
      << "last_error must not clear the error";
  EXPECT_EQ(device().take_last_error().to_string(), too_much.status().to_string());
  EXPECT_TRUE(ok(device().take_last_error())) << "take_last_error must clear the error";
}

TEST_P(IdentityContract, LastErrorBelongsToTheCallingThread) {
  ASSERT_FALSE(device().allocate(0).ok());
  std::thread another([this] {
    EXPECT_TRUE(ok(device().last_error()));
    EXPECT_TRUE(ok(device().take_last_error()));
    EXPECT_FALSE(device().allocate(properties().capacity_bytes * 2).ok());
    EXPECT_EQ(device().last_error().kind(), StatusKind::kOutOfMemory);
  });
  another.join();
  EXPECT_EQ(device().take_last_error().kind(), StatusKind::kInvalidArgument);
}

TEST_P(IdentityContract, LastErrorBelongsToTheCalledDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  ASSERT_FALSE(other().allocate(0).ok());
  EXPECT_TRUE(ok(device().take_last_error()));
  EXPECT_EQ(other().take_last_error().kind(), StatusKind::kInvalidArgument);
}

// Functions that need a missing capability return kUnsupported.
TEST_P(IdentityContract, MissingCapabilitiesAreUnsupported) {
  const DeviceProperties& has = properties();
  const auto expect_unsupported = [this](const Status& status, int line = __builtin_LINE()) {
    expect_error(StatusKind::kUnsupported, device(), status, __FILE__, line);
  };
  if (has.has_virtual_memory && has.can_export_fd && has.can_export_fabric &&
      has.can_export_imported && has.can_share_allocations && has.has_stream_ordered_pool &&
      has.has_capture) {
    GTEST_SKIP() << "the device can do everything";
  }
  const size_t bytes = granule_bytes();
  if (!has.has_virtual_memory) {
    expect_unsupported(device().reserve(bytes).status());
    expect_unsupported(device().create(bytes).status());
  }
  if (has.has_virtual_memory && !has.can_export_fd) {
    expect_unsupported(device().create(bytes, {.can_export_fd = true}).status());
  }
  if (has.has_virtual_memory && !has.can_export_fabric) {
    expect_unsupported(device().create(bytes, {.can_export_fabric = true}).status());
  }
  if (has.can_export_fd && !has.can_export_imported) {
    UniqueFd fd = require_ok(device().export_fd(create(bytes, {.can_export_fd = true})));
    const ExtentId imported = require_ok(device().import_fd(fd.get(), bytes));
    track_extent(imported);
    expect_unsupported(device().export_fd(imported).status());
  }
  if (has.can_export_fabric && !has.can_export_imported) {
    const ExtentId extent = create(bytes, {.can_export_fabric = true});
    const FabricHandle handle = require_ok(device().export_fabric(extent));
    const ExtentId imported = require_ok(device().import_fabric(handle, bytes));
    track_extent(imported);
    expect_unsupported(device().export_fabric(imported).status());
  }
  if (!has.can_share_allocations) {
    expect_unsupported(device().share_allocation(allocate(bytes)).status());
  }
  if (!has.has_stream_ordered_pool) {
    expect_unsupported(device().allocate_async(bytes, create_stream()).status());
    expect_unsupported(device().driver_pool_stats().status());
  }
  if (!has.has_capture) {
    expect_unsupported(device().begin_capture(create_stream(), CaptureMode::kGlobal));
  }
}

}  // namespace ashlar::contract
