// SPDX-License-Identifier: Apache-2.0
//
// The exchange of rows between ranks with several experts (symm/collectives/expert_exchange.h).
// Between its two barriers, three kernels run, each with all threads in parallel: the first reads
// the splits of all ranks, the second computes where the incoming slices are written, and the third
// copies them. The table of slices is in scratch memory.
#pragma once

#include "symm/backends/cuda/kernels/barrier.h"

namespace ashlar::symm::kernels {

// A block copies one chunk of a slice at a time.
inline constexpr uint64_t kCopyChunkBytes = 16384;

ASHLAR_ON_DEVICE uint32_t slice_count(const ExpertArguments& args) {
  return args.common.world_size * args.experts;
}

// The number of consecutive slices that are aligned together.
ASHLAR_ON_DEVICE uint32_t run_length(const ExpertArguments& args) {
  return args.is_by_expert != 0 ? args.experts : args.common.world_size;
}

// Returns the sender of incoming slice `index`, and its expert.
ASHLAR_ON_DEVICE uint32_t sender_of(const ExpertArguments& args, uint32_t index) {
  return args.is_by_expert != 0 ? index / args.experts : index % args.common.world_size;
}
ASHLAR_ON_DEVICE uint32_t expert_of(const ExpertArguments& args, uint32_t index) {
  return args.is_by_expert != 0 ? index % args.experts : index / args.common.world_size;
}

ASHLAR_ON_DEVICE uint64_t chunk_count(const ExpertArguments& args, uint64_t rows) {
  return (rows * args.row_bytes + kCopyChunkBytes - 1) / kCopyChunkBytes;
}

ASHLAR_ON_DEVICE SliceEntry* slice_table(const ExpertArguments& args) {
  return device_memory<SliceEntry>(state_of(args.common)->scratch, slice_count(args));
}

// Calls `each` with the index of every slice, divided among all threads.
template <typename Each>
ASHLAR_ON_DEVICE void for_each_slice(const ExpertArguments& args, const Each& each) {
  const uint32_t count = slice_count(args);
  ASHLAR_NO_UNROLL
  for (uint32_t i = block_index() * thread_count() + thread_index(); i < count;
       i += block_count() * thread_count()) {
    each(i);
  }
}

// Reads the split of one incoming slice. Reads it once, so that the sender cannot change it between
// check and use. The loop has no branches, so that its loads overlap.
ASHLAR_ON_DEVICE void read_split(const ExpertArguments& args, uint32_t index) {
  const uint32_t count = slice_count(args);
  const uint32_t expert = expert_of(args, index);
  const uint32_t sent = args.is_by_expert != 0 ? expert * args.common.world_size + args.common.rank
                                               : args.common.rank * args.experts + expert;
  const uint32_t list_length = args.has_offsets != 0 ? 2 * count : count;
  const uint64_t* splits = device_memory<uint64_t>(
      args.ranges[sender_of(args, index)] + args.splits_distance, list_length);
  const uint64_t rows = load(splits + sent);
  uint64_t from = 0;
  uint64_t seen = 0;
  if (args.has_offsets != 0) {
    from = load(splits + count + sent);
  } else {
    for (uint32_t i = 0; i < sent; ++i) {
      const uint64_t before = splits[i];
      seen |= before;
      from += before;
    }
  }
  SliceEntry* entry = slice_table(args) + index;
  entry->from = from;
  entry->rows = rows;
  entry->is_invalid =
      seen >= kMaxRowNumber || rows > args.row_capacity || from > args.row_capacity - rows ? 1 : 0;
}

// The result of going through the whole table.
struct SliceSums {
  uint64_t to = 0;           // of the slice asked for
  uint64_t first_chunk = 0;  // of the slice asked for
  uint64_t needed_rows = 0;  // that `out` must have
  uint32_t invalid = 0;      // index of the first invalid slice; the number of slices if none
};

ASHLAR_ON_DEVICE SliceSums sum_slices(const ExpertArguments& args, uint32_t index) {
  const SliceEntry* table = slice_table(args);
  const uint32_t count = slice_count(args);
  const uint32_t run = run_length(args);
  SliceSums sums;
  sums.invalid = count;
  uint64_t to = 0;
  uint64_t run_begin = 0;
  uint64_t chunk = 0;
  uint32_t left_in_run = run;
  ASHLAR_NO_UNROLL
  for (uint32_t i = 0; i < count; ++i) {
    if (table[i].is_invalid != 0 && sums.invalid == count) sums.invalid = i;
    if (i == index) {
      sums.to = to;
      sums.first_chunk = chunk;
    }
    const uint64_t rows = table[i].rows;
    to += rows;
    chunk += chunk_count(args, rows);
    if (rows != 0) sums.needed_rows = to;
    if (--left_in_run != 0) continue;
    left_in_run = run;
    if (args.alignment_rows != 0) {
      const uint64_t steps = (to - run_begin + args.alignment_rows - 1) / args.alignment_rows;
      to = run_begin + (steps == 0 ? 1 : steps) * args.alignment_rows;
    }
    run_begin = to;
  }
  return sums;
}

// Sets the outcome of the collective if the slices cannot be received.
ASHLAR_ON_DEVICE void check_slices(const ExpertArguments& args, const SliceSums& sums) {
  DeviceState* state = state_of(args.common);
  if (sums.invalid < slice_count(args)) {
    const SliceEntry* entry = slice_table(args) + sums.invalid;
    state->outcome = ResultKind::kOutOfRange;
    state->outcome_rank = sender_of(args, sums.invalid);
    state->peer_call.code = 0;
    state->peer_call.bytes = entry->rows;
    state->peer_call.offset_bytes = entry->from;
    state->peer_call.memory = 0;
  } else if (sums.needed_rows > args.out_bytes / args.row_bytes) {
    const uint64_t most = ~uint64_t{0} / args.row_bytes;
    state->outcome = ResultKind::kOutputTooSmall;
    state->needed_bytes =
        sums.needed_rows > most ? ~uint64_t{0} : sums.needed_rows * args.row_bytes;
  }
}

ASHLAR_ON_DEVICE void place_slice(const ExpertArguments& args, uint32_t index) {
  const SliceSums sums = sum_slices(args, index);
  if (index == 0) check_slices(args, sums);
  if (sums.invalid < slice_count(args)) return;
  SliceEntry* entry = slice_table(args) + index;
  entry->to = sums.to;
  entry->first_chunk = sums.first_chunk;
  device_memory<uint64_t>(args.out_splits + sizeof(uint64_t) * index)[0] = entry->rows;
  device_memory<uint64_t>(args.out_offsets + sizeof(uint64_t) * index)[0] = sums.to;
}

// Whether the kernel that places the slices must run. One of its threads sets the outcome while
// others start, so the outcome of this kernel is not an obstacle.
ASHLAR_ON_DEVICE bool should_place(const ExpertArguments& args) {
  const DeviceState* state = state_of(args.common);
  const ResultKind outcome = state->outcome;
  return state->is_running != 0 && state->completed_barriers == args.barrier + 1 &&
         state->is_work_done == 0 &&
         (outcome == ResultKind::kNone || outcome == ResultKind::kOutputTooSmall);
}

ASHLAR_ON_DEVICE void run_plan_slices(const ExpertArguments& args) {
  if (args.step == ExpertStep::kRead) {
    if (!should_run(args.common, args.barrier)) return;
    for_each_slice(args, [&](uint32_t index) { read_split(args, index); });
    return;
  }
  if (!should_place(args)) return;
  for_each_slice(args, [&](uint32_t index) { place_slice(args, index); });
}

// Copies whole units, divided among the threads of this block. Each thread loads several units
// before it stores them, so that more loads are in flight.
template <typename Unit>
ASHLAR_ON_DEVICE void copy_units_in_block(uint64_t to_address, uint64_t from_address,
                                          uint64_t count) {
  if (count == 0) return;
  Unit* to = device_memory<Unit>(to_address, count);
  const Unit* from = device_memory<Unit>(from_address, count);
  const uint64_t step = thread_count();
  uint64_t at = thread_index();
  for (; at + 3 * step < count; at += 4 * step) {
    const Unit first = read_pack(from + at);
    const Unit second = read_pack(from + at + step);
    const Unit third = read_pack(from + at + 2 * step);
    const Unit fourth = read_pack(from + at + 3 * step);
    write_pack(to + at, first);
    write_pack(to + at + step, second);
    write_pack(to + at + 2 * step, third);
    write_pack(to + at + 3 * step, fourth);
  }
  ASHLAR_NO_UNROLL
  for (; at < count; at += step) write_pack(to + at, read_pack(from + at));
}

ASHLAR_ON_DEVICE void copy_in_block(uint64_t to, uint64_t from, uint64_t bytes) {
  const uint64_t alignment = to | from;
  uint64_t done = 0;
  if (alignment % 16 == 0) {
    done = bytes / 16 * 16;
    copy_units_in_block<Vec16>(to, from, done / 16);
  } else if (alignment % 4 == 0) {
    done = bytes / 4 * 4;
    copy_units_in_block<uint32_t>(to, from, done / 4);
  } else if (alignment % 2 == 0) {
    done = bytes / 2 * 2;
    copy_units_in_block<uint16_t>(to, from, done / 2);
  }
  copy_units_in_block<uint8_t>(to + done, from + done, bytes - done);
}

// Returns the slice that contains a chunk: the last one that does not begin after it. Slices
// without rows begin with the chunk of the next slice.
ASHLAR_ON_DEVICE uint32_t find_slice(const SliceEntry* table, uint32_t count, uint64_t chunk) {
  uint32_t begin = 0;
  uint32_t end = count;
  ASHLAR_NO_UNROLL
  while (end - begin > 1) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (table[middle].first_chunk <= chunk) {
      begin = middle;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Starts with another chunk on each rank, so that the ranks do not all read from the same peer.
ASHLAR_ON_DEVICE void run_copy_slices(const ExpertArguments& args) {
  if (!should_run(args.common, args.barrier)) return;
  const SliceEntry* table = slice_table(args);
  const uint32_t count = slice_count(args);
  const uint64_t total = table[count - 1].first_chunk + chunk_count(args, table[count - 1].rows);
  const uint64_t start = total / args.common.world_size * args.common.rank;
  ASHLAR_NO_UNROLL
  for (uint64_t item = block_index(); item < total; item += block_count()) {
    const uint64_t chunk = item + start < total ? item + start : item + start - total;
    const uint32_t index = find_slice(table, count, chunk);
    const uint64_t begin = (chunk - table[index].first_chunk) * kCopyChunkBytes;
    const uint64_t left = table[index].rows * args.row_bytes - begin;
    const uint64_t from = args.ranges[sender_of(args, index)] + table[index].from * args.row_bytes;
    copy_in_block(args.out + table[index].to * args.row_bytes + begin, from + begin,
                  left < kCopyChunkBytes ? left : kCopyChunkBytes);
  }
}

}  // namespace ashlar::symm::kernels
