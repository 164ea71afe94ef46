// SPDX-License-Identifier: Apache-2.0
//
// Row 20 of the acceptance checklist where ranks meet in Redis and reach each other over UCX: one
// dies, or stands still, at each step; or the store does. Two machines are as if: ranks say so.
#include <signal.h>

#include "ashlar/redis_store.h"
#include "ashlar/ucx_transport.h"
#include "mp/symmetric_rank.h"
#include "mp/ucx_ranks.h"
#include "unit/symm/stores/redis/redis_server.h"

namespace ashlar::symm {
namespace {

constexpr int kVictim = 1;

struct Step {
  Phase phase = Phase::kJoining;
  const char* name = "";  // of the job, too
};

constexpr Step kSteps[] = {{Phase::kJoining, "joining"},     {Phase::kMeeting, "meeting"},
                           {Phase::kLinking, "linking"},     {Phase::kRecording, "recording"},
                           {Phase::kHandingOver, "handing"}, {Phase::kMapping, "mapping"},
                           {Phase::kAgreeing, "agreeing"}};

// One rank of three: the victim is on the machine of rank 0, and not on that of rank 2.
struct RemoteParts {
  RemoteParts(const BareRank& rank, const RedisServer& server, const char* job) {
    RedisOptions redis;
    redis.unix_socket = server.socket_path();
    store = must(open_redis_store(redis, patience()));
    options.job = job;
    options.rank = rank.rank;
    options.world_size = rank.world_size;
    options.pad_bytes = 256;
  }
  static ProcessOptions as_if_on_two(const BareRank& rank) {
    ProcessOptions made = RankParts::quick();
    made.machine = rank.rank == 2 ? "right" : "left";
    return made;
  }
  // What became of a group and of a rendezvous in it.
  Status join_and_meet(RankHeap& heap, Deadline deadline) {
    Result<std::unique_ptr<Communicator>> group =
        Communicator::join(heap, store, options, deadline);
    if (!group.ok()) return group.status();
    return (*group)->rendezvous(*heap.allocate(64, {}), deadline).status();
  }

  std::shared_ptr<Store> store;
  CommunicatorOptions options;
};

class SymmetricRemoteBlows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) GTEST_SKIP() << "NOT TESTED: no redis-server is here";
  }

  // At each step, all at once: those who are left have a lease to wait for.
  static void strike_at_each_step(int signal) {
    const RedisServer server;
    std::vector<std::unique_ptr<Ranks>> groups;
    for (const Step& step : kSteps) {
      groups.push_back(std::make_unique<Ranks>(3, BareBody([&](const BareRank& rank) {
                                                 return be_struck(rank, server, step, signal);
                                               })));
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      SCOPED_TRACE(kSteps[i].name);
      std::vector<std::string> said = groups[i]->outcomes(signal == SIGSTOP ? kVictim : -1);
      EXPECT_EQ(said[kVictim], "killed");
      said.erase(said.begin() + kVictim);
      EXPECT_THAT(said, Each(AllOf(HasSubstr("rank 1 of group world"), Not(HasSubstr("[")))));
    }
    EXPECT_EQ(server.keys_that_outlive(3 * RankParts::quick().lease), "");
  }

 private:
  static std::string be_struck(const BareRank& rank, const RedisServer& server, const Step& step,
                               int signal) {
    const std::unique_ptr<Process> process = must(Process::start(RemoteParts::as_if_on_two(rank)));
    RankHeap heap(*process, process->backends().activate(), {});
    RemoteParts own(rank, server, step.name);
    own.options.transport = must(open_ucx_transport({.transports = "tcp", .devices = "lo"}));
    if (rank.rank == kVictim) {
      own.options.on_phase = [&](Phase phase) {
        if (phase == step.phase) ::raise(signal);
      };
    }
    // Before anybody has met, only the deadline tells that somebody is missing.
    const bool is_alone = step.phase == Phase::kJoining;
    const Deadline deadline = Deadline::after(std::chrono::seconds(is_alone ? 8 : 40));
    const Status lost = own.join_and_meet(heap, deadline);
    const bool is_typed = lost.is(is_alone ? StatusKind::kTimeout : StatusKind::kPeerLost);
    const bool is_late = deadline.has_passed() && !is_alone;
    return text(lost.to_string(), is_typed ? "" : " [another kind]", is_late ? " [late]" : "");
  }
};

TEST_F(SymmetricRemoteBlows, Row20ADeathAtAnyStepIsToldByNameAndNoKeyStays) {
  strike_at_each_step(SIGKILL);
}

TEST_F(SymmetricRemoteBlows, Row20ARankThatStandsStillAtAnyStepIsToldByNameAndNoKeyStays) {
  strike_at_each_step(SIGSTOP);
}

// --- the store ----------------------------------------------------------------------------------

// Every rank waits in the store, or is about to: each fails by its own deadline, and says what is
// gone.
class SymmetricStoreBlows : public ::testing::TestWithParam<Step> {};

void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

INSTANTIATE_TEST_SUITE_P(Steps, SymmetricStoreBlows,
                         ::testing::Values(kSteps[0], kSteps[1], kSteps[2], kSteps[3], kSteps[6]),
                         [](const auto& each) { return each.param.name; });

TEST_P(SymmetricStoreBlows, Row20AStoreThatIsKilledFailsAllWithinTheirDeadline) {
  if (!RedisServer::is_installed()) GTEST_SKIP() << "NOT TESTED: no redis-server is here";
  const Step step = GetParam();
  RedisServer server;
  constexpr std::chrono::seconds kTime{3};  // enough to get to the step on a busy machine
  constexpr std::chrono::seconds kMargin{3};
  Ranks ranks(3, BareBody([&](const BareRank& rank) -> std::string {
                const std::unique_ptr<Process> process = must(Process::start(RankParts::quick()));
                RankHeap heap(*process, process->backends().activate(), {});
                RemoteParts own(rank, server, step.name);
                own.options.on_phase = [&](Phase phase) {
                  if (rank.rank == kVictim && phase == step.phase) ::kill(server.pid(), SIGKILL);
                };
                const Deadline late = Deadline::after(kTime + kMargin);
                const Status lost = own.join_and_meet(heap, Deadline::after(kTime));
                return text(lost.to_string(), late.has_passed() ? " [late]" : "");
              }));
  const std::vector<std::string> said = ranks.outcomes();
  EXPECT_THAT(said, Each(AllOf(HasSubstr("timeout: "), HasSubstr("Redis"), Not(HasSubstr("[")))));
  server.stop();
}

}  // namespace
}  // namespace ashlar::symm
