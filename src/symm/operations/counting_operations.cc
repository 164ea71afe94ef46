// SPDX-License-Identifier: Apache-2.0
//
// What went well is counted once it has.
#include "symm/operations/counting_operations.h"

#include <numeric>

namespace ashlar::symm {
namespace {

constexpr std::array<const char*, CountingOperations::kKindCount> kNames{
    "put", "get", "post", "atomic post", "fetch", "store_words", "multimem_put",
    // as Signal::Kind
    "put_signal", "wait_signal", "add_signal", "wait_for_value", "barrier",
    // as Collective
    "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all",
    "all_to_all_v", "multimem_all_reduce", "multimem_reduce", "multimem_all_gather"};

static_assert(kNames.back() != nullptr);

// Of arguments that were found to be good.
struct BytesOf {
  size_t operator()(const ThresholdAllReduce& each) const { return reduced_bytes(each.request); }
  size_t operator()(const Reduce& each) const { return reduced_bytes(each); }
  size_t operator()(const ReduceScatter& each) const {
    return reduced_bytes(each) * each.piece.bases.size();
  }
  size_t operator()(const AllGather& each) const { return static_cast<size_t>(each.bytes); }
  size_t operator()(const Broadcast& each) const { return static_cast<size_t>(each.bytes); }
  size_t operator()(const AllToAll& each) const {
    return static_cast<size_t>(each.bytes) * each.piece.bases.size();
  }
  size_t operator()(const AllToAllV& each) const {
    const int64_t rows = std::accumulate(each.splits.begin(), each.splits.end(), int64_t{0});
    return static_cast<size_t>(rows * each.row_bytes);
  }
  size_t operator()(const MultimemAllReduce& each) const { return reduced_bytes(each.request); }
  size_t operator()(const MultimemReduce& each) const { return reduced_bytes(each.request); }
  size_t operator()(const MultimemAllGather& each) const { return (*this)(each.request); }
};

}  // namespace

const char* CountingOperations::name(size_t kind) { return kNames[kind]; }

CountingOperations::Line CountingOperations::line(size_t kind) const {
  const Counter& counter = counters_[kind];
  return {counter.count.load(std::memory_order_relaxed),
          counter.bytes.load(std::memory_order_relaxed)};
}

Status CountingOperations::note(size_t kind, size_t bytes, Status done) {
  if (!done.ok()) return done;
  Counter& counter = counters_[kind];
  counter.count.fetch_add(1, std::memory_order_relaxed);
  if (bytes > 0) counter.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return done;
}

Status CountingOperations::put(const PeerTable& peers, int to, size_t place,
                               std::span<const std::byte> from) {
  return note(kPut, from.size(), counted_->put(peers, to, place, from));
}

Status CountingOperations::get(const PeerTable& peers, int from, size_t place,
                               std::span<std::byte> to) {
  return note(kGet, to.size(), counted_->get(peers, from, place, to));
}

Status CountingOperations::post(const PeerTable& peers, int to, size_t place,
                                std::span<const std::byte> from) {
  return note(kPost, from.size(), counted_->post(peers, to, place, from));
}

Status CountingOperations::post(const PeerTable& peers, int at, const AtomicOp& what) {
  return note(kAtomicPost, static_cast<size_t>(what.word), counted_->post(peers, at, what));
}

Result<uint64_t> CountingOperations::fetch(const PeerTable& peers, int at, const AtomicOp& what) {
  Result<uint64_t> before = counted_->fetch(peers, at, what);
  if (before.ok()) (void)note(kFetch, static_cast<size_t>(what.word), {}).ok();
  return before;
}

Status CountingOperations::store_words(const PeerTable& peers, const WordFillRequest& what,
                                       const RunOptions& run_options) {
  return note(kStoreWords, what.count * sizeof(uint32_t),
              counted_->store_words(peers, what, run_options));
}

Status CountingOperations::multicast_put(const PeerTable& peers, const MulticastPut& what,
                                         const RunOptions& run_options) {
  return note(kMulticastPut, what.from.size(), counted_->multicast_put(peers, what, run_options));
}

Status CountingOperations::run(const Signal& what, const RunOptions& run_options) {
  return note(kFirstSignal + static_cast<size_t>(what.kind), 0, counted_->run(what, run_options));
}

Status CountingOperations::run(const Collective& what, const RunOptions& run_options) {
  Status done = counted_->run(what, run_options);
  if (!done.ok()) return done;
  return note(kFirstCollective + what.index(), std::visit(BytesOf(), what), std::move(done));
}

}  // namespace ashlar::symm
