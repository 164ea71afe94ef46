// SPDX-License-Identifier: Apache-2.0
//
// Measures signals, barriers and collectives on host memory, compared with the simplest
// implementation: a compare-and-swap barrier and memcpy. Compares the one-shot with the two-shot
// all-reduce. Ranks are processes (or threads, with --threads) on shared memory.
//
//   symm_host_ranks [--ranks N] [--threads] [--rounds N]
//
// Candidates run interleaved; the figures are medians of the rounds, measured by rank 0.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "comparison.h"
#include "symm/collectives/reductions.h"
#include "symm/collectives/thresholds.h"
#include "symm/signals/barrier.h"

namespace ashlar::symm {
namespace {

constexpr size_t kBufferBytes = size_t{16} << 20;
constexpr int kChannels = 2;

struct Settings {
  int ranks = 2;
  int rounds = 9;
  bool use_threads = false;
};

// Shared memory of all ranks, with slots for the plain barrier.
struct Memory {
  std::vector<std::byte*> pads;
  std::vector<std::byte*> buffers;
  std::vector<std::byte*> plain_slots;  // one cache line per source rank
};

std::byte* map_shared(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

Memory map_memory(int ranks) {
  Memory memory;
  for (int rank = 0; rank < ranks; ++rank) {
    memory.pads.push_back(map_shared(*pad_bytes(ranks, kChannels)));
    memory.buffers.push_back(map_shared(kBufferBytes));
    memory.plain_slots.push_back(map_shared(64 * static_cast<size_t>(ranks)));
    std::memset(memory.buffers.back(), 0, kBufferBytes);
  }
  return memory;
}

// The measurements. Runs on every rank; rank 0 prints.
class Bench {
 public:
  Bench(const Settings& settings, const Memory& memory, int rank)
      : settings_(settings),
        memory_(memory),
        pads_(*SignalPads::make(rank, kChannels, memory.pads)),
        is_oversubscribed_(settings.ranks > static_cast<int>(std::thread::hardware_concurrency())) {
  }

  void run() {
    run_comparison(
        plan_, "barrier", 5000,
        {{"plain",
          [this] { plain_barrier(memory_.plain_slots, pads_.rank(), is_oversubscribed_); }},
         {"all to all", [this] { run_barrier(BarrierKind::kAllToAll); }},
         {"dissemination", [this] { run_barrier(BarrierKind::kDissemination); }}});
    for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) put(bytes);
    for (size_t bytes = 1024; bytes <= kBufferBytes; bytes *= 4) all_reduce_of(bytes);
    measure();
  }

 private:
  void expect(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "rank %d: %s\n", pads_.rank(), status.to_string().c_str());
    std::_Exit(1);
  }
  void run_barrier(BarrierKind kind) { expect(barrier(pads_, 0, kind, limits_)); }

  // Copies into the next rank's buffer, with and without a signal afterwards.
  void put(size_t bytes) {
    const int next = (pads_.rank() + 1) % settings_.ranks;
    const int before = (pads_.rank() + settings_.ranks - 1) % settings_.ranks;
    std::byte* to = memory_.buffers[static_cast<size_t>(next)];
    const std::vector<std::byte> from(bytes, std::byte{1});
    const int iterations = static_cast<int>(std::max<size_t>(2, (size_t{64} << 20) / bytes));
    run_comparison(plan_, "put " + std::to_string(bytes), iterations,
                   {{"memcpy", [&] { std::memcpy(to, from.data(), bytes); }},
                    {"with a signal", [&] {
                       std::memcpy(to, from.data(), bytes);
                       expect(put_signal(pads_.slots(), next, 1, limits_));
                       expect(wait_signal(pads_.slots(), before, 1, limits_));
                     }}});
  }

  void all_reduce_of(size_t bytes) {
    const AllReduce request{.range = {.bases = memory_.buffers, .buffer_bytes = kBufferBytes},
                            .count = static_cast<int64_t>(bytes / sizeof(float))};
    const CollectiveContext context{.pads = pads_, .runner = runner_, .channel = 0};
    const int iterations = static_cast<int>(std::clamp<size_t>((size_t{8} << 20) / bytes, 2, 2000));
    run_comparison(plan_, "all-reduce " + std::to_string(bytes), iterations,
                   {{"one-shot", [&] { expect(one_shot_all_reduce(context, request, limits_)); }},
                    {"two-shot", [&] { expect(two_shot_all_reduce(context, request, limits_)); }}});
  }

  void measure() {
    const CollectiveContext context{.pads = pads_, .runner = runner_, .channel = 0};
    const SymmetricRange range{.bases = memory_.buffers, .buffer_bytes = kBufferBytes};
    const Result<Thresholds> found = measure_thresholds(context, range, 5, limits_);
    expect(found.status());
    if (pads_.rank() == 0) std::printf("%s\n", found->to_string().c_str());
  }

  const Settings& settings_;
  const Memory& memory_;
  SignalPads pads_;
  bool is_oversubscribed_;
  const ComparisonPlan plan_{.rank = pads_.rank(), .rounds = settings_.rounds, .barrier = [this] {
                               run_barrier(BarrierKind::kAllToAll);
                             }};
  CollectiveRunner runner_;
  Failure failure_;
  Limits limits_{failure_, Deadline::after(std::chrono::minutes(10))};
};

int run_all(const Settings& settings) {
  const Memory memory = map_memory(settings.ranks);
  const auto run_rank = [&](int rank) { Bench(settings, memory, rank).run(); };
  std::printf("%d ranks as %s, %u cores\n", settings.ranks,
              settings.use_threads ? "threads" : "processes", std::thread::hardware_concurrency());
  std::fflush(stdout);
  if (settings.use_threads) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < settings.ranks; ++rank) threads.emplace_back(run_rank, rank);
    for (std::thread& thread : threads) thread.join();
    return 0;
  }
  for (int rank = 0; rank < settings.ranks; ++rank) {
    if (::fork() != 0) continue;
    run_rank(rank);
    std::fflush(stdout);
    ::_exit(0);
  }
  int failed = 0;
  int status = 0;
  while (::wait(&status) > 0) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ashlar::symm

int main(int count, char** arguments) {
  ashlar::symm::Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const int value = i + 1 < count ? std::atoi(arguments[i + 1]) : 0;
    if (word == "--threads") {
      settings.use_threads = true;
    } else if (word == "--ranks" && value > 0) {
      settings.ranks = value;
      ++i;
    } else if (word == "--rounds" && value > 0) {
      settings.rounds = value;
      ++i;
    } else {
      std::fprintf(stderr, "usage: symm_host_ranks [--ranks N] [--threads] [--rounds N]\n");
      return 2;
    }
  }
  return ashlar::symm::run_all(settings);
}
