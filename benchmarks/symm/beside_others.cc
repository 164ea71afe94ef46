// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory beside others, between processes that do the same in turns in one run: barriers
// beside a plain compare-and-swap barrier and Open MPI's, put and get beside memcpy, all-reduce
// beside Open MPI's; and with two ranks put, get and atomics beside UCX alone, over TCP and over
// shared memory.
//
//   mpirun -n 2 symm_beside_others [--rounds N] [--fastest] [--only WORD]
//   mpirun --oversubscribe -n 4 symm_beside_others
//
// Ratios in brackets are to the first of a line, of medians. Some have a bound: barrier of two
// ranks, put from 64 KiB on, all-reduce, and everything over TCP. Where one is exceeded the line
// says so, and the exit code is 1. Run it on an idle machine with a core for each rank; on one that
// has other work the fastest rounds (--fastest) say more.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/symmetric.h"
#include "contest.h"
#include "meeting_place.h"
#include "pair_contest.h"
#include "raw_ucx.h"
#include "turns.h"

namespace ashlar::symm {
namespace {

// How many times as long as what stands before it in a line.
constexpr double kMostBarrier = 1.5;
constexpr double kMostPut = 1.2;  // from here on:
constexpr size_t kBoundPutBytes = size_t{64} << 10;
constexpr double kMostAllReduce = 1.0;
constexpr double kMostNetwork = 1.3;

// --- on one machine -----------------------------------------------------------------------------

class SharedContest {
 public:
  SharedContest(const MeetingPlace& place, const ContestPlan& plan, int ranks)
      : plan_(plan),
        is_crowded_(ranks > static_cast<int>(std::thread::hardware_concurrency())),
        group_(Group::join(heap_, place.store(), {.rank = plan.rank, .world_size = ranks})),
        slots_(heap_.allocate(64 * static_cast<size_t>(ranks))),
        buffer_(heap_.allocate(kMostBytes)),
        at_slots_(group_.rendezvous(slots_)),
        handle_(group_.rendezvous(buffer_)),
        own_(kMostBytes) {
    std::memset(slots_.data(), 0, slots_.bytes());
    std::memset(buffer_.data(), 0, buffer_.bytes());
  }

  void hold() {
    barriers();
    for (size_t bytes = 8; bytes <= kMostBytes; bytes *= 2) copies(bytes);
    for (size_t bytes = 1024; bytes <= kMostBytes; bytes *= 2) all_reduce(bytes);
    if (plan_.rank == 0) std::printf("%s\n", group_.thresholds().c_str());
    group_.leave();
  }

 private:
  // The plain one is at its best with two.
  void barriers() {
    const bool is_pair = group_.world_size() == 2;
    hold_contest(
        plan_, "barrier", 5000,
        {{"plain", [this] { plain_barrier(at_slots_.buffer_ptrs(), plan_.rank, is_crowded_); }},
         {"Ashlar", [this] { group_.barrier(); },
          is_pair ? std::optional(kMostBarrier) : std::nullopt},
         {"Open MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }}});
  }

  void copies(size_t bytes) {
    const int next = (plan_.rank + 1) % group_.world_size();
    std::byte* there = handle_.buffer_ptrs()[static_cast<size_t>(next)];
    const std::span<std::byte> own = std::span(own_).first(bytes);
    const int turns = turns_for(bytes, 5000);
    hold_contest(plan_, "put " + std::to_string(bytes), turns,
                 {{"memcpy", [&] { std::memcpy(there, own.data(), bytes); }},
                  {"Ashlar", [&] { handle_.put(next, own); },
                   bytes < kBoundPutBytes ? std::nullopt : std::optional(kMostPut)}});
    hold_contest(plan_, "get " + std::to_string(bytes), turns,
                 {{"memcpy", [&] { std::memcpy(own.data(), there, bytes); }},
                  {"Ashlar", [&] { handle_.get(next, own); }}});
  }

  void all_reduce(size_t bytes) {
    const auto count = static_cast<int>(bytes / sizeof(float));
    hold_contest(plan_, "all-reduce " + std::to_string(bytes), turns_for(bytes, 2000),
                 {{"Open MPI",
                   [&] {
                     MPI_Allreduce(MPI_IN_PLACE, own_.data(), count, MPI_FLOAT, MPI_SUM,
                                   MPI_COMM_WORLD);
                   }},
                  {"Ashlar", [&] { handle_.all_reduce(count); }, kMostAllReduce}});
  }

  const ContestPlan& plan_;
  const bool is_crowded_;
  Heap heap_;
  Group group_;
  Buffer slots_;
  Buffer buffer_;
  Handle at_slots_;
  Handle handle_;
  std::vector<std::byte> own_;
};

// --- between two ranks ---------------------------------------------------------------------------

void hold_pairs(const MeetingPlace& place, const ContestPlan& plan) {
  PairContest(
      place, plan,
      {.name = "TCP", .ucx_transports = "tcp,self", .is_network = true, .most = kMostNetwork})
      .hold();
  const std::string shared = "sm,self";
  if (RawUcx::has(shared)) {
    PairContest(place, plan, {.name = "shared", .ucx_transports = shared}).hold();
  } else if (plan.rank == 0) {
    std::printf("UCX alone has no shared memory here: it is left out\n");
  }
}

// Whether all bounds held, on every rank.
bool run(ContestPlan plan) {
  Bounds bounds;
  plan.bounds = &bounds;
  plan.meet = [] { MPI_Barrier(MPI_COMM_WORLD); };
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &plan.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (plan.rank == 0) {
    std::printf("%d ranks, %u cores, the %s of %d rounds\n", ranks,
                std::thread::hardware_concurrency(), plan.by_fastest ? "fastest" : "medians",
                plan.rounds);
  }
  const MeetingPlace place(plan.rank);
  SharedContest(place, plan, ranks).hold();
  if (ranks == 2) hold_pairs(place, plan);
  if (plan.rank == 0) bounds.print();
  int holds = bounds.hold_all() ? 1 : 0;
  MPI_Bcast(&holds, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return holds != 0;
}

// Empty: the arguments make no sense.
std::optional<ContestPlan> read_plan(std::span<char*> arguments) {
  ContestPlan plan;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    if (word == "--fastest") {
      plan.by_fastest = true;
    } else if (word == "--rounds" && i + 1 < arguments.size()) {
      plan.rounds = std::atoi(arguments[++i]);
    } else if (word == "--only" && i + 1 < arguments.size()) {
      plan.only = arguments[++i];
    } else {
      return std::nullopt;
    }
  }
  return plan.rounds < 1 ? std::nullopt : std::optional(plan);
}

}  // namespace
}  // namespace ashlar::symm

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const auto plan = ashlar::symm::read_plan(std::span(arguments + 1, arguments + count));
  if (!plan) {
    std::fprintf(stderr,
                 "usage: mpirun -n N symm_beside_others [--rounds N] [--fastest] [--only WORD]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  bool holds = false;
  try {
    holds = ashlar::symm::run(*plan);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "symm_beside_others: %s\n", failed.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return holds ? 0 : 1;
}
