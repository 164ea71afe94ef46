// SPDX-License-Identifier: Apache-2.0
//
// Errors in the kernels of symmetric memory: timeouts, mismatched calls and peer deaths, in several
// processes on one device. Runs on the stand-in driver, or with ASHLAR_TEST_DEVICE=cuda on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mp/harness/gpu_rank.h"
#include "standin/control.h"

namespace ashlar::symm {
namespace {

using SymmetricGpuKernelErrors = SymmetricGpuKernels;

TEST_F(SymmetricGpuKernelErrors, ReportsStreamTimeoutAndContinues) {
  RankProcesses ranks(2, with_kernels(check_stream_timeout));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelErrors, TimeoutsNameTheAwaitedRank) {
  RankProcesses ranks(
      2, with_kernels([](DeviceRank& own) -> std::string {
        std::string message;
        if (own.group.rank() == 0) {
          const milliseconds short_timeout(20);
          own.handle.put_signal(1, 3, kTestTimeout);
          message += error_message([&] { own.handle.put_signal(1, 3, short_timeout); });
          message += error_message([&] { own.handle.wait_signal(1, 3, short_timeout); });
          message += error_message([&] { own.handle.wait_for_value(1, 9, 3, short_timeout); });
        }
        own.group.barrier(0, kTestTimeout);
        if (own.group.rank() == 1) own.handle.wait_signal(0, 3, kTestTimeout);
        own.group.barrier(0, kTestTimeout);
        if (own.group.rank() == 1) return {};
        for (const char* expected :
             {"to signal rank 1 on channel 3", "for a signal from rank 1 on channel 3",
              "for rank 1 to count to 9 on channel 3, which is at 0", "the pad of rank 0"}) {
          if (message.find(expected) == std::string::npos) return message;
        }
        return {};
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Two ranks time out because the third rank is late. Calling the barrier again completes it.
TEST_F(SymmetricGpuKernelErrors, TimedOutBarrierNamesMissingRankAndResumes) {
  RankProcesses ranks(
      3, with_kernels([](DeviceRank& own) -> std::string {
        std::string message = "in barrier 1 of channel 5 for rank 2;";
        if (own.group.rank() != 2) {
          message = error_message_naming(message, [&] { own.group.barrier(5, milliseconds(500)); });
        }
        own.group.barrier(0, kTestTimeout);
        own.group.barrier(5, kTestTimeout);
        const bool is_right =
            message.find("in barrier 1 of channel 5 for rank 2;") != std::string::npos;
        return is_right ? "" : message;
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelErrors, TimedOutCollectiveMustBeResumedFirst) {
  const Reduction sum{ElementType::kI32, ReduceOp::kSum};
  RankProcesses ranks(
      2, with_kernels([sum](DeviceRank& own) -> std::string {
        own.write(std::vector<int>(50, own.group.rank() + 1));
        own.group.barrier(0, kTestTimeout);
        std::string message;
        if (own.group.rank() == 0) {
          CollectiveOptions short_options = with_test_timeout();
          short_options.timeout = milliseconds(20);
          message = error_message([&] { own.handle.one_shot_all_reduce(50, sum, short_options); });
          // A call that would need more scratch memory is rejected as well.
          message +=
              error_message([&] { own.handle.one_shot_all_reduce(16000, sum, short_options); });
        }
        // This barrier does not interfere with the barriers inside the collective.
        own.group.barrier(0, kTestTimeout);
        own.handle.one_shot_all_reduce(50, sum, with_test_timeout());
        if (own.read<int>(50) != std::vector<int>(50, 3)) return "wrong sum";
        own.group.barrier(0, kTestTimeout);
        if (own.group.rank() == 1) return {};
        const bool is_right =
            message.find("for rank 1;") != std::string::npos &&
            message.find("cannot begin: a one-shot all-reduce") != std::string::npos;
        return is_right ? "" : message;
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelErrors, MismatchedCallsFailOnAllRanks) {
  const Reduction sum{ElementType::kI32, ReduceOp::kSum};
  RankProcesses ranks(3, with_kernels([sum](DeviceRank& own) -> std::string {
                        own.write(std::vector<int>(10, 2));
                        own.group.barrier(0, kTestTimeout);
                        const int64_t count = own.group.rank() == 2 ? 5 : 4;
                        // The two calls have different numbers of internal barriers.
                        const std::string message = error_message([&] {
                          if (own.group.rank() != 1)
                            own.handle.one_shot_all_reduce(count, sum, with_test_timeout());
                          if (own.group.rank() == 1)
                            own.handle.two_shot_all_reduce(4, sum, with_test_timeout());
                        });
                        if (message.find("rank 0 a one-shot all-reduce") == std::string::npos)
                          return message;
                        if (message.find("rank 1 a two-shot") == std::string::npos) return message;
                        if (own.read<int>(10) != std::vector<int>(10, 2))
                          return "memory was changed";
                        own.group.barrier(0, kTestTimeout);
                        own.handle.all_reduce(1, sum, with_test_timeout());
                        return own.read<int>(1)[0] == 6 ? "" : "wrong sum";
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelErrors, ChecksArgumentsBeforeLaunch) {
  RankProcesses ranks(1, with_kernels(check_invalid_arguments));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// The kernel has no timeout; the group's failure ends it.
TEST_F(SymmetricGpuKernelErrors, PeerDeathEndsStreamWorkAndWaits) {
  RankProcesses ranks(3, on_gpu([](const RankSpec& rank, Device& device) -> std::string {
                        DeviceRank own(rank, device, gpu_group_options(rank));
                        const StreamId stream = *own.device().create_stream();
                        if (rank.rank == 1) ::kill(::getpid(), SIGKILL);
                        std::string message;
                        if (rank.rank == 0) {
                          CollectiveOptions options;
                          options.stream = stream;
                          own.handle.all_reduce(100, {}, options);  // this call never completes
                          message = error_message([&] { own.group.finish(stream); });
                        } else {
                          message = error_message([&] { own.handle.all_reduce(100); });
                        }
                        const std::string again = error_message([&] { own.handle.barrier(0); });
                        return message == again ? message : message + " [then: " + again + "]";
                      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_EQ(results[1], "killed");
  EXPECT_THAT(results[0], AllOf(HasSubstr("rank 1"), Not(HasSubstr("["))));
  EXPECT_EQ(results[0], results[2]);
}

// Destroying a handle waits for its kernels. Destroying a group ends kernels that still wait for a
// peer.
TEST_F(SymmetricGpuKernelErrors, HandlesAndGroupsWaitForStreamWork) {
  RankProcesses ranks(2, on_gpu([](const RankSpec& rank, Device& device) -> std::string {
                        const StreamId stream = *device.create_stream();
                        {
                          DeviceRank own(rank, device, gpu_group_options(rank));
                          const SymmetricBuffer temporary = own.heap.allocate(4096);
                          {
                            const Handle handle = own.group.rendezvous(temporary, kTestTimeout);
                            CollectiveOptions options = with_test_timeout();
                            options.stream = stream;
                            for (int i = 0; i < 20; ++i) handle.all_reduce(1024, {}, options);
                          }
                          own.group.finish(stream);
                          own.group.barrier(0, kTestTimeout);
                          // Rank 1 never signals. It stays in the group until rank 0 waits; then
                          // both ranks drop their groups.
                          if (rank.rank == 0) {
                            own.handle.wait_signal(1, 4, Timeout(0), stream);
                            if (!rank.store->set("waits", "", kNoExpiry, long_deadline()).ok())
                              return "cannot set the key";
                          }
                          if (!rank.store->get("waits", long_deadline()).ok())
                            return "key is missing";
                        }
                        const Result<bool> idle = device.is_idle(stream);
                        if (!idle.ok() || !*idle) return "still running";
                        return device.destroy_stream(stream).ok() ? ""
                                                                  : "cannot destroy the stream";
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_F(SymmetricGpuKernelErrors, LostDeviceFailsGroup) {
  if (is_on_hardware()) GTEST_SKIP() << "cannot lose a real device";
  RankProcesses ranks(2, on_gpu([](const RankSpec& rank, Device& device) -> std::string {
                        DeviceRank own(rank, device, gpu_group_options(rank));
                        if (rank.rank == 1) {
                          return error_message([&] { own.handle.barrier(0, Timeout(0)); });
                        }
                        std::thread loser([] {
                          std::this_thread::sleep_for(milliseconds(50));
                          const Status reason = Status::device_lost("test", 1, "lost on purpose");
                          standin::control_of(ASHLAR_CUDA_STANDIN).lose(DeviceIndex(0), reason);
                        });
                        const std::string message =
                            error_message([&] { own.handle.wait_signal(1, 3, Timeout(0)); });
                        loser.join();
                        return message;
                      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_THAT(results[0], HasSubstr("device lost"));
  EXPECT_THAT(results[1], HasSubstr("rank 0"));
}

}  // namespace
}  // namespace ashlar::symm
