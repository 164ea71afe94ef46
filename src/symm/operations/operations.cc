// SPDX-License-Identifier: Apache-2.0
//
// Dispatches requests to the signal and collective algorithms.
#include "symm/operations/operations.h"

#include "symm/core/shared_words.h"
#include "symm/signals/barrier.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

Status check(const CollectiveContext& context, const Collective& collective) {
  return std::visit(
      Overloaded{
          [&](const ThresholdAllReduce& each) { return check_request(context, each.request); },
          [&](const MultimemAllReduce& each) { return check_request(context, each.request); },
          [&](const MultimemReduce& each) { return check_request(context, each.request); },
          [&](const MultimemAllGather& each) { return check_request(context, each.request); },
          [&](const auto& each) { return check_request(context, each); }},
      collective);
}

Status perform(const CollectiveContext& context, const Collective& collective,
               const Limits& limits) {
  return std::visit(
      Overloaded{
          [&](const ThresholdAllReduce& each) {
            return all_reduce(context, each.request, each.one_shot_bytes, limits);
          },
          [&](const Reduce& each) { return reduce_to_root(context, each, limits); },
          [&](const ReduceScatter& each) { return reduce_scatter(context, each, limits); },
          [&](const AllGather& each) { return all_gather(context, each, limits); },
          [&](const Broadcast& each) { return broadcast(context, each, limits); },
          [&](const AllToAll& each) { return all_to_all(context, each, limits); },
          [&](const AllToAllV& each) { return all_to_all_v(context, each, limits); },
          [&](const MultimemAllReduce& each) {
            return multimem_all_reduce(context, each.request, limits);
          },
          [&](const MultimemReduce& each) {
            return multimem_reduce(context, each.request, limits);
          },
          [&](const MultimemAllGather& each) {
            return multimem_all_gather(context, each.request, limits);
          },
          [&](const ExpertAllToAll& each) { return exchange_experts(context, each, limits); },
      },
      collective);
}

Status check(const SignalPads& pads, const Signal& signal) {
  if (Status wrong = pads.slots().check_channel(signal.channel); !wrong.ok()) return wrong;
  return signal.kind == Signal::Kind::kBarrier ? Status() : pads.slots().check_rank(signal.rank);
}

Status perform(const SignalPads& pads, const Signal& signal, const Limits& limits) {
  switch (signal.kind) {
    case Signal::Kind::kPut: return put_signal(pads.slots(), signal.rank, signal.channel, limits);
    case Signal::Kind::kWait: return wait_signal(pads.slots(), signal.rank, signal.channel, limits);
    case Signal::Kind::kAdd: return add_signal(pads, signal.rank, signal.channel, signal.value);
    case Signal::Kind::kWaitForValue:
      return wait_for_value(pads, signal.rank, signal.channel, signal.value, limits);
    case Signal::Kind::kBarrier: return barrier(pads, signal.channel, limits);
  }
  return Status::invalid_argument("no such signal");
}

void store_words_at(std::byte* first, const WordFillRequest& fill) {
  auto* words = reinterpret_cast<uint32_t*>(first);
  for (size_t i = 0; i < fill.count; ++i) {
    SharedWords::store(words + i, fill.value, std::memory_order_release);
  }
}

// Defaults for back ends without atomics or multicast.

namespace {

Status no_atomics_error() {
  return Status::unsupported(
      "atomics are available for host memory only: change device memory with put or from kernels");
}

}  // namespace

Status Operations::post(const PeerTable& /*peers*/, int /*target*/, const AtomicOp& /*op*/) {
  return no_atomics_error();
}

Result<uint64_t> Operations::fetch(const PeerTable& /*peers*/, int /*target*/,
                                   const AtomicOp& /*op*/) {
  return no_atomics_error();
}

Status Operations::multicast_put(const PeerTable& /*peers*/, const MulticastPut& /*put*/,
                                 const RunOptions& /*run_options*/) {
  return Status::unsupported("this back end has no multicast");
}

}  // namespace ashlar::symm
