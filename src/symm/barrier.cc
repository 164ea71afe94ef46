// Barriers: arguments checked, then the steps of steps.h over the machine's memory.
#include "symm/barrier.h"

#include <vector>

#include "base/text.h"
#include "symm/seat.h"
#include "symm/steps.h"

namespace ashlar::symm {
namespace {

Status check(const Pads& pads, int channel) {
  if (Status wrong = pads.slots().check_channel(channel); !wrong.ok()) return wrong;
  return pads.slots().check_all_reachable();
}

// Who has not come to the barrier that this rank waits in. Where not everybody tells everybody, the
// word that a rank writes first is in its neighbour's pad.
std::vector<int> find_absent(const Pads& pads, int channel, BarrierKind kind, uint64_t number) {
  std::vector<int> absent;
  for (int source = 0; source < pads.world_size(); ++source) {
    if (source == pads.rank()) continue;
    const int told =
        kind == BarrierKind::kAllToAll ? pads.rank() : (source + 1) % pads.world_size();
    const uint64_t* reached = pads.barrier(told, channel, source).value;
    if (SharedMemory::load(reached, std::memory_order_relaxed) < number) absent.push_back(source);
  }
  return absent;
}

Status too_late(const Pads& pads, int channel, BarrierKind kind, const WaitLimits& waiting) {
  const uint64_t number =
      1 + SharedMemory::load(pads.barrier(pads.rank(), channel, pads.rank()).value,
                             std::memory_order_relaxed);
  const std::vector<int> absent = find_absent(pads, channel, kind, number);
  // The last one may have come while this was being found out.
  const std::string whom = absent.empty() ? "others that are there now" : name_ranks(absent);
  return Status::timeout(text("rank ", pads.rank(), " waited ", seconds_text(waiting.waited()),
                              " in barrier ", number, " of channel ", channel, " for ", whom, "; ",
                              describe_pad(pads, channel)));
}

}  // namespace

Status barrier(const Pads& pads, int channel, const Limits& limits) {
  const bool is_small = pads.world_size() <= kAllToAllRanks;
  return barrier(pads, channel, is_small ? BarrierKind::kAllToAll : BarrierKind::kDissemination,
                 limits);
}

Status barrier(const Pads& pads, int channel, BarrierKind kind, const Limits& limits) {
  if (Status wrong = check(pads, channel); !wrong.ok()) return wrong;
  if (pads.world_size() == 1) return {};
  SharedMemory memory;
  WaitLimits waiting{
      .failure = limits.failure, .deadline = limits.deadline, .patience = pads.patience()};
  const auto words = [&](int owner, int source) { return pads.barrier(owner, channel, source); };
  const Place me{.rank = pads.rank(), .world_size = pads.world_size()};
  const WaitEnd end = kind == BarrierKind::kAllToAll
                          ? all_to_all_barrier(memory, me, words, waiting)
                          : dissemination_barrier(memory, me, words, waiting);
  switch (end) {
    case WaitEnd::kDone: return {};
    case WaitEnd::kFailed: return limits.failure.reason();
    case WaitEnd::kTimeout: break;
  }
  return too_late(pads, channel, kind, waiting);
}

}  // namespace ashlar::symm
