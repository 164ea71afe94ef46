// SPDX-License-Identifier: Apache-2.0
//
// Bytes moved between ranks' pieces and elsewhere, after a meeting; words stored without one.
#pragma once

#include "symm/backends/cuda/kernels/meet.h"

namespace ashlar::symm::kernels {

template <typename Unit>
ASHLAR_ON_DEVICE void copy_units(uint64_t to, uint64_t from, uint64_t begin, uint64_t end) {
  for_units<Unit>(begin, end, [&](uint64_t at) {
    write_pack(device_memory<Unit>(to + at), read_pack(device_memory<Unit>(from + at)));
  });
}

// All threads together. Nothing, if they are the same.
ASHLAR_ON_DEVICE void copy_bytes(uint64_t to, uint64_t from, uint64_t bytes) {
  if (to == from) return;
  const uint64_t alignment = to | from;
  uint64_t done = 0;
  if (alignment % 16 == 0) {
    done = bytes / 16 * 16;
    copy_units<Sixteen>(to, from, 0, done);
  } else if (alignment % 4 == 0) {
    done = bytes / 4 * 4;
    copy_units<uint32_t>(to, from, 0, done);
  }
  copy_units<uint8_t>(to, from, done, bytes);
}

ASHLAR_ON_DEVICE void copy_for(const CopyArguments& what, uint32_t peer) {
  const uint64_t piece = what.pieces[peer] + what.piece_begin + what.piece_step * peer;
  const uint64_t elsewhere = what.elsewhere + what.out_step * peer;
  if (what.kind == CopyKind::kRows) {
    const Desk::Heard& heard = desk_of(what.own)->heard[peer];
    copy_bytes(what.elsewhere + heard.to, what.pieces[peer] + heard.from, heard.bytes);
    return;
  }
  if (what.kind == CopyKind::kPush) {
    copy_bytes(piece, elsewhere, what.bytes);
    return;
  }
  // The last parts may be short, or empty.
  const uint64_t begin = what.out_step * peer;
  const uint64_t left = begin < what.total ? what.total - begin : 0;
  copy_bytes(elsewhere, piece, what.bytes < left ? what.bytes : left);
}

ASHLAR_ON_DEVICE void run_copy(const CopyArguments& what) {
  if (!is_to_be_done(what.own, what.meeting)) return;
  const uint32_t world_size = what.own.world_size;
  switch (what.kind) {
    case CopyKind::kFromScratch:
      copy_bytes(what.elsewhere, desk_of(what.own)->scratch, what.bytes);
      return;
    case CopyKind::kFromOne:
      copy_bytes(what.elsewhere, what.pieces[what.peer] + what.piece_begin, what.bytes);
      return;
    default: break;
  }
  // This rank first, so that not all turn to the same one at once.
  ASHLAR_AS_LOOP
  for (uint32_t step = 0; step < world_size; ++step) {
    const uint32_t peer = what.own.rank + step;
    copy_for(what, peer < world_size ? peer : peer - world_size);
  }
}

// Whoever acquires one of them sees what was done before in the stream: that comes before this
// kernel, and each store releases it to the whole system.
ASHLAR_ON_DEVICE void run_store(const StoreArguments& what) {
  for_units<uint32_t>(0, what.count * sizeof(uint32_t), [&](uint64_t at) {
    store_release(device_memory<uint32_t>(what.at + at), what.value);
  });
}

}  // namespace ashlar::symm::kernels
