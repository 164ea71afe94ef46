// SPDX-License-Identifier: Apache-2.0
//
// Applies an `AtomicOp` to a word of host memory. Ranks that map the memory call this directly; for
// remote ranks the transport calls it in the process that owns the memory. All atomic operations on
// a word are therefore atomic with respect to each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ashlar/symmetric_types.h"

namespace ashlar::symm {

template <typename Word>
uint64_t apply_atomic_op_to(std::byte* address, const AtomicOp& op) {
  const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(address));
  const auto operand = static_cast<Word>(op.operand);
  switch (op.kind) {
    case AtomicKind::kAdd: return word.fetch_add(operand);
    case AtomicKind::kAnd: return word.fetch_and(operand);
    case AtomicKind::kOr: return word.fetch_or(operand);
    case AtomicKind::kXor: return word.fetch_xor(operand);
    case AtomicKind::kSwap: return word.exchange(operand);
    case AtomicKind::kCompareAndSwap: break;
  }
  auto found = static_cast<Word>(op.expected);
  word.compare_exchange_strong(found, operand);
  return found;
}

// Applies `op` to the word at `address` and returns the previous value. Ignores `op.offset`.
// Sequentially consistent, because users build signals and locks from these operations. REQUIRES:
// `address` is aligned to the size of the word.
inline uint64_t apply_atomic_op(std::byte* address, const AtomicOp& op) {
  return op.word_bytes == WordBytes::k8 ? apply_atomic_op_to<uint64_t>(address, op)
                                        : apply_atomic_op_to<uint32_t>(address, op);
}

}  // namespace ashlar::symm
