// SPDX-License-Identifier: Apache-2.0
//
// Which function does what.
#include "symm/operations/operations.h"

#include "symm/core/shared_words.h"
#include "symm/signals/barrier.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {
namespace {

template <typename... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Match(Cases...) -> Match<Cases...>;

}  // namespace

Status check(const Team& team, const Collective& what) {
  return std::visit(
      Match{[&](const ThresholdAllReduce& each) { return check_request(team, each.request); },
            [&](const MultimemAllReduce& each) { return check_request(team, each.request); },
            [&](const MultimemReduce& each) { return check_request(team, each.request); },
            [&](const MultimemAllGather& each) { return check_request(team, each.request); },
            [&](const auto& each) { return check_request(team, each); }},
      what);
}

Status perform(const Team& team, const Collective& what, const Limits& limits) {
  return std::visit(
      Match{
          [&](const ThresholdAllReduce& each) {
            return all_reduce(team, each.request, each.one_shot_bytes, limits);
          },
          [&](const Reduce& each) { return reduce_to_root(team, each, limits); },
          [&](const ReduceScatter& each) { return reduce_scatter(team, each, limits); },
          [&](const AllGather& each) { return all_gather(team, each, limits); },
          [&](const Broadcast& each) { return broadcast(team, each, limits); },
          [&](const AllToAll& each) { return all_to_all(team, each, limits); },
          [&](const AllToAllV& each) { return all_to_all_v(team, each, limits); },
          [&](const MultimemAllReduce& each) {
            return multimem_all_reduce(team, each.request, limits);
          },
          [&](const MultimemReduce& each) { return multimem_reduce(team, each.request, limits); },
          [&](const MultimemAllGather& each) {
            return multimem_all_gather(team, each.request, limits);
          },
      },
      what);
}

Status check(const SignalPads& pads, const Signal& what) {
  if (Status wrong = pads.slots().check_channel(what.channel); !wrong.ok()) return wrong;
  return what.kind == Signal::Kind::kBarrier ? Status() : pads.slots().check_rank(what.rank);
}

Status perform(const SignalPads& pads, const Signal& what, const Limits& limits) {
  switch (what.kind) {
    case Signal::Kind::kPut: return put_signal(pads.slots(), what.rank, what.channel, limits);
    case Signal::Kind::kWait: return wait_signal(pads.slots(), what.rank, what.channel, limits);
    case Signal::Kind::kAdd: return add_signal(pads, what.rank, what.channel, what.value);
    case Signal::Kind::kWaitForValue:
      return wait_for_value(pads, what.rank, what.channel, what.value, limits);
    case Signal::Kind::kBarrier: return barrier(pads, what.channel, limits);
  }
  return Status::invalid_argument("no such signal");
}

void store_words_at(std::byte* first, const WordFillRequest& what) {
  auto* words = reinterpret_cast<uint32_t*>(first);
  for (size_t i = 0; i < what.count; ++i) {
    SharedWords::store(words + i, what.value, std::memory_order_release);
  }
}

// --- what not every back end has -----------------------------------------------------------------

namespace {

Status no_words() {
  return Status::unsupported(
      "steps on single words are for the host's memory: a device's is changed by put, or by "
      "kernels");
}

}  // namespace

Status Operations::post(const PeerTable& /*peers*/, int /*at*/, const AtomicOp& /*what*/) {
  return no_words();
}

Result<uint64_t> Operations::fetch(const PeerTable& /*peers*/, int /*at*/,
                                   const AtomicOp& /*what*/) {
  return no_words();
}

Status Operations::multicast_put(const PeerTable& /*peers*/, const MulticastPut& /*what*/,
                                 const RunOptions& /*when*/) {
  return Status::unsupported("this back end has no multicast");
}

}  // namespace ashlar::symm
