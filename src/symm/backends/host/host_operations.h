// SPDX-License-Identifier: Apache-2.0
//
// Operations on the host's memory: the caller's thread does them, and waits. Ranks on other
// machines are reached by the group's transport.
#pragma once

#include <memory>
#include <vector>

#include "symm/core/timed_mutex.h"
#include "symm/operations/operations.h"
#include "symm/signals/remote_pads.h"

namespace ashlar::symm {

class HostOperations final : public Operations {
 public:
  static Result<std::unique_ptr<Operations>> make(const OperationsOptions& options);

  Status put(const PeerTable& peers, int to, size_t place,
             std::span<const std::byte> from) override;
  Status get(const PeerTable& peers, int from, size_t place, std::span<std::byte> to) override;
  Status post(const PeerTable& peers, int to, size_t place,
              std::span<const std::byte> from) override;
  Status post(const PeerTable& peers, int at, const AtomicOp& what) override;
  Result<uint64_t> fetch(const PeerTable& peers, int at, const AtomicOp& what) override;
  Status fence(const PeerTable& peers) override;
  Status quiet(const PeerTable& peers) override;
  Status store_words(const PeerTable& peers, const WordFillRequest& what,
                     const RunOptions& run_options) override;
  Status run(const Signal& what, const RunOptions& run_options) override;
  Status run(const Collective& what, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  Result<std::optional<Thresholds>> measure(const PeerTable& room, size_t bytes,
                                            Deadline deadline) override;

 private:
  explicit HostOperations(const OperationsOptions& options);

  Team team() { return {.pads = *pads_, .order = order_, .channel = options_.channel_count - 1}; }
  Status barrier(int channel, const Limits& limits);
  static Status refuse(const RunOptions& run_options);

  const OperationsOptions options_;
  std::unique_ptr<RemotePads> remote_pads_;  // null: all ranks are on this machine
  std::unique_ptr<SignalPads> pads_;         // constant once made
  OrderGuard order_;
  std::vector<TimedMutex> channel_mutexes_;  // one thread at a time is in a barrier of a channel
};

}  // namespace ashlar::symm
