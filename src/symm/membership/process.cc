// SPDX-License-Identifier: Apache-2.0
//
// Starting the threads, and finding out where we are.
#include "symm/membership/process.h"

#include <unistd.h>

#include <fstream>

#include "base/text.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMaxMachineBytes = 64;

std::string target_of(const char* link) {
  char target[128] = {};
  const ssize_t bytes = ::readlink(link, target, sizeof(target) - 1);
  return bytes < 0 ? std::string() : std::string(target, static_cast<size_t>(bytes));
}

// Not the machine's name, which containers share or change. Namespaces have the same numbers on
// many machines, so that without the kernel's own id a process is on a machine of its own.
std::string find_host(const Token& process) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string net = target_of("/proc/self/ns/net");
  const std::string user = target_of("/proc/self/ns/user");
  if (boot.empty() || net.empty() || user.empty()) return to_hex(process);
  return text(boot.substr(0, 64), ' ', net, ' ', user);
}

}  // namespace

Result<std::unique_ptr<Process>> Process::start(const ProcessOptions& options) {
  // Whoever was late himself by half a lease blames nobody (leases.cc): with longer heartbeats that
  // would be everybody, always.
  if (options.heartbeat.count() < 1 || options.lease / 3 < options.heartbeat) {
    return Status::invalid_argument(text("a lease of ", options.lease.count(),
                                         " ms and a heartbeat every ", options.heartbeat.count(),
                                         " ms: expected a lease of at least three heartbeats"));
  }
  if (options.machine.size() > kMaxMachineBytes) {
    return Status::invalid_argument(text("a machine's name of ", options.machine.size(),
                                         " bytes: expected at most ", kMaxMachineBytes));
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

Status Process::not_here() {
  return Status::invalid_argument(
      "this heap, or what is made of it, is of the process that this one was forked off: in a "
      "child, make a heap and join a group anew");
}

namespace {

template <typename Thing>
void add_lent(std::map<uint64_t, std::weak_ptr<Thing>>& lent, uint64_t number,
              const std::shared_ptr<Thing>& thing) {
  std::erase_if(lent, [](const auto& each) { return each.second.expired(); });
  lent.emplace(number, thing);
}

template <typename Thing>
std::shared_ptr<Thing> find_lent(const std::map<uint64_t, std::weak_ptr<Thing>>& lent,
                                 uint64_t number) {
  const auto found = lent.find(number);
  return found == lent.end() ? nullptr : found->second.lock();
}

}  // namespace

uint64_t Process::register_memory(const std::shared_ptr<MappedMemory>& memory) {
  MutexLock lock(mutex_);
  add_lent(lent_, ++last_number_, memory);
  return last_number_;
}

std::shared_ptr<MappedMemory> Process::find_memory(uint64_t number) {
  MutexLock lock(mutex_);
  return find_lent(lent_, number);
}

uint64_t Process::register_fd(const std::shared_ptr<const UniqueFd>& fd) {
  MutexLock lock(mutex_);
  add_lent(lent_fds_, ++last_number_, fd);
  return last_number_;
}

std::shared_ptr<const UniqueFd> Process::find_fd(uint64_t number) {
  MutexLock lock(mutex_);
  return find_lent(lent_fds_, number);
}

}  // namespace ashlar::symm
