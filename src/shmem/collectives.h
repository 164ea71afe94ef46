// SPDX-License-Identifier: Apache-2.0
//
// Collectives over the PEs of a team, whatever the type of their elements. Those of ashlar::symm
// where it has one. All are collective, and throw what went wrong.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>

#include "ashlar/reduction.h"
#include "shmem/failing.h"
#include "shmem/world.h"

namespace ashlar::shmem {

// Where it is from and where it goes, both symmetric. `count` elements of `bytes` each.
struct Moving {
  void* dest = nullptr;
  const void* source = nullptr;
  size_t count = 0;
  size_t bytes = 1;

  int64_t total() const;
};

// Whether the root, too, gets it in `dest`: it does with teams, and does not with active sets.
enum class RootGets { kAlso, kNot };
void broadcast(Team& team, const Moving& moving, int root, RootGets root_gets);
// `count` may differ.
void collect(Team& team, const Moving& moving);
void fcollect(Team& team, const Moving& moving);
void alltoall(Team& team, const Moving& moving);
struct Strides {
  ptrdiff_t dest = 1;
  ptrdiff_t source = 1;
};
void alltoalls(Team& team, const Moving& moving, const Strides& strides);

void sync(Team& team);

// --- reductions

// That of ashlar::symm, which has all but these.
template <typename T>
inline constexpr bool kIsElsewhere = std::is_same_v<T, long double> || !std::is_arithmetic_v<T>;

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
T combined(symm::ReduceOp op, T left, T right) {
  if (op == symm::ReduceOp::kSum) return left + right;
  if constexpr (std::is_arithmetic_v<T>) {
    if (op == symm::ReduceOp::kMin) return right < left ? right : left;
    if (op == symm::ReduceOp::kMax) return left < right ? right : left;
  }
  return left * right;
}

// Throws unless both are one, or apart.
void check_apart(const Moving& moving);
void reduce_arithmetic(Team& team, const Moving& moving, const symm::Reduction& what);

// In pieces: all PEs' bytes of one are gathered, and combined by each in the same order.
template <typename T>
void reduce_gathered(Team& team, T* dest, const T* source, size_t count, symm::ReduceOp op) {
  World& world = World::get();
  const Moving moving{dest, source, count, sizeof(T)};
  const auto bytes = static_cast<size_t>(moving.total());
  world.offset_of(dest, bytes);
  world.offset_of(source, bytes);
  check_apart(moving);
  Meeting& meeting = world.teams().meet(team);
  meeting.agree({"a reduction", {count, static_cast<uint64_t>(op), sizeof(T)}, 3});
  constexpr size_t kPiece = Meeting::kShareBytes / sizeof(T);
  for (size_t done = 0; done < count; done += kPiece) {
    const size_t length = std::min(kPiece, count - done);
    const auto* all =
        reinterpret_cast<const T*>(meeting.gather_bytes(source + done, length * sizeof(T)));
    for (size_t at = 0; at < length; ++at) {
      T result = all[at];
      for (int rank = 1; rank < team.size(); ++rank) {
        result = combined(op, result, all[static_cast<size_t>(rank) * length + at]);
      }
      dest[done + at] = result;
    }
  }
}

template <typename T>
void reduce(Team& team, T* dest, const T* source, size_t count, symm::ReduceOp op) {
  if constexpr (kIsElsewhere<T>) {
    reduce_gathered(team, dest, source, count, op);
  } else {
    reduce_arithmetic(team, {dest, source, count, sizeof(T)}, {element_type<T>(), op});
  }
}

}  // namespace ashlar::shmem
