// SPDX-License-Identifier: Apache-2.0
//
// Row 20 of the acceptance checklist, at exact points: a rank dies, or stands still, after it has
// met the others in an all-reduce and before it has finished, and between coming to a barrier and
// leaving it. Tripwires (mp/tripwire.h) say where.
#include <signal.h>

#include "mp/symmetric_rank.h"
#include "mp/tripwire.h"
#include "symm/backends/host/host_operations.h"

namespace ashlar::symm {
namespace {

constexpr int kVictim = 1;
constexpr int64_t kCount = 3 * 4096;
constexpr size_t kBytes = kCount * sizeof(float);
// After a lease has passed, for a busy machine. The callers' own timeouts are longer by far.
constexpr std::chrono::seconds kMargin{20};

struct Blow {
  int signal = 0;
  bool goes_on = false;  // when the others are done: it was only stopped
};

std::string name_of(const Blow& blow) {
  if (blow.signal == SIGKILL) return "Killed";
  return blow.goes_on ? "StoppedForAWhile" : "Stopped";
}
void PrintTo(const Blow& blow, std::ostream* out) { *out << name_of(blow); }

const auto kAllBlows = ::testing::Values(Blow{SIGKILL}, Blow{SIGSTOP}, Blow{SIGSTOP, true});

// Does `act` until it fails: what the victim had told all others before, they may get through. In
// brackets: what was wrong with the failure.
std::string fail_in(const std::function<Status()>& act) {
  const Deadline soon = Deadline::after(RankParts::quick().lease + kMargin);
  Status ended;
  for (int round = 0; round < 3 && ended.ok(); ++round) ended = act();
  std::string said = ended.to_string();
  if (!ended.is(StatusKind::kPeerLost)) said += " [no loss of a peer]";
  if (soon.has_passed()) said += " [much later]";
  return said;
}

void expect_the_victim_named(Ranks& ranks, const Blow& blow) {
  const bool stays = blow.signal == SIGSTOP && !blow.goes_on;
  const std::vector<std::string> said =
      blow.goes_on ? ranks.outcomes_with_late(kVictim) : ranks.outcomes(stays ? kVictim : -1);
  for (size_t rank = 0; rank < said.size(); ++rank) {
    const bool is_lost = rank == kVictim && !blow.goes_on;
    EXPECT_THAT(said[rank], AllOf(HasSubstr(is_lost ? "killed" : "peer lost: rank 1 of group"),
                                  Not(HasSubstr("["))));
  }
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
}

// --- inside of an all-reduce --------------------------------------------------------------------

using Laying = std::function<void(SymmetricRank& own, int signal)>;
using Reducing = std::function<void(const Handle& handle)>;

void lay_in(SymmetricRank& own, int rank, Touch touch, int signal) {
  lay_tripwire(std::as_writable_bytes(own.handle.view<float>(rank, kCount)), touch, signal);
}

const Reducing kOneShot = [](const Handle& handle) {
  handle.one_shot_all_reduce(kCount, {}, {.timeout = kPatience});
};
const Reducing kTwoShot = [](const Handle& handle) {
  handle.two_shot_all_reduce(kCount, {}, {.timeout = kPatience});
};

class SymmetricBlows : public ::testing::TestWithParam<Blow> {
 protected:
  // `touch` of `block_memory`'s memory is when the blow comes.
  static void all_reduce(const Reducing& reduce, int block_memory, Touch touch) {
    const Blow blow = GetParam();
    Ranks ranks(3, [&](const BareRank& rank) -> std::string {
      SymmetricRank own(rank, kBytes);
      reduce(own.handle);
      if (rank.rank == kVictim) lay_in(own, block_memory, touch, blow.signal);
      return fail_in([&]() -> Status {
        try {
          reduce(own.handle);
        } catch (const Error& failed) {
          return failed.status();
        }
        return {};
      });
    });
    expect_the_victim_named(ranks, blow);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, SymmetricBlows, kAllBlows,
                         [](const auto& each) { return name_of(each.param); });

TEST_P(SymmetricBlows, Row20BeforeItReadsInAOneShotAllReduce) {
  all_reduce(kOneShot, 0, Touch::kReading);
}

TEST_P(SymmetricBlows, Row20BeforeItWritesItsResultInAOneShotAllReduce) {
  all_reduce(kOneShot, kVictim, Touch::kWriting);
}

TEST_P(SymmetricBlows, Row20BeforeItReducesItsPartInATwoShotAllReduce) {
  all_reduce(kTwoShot, kVictim, Touch::kWriting);
}

// Rank 2 has it already.
TEST_P(SymmetricBlows, Row20BeforeItSendsItsPartToAllInATwoShotAllReduce) {
  all_reduce(kTwoShot, 0, Touch::kWriting);
}

// --- inside of a barrier ------------------------------------------------------------------------

class SymmetricBarrierBlows : public ::testing::TestWithParam<Blow> {
 protected:
  // When it writes to the pad of `pad_of`.
  static void barrier(int pad_of) {
    const Blow blow = GetParam();
    Ranks ranks(3, [&](RankParts& parts) -> std::string {
      CommunicatorOptions options = parts.options();
      options.pad_bytes = *pad_bytes(parts.world_size, 1);
      const std::unique_ptr<Communicator> group = parts.join(options);
      const auto operations = *HostOperations::make({.rank_info = group->rank_info(),
                                                     .channel_count = 1,
                                                     .pads = group->pads(),
                                                     .failure = group->failure(),
                                                     .spin_policy = group->spin_policy()});
      InFlightWork in_flight;
      const auto meet = [&] {
        return operations->run(Signal{}, {.timeout = kPatience, .in_flight = &in_flight});
      };
      if (Status met = meet(); !met.ok()) return met.to_string();
      if (parts.rank == kVictim) {
        lay_tripwire({group->pads()->pad(pad_of), options.pad_bytes}, Touch::kWriting, blow.signal);
      }
      return fail_in(meet);
    });
    expect_the_victim_named(ranks, blow);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, SymmetricBarrierBlows, kAllBlows,
                         [](const auto& each) { return name_of(each.param); });

// Rank 2 knows already that it has come.
TEST_P(SymmetricBarrierBlows, Row20BeforeItTellsAllThatItHasCome) { barrier(0); }

// All know: it goes to sleep, or has heard the others, and notes that in its own pad.
TEST_P(SymmetricBarrierBlows, Row20BetweenComingAndLeaving) { barrier(kVictim); }

}  // namespace
}  // namespace ashlar::symm
