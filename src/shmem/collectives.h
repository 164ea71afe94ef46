// SPDX-License-Identifier: Apache-2.0
//
// Collectives over the PEs of a team, built on the collectives of ashlar::symm where possible.
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
  if (op == symm::ReduceOp::kSum) return static_cast<T>(left + right);
  if constexpr (std::is_arithmetic_v<T>) {
    if (op == symm::ReduceOp::kMin) return right < left ? right : left;
    if (op == symm::ReduceOp::kMax) return left < right ? right : left;
  }
  return static_cast<T>(left * right);
}

// Throws unless `dest` equals `source` or the two are disjoint.
void check_no_partial_overlap(const Transfer& transfer);
// Reduces with the all-reduce of ashlar::symm.
void reduce_native(Team& team, const Transfer& transfer, const symm::Reduction& reduction);

// `count` elements of type T at symmetric addresses.
template <typename T>
struct TypedTransfer {
  T* dest = nullptr;
  const T* source = nullptr;
  size_t count = 0;
};

// Gathers the elements of all PEs in chunks. Every PE sets each element of `dest` to
// `combine(element_of)`, where `element_of(rank)` is the corresponding element of the PE with that
// rank.
template <typename T, typename Combine>
void combine_gathered(Team& team, const CollectiveCall& call, const TypedTransfer<T>& elements,
                      const Combine& combine) {
  Runtime& runtime = Runtime::get();
  const Transfer transfer{elements.dest, elements.source, elements.count, sizeof(T)};
  const auto bytes = static_cast<size_t>(transfer.total_bytes());
  runtime.offset_of(elements.dest, bytes);
  runtime.offset_of(elements.source, bytes);
  check_no_partial_overlap(transfer);
  PeGroup& pe_group = runtime.teams().group_for(team);
  pe_group.check_same_call(call);
  constexpr size_t kChunkElements = PeGroup::kScratchBytesPerPe / sizeof(T);
  for (size_t done = 0; done < elements.count; done += kChunkElements) {
    const size_t length = std::min(kChunkElements, elements.count - done);
    const auto* all = reinterpret_cast<const T*>(
        pe_group.gather_bytes(elements.source + done, length * sizeof(T)));
    for (size_t at = 0; at < length; ++at) {
      elements.dest[done + at] =
          combine([&](int rank) { return all[static_cast<size_t>(rank) * length + at]; });
    }
  }
}

template <typename T>
void reduce_gathered(Team& team, const TypedTransfer<T>& elements, symm::ReduceOp op) {
  const CollectiveCall call{"reduce", {elements.count, static_cast<uint64_t>(op), sizeof(T)}, 3};
  combine_gathered(team, call, elements, [&](const auto& element_of) {
    T result = element_of(0);
    for (int rank = 1; rank < team.size(); ++rank) result = combine(op, result, element_of(rank));
    return result;
  });
}

// An exclusive scan sums the elements of all PEs before this one in the team; an inclusive scan
// also adds this PE's elements.
enum class ScanKind { kInclusive, kExclusive };
template <typename T>
void scan(Team& team, const TypedTransfer<T>& elements, ScanKind kind) {
  const CollectiveCall call{"scan", {elements.count, static_cast<uint64_t>(kind), sizeof(T)}, 3};
  const int end = kind == ScanKind::kInclusive ? team.rank() + 1 : team.rank();
  combine_gathered(team, call, elements, [&](const auto& element_of) {
    T result{};
    for (int rank = 0; rank < end; ++rank) {
      result = rank == 0 ? element_of(0) : combine(symm::ReduceOp::kSum, result, element_of(rank));
    }
    return result;
  });
}

template <typename T>
void reduce(Team& team, T* dest, const T* source, size_t count, symm::ReduceOp op) {
  if constexpr (kNeedsGatheredReduce<T>) {
    reduce_gathered(team, TypedTransfer<T>{dest, source, count}, op);
  } else {
    reduce_native(team, {dest, source, count, sizeof(T)}, {element_type<T>(), op});
  }
}

}  // namespace ashlar::shmem
