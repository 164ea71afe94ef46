// SPDX-License-Identifier: Apache-2.0
//
// What an AtomicOp does to a word of this machine's memory. Peers that reach it by pointer and
// those that ask for it through a transport end up here, so that all of them count as one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ashlar/atomic_op.h"

namespace ashlar::symm {

template <typename Word>
uint64_t apply_atomic_op_to(std::byte* at, const AtomicOp& call) {
  const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
  const auto operand = static_cast<Word>(call.operand);
  switch (call.kind) {
    case AtomicKind::kAdd: return word.fetch_add(operand);
    case AtomicKind::kAnd: return word.fetch_and(operand);
    case AtomicKind::kOr: return word.fetch_or(operand);
    case AtomicKind::kXor: return word.fetch_xor(operand);
    case AtomicKind::kSwap: return word.exchange(operand);
    case AtomicKind::kCompareAndSwap: break;
  }
  auto found = static_cast<Word>(call.expected);
  word.compare_exchange_strong(found, operand);
  return found;
}

// What was there before. REQUIRES: `at` is aligned to the word. Sequentially consistent: it stands
// for signals and locks that users make of it.
inline uint64_t apply_atomic_op(std::byte* at, const AtomicOp& call) {
  return call.word == WordBytes::k8 ? apply_atomic_op_to<uint64_t>(at, call)
                                    : apply_atomic_op_to<uint32_t>(at, call);
}

}  // namespace ashlar::symm
