// SPDX-License-Identifier: Apache-2.0
//
// Multicast of CUDA devices on the stand-in driver, in several processes. Either all ranks set it
// up, or none does and all report the same reason. Nothing leaks. The file is long because it
// covers every way in which setup can fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <thread>

#include "base/text.h"
#include "base/units.h"
#include "mp/harness/multimem_program.h"
#include "mp/harness/standin_gpu_rank.h"
#include "symm/backends/cuda/kernel_image.h"

namespace ashlar::symm {
namespace {

using ::testing::StartsWith;

// Joins without measuring thresholds and without sharing devices.
DeviceRank join_rank(const StandinGpuRank& own) {
  return {own.rank, own.device, gpu_group_options(own.rank, false)};
}

// Checks a put to the next rank, which must work with and without multicast.
std::string check_put(DeviceRank& own, int mark) {
  const int count = own.handle.world_size();
  const int next = (own.handle.rank() + 1) % count;
  const int value = 100 * mark + own.handle.rank();
  own.handle.put(next, std::as_bytes(std::span(&value, 1)));
  own.group.barrier(0, kTestTimeout);
  const int found = own.read<int>(1)[0];
  own.group.barrier(0, kTestTimeout);
  return found == 100 * mark + (own.handle.rank() + count - 1) % count ? "" : "wrong data";
}

class SymmetricCudaMulticastRanks : public SymmetricGpuKernels,
                                    public ::testing::WithParamInterface<int> {};
using SymmetricCudaMulticast = SymmetricGpuKernels;

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricCudaMulticastRanks, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricCudaMulticastRanks, IsSetUpByDriverAndFreedWithMemory) {
  RankProcesses ranks(
      GetParam(), on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
        DeviceRank own = join_rank(rank);
        if (!own.handle.no_multicast_reason().empty()) {
          return own.handle.no_multicast_reason();
        }
        if (own.handle.multicast_ptr() == nullptr) return "no address";
        const Handle inside = own.group.rendezvous(own.buffer.data() + 512, kTestTimeout);
        if (inside.multicast_ptr() != own.handle.multicast_ptr() + 512) return "offset";
        // The buffer and the scratch buffer have one object each; the pads have none.
        if (rank.driver.multicast_count() != 2) return "wrong number of multicast objects";
        const auto at = reinterpret_cast<uint64_t>(own.handle.multicast_ptr());
        const AddressDescription description = *rank.device.describe(DeviceAddress(at));
        if (description.kind != MemoryKind::kUnknown) return "multicast address has a memory kind";
        std::string wrong = check_put(own, 1);
        own.group.leave(kTestTimeout);
        return wrong;
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
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
      // The driver returns this code for a device that is already part of the object.
      {"cuMulticastAddDevice", kInvalidValue, {2}},
      {"cuMulticastAddDevice", kInvalidValue, {0}},
      {"cuMulticastBindMem", kSystemNotReady, {1}},
      {"cuMulticastBindMem", kNoMemory, {0, 2}},
      {"cuMemMap", kUnknown, {1}},
      {"cuMemSetAccess", kNotSupported, {0}},
  };
  return all;
}

// Injects `fault` into a rendezvous. Appends the reason for the fallback to `reasons`.
std::string check_driver_fault(const StandinGpuRank& rank, DeviceRank& own,
                               const DriverFault& fault, std::string& reasons) {
  const size_t objects = rank.driver.multicast_count();
  if (fault.ranks.contains(rank.rank.rank)) rank.driver.set_result(fault.call, fault.code);
  const SymmetricBuffer buffer = own.heap.allocate(4096);
  const Handle handle = own.group.rendezvous(buffer, kTestTimeout);
  rank.driver.set_result(fault.call, standin::kDone);
  if (handle.multicast_ptr() != nullptr) return text(fault.call, ": multicast is available; ");
  const std::string& reason = handle.no_multicast_reason();
  const std::string expected_rank = text("rank ", *fault.ranks.begin(), ": ");
  if (!reason.starts_with(expected_rank)) return text("wrong rank named: ", reason, "; ");
  reasons += reason + '\n';
  if (rank.driver.multicast_count() != objects) return text(fault.call, ": leaked objects; ");
  const std::string message = error_message([&] { handle.multimem_all_reduce(1, {}, {}); });
  if (message.find("this memory has no multicast: " + expected_rank) == std::string::npos)
    return message;
  return {};
}

TEST_F(SymmetricCudaMulticast, AnyDriverFailureFallsBackOnAllRanks) {
  RankProcesses ranks(3, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        DeviceRank own = join_rank(rank);
                        std::string reasons;
                        int mark = 0;
                        for (const DriverFault& each : driver_faults()) {
                          std::string wrong = check_driver_fault(rank, own, each, reasons);
                          wrong += check_put(own, ++mark);
                          if (!wrong.empty()) return text("rank ", rank.rank.rank, ": ", wrong);
                        }
                        const SymmetricBuffer buffer = own.heap.allocate(4096);
                        const Handle handle = own.group.rendezvous(buffer, kTestTimeout);
                        if (handle.multicast_ptr() == nullptr)
                          return "multicast is no longer available";
                        own.group.leave(kTestTimeout);
                        return reasons;
                      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_THAT(results[0], AllOf(StartsWith("rank 0: cuMulticastCreate: CUDA_ERROR_NOT_SUPPORTED"),
                                HasSubstr("\nrank 1: cuMemImportFromShareableHandle: "),
                                HasSubstr("\nrank 2: cuMulticastAddDevice: "),
                                HasSubstr("cuMulticastBindMem: CUDA_ERROR_SYSTEM_NOT_READY"),
                                HasSubstr("; rank 2: "), Not(HasSubstr("leaked"))));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

std::string reason_of(const StandinGpuRank& rank) {
  DeviceRank own = join_rank(rank);
  if (own.handle.multicast_ptr() != nullptr) return "it has";
  const std::string wrong = check_put(own, 1);
  const std::string reason = own.handle.no_multicast_reason();
  own.group.leave(kTestTimeout);
  return reason + wrong;
}

TEST_F(SymmetricCudaMulticast, NamesRankWhoseDriverLacksMulticast) {
  const auto without_multicast = [](int rank) {
    StandinDriver driver;
    if (rank == 1) driver.features.multicast = false;
    if (rank == 2) driver.library = ASHLAR_OLD_CUDA_STANDIN;
    return driver;
  };
  RankProcesses ranks(3, on_standin_gpu(without_multicast, reason_of));
  EXPECT_THAT(
      gpu_results(ranks),
      Each(AllOf(StartsWith("not all ranks have multicast: rank 0: it has, rank 1: this device "
                            "has no multicast"),
                 HasSubstr("rank 2: multicast requires a CUDA driver"), Not(HasSubstr("leaked")))));
}

TEST_F(SymmetricCudaMulticast, OldDriverWorksWithoutMulticast) {
  const auto old = [](int) {
    StandinDriver driver;
    driver.library = ASHLAR_OLD_CUDA_STANDIN;
    return driver;
  };
  RankProcesses ranks(2, on_standin_gpu(old, reason_of));
  EXPECT_THAT(gpu_results(ranks),
              Each("multicast requires a CUDA driver of version 12.1 or later"));
}

TEST_F(SymmetricCudaMulticast, IsDisabledForRanksSharingADevice) {
  RankProcesses ranks(
      2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
        // Device 0 is the same device on all ranks.
        const std::unique_ptr<DeviceSet> same = *try_open_cuda({.library = ASHLAR_CUDA_STANDIN});
        DeviceRank own(rank.rank, same->device(DeviceIndex(0)), gpu_group_options(rank.rank, true));
        const std::string wrong = check_put(own, 1);
        const std::string reason = own.handle.no_multicast_reason();
        own.group.leave(kTestTimeout);
        return reason + wrong;
      }));
  EXPECT_THAT(gpu_results(ranks),
              Each("ranks may share devices, which multicast does not support"));
}

// Block sizes and addresses are multiples of the multicast granularity.
TEST_F(SymmetricCudaMulticast, RoundsBlocksToMulticastGranularity) {
  const auto coarse = [](int) {
    StandinDriver driver;
    driver.features.multicast_granules = 8;
    driver.features.reserve_alignment = false;
    return driver;
  };
  RankProcesses ranks(2, on_standin_gpu(coarse, reason_of));
  EXPECT_THAT(gpu_results(ranks), Each("it has"));
}

TEST_F(SymmetricCudaMulticast, IsReleasedBeforeLocalMemory) {
  for (const bool is_buffer_first : {true, false}) {
    RankProcesses ranks(
        2, on_standin_gpu([is_buffer_first](const StandinGpuRank& rank) -> std::string {
          DeviceRank own = join_rank(rank);
          SymmetricBuffer buffer = own.heap.allocate(4096);
          std::optional<Handle> handle = own.group.rendezvous(buffer, kTestTimeout);
          const size_t objects = rank.driver.multicast_count();
          if (is_buffer_first) buffer.reset();
          handle.reset();
          buffer.reset();
          // Unbinding freed memory would fail and leak the object.
          if (rank.driver.multicast_count() != objects - 1) return "leaked object";
          own.group.leave(kTestTimeout);
          return {};
        }));
    EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
  }
}

// Returns the number of multicast objects that are released when a temporary handle and its buffer
// are destroyed.
size_t objects_freed_with_handle(const StandinGpuRank& rank, DeviceRank& own) {
  SymmetricBuffer buffer = own.heap.allocate(4096);
  std::optional<Handle> handle = own.group.rendezvous(buffer, kTestTimeout);
  const size_t objects = rank.driver.multicast_count();
  handle.reset();
  buffer.reset();
  return objects - rank.driver.multicast_count();
}

// After a timeout of a signal or barrier, no rank can be using multicast, so the multicast objects
// are released as usual. After a collective's timeout, other ranks may still be inside the
// collective, so the objects are kept.
TEST_F(SymmetricCudaMulticast, IsKeptAfterTimedOutCollectiveOnly) {
  RankProcesses ranks(
      2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
        DeviceRank own = join_rank(rank);
        const StreamId stream = *own.device().create_stream();
        const milliseconds short_timeout(20);
        const auto objects_freed_after = [&](const std::function<void()>& operation) -> size_t {
          if (rank.rank.rank == 0 && error_message(operation).find("timeout") != 0) return 100;
          own.group.barrier(0, kTestTimeout);
          return objects_freed_with_handle(rank, own);
        };
        std::string wrong;
        if (objects_freed_after([&] { own.handle.wait_signal(1, 3, short_timeout); }) != 1)
          wrong += "signal; ";
        const auto in_stream = [&] {
          own.handle.wait_signal(1, 3, short_timeout, stream);
          own.group.finish(stream);
        };
        if (objects_freed_after(in_stream) != 1) wrong += "signal in a stream; ";
        const auto barrier = [&] { own.group.barrier(5, short_timeout); };
        if (objects_freed_after(barrier) != 1) wrong += "barrier; ";
        CollectiveOptions options = with_test_timeout();
        options.timeout = short_timeout;
        const auto reduce = [&] { own.handle.two_shot_all_reduce(10, {}, options); };
        if (objects_freed_after(reduce) != (rank.rank.rank == 0 ? 0U : 1U)) wrong += "collective; ";
        own.handle.two_shot_all_reduce(10, {}, with_test_timeout());
        own.group.barrier(5, kTestTimeout);
        own.group.leave(kTestTimeout);
        return wrong;
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Rank 1 is killed. Each survivor drops everything but its heap while the other survivor may still
// store through the switch.
TEST_F(SymmetricCudaMulticast, IsKeptByHeapWhenFailedGroupIsDropped) {
  RankProcesses ranks(3, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        std::optional<DeviceRank> own = join_rank(rank);
                        if (rank.rank.rank == 1) ::raise(SIGKILL);
                        const Deadline end = Deadline::after(kTestTimeout);
                        while (own->group.failure().ok()) {
                          if (end.has_passed()) return "no failure was detected";
                          std::this_thread::sleep_for(milliseconds(5));
                        }
                        const size_t objects = rank.driver.multicast_count();
                        const Heap heap = own->heap;
                        own.reset();
                        return rank.driver.multicast_count() == objects ? "" : "released";
                      }));
  std::vector<std::string> results = gpu_results(ranks);
  EXPECT_EQ(results[1], "killed");
  results.erase(results.begin() + 1);
  EXPECT_THAT(results, Each(IsEmpty()));
}

// Returns whether the kernel image is binary. An image of PTX text, which clang builds for GPUs
// without multicast, has no multimem kernels.
bool image_has_multimem() {
  const char* image = static_cast<const char*>(kernel_image());
  return image[0] != '/' && image[0] != '.';
}

// Checks a multimem all-reduce at `offset`, with a count that is not a multiple of a vector.
template <typename T>
std::string check_multimem_reduce(DeviceRank& own, Reduction what, int64_t offset,
                                  std::optional<StreamId> stream) {
  constexpr size_t kCount = 3001;
  const int count = own.handle.world_size();
  own.write(std::vector<uint8_t>(DeviceRank::kBytes, 0x5A));
  std::vector<T> values(kCount);
  std::vector<T> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<T>(static_cast<int>(i % 97) + own.handle.rank());
    const int sum = count * static_cast<int>(i % 97) + count * (count - 1) / 2;
    const int least = static_cast<int>(i % 97);
    expected[i] = static_cast<T>(what.op == ReduceOp::kSum ? sum : least);
  }
  own.write(values, offset);
  own.group.barrier(0, kTestTimeout);
  CollectiveOptions options = with_test_timeout(offset);
  options.stream = stream;
  own.handle.multimem_all_reduce(kCount, what, options);
  if (stream) own.group.finish(*stream);
  const auto end = offset + static_cast<int64_t>(kCount * sizeof(T));
  std::string wrong;
  if (own.read<T>(kCount, offset) != expected) wrong += text("sum of ", name(what.type), "; ");
  if (offset > 0 && own.read<uint8_t>(1, offset - 1)[0] != 0x5A)
    wrong += "wrote before the range; ";
  if (own.read<uint8_t>(1, end)[0] != 0x5A) wrong += "wrote after the range; ";
  own.group.barrier(0, kTestTimeout);
  return wrong;
}

// Checks the sum of 1.0 from each rank in a 16-bit type. REQUIRES: at most four ranks.
std::string check_multimem_halves(DeviceRank& own, ElementType type) {
  const bool is_f16 = type == ElementType::kF16;
  const std::vector<uint16_t> sums = is_f16 ? std::vector<uint16_t>{0x3C00, 0x4000, 0x4200, 0x4400}
                                            : std::vector<uint16_t>{0x3F80, 0x4000, 0x4040, 0x4080};
  const std::vector<uint16_t> ones(1003, sums[0]);
  own.write(ones);
  own.group.barrier(0, kTestTimeout);
  own.handle.multimem_all_reduce(1003, {type, ReduceOp::kSum}, with_test_timeout());
  const auto sum = sums[static_cast<size_t>(own.handle.world_size()) - 1];
  const bool is_right = own.read<uint16_t>(1003) == std::vector<uint16_t>(1003, sum);
  own.group.barrier(0, kTestTimeout);
  return is_right ? "" : text("sum of ", name(type), "; ");
}

std::string check_multimem_gather(DeviceRank& own, size_t words) {
  const auto ranks = static_cast<size_t>(own.handle.world_size());
  own.write(std::vector<int>(DeviceRank::kBytes / 4, -1));
  const std::vector<int> share(words, own.handle.rank());
  own.scratch_handle.put(own.handle.rank(), std::as_bytes(std::span(share)));
  own.group.barrier(0, kTestTimeout);
  own.handle.multimem_all_gather(own.scratch.data(), static_cast<int64_t>(4 * words),
                                 with_test_timeout(512));
  const std::vector<int> found = own.read<int>(ranks * words + 1, 512);
  for (size_t i = 0; i < ranks * words; ++i) {
    if (found[i] != static_cast<int>(i / words)) return text("wrong share of ", words, " words; ");
  }
  own.group.barrier(0, kTestTimeout);
  return found.back() == -1 ? "" : "wrote after the gathered words; ";
}

TEST_P(SymmetricCudaMulticastRanks, MultimemCollectivesUseSwitchWherePossible) {
  RankProcesses ranks(GetParam(), on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        DeviceRank own = join_rank(rank);
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
                        wrong += check_multimem_reduce<float>(own, {}, 0, {});
                        wrong += check_multimem_reduce<double>(own, {ElementType::kF64}, 16, {});
                        wrong += check_multimem_reduce<int>(own, ints, 48, stream);
                        wrong += check_multimem_reduce<int64_t>(own, longs, 0, stream);
                        wrong += check_multimem_halves(own, ElementType::kF16);
                        wrong += check_multimem_halves(own, ElementType::kBf16);
                        if (launched_since() != (has_kernels && !is_alone ? 6U : 0U))
                          wrong += "did not use the switch; ";
                        const Reduction least{ElementType::kI32, ReduceOp::kMin};
                        const Reduction shorts{ElementType::kI16, ReduceOp::kSum};
                        wrong += check_multimem_reduce<int>(own, least, 0, {});
                        wrong += check_multimem_reduce<int16_t>(own, shorts, 0, {});
                        wrong += check_multimem_reduce<int>(own, ints, 4, stream);
                        if (launched_since() != 0)
                          wrong += "used the switch for an unsupported type; ";
                        for (const size_t words : {4U, 64U, 6U, 1U}) {
                          wrong += check_multimem_gather(own, words);
                        }
                        if (has_kernels && launched_since() == 0)
                          wrong += "gathered without the switch; ";
                        own.group.barrier(0, kTestTimeout);
                        own.group.leave(kTestTimeout);
                        return wrong;
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Runs out-of-place sums and puts at aligned and unaligned offsets.
TEST_P(SymmetricCudaMulticastRanks, OutOfPlaceSumsAndPutsUseSwitch) {
  RankProcesses ranks(GetParam(), on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        DeviceRank own = join_rank(rank);
                        std::string wrong = run_multimem_program(own);
                        const bool has_kernels = image_has_multimem();
                        const size_t kernels = has_kernels && rank.rank.world_size > 1 ? 1 : 0;
                        const int root = rank.rank.world_size - 1;
                        size_t before = rank.driver.multimem_count();
                        const auto expect = [&](size_t launched, const char* what) {
                          const size_t now = rank.driver.multimem_count();
                          if (now - std::exchange(before, now) != launched) wrong += what;
                        };
                        wrong += check_multimem_to_out(own, {.root = {}, .offset = 16});
                        expect(kernels, "did not use the switch; ");
                        wrong += check_multimem_to_out(own, {.root = root});
                        expect(rank.rank.rank == root ? kernels : 0,
                               "the root did not use the switch; ");
                        wrong += check_multimem_to_out(own, {.root = root, .shift = 4});
                        expect(0, "used the switch for unaligned data; ");
                        wrong += check_multimem_put(own, 16, 1000, {});
                        expect(has_kernels ? 1 : 0, "put without the switch; ");
                        wrong += check_multimem_put(own, 4, 1000, {});
                        expect(0, "put unaligned data through the switch; ");
                        own.group.leave(kTestTimeout);
                        return wrong;
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricCudaMulticast, ChecksArgumentsBeforeLaunch) {
  RankProcesses ranks(2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        DeviceRank own = join_rank(rank);
                        const size_t before = rank.driver.multimem_count();
                        std::string wrong =
                            rank.rank.rank == 1 ? check_multimem_invalid_arguments(own) : "";
                        if (rank.driver.multimem_count() != before) wrong += "launched";
                        wrong += check_multimem_put(own, 0, 100, {});
                        own.group.leave(kTestTimeout);
                        return wrong;
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Address tables are freed with the group and leave nothing in the driver.
TEST_F(SymmetricCudaMulticast, FreesAddressTablesWithGroup) {
  RankProcesses ranks(2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        DeviceRank own = join_rank(rank);
                        const size_t extents = rank.driver.extent_count();
                        (void)own.handle.buffer_ptrs_on_device();
                        (void)own.handle.signal_pad_ptrs_on_device();
                        (void)own.scratch_handle.buffer_ptrs_on_device();
                        if (rank.driver.extent_count() != extents + 1)
                          return "wrong number of extents";
                        own.group.leave(kTestTimeout);
                        return {};
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
