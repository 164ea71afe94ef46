// SPDX-License-Identifier: Apache-2.0
//
// What becomes of it when ranks on CUDA devices go on without multicast or fabric handles, or when
// one lets go while others may not be done: over the stand-in driver, with real processes.
// Descriptors are counted as everything else is: on_own_gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/text.h"
#include "mp/own_gpu_rank.h"

namespace ashlar::symm {
namespace {

using SymmetricCudaDegrading = SymmetricGpuKernels;

GroupOptions wanting_fabric(const BareRank& rank) {
  GroupOptions options = gpu_group_options(rank, false);
  options.use_fabric = true;
  return options;
}

// --- the thread's last error --------------------------------------------------------------------

// Meets with a call that fails on all ranks. What is wrong with what the thread finds afterwards.
std::string try_last_error(const OwnGpuRank& rank, RankOnDevice& own, const char* call) {
  const std::string before = rank.device.last_error().to_string();
  rank.driver.tell(call, standin::kNotPermitted);
  const Buffer buffer = own.heap.allocate(4096);
  const Handle handle = own.group.rendezvous(buffer, kPatience);
  rank.driver.tell(call, standin::kDone);
  if (handle.no_multicast_reason().empty()) return text(call, ": multicast after all; ");
  const std::string after = rank.device.last_error().to_string();
  return after == before ? "" : text(call, ": ", after, "; ");
}

TEST_F(SymmetricCudaDegrading, WhatRanksGoOnWithoutIsNoLastErrorAndHidesNone) {
  Ranks ranks(
      2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
        RankOnDevice own(rank.rank, rank.device, wanting_fabric(rank.rank));
        std::string wrong;
        for (const bool has_earlier : {false, true}) {
          if (!rank.device.take_last_error().ok()) wrong += "left by joining; ";
          if (has_earlier) (void)rank.device.allocate(0).ok();
          for (const char* call :
               {"cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem", "cuMemMap",
                "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"}) {
            wrong += try_last_error(rank, own, call);
          }
        }
        if (rank.device.take_last_error().ok()) wrong += "an earlier one is lost; ";
        own.group.leave(kPatience);
        return wrong;
      }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricCudaDegrading, ADriverThatRefusesItWhenAskedLeavesTheReasonAndNoLastError) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                if (rank.rank.rank == 1) {
                  rank.driver.tell("cuMulticastGetGranularity", standin::kNotPermitted);
                }
                RankOnDevice own(rank.rank, rank.device, gpu_group_options(rank.rank, false));
                rank.driver.tell("cuMulticastGetGranularity", standin::kDone);
                const std::string reason = own.handle.no_multicast_reason();
                own.group.leave(kPatience);
                return rank.device.last_error().ok() ? reason : "there is a last error";
              }));
  EXPECT_THAT(outcomes_of(ranks),
              Each(AllOf(HasSubstr("not all ranks have multicast: rank 0: it has, rank 1: "),
                         HasSubstr("cuMulticastGetGranularity: CUDA_ERROR_NOT_PERMITTED"),
                         Not(HasSubstr("left]")))));
}

// --- memory that travels both ways --------------------------------------------------------------

OwnDriver without_both_on_rank_1(int rank) {
  OwnDriver driver;
  if (rank == 1) driver.abilities.both = false;
  return driver;
}

TEST_F(SymmetricCudaDegrading, MemoryThatCannotTravelBothWaysTravelsAsDescriptorsAndSaysWhy) {
  Ranks ranks(2, on_own_gpu(without_both_on_rank_1, [](const OwnGpuRank& rank) -> std::string {
                RankOnDevice own(rank.rank, rank.device, wanting_fabric(rank.rank));
                const std::string reason = own.handle.no_fabric_reason();
                const std::string multicast = own.handle.no_multicast_reason();
                own.group.leave(kPatience);
                return reason + multicast + rank.device.last_error().message();
              }));
  EXPECT_THAT(
      outcomes_of(ranks),
      Each("not all ranks gave a fabric handle: rank 0: it has, rank 1: memory that travels as a "
           "descriptor and as a fabric handle was refused, and is here as a descriptor alone: "
           "cuMemCreate: CUDA_ERROR_NOT_PERMITTED: as the stand-in driver says"));
}

// --- letting go ---------------------------------------------------------------------------------

// Rank 0 does not wait for rank 1, and frees what that one may still use. What is wrong.
std::string let_go_after_timeout(const OwnGpuRank& rank, RankOnDevice& own,
                                 std::optional<StreamId> stream) {
  Buffer buffer = own.heap.allocate(4096);
  std::optional<Handle> handle = own.group.rendezvous(buffer, kPatience);
  const size_t objects = rank.driver.multicast_count();
  std::string wrong;
  if (rank.rank.rank == 0) {
    CollectiveOptions hurried;
    hurried.timeout = milliseconds(1);
    hurried.stream = stream;
    const std::string said = thrown_by([&] { handle->multimem_all_reduce(4, {}, hurried); });
    if (!stream && said.find("timeout") == std::string::npos) wrong += said + "; ";
    handle.reset();  // waits for the work
    buffer.reset();
    if (rank.driver.multicast_count() != objects) wrong += "let go at once; ";
    if (stream) (void)thrown_by([&] { own.group.finish(*stream); });
  }
  own.group.barrier(0, kPatience);
  return wrong;
}

TEST_F(SymmetricCudaDegrading, MulticastOfARankThatTimedOutStaysUntilTheGroupIsOver) {
  Ranks ranks(2, on_own_gpu([](const OwnGpuRank& rank) -> std::string {
                std::string wrong;
                for (const bool in_stream : {false, true}) {
                  RankOnDevice own(rank.rank, rank.device, gpu_group_options(rank.rank, false));
                  std::optional<StreamId> stream;
                  if (in_stream) stream = *rank.device.create_stream();
                  wrong += let_go_after_timeout(rank, own, stream);
                  own.group.leave(kPatience);
                  if (stream) (void)rank.device.destroy_stream(*stream).ok();
                  // The buffer and the scratch, which are still there.
                  if (rank.driver.multicast_count() != 2) wrong += "kept for good; ";
                }
                return wrong;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
