// SPDX-License-Identifier: Apache-2.0
//
// All ranks perform the collective operations. Rank 0 alone performs the other operations, while
// its peers wait in a barrier. Rank 0 writes the results to a file; a rank that fails writes its
// error message to another file.
#include "cli/symm/symm_bench_runner.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>

#include "api/unwrap.h"
#include "ashlar/errors.h"
#include "ashlar/symmetric.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/symm/temporary_folder.h"
#if ASHLAR_HAS_UCX
#include "ashlar/ucx_transport.h"
#endif

namespace ashlar {
namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr size_t kMaxBytes = 16 * kMiB;
constexpr size_t kSizes[] = {kKiB, 16 * kKiB, 256 * kKiB, 4 * kMiB, kMaxBytes};
constexpr int kMaxIterations = 100;

// Returns how many operations of this size transfer about 4 MiB: at least one and at most
// kMaxIterations.
int iterations_for(size_t bytes) {
  return static_cast<int>(std::clamp<size_t>(4 * kMiB / bytes, 1, kMaxIterations));
}

Result<std::shared_ptr<symm::Transport>> open_transport(const SymmBenchOptions& options) {
  if (options.transport == SymmBenchTransport::kSharedMemory)
    return std::shared_ptr<symm::Transport>();
#if ASHLAR_HAS_UCX
  return symm::try_open_ucx_transport(
      {.transports = options.ucx_transports, .devices = options.ucx_devices});
#else
  return Status::unsupported("--transport ucx: built without UCX; install libucx-dev and rebuild");
#endif
}

// For UCX, gives each rank its own machine name, because only ranks on different machines
// communicate through the transport.
symm::HeapOptions heap_options(int rank, SymmBenchTransport transport) {
  symm::HeapOptions options;
  if (transport == SymmBenchTransport::kUcx) options.machine = text("machine of rank ", rank);
  return options;
}

class RankBench {
 public:
  RankBench(const std::string& folder, int rank, const SymmBenchOptions& options)
      : options_(options),
        heap_(heap_options(rank, options.transport)),
        group_(symm::Group::join(heap_, unwrap(symm::try_open_file_store(folder)),
                                 {.rank = rank,
                                  .world_size = options.ranks,
                                  .name = "bench",
                                  .transport = unwrap(open_transport(options)),
                                  .timeout = kTimeout})),
        buffer_(heap_.allocate(kMaxBytes)),
        handle_(group_.rendezvous(buffer_, kTimeout)),
        local_(kMaxBytes),
        copy_(kMaxBytes) {}

  SymmBenchOutcome run() {
    std::memset(buffer_.data(), 0, buffer_.bytes());
    measure_collective("barrier", 0, kMaxIterations, [&] { handle_.barrier(0, kTimeout); });
    const int next = 1 % options_.ranks;
    for (const size_t bytes : kSizes) {
      const std::span<std::byte> local = std::span(local_).first(bytes);
      measure_on_rank_0("memcpy", bytes, [&] { std::memcpy(copy_.data(), local.data(), bytes); });
      measure_on_rank_0("put", bytes, [&] { handle_.put(next, local); });
      measure_on_rank_0("get", bytes, [&] { handle_.get(next, local); });
    }
    for (const size_t bytes : kSizes) {
      const auto count = static_cast<int64_t>(bytes / sizeof(float));
      measure_collective("all-reduce", bytes, iterations_for(bytes), [&] {
        handle_.all_reduce(count, {}, {0, nullptr, kTimeout});
      });
    }
    outcome_.thresholds = group_.thresholds();
    group_.leave(kTimeout);
    return outcome_;
  }

 private:
  using Operation = std::function<void()>;

  void measure_collective(const char* name, size_t bytes, int iterations,
                          const Operation& operation) {
    std::vector<double> samples;
    for (int round = 0; round < options_.rounds; ++round) {
      handle_.barrier(1, kTimeout);
      samples.push_back(time(iterations, operation));
    }
    add_result(name, bytes, std::move(samples));
  }

  // Measures on rank 0 while the other ranks wait in the barrier.
  void measure_on_rank_0(const char* name, size_t bytes, const Operation& operation) {
    handle_.barrier(1, kTimeout);
    std::vector<double> samples;
    for (int round = 0; round < options_.rounds && handle_.rank() == 0; ++round) {
      samples.push_back(time(iterations_for(bytes), operation));
    }
    handle_.barrier(1, kTimeout);
    if (!samples.empty()) add_result(name, bytes, std::move(samples));
  }

  // Returns the microseconds per iteration.
  static double time(int iterations, const Operation& operation) {
    const auto begin = std::chrono::steady_clock::now();
    for (int iteration = 0; iteration < iterations; ++iteration) operation();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - begin;
    return elapsed.count() / iterations;
  }

  void add_result(const char* name, size_t bytes, std::vector<double> samples) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    outcome_.results.push_back({name, bytes, *middle});
  }

  const SymmBenchOptions options_;
  symm::Heap heap_;
  symm::Group group_;
  symm::SymmetricBuffer buffer_;
  symm::Handle handle_;
  std::vector<std::byte> local_;
  std::vector<std::byte> copy_;
  SymmBenchOutcome outcome_;
};

std::string outcome_file(const std::string& folder) { return folder + "/outcome"; }
std::string failure_file(const std::string& folder, int rank) {
  return text(folder, "/failure-", rank);
}

// Writes one line per result, then the thresholds.
void write_outcome(const std::string& folder, const SymmBenchOutcome& outcome) {
  std::ofstream file(outcome_file(folder));
  file << outcome.results.size() << '\n';
  for (const SymmBenchResult& each : outcome.results) {
    file << each.name << ' ' << each.bytes << ' ' << each.us << '\n';
  }
  file << outcome.thresholds;
  file.flush();
  if (!file) {
    throw Error(Status::device_fault(
        "write", errno, text(outcome_file(folder), " cannot be written; is the disk full?")));
  }
}

// Returns false after a failure, whose message is in failure_file().
bool run_rank(const std::string& folder, int rank, const SymmBenchOptions& options) {
  try {
    const SymmBenchOutcome outcome = RankBench(folder + "/store", rank, options).run();
    if (rank == 0) write_outcome(folder, outcome);
    return true;
  } catch (const std::exception& failure) {
    std::ofstream(failure_file(folder, rank)) << "rank " << rank << ": " << failure.what();
    return false;
  }
}

std::string read_remaining(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Result<SymmBenchOutcome> read_outcome(const std::string& folder) {
  std::ifstream file(outcome_file(folder));
  SymmBenchOutcome outcome;
  size_t count = 0;
  file >> count;
  while (file && outcome.results.size() < count) {
    SymmBenchResult each;
    file >> each.name >> each.bytes >> each.us;
    outcome.results.push_back(std::move(each));
  }
  if (!file || file.get() != '\n' || count == 0) {
    return Status::format(
        text("rank 0 succeeded, but ", outcome_file(folder), " does not have ", count, " results"));
  }
  outcome.thresholds = read_remaining(file);
  return outcome;
}

// Returns the status from waitpid, or -1 if waitpid failed.
int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

Result<SymmBenchOutcome> run_in(const std::string& folder, const SymmBenchOptions& options) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // so that the ranks end with this process
      ::_exit(run_rank(folder, rank, options) ? 0 : 1);
    }
    if (child < 0) {
      const int error = errno;
      for (const pid_t each : children)
        ::kill(each, SIGKILL);  // they wait for the rank that did not start
      for (const pid_t each : children) wait_for(each);
      return Status::device_fault(
          "fork", error,
          text("cannot start rank ", rank, " of ", options.ranks,
               " (fork: ", std::generic_category().message(error), "); use fewer ranks"));
    }
    children.push_back(child);
  }
  Status failure;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    const int status = wait_for(children[rank]);
    if (status == 0 || !failure.ok()) continue;
    std::ifstream file(failure_file(folder, static_cast<int>(rank)));
    const std::string why = read_remaining(file);
    failure =
        Status::peer_lost(why.empty() ? text("rank ", rank, " ended without a message") : why);
  }
  if (!failure.ok()) return failure;
  return read_outcome(folder);
}

}  // namespace

Result<SymmBenchOutcome> run_symm_bench(const SymmBenchOptions& options) {
  const Result<std::unique_ptr<TemporaryFolder>> folder = TemporaryFolder::make("ashlar-symm");
  if (!folder.ok()) return folder.status();
  return run_in((*folder)->path(), options);
}

}  // namespace ashlar
