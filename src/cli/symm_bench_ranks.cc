// SPDX-License-Identifier: Apache-2.0
//
// Each rank measures along; what rank 0 found, or why a rank could not, comes back in a file.
#include "cli/symm_bench_ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>

#include "api/unwrap.h"
#include "ashlar/errors.h"
#include "ashlar/symmetric.h"
#include "base/text.h"
#include "base/units.h"
#if ASHLAR_HAS_UCX
#include "ashlar/ucx_transport.h"
#endif

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{60};
constexpr size_t kMostBytes = 16 * kMiB;
constexpr size_t kSizes[] = {kKiB, 16 * kKiB, 256 * kKiB, 4 * kMiB, kMostBytes};
constexpr int kMostTurns = 100;

// As many as take a while, and no more.
int turns_for(size_t bytes) {
  return static_cast<int>(std::clamp<size_t>(4 * kMiB / bytes, 1, kMostTurns));
}

Result<std::shared_ptr<symm::Transport>> open_transport(const SymmBenchEffort& effort) {
  if (effort.way == SymmBenchWay::kSharedMemory) return std::shared_ptr<symm::Transport>();
#if ASHLAR_HAS_UCX
  return symm::try_open_ucx_transport({.transports = effort.ucx_transports, .devices = {}});
#else
  return Status::unsupported(
      "--transport ucx: this tool was built without UCX: install libucx-dev and build again");
#endif
}

// Machines of different names reach each other by the transport alone.
symm::HeapOptions heap_of(int rank, SymmBenchWay way) {
  symm::HeapOptions options;
  if (way == SymmBenchWay::kUcx) options.machine = text("machine of rank ", rank);
  return options;
}

class RankBench {
 public:
  RankBench(const std::string& folder, int rank, const SymmBenchEffort& effort)
      : effort_(effort),
        heap_(heap_of(rank, effort.way)),
        group_(symm::Group::join(heap_, unwrap(symm::try_open_file_store(folder)),
                                 {.rank = rank,
                                  .world_size = effort.ranks,
                                  .name = "bench",
                                  .transport = unwrap(open_transport(effort)),
                                  .timeout = kPatience})),
        buffer_(heap_.allocate(kMostBytes)),
        handle_(group_.rendezvous(buffer_, kPatience)),
        own_(kMostBytes),
        copy_(kMostBytes) {}

  SymmBenchOutcome run() {
    std::memset(buffer_.data(), 0, buffer_.bytes());
    measure_together("barrier", 0, kMostTurns, [&] { handle_.barrier(0, kPatience); });
    const int next = 1 % effort_.ranks;
    for (const size_t bytes : kSizes) {
      const std::span<std::byte> own = std::span(own_).first(bytes);
      measure_alone("memcpy", bytes, [&] { std::memcpy(copy_.data(), own.data(), bytes); });
      measure_alone("put", bytes, [&] { handle_.put(next, own); });
      measure_alone("get", bytes, [&] { handle_.get(next, own); });
    }
    for (const size_t bytes : kSizes) {
      const auto count = static_cast<int64_t>(bytes / sizeof(float));
      measure_together("all-reduce", bytes, turns_for(bytes), [&] {
        handle_.all_reduce(count, {}, {0, nullptr, kPatience});
      });
    }
    outcome_.thresholds = group_.thresholds();
    group_.leave(kPatience);
    return outcome_;
  }

 private:
  using Act = std::function<void()>;

  void measure_together(const char* name, size_t bytes, int turns, const Act& act) {
    std::vector<double> taken;
    for (int round = 0; round < effort_.rounds; ++round) {
      handle_.barrier(1, kPatience);
      taken.push_back(time(turns, act));
    }
    note(name, bytes, std::move(taken));
  }

  // The others wait meanwhile, asleep after a moment.
  void measure_alone(const char* name, size_t bytes, const Act& act) {
    handle_.barrier(1, kPatience);
    std::vector<double> taken;
    for (int round = 0; round < effort_.rounds && handle_.rank() == 0; ++round) {
      taken.push_back(time(turns_for(bytes), act));
    }
    handle_.barrier(1, kPatience);
    if (!taken.empty()) note(name, bytes, std::move(taken));
  }

  // Of one turn, in microseconds.
  static double time(int turns, const Act& act) {
    const auto begin = std::chrono::steady_clock::now();
    for (int turn = 0; turn < turns; ++turn) act();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - begin;
    return taken.count() / turns;
  }

  void note(const char* name, size_t bytes, std::vector<double> taken) {
    const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
    std::nth_element(taken.begin(), middle, taken.end());
    outcome_.results.push_back({name, bytes, *middle});
  }

  const SymmBenchEffort effort_;
  symm::Heap heap_;
  symm::Group group_;
  symm::SymmetricBuffer buffer_;
  symm::Handle handle_;
  std::vector<std::byte> own_;
  std::vector<std::byte> copy_;
  SymmBenchOutcome outcome_;
};

std::string outcome_file(const std::string& folder) { return folder + "/outcome"; }
std::string failure_file(const std::string& folder, int rank) {
  return text(folder, "/failure-", rank);
}

// A line for each result, then the thresholds.
void write_outcome(const std::string& folder, const SymmBenchOutcome& outcome) {
  std::ofstream said(outcome_file(folder));
  said << outcome.results.size() << '\n';
  for (const SymmBenchResult& each : outcome.results) {
    said << each.name << ' ' << each.bytes << ' ' << each.us << '\n';
  }
  said << outcome.thresholds;
  said.flush();
  if (!said) {
    throw Error(Status::device_fault(
        "write", errno, text(outcome_file(folder), " cannot be written: is there room?")));
  }
}

// False: why not is in a file, if that could be written.
bool run_rank(const std::string& folder, int rank, const SymmBenchEffort& effort) {
  try {
    const SymmBenchOutcome outcome = RankBench(folder + "/store", rank, effort).run();
    if (rank == 0) write_outcome(folder, outcome);
    return true;
  } catch (const std::exception& failed) {
    std::ofstream(failure_file(folder, rank)) << "rank " << rank << ": " << failed.what();
    return false;
  }
}

std::string rest_of(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Result<SymmBenchOutcome> read_outcome(const std::string& folder) {
  std::ifstream said(outcome_file(folder));
  SymmBenchOutcome outcome;
  size_t count = 0;
  said >> count;
  while (said && outcome.results.size() < count) {
    SymmBenchResult each;
    said >> each.name >> each.bytes >> each.us;
    outcome.results.push_back(std::move(each));
  }
  if (!said || said.get() != '\n' || count == 0) {
    return Status::format(text("rank 0 ended well, but ", outcome_file(folder), " has not ", count,
                               " results in it: was it touched?"));
  }
  outcome.thresholds = rest_of(said);
  return outcome;
}

// What waitpid says of its end.
int wait_for(pid_t child) {
  int ended = 0;
  while (::waitpid(child, &ended, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return ended;
}

Result<SymmBenchOutcome> run_in(const std::string& folder, const SymmBenchEffort& effort) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < effort.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run_rank(folder, rank, effort) ? 0 : 1);
    if (child < 0) {
      const int error = errno;
      for (const pid_t each : children) ::kill(each, SIGKILL);  // they wait for this one
      for (const pid_t each : children) wait_for(each);
      return Status::device_fault("fork", error,
                                  text("no process for rank ", rank, " of ", effort.ranks,
                                       " (fork: ", std::generic_category().message(error),
                                       "): ask for fewer ranks, or end others"));
    }
    children.push_back(child);
  }
  Status failed;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    const int ended = wait_for(children[rank]);
    if (ended == 0 || !failed.ok()) continue;
    std::ifstream said(failure_file(folder, static_cast<int>(rank)));
    const std::string why = rest_of(said);
    failed = Status::peer_lost(why.empty() ? text("rank ", rank, " ended by itself") : why);
  }
  if (!failed.ok()) return failed;
  return read_outcome(folder);
}

}  // namespace

Result<SymmBenchOutcome> run_symm_bench(const SymmBenchEffort& effort) {
  std::string folder = (fs::temp_directory_path() / "ashlar-symm-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    return Status::device_fault("mkdtemp", errno,
                                text("no folder for the ranks to meet: ", folder));
  }
  Result<SymmBenchOutcome> outcome = run_in(folder, effort);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return outcome;
}

}  // namespace ashlar
