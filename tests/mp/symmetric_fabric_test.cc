// SPDX-License-Identifier: Apache-2.0
//
// Memory of devices that travels from rank to rank as fabric handles: because ranks asked for it,
// or because they are on different machines, which here are processes that say so. All ranks by the
// same way, or none; and who could not, and why, is told to all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"
#include "mp/own_gpu_rank.h"

namespace ashlar::symm {
namespace {

using ::testing::StartsWith;

constexpr size_t kBytes = 3 * kMiB;

GroupOptions by_fabric(const BareRank& rank) {
  GroupOptions options = SymmetricRank::group_options(rank);
  options.use_fabric = true;
  return options;
}

struct FabricRank {
  FabricRank(const BareRank& rank, Device& device, const GroupOptions& options,
             const std::string& machine = {})
      : heap(heap_options(device, machine)),
        group(Group::join(heap, rank.store, options)),
        buffer(heap.allocate(kBytes)),
        handle(group.rendezvous(buffer, kPatience)) {}

  static HeapOptions heap_options(Device& device, const std::string& machine) {
    HeapOptions options = SymmetricRank::heap_options();
    options.device = &device;
    options.machine = machine;
    return options;
  }

  // What is wrong with bytes that go all ways, and with a sum by kernels.
  std::string try_memory() const {
    const int count = handle.world_size();
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    CollectiveOptions patient;
    patient.timeout = kPatience;
    const std::vector<int> ones(1000, handle.rank() + 1);
    handle.put(handle.rank(), std::as_bytes(std::span(ones)));
    group_barrier();
    handle.all_reduce(1000, sum, patient);
    std::vector<int> found(1000);
    handle.get((handle.rank() + 1) % count, std::as_writable_bytes(std::span(found)));
    const std::vector<int> all(1000, count * (count + 1) / 2);
    group_barrier();
    return found == all ? "" : "another sum";
  }
  void group_barrier() const { handle.barrier(0, kPatience); }

  Heap heap;
  Group group;
  Buffer buffer;
  Handle handle;
};

std::string joined_and_tried(const BareRank& rank, Device& device, const GroupOptions& options,
                             const std::string& machine = {}) {
  FabricRank own(rank, device, options, machine);
  for (int peer = 0; peer < rank.world_size; ++peer) {
    if (own.handle.peer_access(peer) != PeerAccess::kDirect) return "not direct";
  }
  const std::string wrong = own.try_memory();
  const std::string reason = own.handle.no_fabric_reason();
  own.group.leave(kPatience);
  return reason + wrong;
}

class SymmetricFabrics : public SymmetricGpuKernels, public ::testing::WithParamInterface<int> {};
using SymmetricFabric = SymmetricGpuKernels;

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricFabrics, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricFabrics, RanksThatAskForItHandTheirMemoryOverAsFabricHandles) {
  Ranks ranks(GetParam(), on_own_gpu([](const OwnGpuRank& own) -> std::string {
                return joined_and_tried(own.rank, own.device, by_fabric(own.rank));
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_P(SymmetricFabrics, RanksOnSeveralMachinesNeedNotAskAndHaveMulticastToo) {
  Ranks ranks(GetParam(), on_own_gpu([](const OwnGpuRank& own) -> std::string {
                const GroupOptions options = SymmetricRank::group_options(own.rank);
                // Two on each machine.
                const std::string machine = text("machine ", own.rank.rank / 2);
                FabricRank member(own.rank, own.device, options, machine);
                const std::string wrong = member.try_memory();
                const std::string multicast = member.handle.no_multicast_reason();
                const bool is_far = own.rank.world_size > 2;
                const std::string fabric = member.handle.no_fabric_reason();
                member.group.leave(kPatience);
                if (is_far != fabric.empty()) return text("by fabric? ", fabric);
                return wrong + multicast;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricFabric, SimulatedDevicesHaveItToo) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    Device& device = machine->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    const std::string there = text("machine ", rank.rank);
    std::string said = joined_and_tried(rank, device, by_fabric(rank));
    FabricRank far(rank, device, SymmetricRank::group_options(rank), there);
    said += far.try_memory() + far.handle.no_fabric_reason();
    // Its multicast is known on one machine only.
    said += far.handle.no_multicast_reason();
    far.group.leave(kPatience);
    return said;
  });
  EXPECT_THAT(ranks.outcomes(),
              Each("rank 0: multicast of this back end does not get to other machines"));
}

TEST_F(SymmetricFabric, WhoDoesNotAskIsGivenDescriptors) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& own) -> std::string {
                return joined_and_tried(own.rank, own.device,
                                        SymmetricRank::group_options(own.rank));
              }));
  EXPECT_THAT(outcomes_of(ranks), Each("not requested"));
}

TEST_F(SymmetricFabric, ADeviceWithoutDescriptorsMakesAllUseFabricHandles) {
  const auto without_fd = [](int rank) {
    OwnDriver driver;
    if (rank == 1) driver.abilities.fd = false;
    return driver;
  };
  Ranks ranks(2, on_own_gpu(without_fd, [](const OwnGpuRank& own) -> std::string {
                return joined_and_tried(own.rank, own.device,
                                        SymmetricRank::group_options(own.rank));
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

// --- where it does not work ---------------------------------------------------------------------

OwnDriver without_fabric_on_rank_1(int rank) {
  OwnDriver driver;
  if (rank == 1) driver.abilities.fabric = false;
  return driver;
}

TEST_F(SymmetricFabric, ADeviceWithoutItMakesAllUseDescriptors) {
  Ranks ranks(3, on_own_gpu(without_fabric_on_rank_1, [](const OwnGpuRank& own) -> std::string {
                return joined_and_tried(own.rank, own.device, by_fabric(own.rank));
              }));
  EXPECT_THAT(outcomes_of(ranks),
              Each(AllOf(StartsWith("not all ranks have fabric handles: rank 0: it has, rank 1: "
                                    "device 1 of cuda (Ashlar stand-in GPU) has no fabric handles"),
                         Not(HasSubstr("another")), Not(HasSubstr("left]")))));
}

TEST_F(SymmetricFabric, ADeviceWithoutItOnAnotherMachineCannotBeInTheGroup) {
  Ranks ranks(
      3, on_own_gpu(without_fabric_on_rank_1, [](const OwnGpuRank& own) -> std::string {
        const GroupOptions options = SymmetricRank::group_options(own.rank);
        const std::string machine = text("machine ", own.rank.rank);
        return thrown_by([&] { const FabricRank member(own.rank, own.device, options, machine); });
      }));
  EXPECT_THAT(outcomes_of(ranks),
              Each(AllOf(HasSubstr("ranks 1 and 2 of group world are on another machine"),
                         HasSubstr("rank 1: device 1 of cuda"), Not(HasSubstr("left]")))));
}

struct FabricFault {
  const char* call = "";
  int rank = 0;
};

constexpr FabricFault kFabricFaults[] = {{"cuMemExportToShareableHandle", 0},
                                         {"cuMemExportToShareableHandle", 2},
                                         {"cuMemImportFromShareableHandle", 1}};

// After the group was joined: the buffer's handle is refused, the pads' was not. Why it came
// otherwise, or what was thrown.
std::string rendezvous_with(const OwnGpuRank& own, FabricRank& member, const FabricFault& fault) {
  const size_t extents = own.driver.extent_count();
  if (own.rank.rank == fault.rank) own.driver.tell(fault.call, standin::kNotPermitted);
  Buffer buffer = member.heap.allocate(kBytes);
  std::optional<Handle> handle;
  std::string said = thrown_by([&] { handle.emplace(member.group.rendezvous(buffer, kPatience)); });
  own.driver.tell(fault.call, standin::kDone);
  if (handle) {
    const int mark = own.rank.rank;
    handle->put((mark + 1) % handle->world_size(), std::as_bytes(std::span(&mark, 1)));
    member.group_barrier();
    int found = -1;
    handle->get(mark, std::as_writable_bytes(std::span(&found, 1)));
    member.group_barrier();
    const bool is_right = (found + 1) % handle->world_size() == mark;
    said = is_right ? handle->no_fabric_reason() : "another's bytes";
  }
  handle.reset();
  buffer.reset();
  if (own.driver.extent_count() != extents) said += " [extents are left]";
  return said + '\n';
}

TEST_F(SymmetricFabric, AHandleThatIsRefusedOnOneRankMakesAllUseDescriptorsForThatMemory) {
  Ranks ranks(3, on_own_gpu([](const OwnGpuRank& own) -> std::string {
                FabricRank member(own.rank, own.device, by_fabric(own.rank));
                std::string said;
                for (const FabricFault& each : kFabricFaults) {
                  said += rendezvous_with(own, member, each);
                }
                const Buffer buffer = member.heap.allocate(kBytes);
                const Handle handle = member.group.rendezvous(buffer, kPatience);
                said += handle.no_fabric_reason();
                member.group.leave(kPatience);
                return said;
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_THAT(
      said,
      Each(AllOf(
          StartsWith("not all ranks gave a fabric handle: rank 0: "
                     "cuMemExportToShareableHandle"),
          HasSubstr("rank 2: cuMemExportToShareableHandle: CUDA_ERROR_NOT_PERMITTED"),
          HasSubstr("\nrank 1: the fabric handle of rank 0: cuMemImportFromShareableHandle: "),
          Not(HasSubstr("left]")), Not(HasSubstr("another's")))));
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], said[2]);
}

TEST_F(SymmetricFabric, WhereThereIsNoOtherWayAllFailForThatReasonAndGoOn) {
  Ranks ranks(3, on_own_gpu([](const OwnGpuRank& own) -> std::string {
                const GroupOptions options = SymmetricRank::group_options(own.rank);
                FabricRank member(own.rank, own.device, options, text("machine ", own.rank.rank));
                std::string said;
                for (const FabricFault& each : kFabricFaults) {
                  said += rendezvous_with(own, member, each);
                }
                const std::string wrong = member.try_memory();
                member.group.leave(kPatience);
                return said + wrong;
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_THAT(said[0], AllOf(StartsWith("unsupported: not all ranks gave a fabric handle: "),
                             HasSubstr("\ndevice fault: rank 1: the fabric handle of rank 0: "),
                             Not(HasSubstr("left]"))));
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], said[2]);
}

// Nobody is connected to a rank of another machine: its signs of life end.
TEST_F(SymmetricFabric, ADeathOnAnotherMachineIsFoundByItsSignsOfLife) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& own) -> std::string {
                const GroupOptions options = SymmetricRank::group_options(own.rank);
                const FabricRank member(own.rank, own.device, options,
                                        text("machine ", own.rank.rank));
                member.group_barrier();
                if (own.rank.rank == 1) ::kill(::getpid(), SIGKILL);
                return thrown_by([&] { member.group_barrier(); });
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_THAT(said[0], AllOf(HasSubstr("rank 1"), HasSubstr("sent no heartbeat")));
  EXPECT_EQ(said[1], "killed");
}

}  // namespace
}  // namespace ashlar::symm
