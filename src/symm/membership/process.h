// SPDX-License-Identifier: Apache-2.0
//
// What there is once in each process, for all of its ranks and groups: who it is, its channel, its
// heart, its back ends, and what its ranks lend to each other. Outlives arenas and groups. In a
// child of a fork, which has none of the threads, it can neither be used nor ended: the facade sees
// to that (check_here, make_fork_guarded). Thread safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "symm/backends/backend_registry.h"
#include "symm/channel/channel.h"
#include "symm/membership/heartbeat_thread.h"

namespace ashlar::symm {

struct ProcessOptions {
  std::chrono::milliseconds heartbeat{1000};  // between two signs of life
  std::chrono::milliseconds lease{5000};      // without one, a rank is lost; 3 heartbeats or more
  std::string machine{};  // processes that say different things are as on different machines
};

class Process {
 public:
  static Result<std::unique_ptr<Process>> start(const ProcessOptions& options);

  // kInvalidArgument: this is a child of the process that it was started in.
  Status check_here() const { return fork_guard_.in_creating_process() ? Status() : not_here(); }

  const ProcessOptions& options() const { return options_; }
  const Token& token() const { return token_; }
  // Processes with the same one reach each other's channels: one kernel, one network namespace, in
  // which abstract sockets live, one set of users.
  const std::string& host() const { return host_; }
  Channel& channel() { return *channel_; }
  HeartbeatThread& heartbeat_thread() { return *heartbeat_thread_; }
  BackendRegistry& backends() { return backends_; }

  // A number by which other ranks of this process find the memory, as long as it lives.
  uint64_t register_memory(const std::shared_ptr<MappedMemory>& memory);
  // Null: there is none any more.
  std::shared_ptr<MappedMemory> find_memory(uint64_t number);
  // The same of descriptors.
  uint64_t register_fd(const std::shared_ptr<const UniqueFd>& fd);
  std::shared_ptr<const UniqueFd> find_fd(uint64_t number);

 private:
  explicit Process(const ProcessOptions& options) : options_(options) {}
  static Status not_here();

  const ForkGuard fork_guard_;
  const ProcessOptions options_;
  Token token_{};
  std::string host_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<HeartbeatThread> heartbeat_thread_;
  BackendRegistry backends_;

  Mutex mutex_;
  uint64_t last_number_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<MappedMemory>> lent_ ASHLAR_GUARDED_BY(mutex_);
  std::map<uint64_t, std::weak_ptr<const UniqueFd>> lent_fds_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
