// Starting the threads, and finding out where we are.
#include "symm/process.h"

#include <unistd.h>

#include <fstream>

#include "base/text.h"

namespace ashlar::symm {
namespace {

std::string target_of(const char* link) {
  char target[128] = {};
  const ssize_t bytes = ::readlink(link, target, sizeof(target) - 1);
  return bytes < 0 ? std::string("unknown") : std::string(target, static_cast<size_t>(bytes));
}

// Not the machine's name, which containers share or change.
std::string find_host() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return text(boot.substr(0, 64), ' ', target_of("/proc/self/ns/net"), ' ',
              target_of("/proc/self/ns/user"));
}

}  // namespace

Result<std::unique_ptr<Process>> Process::start(const ProcessOptions& options) {
  // Whoever was late himself by half a lease blames nobody (leases.cc): with longer heartbeats that
  // would be everybody, always.
  if (options.heartbeat.count() < 1 || options.lease / 3 < options.heartbeat) {
    return Status::usage(text("a lease of ", options.lease.count(), " ms and a heartbeat every ",
                              options.heartbeat.count(),
                              " ms: expected a lease of at least three heartbeats"));
  }
  std::unique_ptr<Process> process(new Process(options));
  const Result<Token> token = draw_token();
  if (!token.ok()) return token.status();
  process->token_ = *token;
  process->host_ = find_host();
  Result<std::unique_ptr<Channel>> channel = Channel::open();
  if (!channel.ok()) return channel.status();
  process->channel_ = *std::move(channel);
  Result<std::unique_ptr<Heart>> heart = Heart::start(options.heartbeat);
  if (!heart.ok()) return heart.status();
  process->heart_ = *std::move(heart);
  return process;
}

uint64_t Process::lend(const std::shared_ptr<Memory>& memory) {
  MutexLock lock(mutex_);
  std::erase_if(lent_, [](const auto& each) { return each.second.expired(); });
  lent_.emplace(++last_number_, memory);
  return last_number_;
}

std::shared_ptr<Memory> Process::borrow(uint64_t number) {
  MutexLock lock(mutex_);
  const auto found = lent_.find(number);
  return found == lent_.end() ? nullptr : found->second.lock();
}

}  // namespace ashlar::symm
