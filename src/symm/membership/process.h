// SPDX-License-Identifier: Apache-2.0
//
// State that exists once per process and is shared by its ranks and groups: identity, channel,
// heartbeat thread, back ends, and a registry of memory and descriptors that ranks of this process
// share with each other. Outlives heaps and groups. A forked child has none of the threads, so it
// must neither use nor destroy the Process; the public API ensures that (check_not_forked,
// make_fork_guarded). Thread safe.
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
  std::chrono::milliseconds heartbeat{1000};  // interval between heartbeats
  // A rank without a heartbeat for this long is lost. At least three times `heartbeat`.
  std::chrono::milliseconds lease{5000};
  std::string machine{};  // processes with different values count as being on different machines
};

class Process {
 public:
  static Result<std::unique_ptr<Process>> start(const ProcessOptions& options);

  // Returns kInvalidArgument in a forked child of the process that called `start`.
  Status check_not_forked() const {
    return fork_guard_.in_creating_process() ? Status() : fork_error();
  }

  const ProcessOptions& options() const { return options_; }
  const Token& token() const { return token_; }
  // Identifies the machine: kernel, network namespace (which scopes abstract sockets) and user
  // namespace. Processes with the same value can connect to each other's channels.
  const std::string& host() const { return host_; }
  Channel& channel() { return *channel_; }
  HeartbeatThread& heartbeat_thread() { return *heartbeat_thread_; }
  BackendRegistry& backends() { return backends_; }

  // Registers memory for other ranks of this process, without keeping it alive. Returns an id for
  // `find_memory`.
  uint64_t register_memory(const std::shared_ptr<MappedMemory>& memory);
  // Returns null if the memory has been destroyed or was never registered.
  std::shared_ptr<MappedMemory> find_memory(uint64_t id);
  // Registers a descriptor for other ranks of this process, without keeping it open. Returns an id
  // for `find_fd`.
  uint64_t register_fd(const std::shared_ptr<const UniqueFd>& fd);
  // Returns null if the descriptor has been closed or was never registered.
  std::shared_ptr<const UniqueFd> find_fd(uint64_t id);

 private:
  explicit Process(const ProcessOptions& options) : options_(options) {}
  static Status fork_error();

  const ForkGuard fork_guard_;
  const ProcessOptions options_;
  Token token_{};
  std::string host_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<HeartbeatThread> heartbeat_thread_;
  BackendRegistry backends_;

  Mutex mutex_;
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<MappedMemory>> memory_ ASHLAR_GUARDED_BY(mutex_);
  std::map<uint64_t, std::weak_ptr<const UniqueFd>> fds_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
