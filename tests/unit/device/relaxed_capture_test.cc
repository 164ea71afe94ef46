// SPDX-License-Identifier: Apache-2.0
//
// Tests that RelaxedCapture changes and restores the thread's capture mode.
#include "device/relaxed_capture.h"

#include "unit/device/sim/machine_fixture.h"

namespace ashlar {
namespace {

class RelaxedCaptureTest : public ::testing::Test {
 protected:
  RelaxedCaptureTest() : machine_(sim::make_machine(sim::small_options())) {
    stream_ = *device().create_stream();
    EXPECT_TRUE(device().begin_capture(stream_, CaptureMode::kGlobal).ok());
  }
  Device& device() { return machine_->device(sim::kFirst); }
  CaptureMode mode() {
    const CaptureMode before = *device().exchange_capture_mode(CaptureMode::kGlobal);
    EXPECT_TRUE(device().exchange_capture_mode(before).ok());
    return before;
  }

  std::unique_ptr<sim::Machine> machine_;
  StreamId stream_;
};

TEST_F(RelaxedCaptureTest, RelaxesTheModeDuringItsLifetime) {
  {
    const RelaxedCapture relaxed(device());
    EXPECT_TRUE(device().allocate_host(4096).ok());
  }
  EXPECT_TRUE(device().end_capture(stream_).ok());
  EXPECT_EQ(mode(), CaptureMode::kGlobal);
}

TEST_F(RelaxedCaptureTest, RestoresTheThreadsMode) {
  ASSERT_TRUE(device().exchange_capture_mode(CaptureMode::kThreadLocal).ok());
  { const RelaxedCapture relaxed(device()); }
  EXPECT_EQ(mode(), CaptureMode::kThreadLocal);
  ASSERT_TRUE(device().exchange_capture_mode(CaptureMode::kGlobal).ok());
}

TEST_F(RelaxedCaptureTest, RetriesToRestoreTheMode) {
  machine_->inject({.call = DeviceCall::kExchangeCaptureMode, .nth = 2});
  { const RelaxedCapture relaxed(device()); }
  EXPECT_EQ(mode(), CaptureMode::kGlobal);
}

TEST_F(RelaxedCaptureTest, LastErrorReportsAFailedRestore) {
  machine_->inject({.call = DeviceCall::kExchangeCaptureMode, .nth = 2, .count = 2});
  { const RelaxedCapture relaxed(device()); }
  EXPECT_EQ(device().last_error().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(mode(), CaptureMode::kRelaxed);
  ASSERT_TRUE(device().exchange_capture_mode(CaptureMode::kGlobal).ok());
}

TEST_F(RelaxedCaptureTest, DoesNotCallTheDeviceWithoutCaptures) {
  machine_->inject({.call = DeviceCall::kExchangeCaptureMode, .count = 2});
  {
    const RelaxedCapture relaxed(device(), 0);
    EXPECT_TRUE(relaxed.status().ok());
  }
  {
    const RelaxedCapture relaxed(device(), 1);
    EXPECT_FALSE(relaxed.status().ok()) << "the fault did not occur";
  }
  machine_->clear_faults();
}

TEST_F(RelaxedCaptureTest, DoesNotRestoreAnUnchangedMode) {
  ASSERT_TRUE(device().exchange_capture_mode(CaptureMode::kThreadLocal).ok());
  machine_->inject({.call = DeviceCall::kExchangeCaptureMode});
  { const RelaxedCapture relaxed(device()); }
  EXPECT_EQ(mode(), CaptureMode::kThreadLocal);
  ASSERT_TRUE(device().exchange_capture_mode(CaptureMode::kGlobal).ok());
}

}  // namespace
}  // namespace ashlar
