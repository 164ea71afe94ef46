// SPDX-License-Identifier: Apache-2.0
//
// Starts each PE with fork and exec, then waits for signals, including SIGCHLD, in one loop.
#include "cli/symm/pe_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "ashlar/deadline.h"
#include "ashlar/store.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "cli/symm/temporary_folder.h"
#include "symm/stores/shmem_exit.h"

namespace ashlar {
namespace {

constexpr std::array kForwardedSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
// Termination signals. A PE that ends because such a signal was forwarded to it needs no message.
constexpr std::array kTerminationSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// The job's name need not be unique, because each run has its own rendezvous folder.
constexpr const char* kJob = "shmem";
constexpr std::chrono::seconds kGracePeriod{2};  // time from SIGTERM to SIGKILL

// The handled signals as a file descriptor. The signals stay blocked until the process ends, so
// that no signal terminates the process before the rendezvous folder is removed.
class Signals {
 public:
  static Result<Signals> take() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGCHLD);
    for (const int each : kForwardedSignals) ::sigaddset(&wanted, each);
    Signals signals;
    ::pthread_sigmask(SIG_BLOCK, &wanted, &signals.original_mask_);
    signals.fd_.reset(::signalfd(-1, &wanted, SFD_CLOEXEC));
    if (signals.fd_.valid()) return signals;
    return Status::device_fault("signalfd", errno,
                                text("cannot wait for signals: ", std::strerror(errno)));
  }

  // Returns the number of a signal that arrived, 0 after the deadline, or -1 if the wait ended for
  // another reason.
  int wait(Deadline deadline) const {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, deadline.poll_timeout_ms()) <= 0) return deadline.has_passed() ? 0 : -1;
    signalfd_siginfo got{};
    const ssize_t bytes = ::read(fd_.get(), &got, sizeof(got));
    return bytes == static_cast<ssize_t>(sizeof(got)) ? static_cast<int>(got.ssi_signo) : -1;
  }
  // Restores the signal mask in a child before exec.
  void restore_mask() const { ::pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr); }

 private:
  UniqueFd fd_;
  sigset_t original_mask_{};
};

// The temporary folder for the rendezvous of the PEs.
class RendezvousFolder {
 public:
  static Result<std::unique_ptr<RendezvousFolder>> make() {
    Result<std::unique_ptr<TemporaryFolder>> folder = TemporaryFolder::make("ashlar-pes");
    if (!folder.ok()) return folder.status();
    return std::unique_ptr<RendezvousFolder>(new RendezvousFolder(*std::move(folder)));
  }

  const std::string& path() const { return folder_->path(); }
  // Returns the status passed to shmem_global_exit; nullopt if no PE called it, or the store cannot
  // be read.
  std::optional<int> exit_status() const {
    const Result<std::shared_ptr<symm::Store>> store = symm::try_open_file_store(path());
    if (!store.ok()) return std::nullopt;
    return shmem_exit_status(**store, kJob, Deadline::after(kGracePeriod));
  }

 private:
  explicit RendezvousFolder(std::unique_ptr<TemporaryFolder> folder) : folder_(std::move(folder)) {}

  const std::unique_ptr<TemporaryFolder> folder_;
};

std::vector<std::string> environment_entries(const PeOptions& options,
                                             const Environment& environment,
                                             const std::string& store, int rank) {
  Environment::Values values = environment.values();
  values["ASHLAR_SHMEM_RANK"] = std::to_string(rank);
  values["ASHLAR_SHMEM_SIZE"] = std::to_string(options.pe_count);
  values["ASHLAR_SHMEM_STORE"] = store;
  values["ASHLAR_SHMEM_JOB"] = kJob;
  values["ASHLAR_RANK"] = values["ASHLAR_SHMEM_RANK"];
  values["ASHLAR_WORLD_SIZE"] = values["ASHLAR_SHMEM_SIZE"];
  values["ASHLAR_STORE"] = store;
  values["ASHLAR_JOB"] = "run";
  if (!options.heap.empty()) values["SHMEM_SYMMETRIC_SIZE"] = options.heap;
  if (options.machine_count > 1) {
    // Consecutive PEs share a machine.
    values["ASHLAR_SHMEM_MACHINE"] =
        text("machine", rank * options.machine_count / options.pe_count);
    values["ASHLAR_SHMEM_TRANSPORT"] = "ucx";
    // All PEs are on this machine, so other machines need not reach them.
    if (!values.contains("UCX_TLS")) values.try_emplace("UCX_NET_DEVICES", "lo");
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(text(name, '=', value));
  return entries;
}

// Binds the calling process to its share of the launcher's cores, so that the kernel does not place
// two PEs on one core. Does nothing if there are fewer cores than PEs.
void bind_to_cores(int rank, int pe_count) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (::sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < pe_count) return;
  const int begin = rank * CPU_COUNT(&all) / pe_count;
  const int end = (rank + 1) * CPU_COUNT(&all) / pe_count;
  cpu_set_t share;
  CPU_ZERO(&share);
  int index = 0;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (index >= begin && index < end) CPU_SET(core, &share);
    ++index;
  }
  static_cast<void>(::sched_setaffinity(0, sizeof(share), &share));  // best effort
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& each : texts) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

class PeLauncher {
 public:
  PeLauncher(const PeOptions& options, const Environment& environment, const Signals& signals,
             const RendezvousFolder& folder)
      : options_(options), environment_(environment), signals_(signals), folder_(folder) {}
  ~PeLauncher() { kill_all(SIGKILL); }
  PeLauncher(const PeLauncher&) = delete;
  PeLauncher& operator=(const PeLauncher&) = delete;

  Status start() {
    for (int rank = 0; rank < options_.pe_count; ++rank) {
      if (Status started = start(rank); !started.ok()) {
        kill_all(SIGKILL);
        for (const auto& [child, other] : ranks_) ::waitpid(child, nullptr, 0);
        ranks_.clear();
        return started;
      }
    }
    return {};
  }

  PeResult run() {
    Deadline kill_at = Deadline::never();
    while (!ranks_.empty()) {
      const int signal = signals_.wait(kill_at);
      if (signal == 0) {
        kill_all(SIGKILL);
        kill_at = Deadline::never();
      } else if (signal == SIGCHLD) {
        reap();
        if (is_over_ && kill_at.is_never()) {
          kill_all(SIGTERM);
          kill_at = Deadline::after(kGracePeriod);
        }
      } else if (signal > 0) {
        forward(signal);
      }
    }
    return result_;
  }

 private:
  struct EndedPe {
    int rank = 0;
    int status = 0;  // status that waitpid returned
  };

  Status start(int rank) {
    std::vector<std::string> entries =
        environment_entries(options_, environment_, folder_.path(), rank);
    std::vector<std::string> words = options_.command;
    const std::vector<char*> variables = pointers_to(entries);
    const std::vector<char*> arguments = pointers_to(words);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Status::device_fault("pipe2", errno, "cannot create a pipe to a PE");
    }
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      // If this process is killed, the kernel kills the PEs.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      signals_.restore_mask();
      bind_to_cores(rank, options_.pe_count);
      ::execvpe(arguments[0], arguments.data(), variables.data());
      const int error = errno;
      (void)!::write(write_end.get(), &error, sizeof(error));
      ::_exit(127);
    }
    if (child < 0) {
      return Status::device_fault(
          "fork", errno,
          text("cannot start rank ", rank, " of ", options_.pe_count, ": ", std::strerror(errno)));
    }
    ranks_[child] = rank;
    write_end.reset();
    int error = 0;
    if (::read(read_end.get(), &error, sizeof(error)) == static_cast<ssize_t>(sizeof(error))) {
      return Status::invalid_argument(
          text(options_.command[0], " cannot be run: ", std::strerror(error)));
    }
    return {};
  }

  // Reaps all PEs that have ended. Records first the PEs that were killed by a signal, because the
  // other PEs may have failed as a consequence.
  void reap() {
    std::vector<EndedPe> all;
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = ranks_.find(child);
      if (found == ranks_.end()) continue;
      all.push_back({found->second, status});
      ranks_.erase(found);
    }
    std::stable_partition(all.begin(), all.end(),
                          [](const EndedPe& each) { return WIFSIGNALED(each.status); });
    for (const EndedPe& each : all) record_end(each.rank, each.status);
  }

  // Records the end of a PE. A PE that notices the failure of a peer may end before that peer does.
  // Therefore the first PE that is killed by a signal that the launcher did not send replaces an
  // earlier exit as the cause.
  void record_end(int rank, int wait_status) {
    const bool is_original_cause =
        WIFSIGNALED(wait_status) && !sent_.contains(WTERMSIG(wait_status));
    if (is_over_ && (!is_original_cause || is_cause_known_)) return;
    if (WIFSIGNALED(wait_status)) {
      is_over_ = true;
      is_cause_known_ = true;
      result_.status = 128 + WTERMSIG(wait_status);
      if (!was_terminated_) {
        result_.message = text("rank ", rank, " was terminated by signal ", WTERMSIG(wait_status),
                               " (", ::strsignal(WTERMSIG(wait_status)), ")");
      }
    } else if (const std::optional<int> status = folder_.exit_status(); status) {
      is_over_ = true;  // the program has reported the reason itself
      result_.status = *status;
    } else if (WEXITSTATUS(wait_status) != 0) {
      is_over_ = true;
      result_.status = WEXITSTATUS(wait_status);
      result_.message = text("rank ", rank, " exited with status ", result_.status);
    }
  }

  void forward(int signal) {
    for (const int each : kTerminationSignals) was_terminated_ |= each == signal;
    kill_all(signal);
  }

  void kill_all(int signal) {
    sent_.insert(signal);
    for (const auto& [child, rank] : ranks_) ::kill(child, signal);
  }

  const PeOptions& options_;
  const Environment& environment_;
  const Signals& signals_;
  const RendezvousFolder& folder_;
  std::map<pid_t, int> ranks_;   // ranks of the running PEs
  std::set<int> sent_;           // signals sent to the PEs
  bool is_over_ = false;         // a PE has failed, or called shmem_global_exit
  bool is_cause_known_ = false;  // result_ is final: it reports a PE that was killed by a signal
  bool was_terminated_ = false;
  PeResult result_;
};

}  // namespace

Result<PeResult> run_pes(const PeOptions& options, const Environment& environment) {
  const Result<Signals> signals = Signals::take();
  if (!signals.ok()) return signals.status();
  const Result<std::unique_ptr<RendezvousFolder>> folder = RendezvousFolder::make();
  if (!folder.ok()) return folder.status();
  PeLauncher processes(options, environment, *signals, **folder);
  if (Status started = processes.start(); !started.ok()) return started;
  return processes.run();
}

}  // namespace ashlar
