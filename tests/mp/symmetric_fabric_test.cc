// SPDX-License-Identifier: Apache-2.0
//
// Exchange of device memory as fabric handles, on request or between machines (simulated by
// different machine names). Either all ranks use fabric handles, or none does and all report the
// same reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"
#include "mp/harness/standin_gpu_rank.h"

namespace ashlar::symm {
namespace {

using ::testing::StartsWith;

constexpr size_t kFabricBytes = 3 * kMiB;

GroupOptions by_fabric(const RankSpec& rank) {
  GroupOptions options = SymmetricRank::group_options(rank);
  options.use_fabric = true;
  return options;
}

struct FabricRank {
  FabricRank(const RankSpec& rank, Device& device, const GroupOptions& options,
             const std::string& machine = {})
      : heap(heap_options(device, machine)),
        group(Group::join(heap, rank.store, options)),
        buffer(heap.allocate(kFabricBytes)),
        handle(group.rendezvous(buffer, kTestTimeout)) {}

  static HeapOptions heap_options(Device& device, const std::string& machine) {
    HeapOptions options = SymmetricRank::heap_options();
    options.device = &device;
    options.machine = machine;
    return options;
  }

  // Checks an all-reduce by kernels, and a copy of the result from the next rank.
  std::string check_memory() const {
    const int count = handle.world_size();
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    CollectiveOptions options;
    options.timeout = kTestTimeout;
    const std::vector<int> ones(1000, handle.rank() + 1);
    handle.put(handle.rank(), std::as_bytes(std::span(ones)));
    group_barrier();
    handle.all_reduce(1000, sum, options);
    std::vector<int> found(1000);
    handle.get((handle.rank() + 1) % count, std::as_writable_bytes(std::span(found)));
    const std::vector<int> all(1000, count * (count + 1) / 2);
    group_barrier();
    return found == all ? "" : "wrong sum";
  }
  void group_barrier() const { handle.barrier(0, kTestTimeout); }

  Heap heap;
  Group group;
  SymmetricBuffer buffer;
  Handle handle;
};

std::string join_and_check(const RankSpec& rank, Device& device, const GroupOptions& options,
                           const std::string& machine = {}) {
  FabricRank own(rank, device, options, machine);
  for (int peer = 0; peer < rank.world_size; ++peer) {
    if (own.handle.peer_access(peer) != PeerAccess::kDirect) return "not direct";
  }
  const std::string wrong = own.check_memory();
  const std::string reason = own.handle.no_fabric_reason();
  own.group.leave(kTestTimeout);
  return reason + wrong;
}

class SymmetricFabricRanks : public SymmetricGpuKernels,
                             public ::testing::WithParamInterface<int> {};
using SymmetricFabric = SymmetricGpuKernels;

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricFabricRanks, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricFabricRanks, ExchangesFabricHandlesWhenRequested) {
  RankProcesses ranks(GetParam(), on_standin_gpu([](const StandinGpuRank& own) -> std::string {
                        return join_and_check(own.rank, own.device, by_fabric(own.rank));
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_P(SymmetricFabricRanks, UsesFabricAndMulticastAcrossMachines) {
  RankProcesses ranks(GetParam(), on_standin_gpu([](const StandinGpuRank& own) -> std::string {
                        const GroupOptions options = SymmetricRank::group_options(own.rank);
                        // Each machine has two ranks.
                        const std::string machine = text("machine ", own.rank.rank / 2);
                        FabricRank member(own.rank, own.device, options, machine);
                        const std::string wrong = member.check_memory();
                        const std::string multicast = member.handle.no_multicast_reason();
                        const bool crosses_machines = own.rank.world_size > 2;
                        const std::string fabric = member.handle.no_fabric_reason();
                        member.group.leave(kTestTimeout);
                        if (crosses_machines != fabric.empty()) return text("by fabric? ", fabric);
                        return wrong + multicast;
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricFabric, WorksOnSimulatedDevices) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    Device& device = machine->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    const std::string machine_name = text("machine ", rank.rank);
    std::string message = join_and_check(rank, device, by_fabric(rank));
    FabricRank far(rank, device, SymmetricRank::group_options(rank), machine_name);
    message += far.check_memory() + far.handle.no_fabric_reason();
    // Simulated multicast works on one machine only.
    message += far.handle.no_multicast_reason();
    far.group.leave(kTestTimeout);
    return message;
  });
  EXPECT_THAT(ranks.results(), Each("rank 0: multicast of this back end does not span machines"));
}

TEST_F(SymmetricFabric, UsesDescriptorsByDefault) {
  RankProcesses ranks(2, on_standin_gpu([](const StandinGpuRank& own) -> std::string {
                        return join_and_check(own.rank, own.device,
                                              SymmetricRank::group_options(own.rank));
                      }));
  EXPECT_THAT(gpu_results(ranks), Each("not requested"));
}

TEST_F(SymmetricFabric, UsesFabricWhenADeviceLacksDescriptors) {
  const auto without_fd = [](int rank) {
    StandinDriver driver;
    if (rank == 1) driver.features.export_fd = false;
    return driver;
  };
  RankProcesses ranks(2, on_standin_gpu(without_fd, [](const StandinGpuRank& own) -> std::string {
                        return join_and_check(own.rank, own.device,
                                              SymmetricRank::group_options(own.rank));
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

StandinDriver without_fabric_on_rank_1(int rank) {
  StandinDriver driver;
  if (rank == 1) driver.features.export_fabric = false;
  return driver;
}

TEST_F(SymmetricFabric, UsesDescriptorsWhenADeviceLacksFabric) {
  RankProcesses ranks(
      3, on_standin_gpu(without_fabric_on_rank_1, [](const StandinGpuRank& own) -> std::string {
        return join_and_check(own.rank, own.device, by_fabric(own.rank));
      }));
  EXPECT_THAT(gpu_results(ranks),
              Each(AllOf(StartsWith("not all ranks have fabric handles: rank 0: it has, rank 1: "
                                    "device 1 of cuda (Ashlar stand-in GPU) has no fabric handles"),
                         Not(HasSubstr("wrong")), Not(HasSubstr("leaked")))));
}

TEST_F(SymmetricFabric, RejectsRemoteDeviceWithoutFabric) {
  RankProcesses ranks(
      3, on_standin_gpu(without_fabric_on_rank_1, [](const StandinGpuRank& own) -> std::string {
        const GroupOptions options = SymmetricRank::group_options(own.rank);
        const std::string machine = text("machine ", own.rank.rank);
        return error_message(
            [&] { const FabricRank member(own.rank, own.device, options, machine); });
      }));
  EXPECT_THAT(gpu_results(ranks),
              Each(AllOf(HasSubstr("ranks 1 and 2 of group world are on another machine"),
                         HasSubstr("rank 1: device 1 of cuda"), Not(HasSubstr("leaked")))));
}

struct FabricFault {
  const char* call = "";
  int rank = 0;
};

constexpr FabricFault kFabricFaults[] = {{"cuMemExportToShareableHandle", 0},
                                         {"cuMemExportToShareableHandle", 2},
                                         {"cuMemImportFromShareableHandle", 1}};

// Injects the fault after the group has been joined, so that the exchange of a buffer fails.
// Returns the reason for the fallback, or the error.
std::string rendezvous_with(const StandinGpuRank& own, FabricRank& member,
                            const FabricFault& fault) {
  const size_t extents = own.driver.extent_count();
  if (own.rank.rank == fault.rank) own.driver.set_result(fault.call, standin::kNotPermitted);
  SymmetricBuffer buffer = member.heap.allocate(kFabricBytes);
  std::optional<Handle> handle;
  std::string message =
      error_message([&] { handle.emplace(member.group.rendezvous(buffer, kTestTimeout)); });
  own.driver.set_result(fault.call, standin::kDone);
  if (handle) {
    const int mark = own.rank.rank;
    handle->put((mark + 1) % handle->world_size(), std::as_bytes(std::span(&mark, 1)));
    member.group_barrier();
    int found = -1;
    handle->get(mark, std::as_writable_bytes(std::span(&found, 1)));
    member.group_barrier();
    const bool is_right = (found + 1) % handle->world_size() == mark;
    message = is_right ? handle->no_fabric_reason() : "wrong bytes";
  }
  handle.reset();
  buffer.reset();
  if (own.driver.extent_count() != extents) message += " [leaked extents]";
  return message + '\n';
}

TEST_F(SymmetricFabric, FallsBackToDescriptorsWhenOneRankFails) {
  RankProcesses ranks(3, on_standin_gpu([](const StandinGpuRank& own) -> std::string {
                        FabricRank member(own.rank, own.device, by_fabric(own.rank));
                        std::string message;
                        for (const FabricFault& each : kFabricFaults) {
                          message += rendezvous_with(own, member, each);
                        }
                        const SymmetricBuffer buffer = member.heap.allocate(kFabricBytes);
                        const Handle handle = member.group.rendezvous(buffer, kTestTimeout);
                        message += handle.no_fabric_reason();
                        member.group.leave(kTestTimeout);
                        return message;
                      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_THAT(
      results,
      Each(AllOf(
          StartsWith("not all ranks exported a fabric handle: rank 0: "
                     "cuMemExportToShareableHandle"),
          HasSubstr("rank 2: cuMemExportToShareableHandle: CUDA_ERROR_NOT_PERMITTED"),
          HasSubstr("\nrank 1: the fabric handle of rank 0: cuMemImportFromShareableHandle: "),
          Not(HasSubstr("leaked")), Not(HasSubstr("wrong")))));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(SymmetricFabric, FailsOnAllRanksWithoutFallback) {
  RankProcesses ranks(3, on_standin_gpu([](const StandinGpuRank& own) -> std::string {
                        const GroupOptions options = SymmetricRank::group_options(own.rank);
                        FabricRank member(own.rank, own.device, options,
                                          text("machine ", own.rank.rank));
                        std::string message;
                        for (const FabricFault& each : kFabricFaults) {
                          message += rendezvous_with(own, member, each);
                        }
                        const std::string wrong = member.check_memory();
                        member.group.leave(kTestTimeout);
                        return message + wrong;
                      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_THAT(results[0], AllOf(StartsWith("unsupported: not all ranks exported a fabric handle: "),
                                HasSubstr("\ndevice fault: rank 1: the fabric handle of rank 0: "),
                                Not(HasSubstr("leaked"))));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// Ranks on different machines have no connection; only the missing heartbeats reveal the death.
TEST_F(SymmetricFabric, DetectsRemoteDeathByMissingHeartbeats) {
  RankProcesses ranks(2, on_standin_gpu([](const StandinGpuRank& own) -> std::string {
                        const GroupOptions options = SymmetricRank::group_options(own.rank);
                        const FabricRank member(own.rank, own.device, options,
                                                text("machine ", own.rank.rank));
                        member.group_barrier();
                        if (own.rank.rank == 1) ::kill(::getpid(), SIGKILL);
                        return error_message([&] { member.group_barrier(); });
                      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_THAT(results[0], AllOf(HasSubstr("rank 1"), HasSubstr("sent no heartbeat")));
  EXPECT_EQ(results[1], "killed");
}

}  // namespace
}  // namespace ashlar::symm
