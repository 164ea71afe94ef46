// SPDX-License-Identifier: Apache-2.0
//
// Ranks rendezvous in Redis and communicate over UCX. At each step of joining and of a rendezvous,
// one rank is killed or stopped, or the store is killed. The two machines are simulated by
// different machine names.
#include <signal.h>

#include "ashlar/redis_store.h"
#include "ashlar/ucx_transport.h"
#include "mp/harness/symmetric_rank.h"
#include "mp/harness/ucx_ranks.h"
#include "unit/symm/stores/redis/redis_server.h"

namespace ashlar::symm {
namespace {

constexpr int kVictim = 1;

struct Step {
  Phase phase = Phase::kJoining;
  const char* name = "";  // also the job name
};

constexpr Step kSteps[] = {
    {Phase::kJoining, "joining"},        {Phase::kConfirming, "confirming"},
    {Phase::kConnecting, "connecting"},  {Phase::kExchangingRecords, "exchanging"},
    {Phase::kSendingHandles, "sending"}, {Phase::kMapping, "mapping"},
    {Phase::kAgreeing, "agreeing"}};

// The objects of one of three ranks. The victim shares a machine with rank 0 but not with rank 2.
struct RemoteRank {
  RemoteRank(const RankSpec& rank, const RedisServer& server, const char* job,
             Deadline deadline = long_deadline()) {
    RedisOptions redis;
    redis.unix_socket = server.socket_path();
    store = check_ok(try_open_redis_store(redis, deadline));
    options.job = job;
    options.rank = rank.rank;
    options.world_size = rank.world_size;
    options.pad_bytes = 256;
  }
  static ProcessOptions on_two_simulated_machines(const RankSpec& rank) {
    ProcessOptions made = RankContext::short_lease_options();
    made.machine = rank.rank == 2 ? "right" : "left";
    return made;
  }
  // Joins a group and does one rendezvous. Returns the first error.
  Status join_and_rendezvous(RankHeap& heap, Deadline deadline) {
    Result<std::unique_ptr<Communicator>> group =
        Communicator::join(heap, store, options, deadline);
    if (!group.ok()) return group.status();
    return (*group)->rendezvous(*heap.allocate(64, {}), deadline).status();
  }

  std::shared_ptr<Store> store;
  CommunicatorOptions options;
};

class RemoteFaultInjection : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) GTEST_SKIP() << "NOT TESTED: redis-server is not installed";
  }

  // Tests all steps concurrently, because the survivors of each step wait until a lease expires.
  static void inject_at_each_step(int signal) {
    const RedisServer server;
    std::vector<std::unique_ptr<RankProcesses>> groups;
    for (const Step& step : kSteps) {
      groups.push_back(std::make_unique<RankProcesses>(
          3,
          RankMain([&](const RankSpec& rank) { return run_victim(rank, server, step, signal); })));
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      SCOPED_TRACE(kSteps[i].name);
      std::vector<std::string> results = groups[i]->results(signal == SIGSTOP ? kVictim : -1);
      EXPECT_EQ(results[kVictim], "killed");
      results.erase(results.begin() + kVictim);
      EXPECT_THAT(results, Each(AllOf(HasSubstr("rank 1 of group world"), Not(HasSubstr("[")))));
    }
    EXPECT_EQ(server.keys_living_longer_than(3 * RankContext::short_lease_options().lease), "");
  }

 private:
  static std::string run_victim(const RankSpec& rank, const RedisServer& server, const Step& step,
                                int signal) {
    const std::unique_ptr<Process> process =
        check_ok(Process::start(RemoteRank::on_two_simulated_machines(rank)));
    RankHeap heap(*process, process->backends().activate(), {});
    RemoteRank own(rank, server, step.name);
    own.options.transport =
        check_ok(try_open_ucx_transport({.transports = "tcp", .devices = "lo"}));
    if (rank.rank == kVictim) {
      own.options.on_phase = [&](Phase phase) {
        if (phase == step.phase) ::raise(signal);
      };
    }
    // The deadline is short if the victim fails before ranks have connected, because then only the
    // deadline reveals a missing rank.
    const bool is_before_connecting = step.phase == Phase::kJoining;
    const Deadline deadline = Deadline::after(std::chrono::seconds(is_before_connecting ? 8 : 40));
    const Status lost = own.join_and_rendezvous(heap, deadline);
    const bool is_typed =
        lost.is(is_before_connecting ? StatusKind::kTimeout : StatusKind::kPeerLost);
    const bool is_late = deadline.has_passed() && !is_before_connecting;
    return text(lost.to_string(), is_typed ? "" : " [wrong error kind]", is_late ? " [late]" : "");
  }
};

TEST_F(RemoteFaultInjection, DeathAtAnyStepNamesRankAndLeavesNoKeys) {
  inject_at_each_step(SIGKILL);
}

TEST_F(RemoteFaultInjection, StopAtAnyStepNamesRankAndLeavesNoKeys) {
  inject_at_each_step(SIGSTOP);
}

// The victim kills the store at the start of a step. Each rank's call times out soon after its
// deadline, and the error names the store.
class StoreFaultInjection : public ::testing::TestWithParam<Step> {};

void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

INSTANTIATE_TEST_SUITE_P(Steps, StoreFaultInjection,
                         ::testing::Values(kSteps[0], kSteps[1], kSteps[2], kSteps[3], kSteps[6]),
                         [](const auto& each) { return each.param.name; });

TEST_P(StoreFaultInjection, KilledStoreFailsAllRanksBeforeDeadline) {
  if (!RedisServer::is_installed()) GTEST_SKIP() << "NOT TESTED: redis-server is not installed";
  const Step step = GetParam();
  RedisServer server;
  constexpr std::chrono::seconds kStepTime{3};  // enough time to reach the step on a busy machine
  constexpr std::chrono::seconds kMargin{3};
  RankProcesses ranks(3, RankMain([&](const RankSpec& rank) -> std::string {
                        const std::unique_ptr<Process> process =
                            check_ok(Process::start(RankContext::short_lease_options()));
                        RankHeap heap(*process, process->backends().activate(), {});
                        // The store may be killed before this rank connects to it.
                        RemoteRank own(rank, server, step.name, Deadline::after(kStepTime));
                        own.options.on_phase = [&](Phase phase) {
                          if (rank.rank == kVictim && phase == step.phase)
                            ::kill(server.pid(), SIGKILL);
                        };
                        const Deadline late = Deadline::after(kStepTime + kMargin);
                        const Status lost =
                            own.join_and_rendezvous(heap, Deadline::after(kStepTime));
                        return text(lost.to_string(), late.has_passed() ? " [late]" : "");
                      }));
  const std::vector<std::string> results = ranks.results();
  EXPECT_THAT(results,
              Each(AllOf(HasSubstr("timeout: "), HasSubstr("Redis"), Not(HasSubstr("[")))));
  server.stop();
}

}  // namespace
}  // namespace ashlar::symm
