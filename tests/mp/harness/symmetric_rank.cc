// SPDX-License-Identifier: Apache-2.0
//
// Sets the default options, joins a group, runs the test and leaves.
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

HeapOptions SymmetricRank::heap_options() {
  HeapOptions options;
  options.heartbeat = RankContext::short_lease_options().heartbeat;
  options.lease = RankContext::short_lease_options().lease;
  return options;
}

GroupOptions SymmetricRank::group_options(const RankSpec& own) {
  GroupOptions options;
  options.rank = own.rank;
  options.world_size = own.world_size;
  options.measure_thresholds = false;
  options.timeout = kTestTimeout;
  return options;
}

SymmetricRank::SymmetricRank(const RankSpec& own, size_t bytes, const HeapOptions& heap_options,
                             const GroupOptions& group_options)
    : heap(heap_options),
      group(Group::join(heap, own.store, group_options)),
      buffer(heap.allocate(bytes)),
      handle(group.rendezvous(buffer, kTestTimeout)) {}

RankMain with_memory(size_t bytes, const SymmetricBody& body) {
  return [bytes, body](const RankSpec& rank) -> std::string {
    SymmetricRank own(rank, bytes);
    if (std::string wrong = body(own); !wrong.empty()) return wrong;
    own.group.leave(kTestTimeout);
    return {};
  };
}

std::string error_message(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const Error& thrown) {
    return thrown.what();
  }
  return "nothing";
}

std::string error_message_naming(std::string_view expected,
                                 const std::function<void()>& operation) {
  const Deadline deadline = Deadline::after(kTestTimeout);
  std::string message;
  do {
    message = error_message(operation);
  } while (message.find(expected) == std::string::npos && message.starts_with("timeout") &&
           !deadline.has_passed());
  return message;
}

bool throws_invalid_argument(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const InvalidArgument&) {
    return true;
  } catch (const Error&) {
    return false;
  }
  return false;
}

}  // namespace ashlar::symm
