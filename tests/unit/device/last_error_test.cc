// SPDX-License-Identifier: Apache-2.0
//
// The last errors of threads on devices: saving, restoring, and errors of destroyed devices.
#include "device/last_error.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace ashlar {
namespace {

TEST(LastError, BelongsToOneThreadAndOneDevice) {
  LastError device;
  LastError other_device;
  device.record(Status::timeout("late"));
  device.record(Status());
  EXPECT_EQ(device.peek().message(), "late");
  EXPECT_TRUE(other_device.peek().ok());
  std::thread([&] { EXPECT_TRUE(device.peek().ok()); }).join();
  EXPECT_EQ(device.take().message(), "late");
  EXPECT_TRUE(device.take().ok());
}

TEST(LastError, ErrorsOfDestroyedDevicesAreDropped) {
  std::thread([] {  // a new thread has no errors
    LastError last_device;
    for (int i = 0; i < 10; ++i) {
      LastError device;
      device.record(Status::timeout("late"));
    }
    last_device.record(Status::timeout("late"));
    EXPECT_EQ(LastError::stored_count(), 1U);
  })
      .join();
}

TEST(SavedLastErrors, RestoreDropsNewErrors) {
  LastError device;
  LastError other_device;
  device.record(Status::timeout("first"));
  SavedLastErrors before;
  device.record(Status::timeout("second"));
  other_device.record(Status::timeout("second"));
  before.restore();
  EXPECT_EQ(device.peek().message(), "first");
  EXPECT_TRUE(other_device.peek().ok());
  EXPECT_EQ(device.take().message(), "first");
}

TEST(SavedLastErrors, KeepsNewErrorsUnlessRestored) {
  LastError device;
  LastError other_device;
  device.record(Status::timeout("first"));
  other_device.record(Status::timeout("first"));
  {
    const SavedLastErrors before;
    device.record(Status::timeout("second"));
  }
  EXPECT_EQ(device.take().message(), "second");
  EXPECT_EQ(other_device.take().message(), "first");
}

TEST(SavedLastErrors, DoesNotResurrectErrorsTakenAfterRestore) {
  LastError device;
  device.record(Status::timeout("first"));
  {
    SavedLastErrors before;
    before.restore();
    EXPECT_EQ(device.take().message(), "first");
  }
  EXPECT_TRUE(device.peek().ok());
}

}  // namespace
}  // namespace ashlar
