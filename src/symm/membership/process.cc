// SPDX-License-Identifier: Apache-2.0
//
// Starts the threads and identifies the machine.
#include "symm/membership/process.h"

#include <unistd.h>

#include <fstream>

#include "base/text.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMaxMachineNameBytes = 64;

std::string link_target(const char* link) {
  char target[128] = {};
  const ssize_t bytes = ::readlink(link, target, sizeof(target) - 1);
  return bytes < 0 ? std::string() : std::string(target, static_cast<size_t>(bytes));
}

// Returns an identity of the machine. Does not use the host name, which containers may share or
// change. Includes the boot id, because namespace numbers repeat across machines. If the boot id or
// a namespace cannot be read, the process counts as a machine of its own.
std::string find_host(const Token& process) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string net = link_target("/proc/self/ns/net");
  const std::string user = link_target("/proc/self/ns/user");
  if (boot.empty() || net.empty() || user.empty()) return to_hex(process);
  return text(boot.substr(0, 64), ' ', net, ' ', user);
}

}  // namespace

Result<std::unique_ptr<Process>> Process::start(const ProcessOptions& options) {
  // LeaseMonitor::run restarts all leases after a stall of half a lease. With heartbeats further
  // apart than that, it would never report a lost rank.
  if (options.heartbeat.count() < 1 || options.lease / 3 < options.heartbeat) {
    return Status::invalid_argument(text("a lease of ", options.lease.count(),
                                         " ms and a heartbeat every ", options.heartbeat.count(),
                                         " ms: the lease must be at least three heartbeats"));
  }
  if (options.machine.size() > kMaxMachineNameBytes) {
    return Status::invalid_argument(text("machine name of ", options.machine.size(),
                                         " bytes: expected at most ", kMaxMachineNameBytes));
  }
  std::unique_ptr<Process> process(new Process(options));
  const Result<Token> token = generate_token();
  if (!token.ok()) return token.status();
  process->token_ = *token;
  process->host_ = find_host(*token);
  if (!options.machine.empty()) process->host_ += ' ' + options.machine;
  Result<std::unique_ptr<Channel>> channel = Channel::open();
  if (!channel.ok()) return channel.status();
  process->channel_ = *std::move(channel);
  Result<std::unique_ptr<HeartbeatThread>> heartbeat_thread =
      HeartbeatThread::start(options.heartbeat);
  if (!heartbeat_thread.ok()) return heartbeat_thread.status();
  process->heartbeat_thread_ = *std::move(heartbeat_thread);
  return process;
}

Status Process::fork_error() {
  return Status::invalid_argument(
      "this heap belongs to the parent process: after fork, create a heap and join a group in the "
      "child");
}

namespace {

template <typename T>
void add_entry(std::map<uint64_t, std::weak_ptr<T>>& entries, uint64_t id,
               const std::shared_ptr<T>& value) {
  std::erase_if(entries, [](const auto& each) { return each.second.expired(); });
  entries.emplace(id, value);
}

template <typename T>
std::shared_ptr<T> find_entry(const std::map<uint64_t, std::weak_ptr<T>>& entries, uint64_t id) {
  const auto found = entries.find(id);
  return found == entries.end() ? nullptr : found->second.lock();
}

}  // namespace

uint64_t Process::register_memory(const std::shared_ptr<MappedMemory>& memory) {
  MutexLock lock(mutex_);
  add_entry(memory_, ++last_id_, memory);
  return last_id_;
}

std::shared_ptr<MappedMemory> Process::find_memory(uint64_t id) {
  MutexLock lock(mutex_);
  return find_entry(memory_, id);
}

uint64_t Process::register_fd(const std::shared_ptr<const UniqueFd>& fd) {
  MutexLock lock(mutex_);
  add_entry(fds_, ++last_id_, fd);
  return last_id_;
}

std::shared_ptr<const UniqueFd> Process::find_fd(uint64_t id) {
  MutexLock lock(mutex_);
  return find_entry(fds_, id);
}

}  // namespace ashlar::symm
