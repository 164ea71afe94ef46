// SPDX-License-Identifier: Apache-2.0
//
// Collectives that only move bytes: all-gather, broadcast, all-to-all with equal and with different
// shares. The rules are those of reducing.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "symm/collectives/team.h"

namespace ashlar::symm {

struct AllGather {
  Piece piece{};      // of W times `bytes`: there every rank's share ends up, in rank order
  int64_t bytes = 0;  // of each rank's share
  // This rank's share. May be its own place in its own piece, but nothing else there.
  const std::byte* in = nullptr;
};
Status all_gather(const Team& team, const AllGather& request, const Limits& limits);
// The same through multicast: what a rank stores once reaches all.
Status multimem_all_gather(const Team& team, const AllGather& request, const Limits& limits);
Status check_request(const Team& team, const AllGather& request);

struct Broadcast {
  Piece piece{};
  int64_t bytes = 0;
  int root = 0;
  // Where this rank wants it: nowhere in its piece. Null: in its piece.
  std::byte* out = nullptr;
};
Status broadcast(const Team& team, const Broadcast& request, const Limits& limits);
Status check_request(const Team& team, const Broadcast& request);

struct AllToAll {
  Piece piece{};             // of W times `bytes`: a share for each rank, in rank order
  int64_t bytes = 0;         // of each share
  std::byte* out = nullptr;  // W times `bytes`, nowhere in the piece: the shares for this rank
};
Status all_to_all(const Team& team, const AllToAll& request, const Limits& limits);
Status check_request(const Team& team, const AllToAll& request);

struct AllToAllV {
  Piece piece{};  // the shares for all ranks, one after the other
  int64_t row_bytes = 0;
  std::span<const int64_t> splits{};  // how many rows are for each rank
  std::byte* out = nullptr;           // the shares from all ranks, one after the other
  int64_t out_bytes = 0;              // room there
  // How many rows came from each rank, and from which row on they are in `out`.
  std::span<int64_t> out_splits{};
  std::span<int64_t> out_offsets{};
};
// Every rank may have other splits; how much it gets it finds out here. If that does not fit `out`,
// it gets kInvalidArgument with both sizes and out_splits filled in, and the others do not notice.
Status all_to_all_v(const Team& team, const AllToAllV& request, const Limits& limits);
Status check_request(const Team& team, const AllToAllV& request);

// What a rank sends to one other: where in its piece, and how much.
struct Share {
  uint64_t begin_bytes = 0;
  uint64_t bytes = 0;
};
// By rank. kInvalidArgument: the splits make no sense.
Result<std::vector<Share>> shares_of(const Team& team, const AllToAllV& request);
Call call_for(const AllToAllV& request, size_t total_bytes);

}  // namespace ashlar::symm
