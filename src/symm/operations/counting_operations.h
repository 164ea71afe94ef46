// SPDX-License-Identifier: Apache-2.0
//
// An `Operations` decorator that counts the successful calls and their bytes by kind of operation.
// Does not count `fence`, `fence_stream`, `quiet`, `counter_value`, `finish`, `has_failed_work` and
// `measure`.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "symm/operations/operations.h"

namespace ashlar::symm {

class CountingOperations final : public Operations {
 public:
  // Indexes of the counters. The signals follow these, in the order of Signal::Kind, and then the
  // collectives, in the order of the alternatives of `Collective`.
  enum Kind : size_t {
    kPut,
    kGet,
    kPost,
    kAtomicPost,
    kFetch,
    kStoreWords,
    kMulticastPut,
    kFirstSignal
  };
  static constexpr size_t kSignalCount = 5;
  static constexpr size_t kFirstCollective = kFirstSignal + kSignalCount;
  static constexpr size_t kKindCount = kFirstCollective + std::variant_size_v<Collective>;

  struct Count {
    uint64_t count = 0;  // successful calls
    uint64_t bytes = 0;  // the size of this rank's arguments
  };

  explicit CountingOperations(std::unique_ptr<Operations> inner) : inner_(std::move(inner)) {}

  static const char* name(size_t kind);
  Count count(size_t kind) const;

  Status put(const PeerTable& peers, int to, size_t offset,
             std::span<const std::byte> from) override;
  Status get(const PeerTable& peers, int from, size_t offset, std::span<std::byte> to) override;
  Status copy(const PeerTable& peers, const PieceCopy& copy,
              const RunOptions& run_options) override;
  Status fence_stream(StreamId stream) override { return inner_->fence_stream(stream); }
  Status post(const PeerTable& peers, int to, size_t offset,
              std::span<const std::byte> from) override;
  Status post(const PeerTable& peers, int target, const AtomicOp& op) override;
  Result<uint64_t> fetch(const PeerTable& peers, int target, const AtomicOp& op) override;
  Status fence(const PeerTable& peers) override { return inner_->fence(peers); }
  Status quiet(const PeerTable& peers) override { return inner_->quiet(peers); }
  Status store_words(const PeerTable& peers, const WordFillRequest& fill,
                     const RunOptions& run_options) override;
  Status multicast_put(const PeerTable& peers, const MulticastPut& put,
                       const RunOptions& run_options) override;
  Status run(const Signal& signal, const RunOptions& run_options) override;
  Status run(const Collective& collective, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override {
    return inner_->counter_value(from, channel);
  }
  Status finish(StreamId stream) override { return inner_->finish(stream); }
  bool has_failed_work() override { return inner_->has_failed_work(); }
  Result<std::optional<Thresholds>> measure(const PeerTable& scratch, size_t bytes,
                                            Deadline deadline) override {
    return inner_->measure(scratch, bytes, deadline);
  }

 private:
  // Relaxed: the counters do not order other memory accesses.
  struct Counter {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> bytes{0};
  };

  // Counts the call if `result` is ok. Returns `result`.
  Status record(size_t kind, size_t bytes, Status result);

  const std::unique_ptr<Operations> inner_;
  std::array<Counter, kKindCount> counters_{};
};

}  // namespace ashlar::symm
