// SPDX-License-Identifier: Apache-2.0
//
// Objects that graphs retain: on simulated devices, and on the stand-in driver, which releases them
// in a thread of its own that must not call the driver.
#include "device/graph_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ashlar/devices.h"
#include "base/units.h"
#include "contract/waiting.h"
#include "device/gpu/gpu_device.h"
#include "device/sim/sim_device.h"
#include "standin/control.h"

namespace ashlar {
namespace {

using contract::consistently;
using contract::eventually;
using contract::StreamGate;
using ::testing::ElementsAre;

constexpr DeviceIndex kOnlyDevice{0};

// Runs a function when it is destroyed.
class OnDestruction {
 public:
  explicit OnDestruction(std::function<void()> function) : function_(std::move(function)) {}
  ~OnDestruction() { function_(); }
  OnDestruction(const OnDestruction&) = delete;
  OnDestruction& operator=(const OnDestruction&) = delete;

 private:
  const std::function<void()> function_;
};

class GraphObjectsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    sim::Options options;
    options.capacity_bytes = kGiB;
    if (is_sim()) {
      machine_ = *sim::Machine::try_create(options);
      device_ = &machine_->device(kOnlyDevice);
    } else {
      const char* library = library_of_driver();
      standin::control_of(library).restart(options, {});
      devices_ = *open_driver({.library = library});
      device_ = &devices_->device(kOnlyDevice);
    }
    stream_ = *device().create_stream();
  }

  bool is_sim() const { return std::string_view(GetParam()) == "Sim"; }
  bool is_hip() const { return std::string_view(GetParam()) == "Hip"; }
  const char* library_of_driver() const {
    return is_hip() ? ASHLAR_HIP_STANDIN : ASHLAR_CUDA_STANDIN;
  }
  Result<std::unique_ptr<DeviceSet>> open_driver(const DriverOptions& options) const {
    return is_hip() ? try_open_hip(options) : try_open_cuda(options);
  }
  // Prevents the driver from releasing objects until it is resumed or restarted.
  void pause_callbacks() const {
    if (!is_sim()) standin::control_of(library_of_driver()).pause_callbacks();
  }
  void resume_callbacks() const {
    if (!is_sim()) standin::control_of(library_of_driver()).resume_callbacks();
  }

  Device& device() const { return *device_; }
  void close_device() {
    machine_.reset();
    devices_.reset();
  }

  Status retain(std::shared_ptr<const void> object) {
    if (is_sim()) {
      return dynamic_cast<sim::SimDevice&>(device()).retain_in_graph(stream_, std::move(object));
    }
    return dynamic_cast<gpu::GpuDevice&>(device()).retain_in_graph(stream_, std::move(object));
  }
  // Captures a graph with one node that retains the objects.
  GraphId capture(const std::vector<std::shared_ptr<const void>>& objects) {
    EXPECT_TRUE(device().begin_capture(stream_, CaptureMode::kThreadLocal).ok());
    for (const auto& object : objects) EXPECT_TRUE(retain(object).ok());
    EXPECT_TRUE(device().call_host(stream_, [] {}).ok());
    return *device().end_capture(stream_);
  }
  // Returns whether the calling thread can allocate and free memory.
  Status use_device() {
    const Result<DeviceAddress> memory = device().allocate(kMiB);
    return memory.ok() ? device().free(*memory) : memory.status();
  }

  std::unique_ptr<sim::Machine> machine_;  // null unless is_sim()
  std::unique_ptr<DeviceSet> devices_;     // null if is_sim()
  Device* device_ = nullptr;
  StreamId stream_;
};

INSTANTIATE_TEST_SUITE_P(BackEnds, GraphObjectsTest, ::testing::Values("Sim", "Cuda", "Hip"),
                         [](const auto& back_end) { return std::string(back_end.param); });

// Another stream captures in the strictest mode, which forbids blocking calls of other threads.
TEST_P(GraphObjectsTest, DestructorMayCallDeviceDuringOtherCapture) {
  std::promise<std::pair<Status, std::thread::id>> used;
  auto object = std::make_shared<OnDestruction>([&] {
    used.set_value({use_device(), std::this_thread::get_id()});
  });
  const GraphId graph = capture({std::move(object)});
  const StreamId other = *device().create_stream();
  ASSERT_TRUE(device().begin_capture(other, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(device().destroy_graph(graph).ok());
  const auto [status, thread] = used.get_future().get();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_TRUE(device().end_capture(other).ok());
}

TEST_P(GraphObjectsTest, DestroysObjectsAfterLaunchesOfDestroyedGraph) {
  auto object = std::make_shared<const int>(1);
  const std::weak_ptr<const int> retained = object;
  const GraphId graph = capture({std::exchange(object, nullptr)});
  {
    const StreamGate gate(device(), stream_);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(device().launch_graph(graph, stream_).ok());
    ASSERT_TRUE(device().destroy_graph(graph).ok());
    EXPECT_TRUE(consistently([&] { return !retained.expired(); }));
  }
  EXPECT_TRUE(eventually([&] { return retained.expired(); }));
}

TEST_P(GraphObjectsTest, DestroysObjectsOfGraphInReverseOrder) {
  std::vector<int> destroyed;
  std::promise<void> done;
  const auto make = [&](int number) {
    return std::make_shared<OnDestruction>([&destroyed, &done, number] {
      destroyed.push_back(number);
      if (number == 1) done.set_value();
    });
  };
  const GraphId graph = capture({make(1), make(2), make(3)});
  ASSERT_TRUE(device().destroy_graph(graph).ok());
  done.get_future().wait();
  EXPECT_THAT(destroyed, ElementsAre(3, 2, 1));
}

TEST_P(GraphObjectsTest, GraphRetainsEachObjectOnce) {
  const auto object = std::make_shared<const int>(1);
  const GraphId first = capture({object, object});
  const GraphId second = capture({object});
  EXPECT_EQ(object.use_count(), 3);
  ASSERT_TRUE(device().destroy_graph(first).ok());
  EXPECT_TRUE(eventually([&] { return object.use_count() == 2; }));
  ASSERT_TRUE(device().destroy_graph(second).ok());
  EXPECT_TRUE(eventually([&] { return object.use_count() == 1; }));
}

TEST_P(GraphObjectsTest, RejectsStreamThatIsNotCapturing) {
  const auto object = std::make_shared<const int>(1);
  EXPECT_TRUE(retain(object).is(StatusKind::kInvalidArgument));
  EXPECT_EQ(object.use_count(), 1);
}

TEST_P(GraphObjectsTest, ReleasesObjectsOfFailedCapture) {
  const auto object = std::make_shared<const int>(1);
  ASSERT_TRUE(device().begin_capture(stream_, CaptureMode::kGlobal).ok());
  ASSERT_TRUE(retain(object).ok());
  EXPECT_FALSE(device().is_idle(stream_).ok());  // invalidates the capture
  EXPECT_TRUE(retain(object).is(StatusKind::kInvalidArgument));
  EXPECT_FALSE(device().end_capture(stream_).ok());
  EXPECT_TRUE(eventually([&] { return object.use_count() == 1; }));
}

TEST_P(GraphObjectsTest, DeviceDestroysObjectsOfExistingGraph) {
  Status used = Status::invalid_argument("not destroyed");
  (void)capture({std::make_shared<OnDestruction>([&] { used = use_device(); })});
  close_device();
  EXPECT_TRUE(used.ok()) << used.to_string();
}

// The driver releases the object after the device has been destroyed.
TEST_P(GraphObjectsTest, DeviceDestroysObjectsThatDriverHasNotReleased) {
  const auto object = std::make_shared<const int>(1);
  const GraphId graph = capture({object});
  pause_callbacks();
  ASSERT_TRUE(device().launch_graph(graph, stream_).ok());
  ASSERT_TRUE(device().destroy_graph(graph).ok());
  close_device();
  EXPECT_EQ(object.use_count(), 1);
  resume_callbacks();
}

TEST_P(GraphObjectsTest, DeviceWaitsForObjectThatIsBeingDestroyed) {
  std::promise<void> started;
  std::promise<void> may_end;
  Status used;
  const GraphId graph = capture({std::make_shared<OnDestruction>([&] {
    started.set_value();
    may_end.get_future().wait();
    used = use_device();
  })});
  ASSERT_TRUE(device().destroy_graph(graph).ok());
  started.get_future().wait();
  std::atomic<bool> is_closed = false;
  std::thread closing([&] {
    close_device();
    is_closed = true;
  });
  EXPECT_TRUE(consistently([&] { return !is_closed; }));
  may_end.set_value();
  closing.join();
  EXPECT_TRUE(used.ok()) << used.to_string();
}

// --- the releaser alone

TEST(GraphObjectReleaserTest, FailedAttachRetainsNothing) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({});
  GraphObjectReleaser releaser(machine->device(kOnlyDevice));
  using Ticket = GraphObjectReleaser::Ticket;
  const CaptureId capture(7);
  const auto object = std::make_shared<const int>(1);
  std::unique_ptr<Ticket> late;  // of the call that fails; destroyed later
  const auto fail = [&](std::unique_ptr<Ticket> ticket) {
    late = std::move(ticket);
    return Status::invalid_argument("refused");
  };
  EXPECT_TRUE(releaser.retain(capture, object, fail).is(StatusKind::kInvalidArgument));
  EXPECT_EQ(object.use_count(), 1);
  EXPECT_TRUE(releaser.is_empty());
  std::unique_ptr<Ticket> attached;
  const auto attach = [&](std::unique_ptr<Ticket> ticket) {
    attached = std::move(ticket);
    return Status();
  };
  ASSERT_TRUE(releaser.retain(capture, object, attach).ok());
  late.reset();
  EXPECT_EQ(object.use_count(), 2) << "the late ticket must not release the other record";
  attached.reset();
  EXPECT_TRUE(eventually([&] { return releaser.is_empty(); }));
  EXPECT_EQ(object.use_count(), 1);
}

TEST(GraphObjectReleaserTest, TicketMayOutliveReleaser) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({});
  auto releaser = std::make_unique<GraphObjectReleaser>(machine->device(kOnlyDevice));
  const auto object = std::make_shared<const int>(1);
  std::unique_ptr<GraphObjectReleaser::Ticket> kept;
  ASSERT_TRUE(releaser
                  ->retain(CaptureId(1), object,
                           [&](std::unique_ptr<GraphObjectReleaser::Ticket> ticket) {
                             kept = std::move(ticket);
                             return Status();
                           })
                  .ok());
  releaser.reset();
  EXPECT_EQ(object.use_count(), 1);
  kept.reset();
}

}  // namespace
}  // namespace ashlar
