// SPDX-License-Identifier: Apache-2.0
//
// How the kernels of symmetric memory end when something goes wrong, with real processes, all on
// one device: timeouts, mistakes, deaths. Over the stand-in driver, or with ASHLAR_TEST_DEVICE=cuda
// on a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mp/gpu_rank.h"
#include "standin/control.h"

namespace ashlar::symm {
namespace {

using SymmetricGpuKernelEnds = SymmetricGpuKernels;

TEST_F(SymmetricGpuKernelEnds, Row11ATimeoutInAStreamIsToldAndAllGoesOn) {
  Ranks ranks(2, with_kernels(run_into_a_timeout));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelEnds, Row11EveryWaitSaysWhoWasWaitedFor) {
  Ranks ranks(
      2, with_kernels([](RankOnDevice& own) -> std::string {
        std::string said;
        if (own.group.rank() == 0) {
          const milliseconds soon(20);
          own.handle.put_signal(1, 3, kPatience);
          said += thrown_by([&] { own.handle.put_signal(1, 3, soon); });
          said += thrown_by([&] { own.handle.wait_signal(1, 3, soon); });
          said += thrown_by([&] { own.handle.wait_for_value(1, 9, 3, soon); });
        }
        own.group.barrier(0, kPatience);
        if (own.group.rank() == 1) own.handle.wait_signal(0, 3, kPatience);
        own.group.barrier(0, kPatience);
        if (own.group.rank() == 1) return {};
        for (const char* expected :
             {"to signal rank 1 on channel 3", "for a signal from rank 1 on channel 3",
              "for rank 1 to count to 9 on channel 3, which is at 0", "the pad of rank 0"}) {
          if (said.find(expected) == std::string::npos) return said;
        }
        return {};
      }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

// Two come, the third is late: both say so, and the same barrier is finished by calling it again.
TEST_F(SymmetricGpuKernelEnds, Row11ABarrierThatTimedOutNamesWhoIsMissingAndIsFinishedLater) {
  Ranks ranks(3, with_kernels([](RankOnDevice& own) -> std::string {
                std::string said = "in barrier 1 of channel 5 for rank 2;";
                if (own.group.rank() != 2) {
                  // Long enough for the other that comes.
                  said = thrown_by([&] { own.group.barrier(5, milliseconds(1500)); });
                }
                own.group.barrier(0, kPatience);
                own.group.barrier(5, kPatience);
                const bool is_right =
                    said.find("in barrier 1 of channel 5 for rank 2;") != std::string::npos;
                return is_right ? "" : said;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelEnds, ACollectiveThatTimedOutGoesOnWhereItStoppedAndNoOtherBegins) {
  const Reduction sum{ElementType::kI32, ReduceOp::kSum};
  Ranks ranks(2, with_kernels([sum](RankOnDevice& own) -> std::string {
                own.write(std::vector<int>(50, own.group.rank() + 1));
                own.group.barrier(0, kPatience);
                std::string said;
                if (own.group.rank() == 0) {
                  CollectiveOptions soon = patient();
                  soon.timeout = milliseconds(20);
                  said = thrown_by([&] { own.handle.one_shot_all_reduce(50, sum, soon); });
                  // Needs more scratch, and is refused all the same.
                  said += thrown_by([&] { own.handle.one_shot_all_reduce(16000, sum, soon); });
                }
                // Not a meeting of the pad that the collective waits on.
                own.group.barrier(0, kPatience);
                own.handle.one_shot_all_reduce(50, sum, patient());
                if (own.read<int>(50) != std::vector<int>(50, 3)) return "another sum";
                own.group.barrier(0, kPatience);
                if (own.group.rank() == 1) return {};
                const bool is_right =
                    said.find("for rank 1;") != std::string::npos &&
                    said.find("cannot begin: a one-shot all-reduce") != std::string::npos;
                return is_right ? "" : said;
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelEnds, Row13RanksThatCallDifferentThingsAllFindOutAndGoOn) {
  const Reduction sum{ElementType::kI32, ReduceOp::kSum};
  Ranks ranks(3, with_kernels([sum](RankOnDevice& own) -> std::string {
                own.write(std::vector<int>(10, 2));
                own.group.barrier(0, kPatience);
                const int64_t count = own.group.rank() == 2 ? 5 : 4;
                // With more meetings in one than in the other.
                const std::string said = thrown_by([&] {
                  if (own.group.rank() != 1) own.handle.one_shot_all_reduce(count, sum, patient());
                  if (own.group.rank() == 1) own.handle.two_shot_all_reduce(4, sum, patient());
                });
                if (said.find("rank 0 a one-shot all-reduce") == std::string::npos) return said;
                if (said.find("rank 1 a two-shot") == std::string::npos) return said;
                if (own.read<int>(10) != std::vector<int>(10, 2)) return "something was written";
                own.group.barrier(0, kPatience);
                own.handle.all_reduce(1, sum, patient());
                return own.read<int>(1)[0] == 6 ? "" : "another sum";
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelEnds, Row13ArgumentsAreCheckedBeforeAnythingIsLaunched) {
  Ranks ranks(1, with_kernels(make_mistakes));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

// The kernel waits for ever; the group's failure reaches it.
TEST_F(SymmetricGpuKernelEnds, Row20ADeathEndsWorkInStreamsAndCallsThatWait) {
  Ranks ranks(3, on_gpu([](const BareRank& rank, Device& device) -> std::string {
                RankOnDevice own(rank, device, gpu_group_options(rank));
                const StreamId stream = *own.device().create_stream();
                if (rank.rank == 1) ::kill(::getpid(), SIGKILL);
                std::string said;
                if (rank.rank == 0) {
                  CollectiveOptions options;
                  options.stream = stream;
                  own.handle.all_reduce(100, {}, options);  // for ever
                  said = thrown_by([&] { own.group.finish(stream); });
                } else {
                  said = thrown_by([&] { own.handle.all_reduce(100); });
                }
                const std::string again = thrown_by([&] { own.handle.barrier(0); });
                return said == again ? said : said + " [then: " + again + "]";
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_EQ(said[1], "killed");
  EXPECT_THAT(said[0], AllOf(HasSubstr("rank 1"), Not(HasSubstr("["))));
  EXPECT_EQ(said[0], said[2]);
}

// Kernels of a handle that goes are waited for, and one that nobody answers ends with its group.
TEST_F(SymmetricGpuKernelEnds, WorkInStreamsOutlivesNoHandleAndNoGroup) {
  Ranks ranks(2, on_gpu([](const BareRank& rank, Device& device) -> std::string {
                const StreamId stream = *device.create_stream();
                {
                  RankOnDevice own(rank, device, gpu_group_options(rank));
                  const Buffer passing = own.heap.allocate(4096);
                  {
                    const Handle handle = own.group.rendezvous(passing, kPatience);
                    CollectiveOptions options = patient();
                    options.stream = stream;
                    for (int i = 0; i < 20; ++i) handle.all_reduce(1024, {}, options);
                  }
                  own.group.finish(stream);
                  own.group.barrier(0, kPatience);
                  // Rank 1 never signals, and stays until it is waited for; then both drop their
                  // groups.
                  if (rank.rank == 0) {
                    own.handle.wait_signal(1, 4, Timeout(0), stream);
                    if (!rank.store->set("waits", "", kNoEnd, patience()).ok()) return "no word";
                  }
                  if (!rank.store->get("waits", patience()).ok()) return "not waited for";
                }
                const Result<bool> idle = device.is_idle(stream);
                if (!idle.ok() || !*idle) return "still running";
                return device.destroy_stream(stream).ok() ? "" : "no stream";
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelEnds, Row22ALostDeviceEndsCallsAndFailsItsGroup) {
  if (is_on_hardware()) GTEST_SKIP() << "a real device is not lost on purpose";
  Ranks ranks(2, on_gpu([](const BareRank& rank, Device& device) -> std::string {
                RankOnDevice own(rank, device, gpu_group_options(rank));
                if (rank.rank == 1) {
                  return thrown_by([&] { own.handle.barrier(0, Timeout(0)); });
                }
                std::thread loser([] {
                  std::this_thread::sleep_for(milliseconds(50));
                  const Status reason = Status::device_lost("test", 1, "lost on purpose");
                  standin::control_of(ASHLAR_CUDA_STANDIN).lose(DeviceIndex(0), reason);
                });
                const std::string said =
                    thrown_by([&] { own.handle.wait_signal(1, 3, Timeout(0)); });
                loser.join();
                return said;
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_THAT(said[0], HasSubstr("device lost"));
  EXPECT_THAT(said[1], HasSubstr("rank 0"));
}

}  // namespace
}  // namespace ashlar::symm
