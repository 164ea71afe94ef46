// SPDX-License-Identifier: Apache-2.0
//
// On the side that answers, UCX alone is called all the time, Ashlar has its own thread.
#include "pair_contest.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "api/unwrap.h"
#include "ashlar/ucx_transport.h"
#include "turns.h"

namespace ashlar::symm {
namespace {

// Of what is posted: within what Ashlar has on its way at once, and many times that.
constexpr int kBatches[] = {64, 1024};

// Until the other has come, too.
void meet_while(const std::function<void()>& act) {
  MPI_Request met{};
  MPI_Ibarrier(MPI_COMM_WORLD, &met);
  for (int is_over = 0; is_over == 0; MPI_Test(&met, &is_over, MPI_STATUS_IGNORE)) act();
}

std::vector<char> swap_with_other(const std::vector<char>& own) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int other = 1 - rank;
  uint64_t own_bytes = own.size();
  uint64_t other_bytes = 0;
  MPI_Sendrecv(&own_bytes, 1, MPI_UINT64_T, other, 0, &other_bytes, 1, MPI_UINT64_T, other, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<char> others(other_bytes);
  MPI_Sendrecv(own.data(), static_cast<int>(own_bytes), MPI_CHAR, other, 1, others.data(),
               static_cast<int>(other_bytes), MPI_CHAR, other, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  return others;
}

HeapOptions heap_options(const PairWay& way, int rank) {
  HeapOptions options;
  if (way.is_network) options.machine = "machine of rank " + std::to_string(rank);
  return options;
}

GroupOptions group_options(const PairWay& way, int rank) {
  GroupOptions options;
  options.rank = rank;
  options.world_size = 2;
  options.name = way.name;
  options.measure_thresholds = false;
  if (way.is_network) {
    options.transport = unwrap(open_ucx_transport({.transports = way.ucx_transports}));
  }
  return options;
}

}  // namespace

PairContest::PairContest(const MeetingPlace& place, const ContestPlan& plan, const PairWay& way)
    : way_(way),
      plan_{.rank = plan.rank,
            .rounds = plan.rounds,
            .by_fastest = plan.by_fastest,
            .only = plan.only,
            .meet = [] { meet_while([] {}); },
            .bounds = plan.bounds},
      heap_(heap_options(way, plan.rank)),
      group_(Group::join(heap_, place.store(), group_options(way, plan.rank))),
      buffer_(heap_.allocate(kMostBytes)),
      handle_(group_.rendezvous(buffer_)),
      raw_(way.ucx_transports, kMostBytes, swap_with_other),
      own_(kMostBytes) {
  std::memset(buffer_.data(), 0, buffer_.bytes());
  std::memset(raw_.memory().data(), 0, raw_.memory().size());
}

void PairContest::hold() {
  for (size_t bytes = 8; bytes <= kMostBytes; bytes *= 2) copies(bytes);
  words();
  batches();
  group_.leave();
}

void PairContest::copies(size_t bytes) {
  const std::span<std::byte> own = std::span(own_).first(bytes);
  const int turns = turns_for(bytes, 500);
  contest({"put " + std::to_string(bytes), turns, [&] { raw_.put(own); },
           [&] { handle_.put(1, own); }});
  contest({"get " + std::to_string(bytes), turns, [&] { raw_.get(own); },
           [&] { handle_.get(1, own); }});
}

void PairContest::words() {
  contest({"fetch-add", 500, [this] { raw_.fetch_add(1); },
           [this] { handle_.fetch(1, {.kind = AtomicKind::kAdd, .operand = 1}); }});
  // Each finds what the last one put there, but for the first.
  uint64_t raw_last = 0;
  uint64_t last = 0;
  contest({"compare-and-swap", 500,
           [&] {
             const uint64_t found = raw_.compare_and_swap(raw_last, raw_last + 1);
             raw_last = found == raw_last ? raw_last + 1 : found;
           },
           [&] {
             const uint64_t found = handle_.fetch(
                 1, {.kind = AtomicKind::kCompareAndSwap, .operand = last + 1, .expected = last});
             last = found == last ? last + 1 : found;
           }});
}

void PairContest::batches() {
  for (const int count : kBatches) {
    const int turns = std::max(2, 4096 / count);
    const std::string times = std::to_string(count) + " x ";
    contest({times + "posted add", turns,
             [&, count] {
               for (int i = 0; i < count; ++i) raw_.post_add(1);
               raw_.flush();
             },
             [&, count] {
               for (int i = 0; i < count; ++i) {
                 handle_.post(1, {.kind = AtomicKind::kAdd, .operand = 1});
               }
               handle_.quiet();
             }});
    for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{65536}}) {
      const std::span<const std::byte> own = std::span(own_).first(bytes);
      contest({times + "posted put " + std::to_string(bytes),
               std::min(turns, turns_for(bytes * static_cast<size_t>(count), 500)),
               [&, count] {
                 for (int i = 0; i < count; ++i) raw_.post_put(own);
                 raw_.flush();
               },
               [&, count] {
                 for (int i = 0; i < count; ++i) handle_.post(1, own);
                 handle_.quiet();
               }});
    }
  }
}

void PairContest::contest(const Entry& entry) {
  const std::string title = way_.name + ' ' + entry.title;
  if (!plan_.has(title)) return;
  if (plan_.rank == 0) {
    hold_contest(plan_, title, entry.turns,
                 {{"UCX alone", entry.raw}, {"Ashlar", entry.ours, way_.most}});
    plan_.meet();
    return;
  }
  plan_.meet();
  for (int round = 0; round <= plan_.rounds; ++round) {
    meet_while([this] { raw_.progress(); });
    meet_while([] { ::usleep(200); });  // out of the way of the thread that answers
  }
}

}  // namespace ashlar::symm
