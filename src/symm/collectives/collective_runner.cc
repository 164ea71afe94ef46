// SPDX-License-Identifier: Apache-2.0
//
// Runs the steps of collectives, and serializes call signatures.
#include "symm/collectives/collective_runner.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "symm/collectives/collective_errors.h"

namespace ashlar::symm {
namespace {

constexpr std::array<std::string_view, 12> kOperations{
    "one-shot all-reduce", "two-shot all-reduce",
    "reduce-scatter",      "all-gather",
    "broadcast",           "all-to-all",
    "all-to-all-v",        "multimem all-reduce",
    "multimem all-gather", "reduce",
    "multimem reduce",     "exchange of experts"};

bool is_all_reduce(CollectiveKind operation) {
  return operation <= CollectiveKind::kTwoShotAllReduce ||
         operation == CollectiveKind::kMultimemAllReduce;
}

bool is_to_root(CollectiveKind operation) {
  return operation == CollectiveKind::kReduce || operation == CollectiveKind::kMultimemReduce;
}

bool is_reduction(CollectiveKind operation) {
  return is_all_reduce(operation) || is_to_root(operation) ||
         operation == CollectiveKind::kReduceScatter;
}

}  // namespace

uint64_t CallSignature::encode(CollectiveKind operation, Reduction reduction, int root) {
  return static_cast<uint64_t>(operation) | static_cast<uint64_t>(reduction.type) << 8 |
         static_cast<uint64_t>(reduction.op) << 16 | static_cast<uint64_t>(root) << 32;
}

std::string CallSignature::to_string() const {
  const size_t number = code & 0xFF;
  if (number >= kOperations.size()) return "unknown call";
  const auto operation = static_cast<CollectiveKind>(number);
  std::string words = text(kOperations[number], " (");
  if (is_reduction(operation)) {
    words += text(name(static_cast<ReduceOp>(code >> 16 & 0xFF)), " of ",
                  name(static_cast<ElementType>(code >> 8 & 0xFF)), ", ");
  }
  if (is_all_reduce(operation) && code >> 32 == 0) words += "in place, ";
  if (is_to_root(operation)) words += text("to rank ", code >> 32, ", ");
  if (operation == CollectiveKind::kBroadcast) words += text("from rank ", code >> 32, ", ");
  if (operation == CollectiveKind::kExpertAllToAll) {
    words +=
        text(code >> 16 & 0xFFFF, " experts per rank, by ",
             (code >> 8 & 1) != 0 ? "expert" : "rank", ", rows of ", code >> 32, " bytes at ",
             offset_bytes, ", splits ", (code >> 9 & 1) != 0 ? "and offsets at " : "at ", bytes);
  } else {
    words += text(bytes, " bytes at ", offset_bytes);
  }
  if (memory != 0) words += text(" of memory ", std::hex, memory);
  return words + ")";
}

void CallSignature::write_to(PadLine& line) const {
  SharedWords::store(&line.signature[0], code, std::memory_order_relaxed);
  SharedWords::store(&line.signature[1], bytes, std::memory_order_relaxed);
  SharedWords::store(&line.signature[2], offset_bytes, std::memory_order_relaxed);
  SharedWords::store(&line.signature_memory, memory, std::memory_order_relaxed);
}

CallSignature CallSignature::read_from(const PadLine& line) {
  return {.code = SharedWords::load(&line.signature[0], std::memory_order_relaxed),
          .bytes = SharedWords::load(&line.signature[1], std::memory_order_relaxed),
          .offset_bytes = SharedWords::load(&line.signature[2], std::memory_order_relaxed),
          .memory = SharedWords::load(&line.signature_memory, std::memory_order_relaxed)};
}

Status CollectiveRunner::run(const CallSignature& call, Deadline deadline,
                             std::initializer_list<Step> steps) {
  if (!mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a collective");
  const TimedLock lock(mutex_);
  if (!is_unfinished_) {
    call_ = call;
    next_step_ = 0;
    progress_.outcome = Status();
    progress_.has_left = false;
  } else if (!(call == call_)) {
    return unfinished_call_error(call, call_);
  }
  for (; next_step_ < steps.size(); ++next_step_) {
    const Step& step = steps.begin()[next_step_];
    Status ended = step(progress_);
    is_unfinished_ = ended.is(StatusKind::kTimeout);
    if (!ended.ok()) return ended;
  }
  return std::exchange(progress_.outcome, Status());
}

}  // namespace ashlar::symm
