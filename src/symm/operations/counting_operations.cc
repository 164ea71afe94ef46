// SPDX-License-Identifier: Apache-2.0
//
// Counts an operation after it has succeeded.
#include "symm/operations/counting_operations.h"

#include <numeric>

namespace ashlar::symm {
namespace {

constexpr std::array<const char*, CountingOperations::kKindCount> kNames{
    "put", "get", "post", "atomic post", "fetch", "store_words", "multimem_put",
    // in the order of Signal::Kind
    "put_signal", "wait_signal", "add_signal", "wait_for_value", "barrier",
    // in the order of Collective
    "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all",
    "all_to_all_v", "multimem_all_reduce", "multimem_reduce", "multimem_all_gather",
    "dispatch or combine"};

static_assert(kNames.back() != nullptr);

// A visitor that returns the size of a collective in bytes. REQUIRES: the arguments have been
// checked.
struct CollectiveBytes {
  size_t operator()(const ThresholdAllReduce& each) const { return reduced_bytes(each.request); }
  size_t operator()(const Reduce& each) const { return reduced_bytes(each); }
  size_t operator()(const ReduceScatter& each) const {
    return reduced_bytes(each) * each.range.bases.size();
  }
  size_t operator()(const AllGather& each) const { return static_cast<size_t>(each.bytes); }
  size_t operator()(const Broadcast& each) const { return static_cast<size_t>(each.bytes); }
  size_t operator()(const AllToAll& each) const {
    return static_cast<size_t>(each.bytes) * each.range.bases.size();
  }
  size_t operator()(const AllToAllV& each) const {
    const int64_t rows = std::accumulate(each.splits.begin(), each.splits.end(), int64_t{0});
    return static_cast<size_t>(rows * each.row_bytes);
  }
  size_t operator()(const MultimemAllReduce& each) const { return reduced_bytes(each.request); }
  size_t operator()(const MultimemReduce& each) const { return reduced_bytes(each.request); }
  size_t operator()(const MultimemAllGather& each) const { return (*this)(each.request); }
  size_t operator()(const ExpertAllToAll& /*each*/) const { return 0; }  // not known on the host
};

}  // namespace

const char* CountingOperations::name(size_t kind) { return kNames[kind]; }

CountingOperations::Count CountingOperations::count(size_t kind) const {
  const Counter& counter = counters_[kind];
  return {counter.count.load(std::memory_order_relaxed),
          counter.bytes.load(std::memory_order_relaxed)};
}

Status CountingOperations::record(size_t kind, size_t bytes, Status result) {
  if (!result.ok()) return result;
  Counter& counter = counters_[kind];
  counter.count.fetch_add(1, std::memory_order_relaxed);
  if (bytes > 0) counter.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return result;
}

Status CountingOperations::put(const PeerTable& peers, int to, size_t offset,
                               std::span<const std::byte> from) {
  return record(kPut, from.size(), inner_->put(peers, to, offset, from));
}

Status CountingOperations::get(const PeerTable& peers, int from, size_t offset,
                               std::span<std::byte> to) {
  return record(kGet, to.size(), inner_->get(peers, from, offset, to));
}

Status CountingOperations::copy(const PeerTable& peers, const PieceCopy& copy,
                                const RunOptions& run_options) {
  return record(copy.is_put ? kPut : kGet, copy.total_bytes(),
                inner_->copy(peers, copy, run_options));
}

Status CountingOperations::post(const PeerTable& peers, int to, size_t offset,
                                std::span<const std::byte> from) {
  return record(kPost, from.size(), inner_->post(peers, to, offset, from));
}

Status CountingOperations::post(const PeerTable& peers, int target, const AtomicOp& op) {
  return record(kAtomicPost, static_cast<size_t>(op.word_bytes), inner_->post(peers, target, op));
}

Result<uint64_t> CountingOperations::fetch(const PeerTable& peers, int target, const AtomicOp& op) {
  Result<uint64_t> before = inner_->fetch(peers, target, op);
  if (before.ok()) (void)record(kFetch, static_cast<size_t>(op.word_bytes), {}).ok();
  return before;
}

Status CountingOperations::store_words(const PeerTable& peers, const WordFillRequest& fill,
                                       const RunOptions& run_options) {
  return record(kStoreWords, fill.count * sizeof(uint32_t),
                inner_->store_words(peers, fill, run_options));
}

Status CountingOperations::multicast_put(const PeerTable& peers, const MulticastPut& put,
                                         const RunOptions& run_options) {
  return record(kMulticastPut, put.from.size(), inner_->multicast_put(peers, put, run_options));
}

Status CountingOperations::run(const Signal& signal, const RunOptions& run_options) {
  return record(kFirstSignal + static_cast<size_t>(signal.kind), 0,
                inner_->run(signal, run_options));
}

Status CountingOperations::run(const Collective& collective, const RunOptions& run_options) {
  Status done = inner_->run(collective, run_options);
  if (!done.ok()) return done;
  return record(kFirstCollective + collective.index(), std::visit(CollectiveBytes(), collective),
                std::move(done));
}

}  // namespace ashlar::symm
