// SPDX-License-Identifier: Apache-2.0
//
// Operations on host memory. They run synchronously on the calling thread. Ranks on other machines
// are reached through the group's transport.
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

  Status put(const PeerTable& peers, int to, size_t offset,
             std::span<const std::byte> from) override;
  Status get(const PeerTable& peers, int from, size_t offset, std::span<std::byte> to) override;
  Status copy(const PeerTable& peers, const PieceCopy& copy,
              const RunOptions& run_options) override;
  Status fence_stream(StreamId stream) override;
  Status post(const PeerTable& peers, int to, size_t offset,
              std::span<const std::byte> from) override;
  Status post(const PeerTable& peers, int target, const AtomicOp& op) override;
  Result<uint64_t> fetch(const PeerTable& peers, int target, const AtomicOp& op) override;
  Status fence(const PeerTable& peers) override;
  Status quiet(const PeerTable& peers) override;
  Status store_words(const PeerTable& peers, const WordFillRequest& fill,
                     const RunOptions& run_options) override;
  Status run(const Signal& signal, const RunOptions& run_options) override;
  Status run(const Collective& collective, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  Result<std::optional<Thresholds>> measure(const PeerTable& scratch, size_t bytes,
                                            Deadline deadline) override;

 private:
  explicit HostOperations(const OperationsOptions& options);

  CollectiveContext context() {
    return {.pads = *pads_, .runner = runner_, .channel = options_.channel_count - 1};
  }
  Status barrier(int channel, const Limits& limits);
  static Status check_no_stream(const RunOptions& run_options);

  const OperationsOptions options_;
  std::unique_ptr<RemotePads> remote_pads_;  // null if all ranks are on this machine
  std::unique_ptr<SignalPads> pads_;         // never null after `make`
  CollectiveRunner runner_;
  // One mutex per channel, which a thread holds while it is in a barrier of the channel
  // (Signal::Kind::kBarrier). Collectives are serialized by `runner_` instead.
  std::vector<TimedMutex> channel_mutexes_;
};

}  // namespace ashlar::symm
