// SPDX-License-Identifier: Apache-2.0
//
// The order of a group's operations, and calls as words.
#include "symm/collectives/order_guard.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "symm/collectives/disagreement.h"

namespace ashlar::symm {
namespace {

constexpr std::array<std::string_view, 11> kOperations{"one-shot all-reduce", "two-shot all-reduce",
                                                       "reduce-scatter",      "all-gather",
                                                       "broadcast",           "all-to-all",
                                                       "all-to-all-v",        "multimem all-reduce",
                                                       "multimem all-gather", "reduce",
                                                       "multimem reduce"};

bool is_all_reduce(Operation operation) {
  return operation <= Operation::kTwoShotAllReduce || operation == Operation::kMultimemAllReduce;
}

bool is_to_root(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kMultimemReduce;
}

bool is_reduction(Operation operation) {
  return is_all_reduce(operation) || is_to_root(operation) ||
         operation == Operation::kReduceScatter;
}

}  // namespace

uint64_t Call::code_of(Operation operation, Reduction what, int root) {
  return static_cast<uint64_t>(operation) | static_cast<uint64_t>(what.type) << 8 |
         static_cast<uint64_t>(what.op) << 16 | static_cast<uint64_t>(root) << 32;
}

std::string Call::to_string() const {
  const size_t number = code & 0xFF;
  if (number >= kOperations.size()) return "something unknown";
  const auto operation = static_cast<Operation>(number);
  std::string words = text(kOperations[number], " (");
  if (is_reduction(operation)) {
    words += text(name(static_cast<ReduceOp>(code >> 16 & 0xFF)), " of ",
                  name(static_cast<ElementType>(code >> 8 & 0xFF)), ", ");
  }
  if (is_all_reduce(operation) && code >> 32 == 0) words += "in place, ";
  if (is_to_root(operation)) words += text("to rank ", code >> 32, ", ");
  if (operation == Operation::kBroadcast) words += text("from rank ", code >> 32, ", ");
  words += text(bytes, " bytes at ", offset_bytes);
  if (memory != 0) words += text(" of memory ", std::hex, memory);
  return words + ")";
}

void Call::note_in(PadLine& line) const {
  SharedWords::store(&line.notes[0], code, std::memory_order_relaxed);
  SharedWords::store(&line.notes[1], bytes, std::memory_order_relaxed);
  SharedWords::store(&line.notes[2], offset_bytes, std::memory_order_relaxed);
  SharedWords::store(&line.noted_memory, memory, std::memory_order_relaxed);
}

Call Call::noted_in(const PadLine& line) {
  return {.code = SharedWords::load(&line.notes[0], std::memory_order_relaxed),
          .bytes = SharedWords::load(&line.notes[1], std::memory_order_relaxed),
          .offset_bytes = SharedWords::load(&line.notes[2], std::memory_order_relaxed),
          .memory = SharedWords::load(&line.noted_memory, std::memory_order_relaxed)};
}

Status OrderGuard::run(const Call& call, Deadline deadline, std::initializer_list<Step> steps) {
  if (!mutex_.try_lock_until(deadline)) return TimedMutex::timeout_error("a collective");
  const TimedLock lock(mutex_);
  if (!is_unfinished_) {
    call_ = call;
    next_step_ = 0;
    progress_.outcome = Status();
    progress_.has_left = false;
  } else if (!(call == call_)) {
    return unfinished(call, call_);
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
