// SPDX-License-Identifier: Apache-2.0
//
// fork, exec, and one loop that waits for signals: children that end are signals, too.
#include "cli/pe_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "ashlar/deadline.h"
#include "ashlar/store.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "symm/stores/shmem_exit.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr std::array kHandedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
// Those that end a program, for which ends by it are no failure to speak of.
constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr const char* kJob = "shmem";      // the folder is theirs alone
constexpr std::chrono::seconds kGrace{2};  // from SIGTERM to SIGKILL

// The signals that are waited for. They are blocked from then on, for the rest of the process: what
// ends it leaves no folder behind.
class Signals {
 public:
  static Result<Signals> take() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGCHLD);
    for (const int each : kHandedOn) ::sigaddset(&wanted, each);
    Signals taken;
    ::pthread_sigmask(SIG_BLOCK, &wanted, &taken.before_);
    taken.fd_.reset(::signalfd(-1, &wanted, SFD_CLOEXEC));
    if (taken.fd_.valid()) return taken;
    return Status::device_fault("signalfd", errno,
                                text("signals cannot be waited for: ", std::strerror(errno)));
  }

  // 0: the deadline has passed.
  int wait(Deadline deadline) const {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, deadline.left_for_poll()) <= 0) return deadline.has_passed() ? 0 : -1;
    signalfd_siginfo got{};
    const ssize_t bytes = ::read(fd_.get(), &got, sizeof(got));
    return bytes == static_cast<ssize_t>(sizeof(got)) ? static_cast<int>(got.ssi_signo) : -1;
  }
  // For a child, before it becomes the program.
  void give_back() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  UniqueFd fd_;
  sigset_t before_{};
};

// A folder of our own, in which they meet; gone with this.
class MeetingFolder {
 public:
  static Result<std::unique_ptr<MeetingFolder>> make() {
    std::string path = (fs::temp_directory_path() / "ashlar-pes-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
      return Status::device_fault("mkdtemp", errno, text("no folder for the PEs to meet: ", path));
    }
    return std::unique_ptr<MeetingFolder>(new MeetingFolder(std::move(path)));
  }
  ~MeetingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;

  const std::string& path() const { return path_; }
  // What shmem_global_exit was called with; none: it was not.
  std::optional<int> exit_status() const {
    const Result<std::shared_ptr<symm::Store>> store = symm::try_open_file_store(path_);
    if (!store.ok()) return std::nullopt;
    return shmem_exit_status(**store, kJob, Deadline::after(kGrace));
  }

 private:
  explicit MeetingFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

std::vector<std::string> environment_of(const PeOptions& options, const Environment& environment,
                                        const std::string& store, int rank) {
  Environment::Values values = environment.values();
  values["ASHLAR_SHMEM_RANK"] = std::to_string(rank);
  values["ASHLAR_SHMEM_SIZE"] = std::to_string(options.pe_count);
  values["ASHLAR_SHMEM_STORE"] = store;
  values["ASHLAR_SHMEM_JOB"] = kJob;
  if (!options.heap.empty()) values["SHMEM_SYMMETRIC_SIZE"] = options.heap;
  if (options.machine_count > 1) {
    // The first of them on the first machine.
    values["ASHLAR_SHMEM_MACHINE"] =
        text("machine", rank * options.machine_count / options.pe_count);
    values["ASHLAR_SHMEM_TRANSPORT"] = "ucx";
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(text(name, '=', value));
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& each : texts) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

class PeProcesses {
 public:
  PeProcesses(const PeOptions& options, const Environment& environment, const Signals& signals,
              const MeetingFolder& folder)
      : options_(options), environment_(environment), signals_(signals), folder_(folder) {}
  ~PeProcesses() { kill_all(SIGKILL); }
  PeProcesses(const PeProcesses&) = delete;
  PeProcesses& operator=(const PeProcesses&) = delete;

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

  PeEnd run() {
    Deadline kill_at = Deadline::never();
    while (!ranks_.empty()) {
      const int signal = signals_.wait(kill_at);
      if (signal == 0) {
        kill_all(SIGKILL);
        kill_at = Deadline::never();
      } else if (signal == SIGCHLD) {
        collect();
        if (is_over_ && kill_at.is_never()) {
          kill_all(SIGTERM);
          kill_at = Deadline::after(kGrace);
        }
      } else if (signal > 0) {
        hand_on(signal);
      }
    }
    return end_;
  }

 private:
  struct Ended {
    int rank = 0;
    int status = 0;  // as waitpid says it
  };

  Status start(int rank) {
    std::vector<std::string> entries = environment_of(options_, environment_, folder_.path(), rank);
    std::vector<std::string> words = options_.command;
    const std::vector<char*> variables = pointers_to(entries);
    const std::vector<char*> arguments = pointers_to(words);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Status::device_fault("pipe2", errno, "no pipe to a PE");
    }
    const UniqueFd hears(ends[0]);
    UniqueFd says(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      // Whoever ends this command by force ends them, too.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      signals_.give_back();
      ::execvpe(arguments[0], arguments.data(), variables.data());
      const int error = errno;
      (void)!::write(says.get(), &error, sizeof(error));
      ::_exit(127);
    }
    if (child < 0) {
      return Status::device_fault(
          "fork", errno,
          text("no process for PE ", rank, " of ", options_.pe_count, ": ", std::strerror(errno)));
    }
    ranks_[child] = rank;
    says.reset();
    int error = 0;
    if (::read(hears.get(), &error, sizeof(error)) == static_cast<ssize_t>(sizeof(error))) {
      return Status::invalid_argument(
          text(options_.command[0], " cannot be run: ", std::strerror(error)));
    }
    return {};
  }

  // All that have ended meanwhile. One that a signal ended comes first: the others may have ended
  // because they noticed.
  void collect() {
    std::vector<Ended> all;
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = ranks_.find(child);
      if (found == ranks_.end()) continue;
      all.push_back({found->second, status});
      ranks_.erase(found);
    }
    std::stable_partition(all.begin(), all.end(),
                          [](const Ended& each) { return WIFSIGNALED(each.status); });
    for (const Ended& each : all) judge(each.rank, each.status);
  }

  // Who notices that another dies may be gone before that one is: a signal that nobody here has
  // sent tells more than what was heard before it.
  void judge(int rank, int ended) {
    const bool is_cause = WIFSIGNALED(ended) && !sent_.contains(WTERMSIG(ended));
    if (is_over_ && (!is_cause || is_cause_known_)) return;
    if (WIFSIGNALED(ended)) {
      is_over_ = true;
      is_cause_known_ = true;
      end_.status = 128 + WTERMSIG(ended);
      if (!was_handed_on_) {
        end_.sentence = text("PE ", rank, " was ended by signal ", WTERMSIG(ended), " (",
                             ::strsignal(WTERMSIG(ended)), ")");
      }
    } else if (const std::optional<int> status = folder_.exit_status(); status) {
      is_over_ = true;  // it has said why, or meant to
      end_.status = *status;
    } else if (WEXITSTATUS(ended) != 0) {
      is_over_ = true;
      end_.status = WEXITSTATUS(ended);
      end_.sentence = text("PE ", rank, " ended with status ", end_.status);
    }
  }

  void hand_on(int signal) {
    for (const int each : kEnding) was_handed_on_ |= each == signal;
    kill_all(signal);
  }

  void kill_all(int signal) {
    sent_.insert(signal);
    for (const auto& [child, rank] : ranks_) ::kill(child, signal);
  }

  const PeOptions& options_;
  const Environment& environment_;
  const Signals& signals_;
  const MeetingFolder& folder_;
  std::map<pid_t, int> ranks_;   // of those that run
  std::set<int> sent_;           // signals
  bool is_over_ = false;         // one has failed, or ended all
  bool is_cause_known_ = false;  // a signal, which none was the answer to
  bool was_handed_on_ = false;
  PeEnd end_;
};

}  // namespace

Result<PeEnd> run_pes(const PeOptions& options, const Environment& environment) {
  const Result<Signals> signals = Signals::take();
  if (!signals.ok()) return signals.status();
  const Result<std::unique_ptr<MeetingFolder>> folder = MeetingFolder::make();
  if (!folder.ok()) return folder.status();
  PeProcesses processes(options, environment, *signals, **folder);
  if (Status started = processes.start(); !started.ok()) return started;
  return processes.run();
}

}  // namespace ashlar
