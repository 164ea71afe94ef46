// SPDX-License-Identifier: Apache-2.0
//
// Operations of symmetric memory in graphs, on simulated devices, and on the stand-in driver or,
// with ASHLAR_TEST_DEVICE=cuda, on a GPU. ASHLAR_STRESS_OPERATIONS sets the number of replays of
// the random program, and ASHLAR_STRESS_SEED its seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>

#include "base/random.h"
#include "device/gpu/gpu_device.h"
#include "device/sim/sim_device.h"
#include "mp/harness/gpu_rank.h"
#include "mp/harness/graph_program.h"
#include "standin/control.h"

namespace ashlar::symm {
namespace {

using GraphBody = std::function<std::string(DeviceRank& own)>;

// Each rank runs `body` on its own simulated device, and leaves unless `body` returns an error.
RankMain on_sim_devices(const GraphBody& body) {
  return [body](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    std::string wrong = body(own);
    if (wrong.empty()) own.group.leave(kTestTimeout);
    return wrong;
  };
}

// Makes one of the rank's next three calls of a random device function fail. Removes earlier
// faults.
void inject_fault(SimDeviceRank& own, Random& random) {
  constexpr std::array kCalls{DeviceCall::kLaunchGraph, DeviceCall::kLaunch,
                              DeviceCall::kCaptureState};
  own.machine.clear_faults();
  own.machine.inject({.call = kCalls[random.below(kCalls.size())],
                      .device = own.device_index,
                      .nth = 1 + random.below(3)});
}

class SymmetricGraphs : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGraphs, ::testing::Values(2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricGraphs, ReplaysMixWithOtherCalls) {
  RankProcesses ranks(GetParam(), [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    GraphProgramOptions options = graph_program_options();
    Random random(options.seed * 31 + static_cast<uint64_t>(rank.rank));
    options.inject_fault = [&] { inject_fault(own, random); };
    std::string wrong = run_graph_program(own, options);
    machine->clear_faults();
    if (wrong.empty()) own.group.leave(kTestTimeout);
    return wrong;
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

class SymmetricGpuGraphs : public SymmetricGpuKernels, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGpuGraphs, ::testing::Values(2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricGpuGraphs, ReplaysMixWithOtherCalls) {
  RankProcesses ranks(GetParam(), with_kernels([](DeviceRank& own) {
                        GraphProgramOptions options = graph_program_options();
                        options.has_nested_graphs = false;  // drivers cannot capture launches
                        return run_graph_program(own, options);
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Rank 0 launches an all-reduce that rank 1 does not launch, and times out. The next launch by both
// ranks completes that all-reduce.
std::string check_unequal_replays(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  own.write(std::vector<int>(1, 1));
  own.group.barrier(0, kTestTimeout);
  const auto capture = [&](milliseconds timeout) {
    return capture_graph(own.device(), stream, [&] {
      CollectiveOptions options;
      options.stream = stream;
      options.timeout = timeout;
      own.handle.all_reduce(1, kSumOfInt, options);
    });
  };
  const GraphId graph = capture(kTestTimeout);
  const GraphId impatient = capture(milliseconds(30));
  const auto launch = [&](GraphId id) {
    throw_if_error(own.device().launch_graph(id, stream));
    own.group.finish(stream);
  };
  for (int round = 0; round < 3; ++round) launch(graph);
  std::string message;
  if (own.group.rank() == 0) {
    message = error_message_naming("for rank 1;", [&] { launch(impatient); });
  }
  own.group.barrier(0, kTestTimeout);
  launch(graph);
  const int found = own.read<int>(1)[0];
  for (const GraphId each : {graph, impatient}) {
    throw_if_error(own.device().destroy_graph(each));
  }
  if (found != 16) return text("found ", found, "; ");
  if (own.group.rank() == 1) return {};
  return message.starts_with("timeout: rank 0 waited ") ? "" : message;
}

TEST(SymmetricGraphs, UnequalReplaysTimeOutNamingRanks) {
  RankProcesses ranks(2, on_sim_devices(check_unequal_replays));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

class SymmetricGpuGraphErrors : public SymmetricGpuKernels {};

TEST_F(SymmetricGpuGraphErrors, UnequalReplaysTimeOutNamingRanks) {
  RankProcesses ranks(2, with_kernels(check_unequal_replays));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// A launch that times out leaves the caller's arrays unchanged, although an earlier launch of the
// graph has written them.
std::string check_rows_after_timeout(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  const std::vector<int64_t> splits{1, 1};
  std::vector<int64_t> out_splits(2);
  std::vector<int64_t> out_offsets(2);
  const auto capture = [&](milliseconds timeout) {
    return capture_graph(own.device(), stream, [&] {
      CollectiveOptions options;
      options.out = own.scratch.data();
      options.stream = stream;
      options.timeout = timeout;
      RowExchange rows;
      rows.row_bytes = 4;
      rows.splits = splits;
      rows.out_bytes = 8;
      rows.out_splits = out_splits;
      rows.out_offsets = out_offsets;
      own.handle.all_to_all_v(rows, options);
    });
  };
  const GraphId graph = capture(own.group.rank() == 0 ? milliseconds(30) : kTestTimeout);
  const auto launch = [&] {
    throw_if_error(own.device().launch_graph(graph, stream));
    own.group.finish(stream);
  };
  std::string wrong = error_message_naming("nothing", launch);
  if (out_splits != splits) wrong += " [wrong splits]";
  own.group.barrier(0, kTestTimeout);
  out_splits = {0, 0};
  if (own.group.rank() == 0) {
    wrong += error_message_naming("for rank 1;", launch);
    if (out_splits != std::vector<int64_t>{0, 0}) wrong += " [overwritten splits]";
  }
  own.group.barrier(0, kTestTimeout);
  wrong += error_message_naming("nothing", launch);
  if (out_splits != splits) wrong += " [wrong splits after the timeout]";
  throw_if_error(own.device().destroy_graph(graph));
  return wrong.find('[') == std::string::npos ? "" : wrong;
}

TEST(SymmetricGraphs, TimeoutLeavesRowsUnchanged) {
  RankProcesses ranks(2, on_sim_devices(check_rows_after_timeout));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_F(SymmetricGpuGraphErrors, TimeoutLeavesRowsUnchanged) {
  RankProcesses ranks(2, with_kernels(check_rows_after_timeout));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Rank 1 dies between two replays. The other ranks replay until they detect it.
std::string replay_until_failure(DeviceRank& own) {
  // How long after the lease has expired a busy machine may take to detect the failure.
  constexpr std::chrono::seconds kMargin{20};
  const StreamId stream = *own.device().create_stream();
  const GraphId graph = capture_graph(own.device(), stream, [&] {
    CollectiveOptions options;
    options.stream = stream;
    own.group.barrier(2, kNoTimeout, stream);
    own.handle.all_reduce(100, kSumOfInt, options);
  });
  const auto launch = [&] {
    throw_if_error(own.device().launch_graph(graph, stream));
    own.group.finish(stream);
  };
  launch();
  if (own.group.rank() == 1) ::kill(::getpid(), SIGKILL);
  const Deadline deadline = Deadline::after(SymmetricRank::heap_options().lease + kMargin);
  std::string message = "nothing";
  while (message == "nothing") message = error_message(launch);
  if (deadline.has_passed()) message += " [too late]";
  if (error_message(launch) != message) message += " [then another error]";
  throw_if_error(own.device().destroy_graph(graph));
  return message;
}

void expect_rank_1_named(const std::vector<std::string>& results) {
  EXPECT_EQ(results[1], "killed");
  EXPECT_THAT(results[0], AllOf(HasSubstr("peer lost: rank 1"), Not(HasSubstr("["))));
  EXPECT_EQ(results[0], results[2]);
}

TEST(SymmetricGraphs, PeerDeathBetweenReplaysIsReported) {
  RankProcesses ranks(3, on_sim_devices(replay_until_failure));
  expect_rank_1_named(ranks.results());
}

TEST_F(SymmetricGpuGraphErrors, PeerDeathBetweenReplaysIsReported) {
  RankProcesses ranks(3, with_kernels(replay_until_failure));
  expect_rank_1_named(gpu_results(ranks));
}

// Becomes true when it is destroyed.
class DestructionFlag {
 public:
  explicit DestructionFlag(std::promise<void> destroyed) : destroyed_(std::move(destroyed)) {}
  ~DestructionFlag() { destroyed_.set_value(); }
  DestructionFlag(const DestructionFlag&) = delete;
  DestructionFlag& operator=(const DestructionFlag&) = delete;

 private:
  std::promise<void> destroyed_;
};

// Makes the stream's capture retain an object. Returns a future that is ready when the device has
// destroyed this object, and thus all objects that the graph retained after it.
std::future<void> watch_destruction(Device& device, StreamId stream) {
  std::promise<void> destroyed;
  std::future<void> future = destroyed.get_future();
  auto flag = std::make_shared<DestructionFlag>(std::move(destroyed));
  if (auto* sim = dynamic_cast<sim::SimDevice*>(&device)) {
    throw_if_error(sim->retain_in_graph(stream, std::move(flag)));
  } else {
    throw_if_error(dynamic_cast<gpu::GpuDevice&>(device).retain_in_graph(stream, std::move(flag)));
  }
  return future;
}

// The graph is launched after the handle, the group and the buffer have been destroyed, and is the
// last owner of the heap's memory. The driver releases the graph's objects after the heap.
std::string check_ownership(const RankSpec& rank, Device& device, const GroupOptions& options,
                            const standin::ControlTable* driver = nullptr) {
  const size_t free_before = device.memory_stats()->free_bytes;
  const StreamId stream = *device.create_stream();
  constexpr size_t kCount = 100;
  int* const found = static_cast<int*>(*device.allocate_host(4 * kCount));
  std::future<void> destroyed;
  if (driver != nullptr) driver->pause_callbacks();
  {
    HeapOptions heap_options = SymmetricRank::heap_options();
    heap_options.device = &device;
    Heap heap(heap_options);
    GraphId graph;
    {
      Group group = Group::join(heap, rank.store, options);
      SymmetricBuffer buffer = heap.allocate(4 * kCount);
      const Handle handle = group.rendezvous(buffer, kTestTimeout);
      const DeviceAddress at(reinterpret_cast<uint64_t>(buffer.data()));
      const std::vector<int> ones(kCount, 1);
      handle.put(rank.rank, std::as_bytes(std::span(ones)));
      CollectiveOptions in_stream;
      in_stream.stream = stream;
      in_stream.timeout = kTestTimeout;
      graph = capture_graph(device, stream, [&] {
        destroyed = watch_destruction(device, stream);
        handle.one_shot_all_reduce(static_cast<int64_t>(kCount), kSumOfInt, in_stream);
        group.barrier(0, kTestTimeout, stream);
        throw_if_error(device.copy_to_host(found, at, 4 * kCount, stream));
      });
      group.barrier(0, kTestTimeout);
    }
    for (int round = 0; round < 3; ++round) throw_if_error(device.launch_graph(graph, stream));
    throw_if_error(device.destroy_graph(graph));  // while launches are in flight
    throw_if_error(device.synchronize_stream(stream));
  }
  if (driver != nullptr) driver->resume_callbacks();
  if (destroyed.wait_for(kTestTimeout) != std::future_status::ready) return "retained objects";
  throw_if_error(device.destroy_stream(stream));
  const size_t free_after = device.memory_stats()->free_bytes;
  const int expected = rank.world_size * rank.world_size * rank.world_size;
  const int* const unequal =
      std::find_if(found, found + kCount, [&](int each) { return each != expected; });
  if (unequal != found + kCount) return text("found ", *unequal);
  throw_if_error(device.free_host(found));
  return free_after == free_before || is_on_hardware() ? "" : "leaked device memory";
}

TEST(SymmetricGraphs, GraphOwnsMemoryAndGroup) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    return check_ownership(rank, machine->device(DeviceIndex(static_cast<uint64_t>(rank.rank))),
                           SymmetricRank::group_options(rank));
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_F(SymmetricGpuGraphErrors, GraphOwnsMemoryAndGroup) {
  RankProcesses ranks(2, on_gpu([](const RankSpec& rank, Device& device) {
                        return check_ownership(
                            rank, device, gpu_group_options(rank),
                            is_on_hardware() ? nullptr : &standin::control_of(ASHLAR_CUDA_STANDIN));
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// During capture, the second barrier makes its stream wait for the first barrier, which joins the
// two streams.
TEST(SymmetricGraphs, KeepsGroupOrderAcrossStreamsOfCapture) {
  RankProcesses ranks(2, on_sim_devices([](DeviceRank& own) -> std::string {
                        Device& device = own.device();
                        const StreamId origin = *device.create_stream();
                        const StreamId joined = *device.create_stream();
                        const EventId event = *device.create_event();
                        const GraphId graph = capture_graph(device, origin, [&] {
                          throw_if_error(device.record_event(event, origin));
                          throw_if_error(device.wait_event(joined, event));
                          own.group.barrier(1, kTestTimeout, joined);
                          own.group.barrier(1, kTestTimeout, origin);
                        });
                        throw_if_error(device.launch_graph(graph, origin));
                        own.group.finish(origin);
                        throw_if_error(device.destroy_graph(graph));
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricGraphs, RejectsInvalidatedCapture) {
  RankProcesses ranks(1, on_sim_devices([](DeviceRank& own) -> std::string {
                        const StreamId stream = *own.device().create_stream();
                        throw_if_error(own.device().begin_capture(stream, CaptureMode::kGlobal));
                        (void)own.device().is_idle(stream).ok();  // invalidates the capture
                        const std::string message =
                            error_message([&] { own.group.barrier(0, kTestTimeout, stream); });
                        (void)own.device().end_capture(stream).ok();
                        own.group.barrier(0, kTestTimeout, stream);
                        own.group.finish(stream);
                        return message;
                      }));
  EXPECT_THAT(ranks.results(), Each(HasSubstr("was invalidated: end the capture")));
}

}  // namespace
}  // namespace ashlar::symm
