// SPDX-License-Identifier: Apache-2.0
//
// A rank is killed or stopped at exact points inside an all-reduce or a barrier, selected by access
// traps (mp/harness/access_trap.h). All survivors must name that rank.
#include <signal.h>

#include "mp/harness/access_trap.h"
#include "mp/harness/symmetric_rank.h"
#include "symm/backends/host/host_operations.h"

namespace ashlar::symm {
namespace {

constexpr int kVictim = 1;
constexpr int64_t kElementCount = 3 * 4096;
constexpr size_t kReducedBytes = kElementCount * sizeof(float);
// How long after the lease has expired a busy machine may take to detect a failure. The value is
// well below kTestTimeout.
constexpr std::chrono::seconds kMargin{20};

struct PeerFault {
  int signal = 0;
  bool resumes = false;  // a stopped rank is resumed after the other ranks have exited
};

std::string name_of(const PeerFault& fault) {
  if (fault.signal == SIGKILL) return "Killed";
  return fault.resumes ? "StoppedForAWhile" : "Stopped";
}
void PrintTo(const PeerFault& fault, std::ostream* out) { *out << name_of(fault); }

const auto kAllFaults =
    ::testing::Values(PeerFault{SIGKILL}, PeerFault{SIGSTOP}, PeerFault{SIGSTOP, true});

// Calls `operation` until it fails, at most three times, and returns the last status as text. The
// first calls may succeed if the victim had already done its part. Appends a note in brackets if
// the status is not a peer loss, or if it came after the deadline for detection.
std::string run_until_failure(const std::function<Status()>& operation) {
  const Deadline detection_deadline =
      Deadline::after(RankContext::short_lease_options().lease + kMargin);
  Status ended;
  for (int round = 0; round < 3 && ended.ok(); ++round) ended = operation();
  std::string message = ended.to_string();
  if (!ended.is(StatusKind::kPeerLost)) message += " [not a peer loss]";
  if (detection_deadline.has_passed()) message += " [too late]";
  return message;
}

void expect_victim_named(RankProcesses& ranks, const PeerFault& fault) {
  const bool stays = fault.signal == SIGSTOP && !fault.resumes;
  const std::vector<std::string> results =
      fault.resumes ? ranks.results_resuming(kVictim) : ranks.results(stays ? kVictim : -1);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const bool is_lost = rank == kVictim && !fault.resumes;
    EXPECT_THAT(results[rank], AllOf(HasSubstr(is_lost ? "killed" : "peer lost: rank 1 of group"),
                                     Not(HasSubstr("["))));
  }
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
}

using SetTrap = std::function<void(SymmetricRank& own, int signal)>;
using ReduceCall = std::function<void(const Handle& handle)>;

void trap_access(SymmetricRank& own, int rank, Access access, int signal) {
  set_access_trap(std::as_writable_bytes(own.handle.view<float>(rank, kElementCount)), access,
                  signal);
}

const ReduceCall kOneShot = [](const Handle& handle) {
  handle.one_shot_all_reduce(kElementCount, {}, {.timeout = kTestTimeout});
};
const ReduceCall kTwoShot = [](const Handle& handle) {
  handle.two_shot_all_reduce(kElementCount, {}, {.timeout = kTestTimeout});
};

class FaultInjection : public ::testing::TestWithParam<PeerFault> {
 protected:
  // Injects the fault at the first `access` to the memory of rank `memory_of`.
  static void all_reduce(const ReduceCall& reduce, int memory_of, Access access) {
    const PeerFault fault = GetParam();
    RankProcesses ranks(3, [&](const RankSpec& rank) -> std::string {
      SymmetricRank own(rank, kReducedBytes);
      reduce(own.handle);
      if (rank.rank == kVictim) trap_access(own, memory_of, access, fault.signal);
      return run_until_failure([&]() -> Status {
        try {
          reduce(own.handle);
        } catch (const Error& failed) {
          return failed.status();
        }
        return {};
      });
    });
    expect_victim_named(ranks, fault);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, FaultInjection, kAllFaults,
                         [](const auto& each) { return name_of(each.param); });

TEST_P(FaultInjection, BeforeReadingInOneShotAllReduce) { all_reduce(kOneShot, 0, Access::kRead); }

TEST_P(FaultInjection, BeforeWritingResultInOneShotAllReduce) {
  all_reduce(kOneShot, kVictim, Access::kWrite);
}

TEST_P(FaultInjection, BeforeReducingInTwoShotAllReduce) {
  all_reduce(kTwoShot, kVictim, Access::kWrite);
}

// At this point, rank 2 has already received the victim's part.
TEST_P(FaultInjection, BeforeBroadcastingInTwoShotAllReduce) {
  all_reduce(kTwoShot, 0, Access::kWrite);
}

class BarrierFaultInjection : public ::testing::TestWithParam<PeerFault> {
 protected:
  // Injects the fault when the victim writes to the pad of rank `pad_of`.
  static void barrier(int pad_of) {
    const PeerFault fault = GetParam();
    RankProcesses ranks(3, [&](RankContext& context) -> std::string {
      CommunicatorOptions options = context.options();
      options.pad_bytes = *pad_bytes(context.world_size, 1);
      const std::unique_ptr<Communicator> group = context.join(options);
      const auto operations = *HostOperations::make({.rank_info = group->rank_info(),
                                                     .channel_count = 1,
                                                     .pads = group->pads(),
                                                     .failure = group->failure(),
                                                     .spin_policy = group->spin_policy()});
      InFlightWork in_flight;
      const auto barrier = [&] {
        return operations->run(Signal{}, {.timeout = kTestTimeout, .in_flight = &in_flight});
      };
      if (Status passed = barrier(); !passed.ok()) return passed.to_string();
      if (context.rank == kVictim) {
        set_access_trap({group->pads()->pad(pad_of), options.pad_bytes}, Access::kWrite,
                        fault.signal);
      }
      return run_until_failure(barrier);
    });
    expect_victim_named(ranks, fault);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, BarrierFaultInjection, kAllFaults,
                         [](const auto& each) { return name_of(each.param); });

// At this point, rank 2 has already seen the victim's arrival.
TEST_P(BarrierFaultInjection, BeforeSignalingArrivalToAllPeers) { barrier(0); }

// At this point, all ranks have seen the victim's arrival. The victim writes to its own pad when it
// blocks or completes the barrier.
TEST_P(BarrierFaultInjection, BetweenArrivalAndDeparture) { barrier(kVictim); }

}  // namespace
}  // namespace ashlar::symm
