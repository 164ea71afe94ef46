// SPDX-License-Identifier: Apache-2.0
//
// Type-erased collectives over the PEs of a team, built on those of ashlar::symm where possible.
// Functions that take a Team are collective. Functions throw on error.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>

#include "ashlar/symmetric_types.h"
#include "shmem/errors.h"
#include "shmem/runtime.h"

namespace ashlar::shmem {

// A transfer of `count` elements of `element_bytes` bytes. `dest` and `source` are symmetric
// addresses.
struct Transfer {
  void* dest = nullptr;
  const void* source = nullptr;
  size_t count = 0;
  size_t element_bytes = 1;

  // Throws if the product overflows.
  int64_t total_bytes() const;
};

// Whether a broadcast writes the root's own `dest`. Broadcasts over a team do; broadcasts over an
// active set do not.
enum class RootDest { kWritten, kUntouched };
void broadcast(Team& team, const Transfer& transfer, int root, RootDest root_dest);
// Concatenates the elements of all PEs. `count` may differ between PEs, unlike in `fcollect`.
void collect(Team& team, const Transfer& transfer);
void fcollect(Team& team, const Transfer& transfer);
void alltoall(Team& team, const Transfer& transfer);
struct Strides {
  ptrdiff_t dest = 1;
  ptrdiff_t source = 1;
};
void alltoalls(Team& team, const Transfer& transfer, const Strides& strides);

void sync(Team& team);

// Whether ashlar::symm cannot reduce elements of type T: true for long double and complex numbers.
template <typename T>
inline constexpr bool kNeedsGatheredReduce =
    std::is_same_v<T, long double> || !std::is_arithmetic_v<T>;

template <typename T>
constexpr symm::ElementType element_type() {
  using symm::ElementType;
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? ElementType::kF32 : ElementType::kF64;
  } else if constexpr (sizeof(T) == 1) {
    return std::is_signed_v<T> ? ElementType::kI8 : ElementType::kU8;
  } else if constexpr (sizeof(T) == 2) {
    return std::is_signed_v<T> ? ElementType::kI16 : ElementType::kU16;
  } else if constexpr (sizeof(T) == 4) {
    return std::is_signed_v<T> ? ElementType::kI32 : ElementType::kU32;
  } else {
    return std::is_signed_v<T> ? ElementType::kI64 : ElementType::kU64;
  }
}

template <typename T>
T combine(symm::ReduceOp op, T left, T right) {
  if (op == symm::ReduceOp::kSum) return left + right;
  if constexpr (std::is_arithmetic_v<T>) {
    if (op == symm::ReduceOp::kMin) return right < left ? right : left;
    if (op == symm::ReduceOp::kMax) return left < right ? right : left;
  }
  return left * right;
}

// Throws unless `dest` equals `source` or the two are disjoint.
void check_no_partial_overlap(const Transfer& transfer);
// Reduces with the all-reduce of ashlar::symm.
void reduce_native(Team& team, const Transfer& transfer, const symm::Reduction& reduction);

// Gathers the elements of all PEs in chunks, which every PE combines in rank order.
template <typename T>
void reduce_gathered(Team& team, T* dest, const T* source, size_t count, symm::ReduceOp op) {
  Runtime& runtime = Runtime::get();
  const Transfer transfer{dest, source, count, sizeof(T)};
  const auto bytes = static_cast<size_t>(transfer.total_bytes());
  runtime.offset_of(dest, bytes);
  runtime.offset_of(source, bytes);
  check_no_partial_overlap(transfer);
  PeGroup& pe_group = runtime.teams().group_for(team);
  pe_group.check_same_call({"reduce", {count, static_cast<uint64_t>(op), sizeof(T)}, 3});
  constexpr size_t kChunkElements = PeGroup::kScratchBytesPerPe / sizeof(T);
  for (size_t done = 0; done < count; done += kChunkElements) {
    const size_t length = std::min(kChunkElements, count - done);
    const auto* all =
        reinterpret_cast<const T*>(pe_group.gather_bytes(source + done, length * sizeof(T)));
    for (size_t at = 0; at < length; ++at) {
      T result = all[at];
      for (int rank = 1; rank < team.size(); ++rank) {
        result = combine(op, result, all[static_cast<size_t>(rank) * length + at]);
      }
      dest[done + at] = result;
    }
  }
}

template <typename T>
void reduce(Team& team, T* dest, const T* source, size_t count, symm::ReduceOp op) {
  if constexpr (kNeedsGatheredReduce<T>) {
    reduce_gathered(team, dest, source, count, op);
  } else {
    reduce_native(team, {dest, source, count, sizeof(T)}, {element_type<T>(), op});
  }
}

}  // namespace ashlar::shmem
