// SPDX-License-Identifier: Apache-2.0
//
// Joining and leaving as all tests do.
#include "mp/symmetric_rank.h"

namespace ashlar::symm {

HeapOptions SymmetricRank::heap_options() {
  HeapOptions options;
  options.heartbeat = RankParts::quick().heartbeat;
  options.lease = RankParts::quick().lease;
  return options;
}

GroupOptions SymmetricRank::group_options(const BareRank& own) {
  GroupOptions options;
  options.rank = own.rank;
  options.world_size = own.world_size;
  options.measure_thresholds = false;
  options.timeout = kPatience;
  return options;
}

SymmetricRank::SymmetricRank(const BareRank& own, size_t bytes, const HeapOptions& heap_options,
                             const GroupOptions& group_options)
    : heap(heap_options),
      group(Group::join(heap, own.store, group_options)),
      buffer(heap.allocate(bytes)),
      handle(group.rendezvous(buffer, kPatience)) {}

BareBody with_memory(size_t bytes, const SymmetricBody& body) {
  return [bytes, body](const BareRank& rank) -> std::string {
    SymmetricRank own(rank, bytes);
    if (std::string wrong = body(own); !wrong.empty()) return wrong;
    own.group.leave(kPatience);
    return {};
  };
}

std::string thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& thrown) {
    return thrown.what();
  }
  return "nothing";
}

bool is_refused(const std::function<void()>& act) {
  try {
    act();
  } catch (const InvalidArgument&) {
    return true;
  } catch (const Error&) {
    return false;
  }
  return false;
}

}  // namespace ashlar::symm
