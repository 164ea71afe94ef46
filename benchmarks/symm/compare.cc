// SPDX-License-Identifier: Apache-2.0
//
// Compares symmetric memory with other implementations, interleaved in one run: barriers with a
// plain compare-and-swap barrier and Open MPI, put and get with memcpy, all-reduce with Open MPI;
// with two ranks also put, get and atomics with raw UCX over TCP and shared memory.
//
//   mpirun -n 2 symm_compare [--rounds N] [--fastest] [--only WORD]
//   mpirun --oversubscribe -n 4 symm_compare
//
// Ratios in brackets are relative to the first candidate of a line. Barriers of two ranks, puts
// from 64 KiB, all-reduces and everything over TCP have limits; if a limit is exceeded, the line
// says so and the exit code is 1. Run it on an idle machine with one core per rank. On a busy
// machine, --fastest gives more stable results.
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
#include "comparison.h"
#include "pair_comparison.h"
#include "raw_ucx.h"
#include "rendezvous_folder.h"

namespace ashlar::symm {
namespace {

// Limits of the time relative to the first candidate.
constexpr double kMaxBarrierRatio = 1.5;
constexpr double kMaxPutRatio = 1.2;  // limit for puts of at least kLimitedPutBytes
constexpr size_t kLimitedPutBytes = size_t{64} << 10;
constexpr double kMaxAllReduceRatio = 1.0;
constexpr double kMaxNetworkRatio = 1.3;

class SharedMemoryComparison {
 public:
  SharedMemoryComparison(const RendezvousFolder& folder, const ComparisonPlan& plan, int ranks)
      : plan_(plan),
        is_oversubscribed_(ranks > static_cast<int>(std::thread::hardware_concurrency())),
        group_(Group::join(heap_, folder.store(), {.rank = plan.rank, .world_size = ranks})),
        slots_(heap_.allocate(64 * static_cast<size_t>(ranks))),
        buffer_(heap_.allocate(kMaxBytes)),
        slots_handle_(group_.rendezvous(slots_)),
        handle_(group_.rendezvous(buffer_)),
        local_(kMaxBytes) {
    std::memset(slots_.data(), 0, slots_.bytes());
    std::memset(buffer_.data(), 0, buffer_.bytes());
  }

  void run() {
    barriers();
    for (size_t bytes = 8; bytes <= kMaxBytes; bytes *= 2) copies(bytes);
    for (size_t bytes = 1024; bytes <= kMaxBytes; bytes *= 2) all_reduce(bytes);
    if (plan_.rank == 0) std::printf("%s\n", group_.thresholds().c_str());
    group_.leave();
  }

 private:
  // Compares barriers. Only barriers of two ranks have a limit: with more ranks, the plain barrier
  // is slow, so the ratio says little.
  void barriers() {
    const bool is_pair = group_.world_size() == 2;
    run_comparison(
        plan_, "barrier", 5000,
        {{"plain",
          [this] { plain_barrier(slots_handle_.buffer_ptrs(), plan_.rank, is_oversubscribed_); }},
         {"Ashlar", [this] { group_.barrier(); },
          is_pair ? std::optional(kMaxBarrierRatio) : std::nullopt},
         {"Open MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }}});
  }

  void copies(size_t bytes) {
    const int next = (plan_.rank + 1) % group_.world_size();
    std::byte* remote = handle_.buffer_ptrs()[static_cast<size_t>(next)];
    const std::span<std::byte> local = std::span(local_).first(bytes);
    const int iterations = iterations_for(bytes, 5000);
    run_comparison(plan_, "put " + std::to_string(bytes), iterations,
                   {{"memcpy", [&] { std::memcpy(remote, local.data(), bytes); }},
                    {"Ashlar", [&] { handle_.put(next, local); },
                     bytes < kLimitedPutBytes ? std::nullopt : std::optional(kMaxPutRatio)}});
    run_comparison(plan_, "get " + std::to_string(bytes), iterations,
                   {{"memcpy", [&] { std::memcpy(local.data(), remote, bytes); }},
                    {"Ashlar", [&] { handle_.get(next, local); }}});
  }

  void all_reduce(size_t bytes) {
    const auto count = static_cast<int>(bytes / sizeof(float));
    run_comparison(plan_, "all-reduce " + std::to_string(bytes), iterations_for(bytes, 2000),
                   {{"Open MPI",
                     [&] {
                       MPI_Allreduce(MPI_IN_PLACE, local_.data(), count, MPI_FLOAT, MPI_SUM,
                                     MPI_COMM_WORLD);
                     }},
                    {"Ashlar", [&] { handle_.all_reduce(count); }, kMaxAllReduceRatio}});
  }

  const ComparisonPlan& plan_;
  const bool is_oversubscribed_;
  Heap heap_;
  Group group_;
  SymmetricBuffer slots_;
  SymmetricBuffer buffer_;
  Handle slots_handle_;
  Handle handle_;
  std::vector<std::byte> local_;
};

void compare_pairs(const RendezvousFolder& folder, const ComparisonPlan& plan) {
  PairComparison(folder, plan,
                 {.name = "TCP",
                  .ucx_transports = "tcp,self",
                  .is_network = true,
                  .max_ratio = kMaxNetworkRatio})
      .run();
  const std::string shared = "sm,self";
  if (RawUcx::has(shared)) {
    PairComparison(folder, plan, {.name = "shared", .ucx_transports = shared}).run();
  } else if (plan.rank == 0) {
    std::printf("raw UCX has no shared memory here: comparison skipped\n");
  }
}

// Returns on every rank whether all limits were met.
bool run(ComparisonPlan plan) {
  RatioLimits limits;
  plan.limits = &limits;
  plan.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &plan.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (plan.rank == 0) {
    std::printf("%d ranks, %u cores, the %s of %d rounds\n", ranks,
                std::thread::hardware_concurrency(), plan.use_fastest ? "fastest" : "medians",
                plan.rounds);
  }
  const RendezvousFolder folder(plan.rank);
  SharedMemoryComparison(folder, plan, ranks).run();
  if (ranks == 2) compare_pairs(folder, plan);
  if (plan.rank == 0) limits.print();
  int is_met = limits.all_met() ? 1 : 0;
  MPI_Bcast(&is_met, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return is_met != 0;
}

// Parses the command line. Returns nullopt if the arguments are invalid.
std::optional<ComparisonPlan> read_plan(std::span<char*> arguments) {
  ComparisonPlan plan;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    if (word == "--fastest") {
      plan.use_fastest = true;
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
                 "usage: mpirun -n N symm_compare [--rounds N] [--fastest] [--only WORD]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  bool is_met = false;
  try {
    is_met = ashlar::symm::run(*plan);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "symm_compare: %s\n", failed.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return is_met ? 0 : 1;
}
