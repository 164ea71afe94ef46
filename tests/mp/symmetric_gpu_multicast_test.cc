// SPDX-License-Identifier: Apache-2.0
//
// Multicast of CUDA devices with real processes, by the calls of a stand-in driver: set up together
// or not at all, for one reason that all know, and nothing of it left. Row 14 of the checklist, for
// hardware's own calls. Long because each way in which one set-up can end is tried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <thread>

#include "base/text.h"
#include "base/units.h"
#include "mp/multimem_program.h"
#include "mp/own_gpu_rank.h"
#include "symm/backends/cuda/kernel_image.h"

namespace ashlar::symm {
namespace {

using ::testing::StartsWith;

// Below the facade's defaults: no thresholds, no sharing of devices.
RankOnDevice joined(const OwnGpuRank& own) {
  return {own.rank, own.device, gpu_group_options(own.rank, false)};
}

// Bytes go to the next rank, whatever has become of multicast.
std::string try_memory(RankOnDevice& own, int mark) {
  const int count = own.handle.world_size();
  const int next = (own.handle.rank() + 1) % count;
  const int value = 100 * mark + own.handle.rank();
  own.handle.put(next, std::as_bytes(std::span(&value, 1)));
  own.group.barrier(0, kPatience);
  const int found = own.read<int>(1)[0];
  own.group.barrier(0, kPatience);
  return found == 100 * mark + (own.handle.rank() + count - 1) % count ? "" : "other bytes";
}

class SymmetricCudaMulticasts : public SymmetricGpuKernels,
                                public ::testing::WithParamInterface<int> {};
using SymmetricCudaMulticast = SymmetricGpuKernels;

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricCudaMulticasts, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricCudaMulticasts, Row14ItIsSetUpByTheDriversCallsAndGoesWithTheMemory) {
  Ranks ranks(GetParam(), on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                if (!own.handle.no_multicast_reason().empty()) {
                  return own.handle.no_multicast_reason();
                }
                if (own.handle.multicast_ptr() == nullptr) return "no address";
                const Handle inside = own.group.rendezvous(own.buffer.data() + 512, kPatience);
                if (inside.multicast_ptr() != own.handle.multicast_ptr() + 512) return "offset";
                // The buffer and the scratch; neither pads nor what rank 0 created.
                if (rank.driver.multicast_count() != 2) return "other objects";
                const auto at = reinterpret_cast<uint64_t>(own.handle.multicast_ptr());
                const AddressDescription there = *rank.device.describe(DeviceAddress(at));
                if (there.kind != MemoryKind::kUnknown) return "memory for everybody";
                std::string wrong = try_memory(own, 1);
                own.group.leave(kPatience);
                return wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

struct DriverFault {
  const char* call = "";
  int code = 0;
  std::set<int> ranks{};
};

const std::vector<DriverFault>& driver_faults() {
  using namespace standin;
  static const std::vector<DriverFault> all = {
      {"cuMulticastCreate", kNotSupported, {0}},
      {"cuMemExportToShareableHandle", kNotPermitted, {0}},
      {"cuMemImportFromShareableHandle", kInvalidValue, {1}},
      {"cuMemImportFromShareableHandle", kUnknown, {0, 1, 2}},
      // As for a device that takes part already.
      {"cuMulticastAddDevice", kInvalidValue, {2}},
      {"cuMulticastAddDevice", kInvalidValue, {0}},
      {"cuMulticastBindMem", kSystemNotReady, {1}},
      {"cuMulticastBindMem", kNoMemory, {0, 2}},
      {"cuMemMap", kUnknown, {1}},
      {"cuMemSetAccess", kNotSupported, {0}},
  };
  return all;
}

// What is wrong; the reason goes to `reasons`.
std::string try_driver_fault(const OwnGpuRank& rank, RankOnDevice& own, const DriverFault& fault,
                             std::string& reasons) {
  const size_t objects = rank.driver.multicast_count();
  if (fault.ranks.contains(rank.rank.rank)) rank.driver.tell(fault.call, fault.code);
  const Buffer buffer = own.heap.allocate(4096);
  const Handle handle = own.group.rendezvous(buffer, kPatience);
  rank.driver.tell(fault.call, standin::kDone);
  if (handle.multicast_ptr() != nullptr) return text(fault.call, ": multicast after all; ");
  const std::string& reason = handle.no_multicast_reason();
  const std::string blamed = text("rank ", *fault.ranks.begin(), ": ");
  if (!reason.starts_with(blamed)) return text("another rank is blamed: ", reason, "; ");
  reasons += reason + '\n';
  if (rank.driver.multicast_count() != objects) return text(fault.call, ": objects are left; ");
  const std::string said = thrown_by([&] { handle.multimem_all_reduce(1, {}, {}); });
  if (said.find("this memory has no multicast: " + blamed) == std::string::npos) return said;
  return {};
}

TEST_F(SymmetricCudaMulticast, Row14AFailureOfAnyDriversCallOnAnyRankDegradesAllForOneReason) {
  Ranks ranks(3, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                std::string reasons;
                int mark = 0;
                for (const DriverFault& each : driver_faults()) {
                  std::string wrong = try_driver_fault(rank, own, each, reasons);
                  wrong += try_memory(own, ++mark);
                  if (!wrong.empty()) return text("rank ", rank.rank.rank, ": ", wrong);
                }
                const Buffer buffer = own.heap.allocate(4096);
                const Handle handle = own.group.rendezvous(buffer, kPatience);
                if (handle.multicast_ptr() == nullptr) return "no multicast any more";
                own.group.leave(kPatience);
                return reasons;
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_THAT(said[0], AllOf(StartsWith("rank 0: cuMulticastCreate: CUDA_ERROR_NOT_SUPPORTED"),
                             HasSubstr("\nrank 1: cuMemImportFromShareableHandle: "),
                             HasSubstr("\nrank 2: cuMulticastAddDevice: "),
                             HasSubstr("cuMulticastBindMem: CUDA_ERROR_SYSTEM_NOT_READY"),
                             HasSubstr("; rank 2: "), Not(HasSubstr("left]"))));
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], said[2]);
}

std::string reason_of(const OwnGpuRank& rank) {
  RankOnDevice own = joined(rank);
  if (own.handle.multicast_ptr() != nullptr) return "it has";
  const std::string wrong = try_memory(own, 1);
  const std::string reason = own.handle.no_multicast_reason();
  own.group.leave(kPatience);
  return reason + wrong;
}

TEST_F(SymmetricCudaMulticast, Row14IfADriverLacksItOnOneRankAllSayWho) {
  const auto weak = [](int rank) {
    OwnDriver driver;
    if (rank == 1) driver.abilities.multicast = false;
    if (rank == 2) driver.library = ASHLAR_OLD_CUDA_STANDIN;
    return driver;
  };
  Ranks ranks(3, on_own_gpu(weak, reason_of));
  EXPECT_THAT(
      outcomes_of(ranks),
      Each(AllOf(StartsWith("not all ranks have multicast: rank 0: it has, rank 1: the "
                            "driver says that this device has none"),
                 HasSubstr("rank 2: this driver knows nothing of it"), Not(HasSubstr("left]")))));
}

TEST_F(SymmetricCudaMulticast, ADriverFromBeforeIsAsGoodForAllElse) {
  const auto old = [](int) {
    OwnDriver driver;
    driver.library = ASHLAR_OLD_CUDA_STANDIN;
    return driver;
  };
  Ranks ranks(2, on_own_gpu(old, reason_of));
  EXPECT_THAT(outcomes_of(ranks),
              Each("this driver knows nothing of it: CUDA 12.1 is the first whose driver does"));
}

TEST_F(SymmetricCudaMulticast, SeveralRanksOnOneDeviceGoOnWithout) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                // All have a device 0 by that name.
                const std::unique_ptr<DeviceSet> same =
                    *open_cuda({.library = ASHLAR_CUDA_STANDIN});
                RankOnDevice own(rank.rank, same->device(DeviceIndex(0)),
                                 gpu_group_options(rank.rank, true));
                const std::string wrong = try_memory(own, 1);
                const std::string reason = own.handle.no_multicast_reason();
                own.group.leave(kPatience);
                return reason + wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks),
              Each("ranks may share devices, which multicast does not support"));
}

// A block is as large as can be bound, and its addresses as aligned as they must be.
TEST_F(SymmetricCudaMulticast, BlocksAreMultiplesOfItsGranularity) {
  const auto coarse = [](int) {
    OwnDriver driver;
    driver.abilities.multicast_granules = 8;
    driver.abilities.alignment = false;
    return driver;
  };
  Ranks ranks(2, on_own_gpu(coarse, reason_of));
  EXPECT_THAT(outcomes_of(ranks), Each("it has"));
}

TEST_F(SymmetricCudaMulticast, Row05ItIsReleasedBeforeTheLocalMemoryWhoeverFreesFirst) {
  for (const bool is_buffer_first : {true, false}) {
    Ranks ranks(2, on_own_gpu([is_buffer_first](const OwnGpuRank& rank) -> std::string {
                  RankOnDevice own = joined(rank);
                  Buffer buffer = own.heap.allocate(4096);
                  std::optional<Handle> handle = own.group.rendezvous(buffer, kPatience);
                  const size_t objects = rank.driver.multicast_count();
                  if (is_buffer_first) buffer.reset();
                  handle.reset();
                  buffer.reset();
                  // Unbinding memory that is gone fails, and the object would stay.
                  if (rank.driver.multicast_count() != objects - 1) return "an object is left";
                  own.group.leave(kPatience);
                  return {};
                }));
    EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
  }
}

// Objects of a driver that a passing handle takes with it.
size_t gone_with_a_handle(const OwnGpuRank& rank, RankOnDevice& own) {
  Buffer buffer = own.heap.allocate(4096);
  std::optional<Handle> handle = own.group.rendezvous(buffer, kPatience);
  const size_t objects = rank.driver.multicast_count();
  handle.reset();
  buffer.reset();
  return objects - rank.driver.multicast_count();
}

// Nobody stores anything because of a signal that did not come; a collective may have others in the
// middle.
TEST_F(SymmetricCudaMulticast, Row05ItStaysAfterACollectiveThatTimedOutAndNotAfterASignal) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                const StreamId stream = *own.device().create_stream();
                const milliseconds soon(20);
                const auto after = [&](const std::function<void()>& act) -> size_t {
                  if (rank.rank.rank == 0 && thrown_by(act).find("timeout") != 0) return 100;
                  own.group.barrier(0, kPatience);
                  return gone_with_a_handle(rank, own);
                };
                std::string wrong;
                if (after([&] { own.handle.wait_signal(1, 3, soon); }) != 1) wrong += "signal; ";
                const auto in_stream = [&] {
                  own.handle.wait_signal(1, 3, soon, stream);
                  own.group.finish(stream);
                };
                if (after(in_stream) != 1) wrong += "signal in a stream; ";
                const auto barrier = [&] { own.group.barrier(5, soon); };
                if (after(barrier) != 1) wrong += "barrier; ";
                CollectiveOptions options = patient();
                options.timeout = soon;
                const auto reduce = [&] { own.handle.two_shot_all_reduce(10, {}, options); };
                if (after(reduce) != (rank.rank.rank == 0 ? 0U : 1U)) wrong += "collective; ";
                own.handle.two_shot_all_reduce(10, {}, patient());
                own.group.barrier(5, kPatience);
                own.group.leave(kPatience);
                return wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

// Rank 1 is gone. Rank 0 drops all but its heap, while rank 2 may be storing through the switch.
TEST_F(SymmetricCudaMulticast, Row20ItStaysWithTheHeapWhenAGroupThatFailedIsDropped) {
  Ranks ranks(3, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                std::optional<RankOnDevice> own = joined(rank);
                if (rank.rank.rank == 1) ::raise(SIGKILL);
                const Deadline end = Deadline::after(kPatience);
                while (own->group.failure().ok()) {
                  if (end.has_passed()) return "nobody is lost";
                  std::this_thread::sleep_for(milliseconds(5));
                }
                const size_t objects = rank.driver.multicast_count();
                const Heap heap = own->heap;
                own.reset();
                return rank.driver.multicast_count() == objects ? "" : "let go of";
              }));
  std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_EQ(said[1], "killed");
  said.erase(said.begin() + 1);
  EXPECT_THAT(said, Each(IsEmpty()));
}

// --- kernels that go through it -----------------------------------------------------------------

// Only machine code has them: PTX is for GPUs before multicast.
bool image_has_multimem() {
  const char* image = static_cast<const char*>(kernel_image());
  return image[0] != '/' && image[0] != '.';
}

// Sums, and a reduction that no switch does; at aligned places and at others; with elements left
// over. What is wrong.
template <typename T>
std::string try_multimem_reduce(RankOnDevice& own, Reduction what, int64_t offset,
                                std::optional<StreamId> stream) {
  constexpr size_t kCount = 3001;
  const int count = own.handle.world_size();
  own.write(std::vector<uint8_t>(RankOnDevice::kBytes, 0x5A));
  std::vector<T> values(kCount);
  std::vector<T> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<T>(static_cast<int>(i % 97) + own.handle.rank());
    const int sum = count * static_cast<int>(i % 97) + count * (count - 1) / 2;
    const int least = static_cast<int>(i % 97);
    expected[i] = static_cast<T>(what.op == ReduceOp::kSum ? sum : least);
  }
  own.write(values, offset);
  own.group.barrier(0, kPatience);
  CollectiveOptions options = patient(offset);
  options.stream = stream;
  own.handle.multimem_all_reduce(kCount, what, options);
  if (stream) own.group.finish(*stream);
  const auto end = offset + static_cast<int64_t>(kCount * sizeof(T));
  std::string wrong;
  if (own.read<T>(kCount, offset) != expected) wrong += text("sum of ", name(what.type), "; ");
  if (offset > 0 && own.read<uint8_t>(1, offset - 1)[0] != 0x5A) wrong += "written before; ";
  if (own.read<uint8_t>(1, end)[0] != 0x5A) wrong += "written behind; ";
  own.group.barrier(0, kPatience);
  return wrong;
}

// As many ones as there are ranks: 1, 2, 3 and 4.
std::string try_multimem_halves(RankOnDevice& own, ElementType type) {
  const bool is_f16 = type == ElementType::kF16;
  const std::vector<uint16_t> sums = is_f16 ? std::vector<uint16_t>{0x3C00, 0x4000, 0x4200, 0x4400}
                                            : std::vector<uint16_t>{0x3F80, 0x4000, 0x4040, 0x4080};
  const std::vector<uint16_t> ones(1003, sums[0]);
  own.write(ones);
  own.group.barrier(0, kPatience);
  own.handle.multimem_all_reduce(1003, {type, ReduceOp::kSum}, patient());
  const auto sum = sums[static_cast<size_t>(own.handle.world_size()) - 1];
  const bool is_right = own.read<uint16_t>(1003) == std::vector<uint16_t>(1003, sum);
  own.group.barrier(0, kPatience);
  return is_right ? "" : text("sum of ", name(type), "; ");
}

std::string try_multimem_gather(RankOnDevice& own, size_t words) {
  const auto ranks = static_cast<size_t>(own.handle.world_size());
  own.write(std::vector<int>(RankOnDevice::kBytes / 4, -1));
  const std::vector<int> share(words, own.handle.rank());
  own.scratch_handle.put(own.handle.rank(), std::as_bytes(std::span(share)));
  own.group.barrier(0, kPatience);
  own.handle.multimem_all_gather(own.scratch.data(), static_cast<int64_t>(4 * words), patient(512));
  const std::vector<int> found = own.read<int>(ranks * words + 1, 512);
  for (size_t i = 0; i < ranks * words; ++i) {
    if (found[i] != static_cast<int>(i / words)) return text("a share of ", words, " words; ");
  }
  own.group.barrier(0, kPatience);
  return found.back() == -1 ? "" : "gathered behind; ";
}

TEST_P(SymmetricCudaMulticasts, Row14MultimemCollectivesGoThroughTheSwitchWhereItCanDoThem) {
  Ranks ranks(GetParam(), on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                const StreamId stream = *own.device().create_stream();
                const bool is_alone = rank.rank.world_size == 1;
                const bool has_kernels = image_has_multimem();
                auto launched_since = [&, before = size_t{0}]() mutable {
                  const size_t now = rank.driver.multimem_count();
                  return now - std::exchange(before, now);
                };
                (void)launched_since();
                std::string wrong;
                const Reduction ints{ElementType::kI32, ReduceOp::kSum};
                const Reduction longs{ElementType::kI64, ReduceOp::kSum};
                wrong += try_multimem_reduce<float>(own, {}, 0, {});
                wrong += try_multimem_reduce<double>(own, {ElementType::kF64}, 16, {});
                wrong += try_multimem_reduce<int>(own, ints, 48, stream);
                wrong += try_multimem_reduce<int64_t>(own, longs, 0, stream);
                wrong += try_multimem_halves(own, ElementType::kF16);
                wrong += try_multimem_halves(own, ElementType::kBf16);
                if (launched_since() != (has_kernels && !is_alone ? 6U : 0U))
                  wrong += "no switch; ";
                const Reduction least{ElementType::kI32, ReduceOp::kMin};
                const Reduction shorts{ElementType::kI16, ReduceOp::kSum};
                wrong += try_multimem_reduce<int>(own, least, 0, {});
                wrong += try_multimem_reduce<int16_t>(own, shorts, 0, {});
                wrong += try_multimem_reduce<int>(own, ints, 4, stream);
                if (launched_since() != 0) wrong += "a switch that cannot; ";
                for (const size_t words : {4U, 64U, 6U, 1U}) {
                  wrong += try_multimem_gather(own, words);
                }
                if (has_kernels && launched_since() == 0) wrong += "gathered otherwise; ";
                own.group.barrier(0, kPatience);
                own.group.leave(kPatience);
                return wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

// Sums to elsewhere and puts, where all is aligned and where it is not.
TEST_P(SymmetricCudaMulticasts, Row14SumsToElsewhereAndPutsGoThroughTheSwitchToo) {
  Ranks ranks(GetParam(), on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                std::string wrong = run_multimem_program(own);
                const bool has_kernels = image_has_multimem();
                const size_t kernels = has_kernels && rank.rank.world_size > 1 ? 1 : 0;
                const int root = rank.rank.world_size - 1;
                size_t before = rank.driver.multimem_count();
                const auto expect = [&](size_t launched, const char* what) {
                  const size_t now = rank.driver.multimem_count();
                  if (now - std::exchange(before, now) != launched) wrong += what;
                };
                wrong += try_multimem_to_out(own, {.root = {}, .offset = 16});
                expect(kernels, "no switch; ");
                wrong += try_multimem_to_out(own, {.root = root});
                expect(rank.rank.rank == root ? kernels : 0, "no switch at the root; ");
                wrong += try_multimem_to_out(own, {.root = root, .shift = 4});
                expect(0, "a switch, but not aligned; ");
                wrong += try_multimem_put(own, 16, 1000, {});
                expect(has_kernels ? 1 : 0, "put otherwise; ");
                wrong += try_multimem_put(own, 4, 1000, {});
                expect(0, "put there, but not aligned; ");
                own.group.leave(kPatience);
                return wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricCudaMulticast, Row13MistakesAreRefusedBeforeAnythingIsLaunched) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                const size_t before = rank.driver.multimem_count();
                std::string wrong = rank.rank.rank == 1 ? make_multimem_mistakes(own) : "";
                if (rank.driver.multimem_count() != before) wrong += "launched";
                wrong += try_multimem_put(own, 0, 100, {});
                own.group.leave(kPatience);
                return wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

// Tables go with the group, and nothing of them is left in the driver.
TEST_F(SymmetricCudaMulticast, TablesOfAddressesAreFreedWithTheGroup) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own = joined(rank);
                const size_t extents = rank.driver.extent_count();
                (void)own.handle.buffer_ptrs_on_device();
                (void)own.handle.signal_pad_ptrs_on_device();
                (void)own.scratch_handle.buffer_ptrs_on_device();
                if (rank.driver.extent_count() != extents + 1) return "not one piece of memory";
                own.group.leave(kPatience);
                return {};
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
