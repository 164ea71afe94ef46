// SPDX-License-Identifier: Apache-2.0
//
// Copies between the ranks' ranges and other buffers after a barrier, and stores words.
#pragma once

#include "symm/backends/cuda/kernels/barrier.h"

namespace ashlar::symm::kernels {

template <typename Unit>
ASHLAR_ON_DEVICE void copy_units(uint64_t to, uint64_t from, uint64_t begin, uint64_t end) {
  for_each_unit<Unit>(begin, end, [&](uint64_t at) {
    write_pack(device_memory<Unit>(to + at), read_pack(device_memory<Unit>(from + at)));
  });
}

// Copies memory, divided among all threads, which call this together. Does nothing if `to` equals
// `from`.
ASHLAR_ON_DEVICE void copy_bytes(uint64_t to, uint64_t from, uint64_t bytes) {
  if (to == from) return;
  const uint64_t alignment = to | from;
  uint64_t done = 0;
  if (alignment % 16 == 0) {
    done = bytes / 16 * 16;
    copy_units<Vec16>(to, from, 0, done);
  } else if (alignment % 4 == 0) {
    done = bytes / 4 * 4;
    copy_units<uint32_t>(to, from, 0, done);
  }
  copy_units<uint8_t>(to, from, done, bytes);
}

ASHLAR_ON_DEVICE void copy_for_peer(const CopyArguments& args, uint32_t peer) {
  const uint64_t in_range = args.ranges[peer] + args.range_begin + args.range_step * peer;
  const uint64_t external = args.external + args.out_step * peer;
  if (args.kind == CopyKind::kRows) {
    const DeviceState::IncomingRows& incoming = state_of(args.common)->incoming[peer];
    copy_bytes(args.external + incoming.to, args.ranges[peer] + incoming.from, incoming.bytes);
    return;
  }
  if (args.kind == CopyKind::kPush) {
    copy_bytes(in_range, external, args.bytes);
    return;
  }
  // The last parts may be short or empty, so `total` limits the copy.
  const uint64_t begin = args.out_step * peer;
  const uint64_t left = begin < args.total ? args.total - begin : 0;
  copy_bytes(external, in_range, args.bytes < left ? args.bytes : left);
}

ASHLAR_ON_DEVICE void run_copy(const CopyArguments& args) {
  if (!should_run(args.common, args.barrier)) return;
  const uint32_t world_size = args.common.world_size;
  switch (args.kind) {
    case CopyKind::kFromScratch:
      copy_bytes(args.external, state_of(args.common)->scratch, args.bytes);
      return;
    case CopyKind::kFromOne:
      copy_bytes(args.external, args.ranges[args.peer] + args.range_begin, args.bytes);
      return;
    default: break;
  }
  // Starts with this rank, so that the ranks do not all access the same peer at the same time.
  ASHLAR_NO_UNROLL
  for (uint32_t step = 0; step < world_size; ++step) {
    const uint32_t peer = args.common.rank + step;
    copy_for_peer(args, peer < world_size ? peer : peer - world_size);
  }
}

// Divides the units of all pieces among the threads. REQUIRES: addresses, strides and the size of a
// piece are multiples of the unit.
template <typename Unit>
ASHLAR_ON_DEVICE void copy_pieces(const PieceArguments& args) {
  const uint64_t units = args.bytes / sizeof(Unit);
  for_each_unit<Unit>(0, args.count * args.bytes, [&](uint64_t at) {
    const uint64_t piece = at / sizeof(Unit) / units;
    const uint64_t in_piece = at - piece * args.bytes;
    const Unit* from = device_memory<Unit>(args.from + piece * args.from_stride + in_piece);
    write_pack(device_memory<Unit>(args.to + piece * args.to_stride + in_piece), read_pack(from));
  });
}

ASHLAR_ON_DEVICE void run_copy_pieces(const PieceArguments& args) {
  const uint64_t all = args.to | args.from | args.to_stride | args.from_stride | args.bytes;
  if (all % 16 == 0) return copy_pieces<Vec16>(args);
  if (all % 8 == 0) return copy_pieces<uint64_t>(args);
  if (all % 4 == 0) return copy_pieces<uint32_t>(args);
  if (all % 2 == 0) return copy_pieces<uint16_t>(args);
  copy_pieces<uint8_t>(args);
}

// Each store is a release to the whole system, so an acquire load of a word makes earlier work of
// the stream visible.
ASHLAR_ON_DEVICE void run_store(const StoreArguments& args) {
  for_each_unit<uint32_t>(0, args.count * sizeof(uint32_t), [&](uint64_t at) {
    store_release(device_memory<uint32_t>(args.at + at), args.value);
  });
}

}  // namespace ashlar::symm::kernels
