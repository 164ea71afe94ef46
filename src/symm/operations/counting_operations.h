// SPDX-License-Identifier: Apache-2.0
//
// Operations that count what they are asked to do, and have others do it.
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
  // By what is counted; after these, signals and collectives as their own types number them.
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

  struct Line {
    uint64_t count = 0;  // of calls that went well
    uint64_t bytes = 0;  // of this rank's memory, or of what it was given
  };

  explicit CountingOperations(std::unique_ptr<Operations> counted) : counted_(std::move(counted)) {}

  static const char* name(size_t kind);
  Line line(size_t kind) const;

  Status put(const PeerTable& peers, int to, size_t place,
             std::span<const std::byte> from) override;
  Status get(const PeerTable& peers, int from, size_t place, std::span<std::byte> to) override;
  Status post(const PeerTable& peers, int to, size_t place,
              std::span<const std::byte> from) override;
  Status post(const PeerTable& peers, int at, const AtomicOp& what) override;
  Result<uint64_t> fetch(const PeerTable& peers, int at, const AtomicOp& what) override;
  Status fence(const PeerTable& peers) override { return counted_->fence(peers); }
  Status quiet(const PeerTable& peers) override { return counted_->quiet(peers); }
  Status store_words(const PeerTable& peers, const WordFillRequest& what,
                     const RunOptions& run_options) override;
  Status multicast_put(const PeerTable& peers, const MulticastPut& what,
                       const RunOptions& run_options) override;
  Status run(const Signal& what, const RunOptions& run_options) override;
  Status run(const Collective& what, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override {
    return counted_->counter_value(from, channel);
  }
  Status finish(StreamId stream) override { return counted_->finish(stream); }
  bool has_failed_work() override { return counted_->has_failed_work(); }
  Result<std::optional<Thresholds>> measure(const PeerTable& room, size_t bytes,
                                            Deadline deadline) override {
    return counted_->measure(room, bytes, deadline);
  }

 private:
  // Relaxed: they say how often, and order nothing.
  struct Counter {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> bytes{0};
  };

  Status note(size_t kind, size_t bytes, Status done);

  const std::unique_ptr<Operations> counted_;
  std::array<Counter, kKindCount> counters_{};
};

}  // namespace ashlar::symm
