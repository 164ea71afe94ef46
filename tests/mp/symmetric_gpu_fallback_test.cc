// SPDX-License-Identifier: Apache-2.0
//
// Fallbacks of ranks on CUDA devices without multicast or fabric handles, and release of multicast
// objects that peers may still use. Runs on the stand-in driver, in several processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/text.h"
#include "mp/harness/standin_gpu_rank.h"

namespace ashlar::symm {
namespace {

using SymmetricCudaFallback = SymmetricGpuKernels;

GroupOptions wanting_fabric(const RankSpec& rank) {
  GroupOptions options = gpu_group_options(rank, false);
  options.use_fabric = true;
  return options;
}

// Does a rendezvous during which `call` fails on all ranks. Checks that the thread's last error
// does not change.
std::string check_last_error(const StandinGpuRank& rank, DeviceRank& own, const char* call) {
  const std::string before = rank.device.last_error().to_string();
  rank.driver.set_result(call, standin::kNotPermitted);
  const SymmetricBuffer buffer = own.heap.allocate(4096);
  const Handle handle = own.group.rendezvous(buffer, kTestTimeout);
  rank.driver.set_result(call, standin::kDone);
  if (handle.no_multicast_reason().empty()) return text(call, ": multicast is available; ");
  const std::string after = rank.device.last_error().to_string();
  return after == before ? "" : text(call, ": ", after, "; ");
}

TEST_F(SymmetricCudaFallback, FallbackPreservesLastError) {
  RankProcesses ranks(
      2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
        DeviceRank own(rank.rank, rank.device, wanting_fabric(rank.rank));
        std::string wrong;
        for (const bool has_earlier : {false, true}) {
          if (!rank.device.take_last_error().ok()) wrong += "joining left a last error; ";
          if (has_earlier) (void)rank.device.allocate(0).ok();
          for (const char* call :
               {"cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem", "cuMemMap",
                "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"}) {
            wrong += check_last_error(rank, own, call);
          }
        }
        if (rank.device.take_last_error().ok()) wrong += "an earlier last error is lost; ";
        own.group.leave(kTestTimeout);
        return wrong;
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricCudaFallback, ReportsReasonButSetsNoLastErrorWhenProbeFails) {
  RankProcesses ranks(2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        if (rank.rank.rank == 1) {
                          rank.driver.set_result("cuMulticastGetGranularity",
                                                 standin::kNotPermitted);
                        }
                        DeviceRank own(rank.rank, rank.device, gpu_group_options(rank.rank, false));
                        rank.driver.set_result("cuMulticastGetGranularity", standin::kDone);
                        const std::string reason = own.handle.no_multicast_reason();
                        own.group.leave(kTestTimeout);
                        return rank.device.last_error().ok() ? reason : "last error is set";
                      }));
  EXPECT_THAT(gpu_results(ranks),
              Each(AllOf(HasSubstr("not all ranks have multicast: rank 0: it has, rank 1: "),
                         HasSubstr("cuMulticastGetGranularity: CUDA_ERROR_NOT_PERMITTED"),
                         Not(HasSubstr("leaked")))));
}

StandinDriver without_both_on_rank_1(int rank) {
  StandinDriver driver;
  if (rank == 1) driver.features.export_both = false;
  return driver;
}

TEST_F(SymmetricCudaFallback, UsesDescriptorsWhenCombinedHandlesFail) {
  RankProcesses ranks(
      2, on_standin_gpu(without_both_on_rank_1, [](const StandinGpuRank& rank) -> std::string {
        DeviceRank own(rank.rank, rank.device, wanting_fabric(rank.rank));
        const std::string reason = own.handle.no_fabric_reason();
        const std::string multicast = own.handle.no_multicast_reason();
        own.group.leave(kTestTimeout);
        return reason + multicast + rank.device.last_error().message();
      }));
  EXPECT_THAT(
      gpu_results(ranks),
      Each("not all ranks exported a fabric handle: rank 0: it has, rank 1: memory that can be "
           "exported both as a descriptor and as a fabric handle was refused, so descriptors are "
           "used: "
           "cuMemCreate: CUDA_ERROR_NOT_PERMITTED: as the stand-in driver says"));
}

// Rank 0 times out waiting for rank 1 and frees memory that rank 1 may still use.
std::string free_after_timeout(const StandinGpuRank& rank, DeviceRank& own,
                               std::optional<StreamId> stream) {
  SymmetricBuffer buffer = own.heap.allocate(4096);
  std::optional<Handle> handle = own.group.rendezvous(buffer, kTestTimeout);
  const size_t objects = rank.driver.multicast_count();
  std::string wrong;
  if (rank.rank.rank == 0) {
    CollectiveOptions short_options;
    short_options.timeout = milliseconds(1);
    short_options.stream = stream;
    const std::string message =
        error_message([&] { handle->multimem_all_reduce(4, {}, short_options); });
    if (!stream && message.find("timeout") == std::string::npos) wrong += message + "; ";
    handle.reset();  // waits for the stream work
    buffer.reset();
    if (rank.driver.multicast_count() != objects) wrong += "released too early; ";
    if (stream) (void)error_message([&] { own.group.finish(*stream); });
  }
  own.group.barrier(0, kTestTimeout);
  return wrong;
}

TEST_F(SymmetricCudaFallback, KeepsMulticastOfTimedOutRankUntilGroupEnds) {
  RankProcesses ranks(2, on_standin_gpu([](const StandinGpuRank& rank) -> std::string {
                        std::string wrong;
                        for (const bool in_stream : {false, true}) {
                          DeviceRank own(rank.rank, rank.device,
                                         gpu_group_options(rank.rank, false));
                          std::optional<StreamId> stream;
                          if (in_stream) stream = *rank.device.create_stream();
                          wrong += free_after_timeout(rank, own, stream);
                          own.group.leave(kTestTimeout);
                          if (stream) (void)rank.device.destroy_stream(*stream).ok();
                          // The objects of the buffer and of the scratch buffer, which are still
                          // live.
                          if (rank.driver.multicast_count() != 2) wrong += "never released; ";
                        }
                        return wrong;
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
