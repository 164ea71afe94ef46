// SPDX-License-Identifier: Apache-2.0
//
// One step on one word of another rank's memory, which nobody sees half done.
#pragma once

#include <cstdint>

namespace ashlar::symm {

enum class AtomicKind { kAdd, kAnd, kOr, kXor, kSwap, kCompareAndSwap };
constexpr bool is_known(AtomicKind kind) {
  return kind >= AtomicKind::kAdd && kind <= AtomicKind::kCompareAndSwap;
}
enum class WordBytes : uint8_t { k4 = 4, k8 = 8 };

struct AtomicOp {
  AtomicKind kind = AtomicKind::kAdd;
  WordBytes word = WordBytes::k8;
  // From the beginning of what is reached: a handle's offset, or a region. The word is aligned to
  // its size.
  uint64_t offset = 0;
  uint64_t operand = 0;   // of words of 4 bytes the lower half counts, here and below
  uint64_t expected = 0;  // kCompareAndSwap: what must be there for `operand` to be put there
};

}  // namespace ashlar::symm
