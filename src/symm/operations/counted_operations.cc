// SPDX-License-Identifier: Apache-2.0
//
// What went well is counted once it has.
#include "symm/operations/counted_operations.h"

#include <numeric>

namespace ashlar::symm {
namespace {

constexpr std::array<const char*, CountedOperations::kKindCount> kNames{
    "put", "get", "post", "atomic post", "fetch", "store_words", "multimem_put",
    // as Signal::Kind
    "put_signal", "wait_signal", "add_signal", "wait_for_value", "barrier",
    // as Collective
    "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all",
    "all_to_all_v", "multimem_all_reduce", "multimem_reduce", "multimem_all_gather"};

static_assert(kNames.back() != nullptr);

// Of arguments that were found to be good.
struct BytesOf {
  size_t operator()(const ChosenAllReduce& each) const { return reduced_bytes(each.request); }
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

const char* CountedOperations::name(size_t kind) { return kNames[kind]; }

CountedOperations::Line CountedOperations::line(size_t kind) const {
  const Counter& counter = counters_[kind];
  return {counter.count.load(std::memory_order_relaxed),
          counter.bytes.load(std::memory_order_relaxed)};
}

Status CountedOperations::note(size_t kind, size_t bytes, Status done) {
  if (!done.ok()) return done;
  Counter& counter = counters_[kind];
  counter.count.fetch_add(1, std::memory_order_relaxed);
  if (bytes > 0) counter.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return done;
}

Status CountedOperations::put(const Peers& peers, int to, size_t place,
                              std::span<const std::byte> from) {
  return note(kPut, from.size(), counted_->put(peers, to, place, from));
}

Status CountedOperations::get(const Peers& peers, int from, size_t place, std::span<std::byte> to) {
  return note(kGet, to.size(), counted_->get(peers, from, place, to));
}

Status CountedOperations::post(const Peers& peers, int to, size_t place,
                               std::span<const std::byte> from) {
  return note(kPost, from.size(), counted_->post(peers, to, place, from));
}

Status CountedOperations::post(const Peers& peers, int at, const AtomicOp& what) {
  return note(kAtomicPost, static_cast<size_t>(what.word), counted_->post(peers, at, what));
}

Result<uint64_t> CountedOperations::fetch(const Peers& peers, int at, const AtomicOp& what) {
  Result<uint64_t> before = counted_->fetch(peers, at, what);
  if (before.ok()) (void)note(kFetch, static_cast<size_t>(what.word), {}).ok();
  return before;
}

Status CountedOperations::store_words(const Peers& peers, const WordStore& what, const When& when) {
  return note(kStoreWords, what.count * sizeof(uint32_t), counted_->store_words(peers, what, when));
}

Status CountedOperations::spread(const Peers& peers, const Spread& what, const When& when) {
  return note(kSpread, what.from.size(), counted_->spread(peers, what, when));
}

Status CountedOperations::run(const Signal& what, const When& when) {
  return note(kFirstSignal + static_cast<size_t>(what.kind), 0, counted_->run(what, when));
}

Status CountedOperations::run(const Collective& what, const When& when) {
  Status done = counted_->run(what, when);
  if (!done.ok()) return done;
  return note(kFirstCollective + what.index(), std::visit(BytesOf(), what), std::move(done));
}

}  // namespace ashlar::symm
