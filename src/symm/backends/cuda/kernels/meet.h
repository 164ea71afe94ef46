// SPDX-License-Identifier: Apache-2.0
//
// Meeting the other ranks: a barrier, or one of the meetings of a collective, with what OrderGuard
// does on the host: a collective that timed out is gone on with by the same call, and no other.
//
// One block, and a thread for each rank: it tells that one and hears it. All threads decide alike
// what there is to do, from what the kernel before has left; only whether the group is held up can
// change meanwhile, and then one that skips skips for all. The last one through concludes. On one
// machine every rank tells every other, however many they are: the threads do it at once.
#pragma once

#include "symm/backends/cuda/kernels/waiting.h"
#include "symm/signals/pad_line.h"

namespace ashlar::symm::kernels {

ASHLAR_ON_DEVICE bool is_same(const CallWords& a, const CallWords& b) {
  return a.code == b.code && a.bytes == b.bytes && a.offset_bytes == b.offset_bytes &&
         a.memory == b.memory;
}

ASHLAR_ON_DEVICE PadLine* line_of(const MeetArguments& what, uint32_t owner, uint32_t source) {
  const uint64_t index = uint64_t{what.own.world_size} * what.channel + source;
  return device_memory<PadLine>(what.pads[owner] + index * sizeof(PadLine));
}

// --- what there is to do ------------------------------------------------------------------------

enum class Todo : uint32_t {
  kMeet,
  kPass,    // this meeting is behind us
  kRefuse,  // another collective is unfinished
  kSkip     // something ended badly before
};

ASHLAR_ON_DEVICE Todo decide(const MeetArguments& what) {
  const bool is_entry = what.is_collective == 0 || what.meeting == 0;
  if (is_entry && is_held_up(what.own)) return Todo::kSkip;
  if (what.is_collective == 0) return Todo::kMeet;
  const Desk* desk = desk_of(what.own);
  if (!is_entry) {
    if (desk->is_running == 0) return Todo::kSkip;
    return desk->met == what.meeting && desk->has_left == 0 ? Todo::kMeet : Todo::kPass;
  }
  if (desk->is_unfinished == 0) return Todo::kMeet;
  if (!is_same(desk->call, what.call)) return Todo::kRefuse;
  return desk->met == 0 ? Todo::kMeet : Todo::kPass;
}

// --- telling and hearing ------------------------------------------------------------------------

ASHLAR_ON_DEVICE void write_notes(PadLine* line, const CallWords& call) {
  store(&line->notes[0], call.code);
  store(&line->notes[1], call.bytes);
  store(&line->notes[2], call.offset_bytes);
  store(&line->noted_memory, static_cast<uint32_t>(call.memory));
}

ASHLAR_ON_DEVICE CallWords read_notes(const PadLine* line) {
  return {load(&line->notes[0]), load(&line->notes[1]), load(&line->notes[2]),
          load(&line->noted_memory)};
}

// Word by word: copied as a whole, clang puts all arguments on every thread's stack.
ASHLAR_ON_DEVICE CallWords call_of(const MeetArguments& what) {
  return {what.call.code, what.call.bytes, what.call.offset_bytes, what.call.memory};
}

// Of an all-to-all-v every rank is told of its own share.
ASHLAR_ON_DEVICE CallWords call_for(const MeetArguments& what, uint32_t peer) {
  CallWords call = call_of(what);
  if (what.rows == 0) return call;
  const Share* share = &host_memory<Record>(what.rows)->shares[peer];
  call.bytes = load(&share->bytes);
  call.offset_bytes += load(&share->begin_bytes);
  return call;
}

ASHLAR_ON_DEVICE Waited meet_peer(const MeetArguments& what, uint32_t peer, uint64_t number,
                                  const SpinPolicy& patience) {
  const uint32_t rank = what.own.rank;
  PadLine* there = line_of(what, peer, rank);
  if (what.is_collective != 0 && what.meeting == 0) write_notes(there, call_for(what, peer));
  if (peer == rank) return Waited::kDone;
  store_release(&there->barrier, number);
  const PadLine* here = line_of(what, rank, peer);
  return wait_until([&] { return load_acquire(&here->barrier) >= number; }, patience);
}

// --- conclusions --------------------------------------------------------------------------------

// Whether all have come; who has not is noted in `ending`.
ASHLAR_ON_DEVICE Waited count_missing(const MeetArguments& what, Ending& ending) {
  const Desk* desk = desk_of(what.own);
  Waited all = Waited::kDone;
  ASHLAR_AS_LOOP
  for (uint32_t peer = 0; peer < what.own.world_size; ++peer) {
    const Waited waited = static_cast<Waited>(load(&desk->missing[peer]));
    if (waited == Waited::kDone) continue;
    ending.missing[peer / 32] |= 1u << (peer % 32);
    if (all != Waited::kFailed) all = waited;
  }
  return all;
}

ASHLAR_ON_DEVICE bool has_skipped(const MeetArguments& what) {
  const Desk* desk = desk_of(what.own);
  bool has = false;
  ASHLAR_AS_LOOP
  for (uint32_t peer = 0; peer < what.own.world_size; ++peer) {
    has = has || load(&desk->missing[peer]) == static_cast<uint32_t>(Waited::kSkipped);
  }
  return has;
}

// Every rank has the same notes from all, so either all agree or all say so.
ASHLAR_ON_DEVICE void compare_calls(const MeetArguments& what, Desk* desk) {
  const bool has_rows = what.rows != 0;
  CallWords first = call_of(what);
  if (!has_rows) first = read_notes(line_of(what, what.own.rank, 0));
  ASHLAR_AS_LOOP
  for (uint32_t peer = 0; peer < what.own.world_size; ++peer) {
    const CallWords theirs = read_notes(line_of(what, what.own.rank, peer));
    const bool agrees = has_rows ? theirs.code == first.code && theirs.memory == first.memory
                                 : is_same(theirs, first);
    if (agrees) continue;
    desk->outcome = End::kDisagree;
    desk->outcome_rank = peer;
    desk->disagreed = theirs;
    desk->agreed = first;
    return;
  }
}

// Of an all-to-all-v: where all that comes goes. Each word of a peer is read once: what was checked
// is what is used.
ASHLAR_ON_DEVICE void make_places(const MeetArguments& what, Desk* desk) {
  uint64_t to = 0;
  ASHLAR_AS_LOOP
  for (uint32_t peer = 0; peer < what.own.world_size; ++peer) {
    const CallWords share = read_notes(line_of(what, what.own.rank, peer));
    if (share.offset_bytes > what.buffer_bytes ||
        share.bytes > what.buffer_bytes - share.offset_bytes) {
      desk->outcome = End::kBeyond;
      desk->outcome_rank = peer;
      desk->disagreed = share;
      return;
    }
    desk->heard[peer] = {share.offset_bytes, share.bytes, to};
    to += share.bytes;
  }
  desk->needed_bytes = to;
  if (to > what.out_bytes) desk->outcome = End::kNoRoom;
}

ASHLAR_ON_DEVICE void report_rows(const MeetArguments& what, const Desk* desk) {
  if (desk->outcome != End::kNone && desk->outcome != End::kNoRoom) return;
  Record* record = host_memory<Record>(what.rows);
  ASHLAR_AS_LOOP
  for (uint32_t peer = 0; peer < what.own.world_size; ++peer) {
    record->out_splits[peer] = static_cast<int64_t>(desk->heard[peer].bytes / what.row_bytes);
    record->out_offsets[peer] = static_cast<int64_t>(desk->heard[peer].to / what.row_bytes);
  }
  record->has_rows = 1;
}

// After the last meeting.
ASHLAR_ON_DEVICE void finish_collective(const MeetArguments& what, Desk* desk) {
  desk->is_running = 0;
  if (what.rows != 0) report_rows(what, desk);
  if (desk->outcome == End::kNone) return;
  Ending ending{};
  ending.kind = desk->outcome;
  ending.act = Act::kCollective;
  ending.rank = static_cast<uint32_t>(desk->outcome_rank);
  ending.value = desk->needed_bytes;
  ending.called = desk->disagreed;
  ending.expected = call_of(what);
  if (desk->outcome == End::kDisagree) {
    ending.expected = {load(&desk->agreed.code), load(&desk->agreed.bytes),
                       load(&desk->agreed.offset_bytes), load(&desk->agreed.memory)};
  }
  if (desk->outcome == End::kNoRoom) ending.called.bytes = what.out_bytes;
  desk->outcome = End::kNone;
  tell(what.own, ending);
}

// The entry's first act: which collective it is from here on.
ASHLAR_ON_DEVICE void begin_collective(const MeetArguments& what, Desk* desk, uint64_t began) {
  desk->is_running = 1;
  desk->began_ns = began;
  if (desk->is_unfinished != 0) {
    desk->is_unfinished = 0;
    return;
  }
  desk->met = 0;
  desk->is_worked = 0;
  desk->has_left = 0;
  desk->outcome = End::kNone;
  desk->scratch = what.scratch;
  desk->call = call_of(what);
}

ASHLAR_ON_DEVICE void end_early(const MeetArguments& what, Ending& ending, Waited waited,
                                const SpinPolicy& patience) {
  ending.kind = waited == Waited::kFailed ? End::kFailed : End::kTimeout;
  ending.waited_ns = now_ns() - patience.began_ns;
  if (what.is_collective != 0) {
    Desk* desk = desk_of(what.own);
    desk->is_running = 0;
    desk->is_unfinished = waited == Waited::kTimeout ? 1 : 0;
    // Stream order: what comes before a meeting is done when it begins.
    desk->is_worked = 1;
    store_release(&board_of(what.own)->has_cut, uint32_t{1});
  }
  tell(what.own, ending);
}

ASHLAR_ON_DEVICE void conclude(const MeetArguments& what, Todo todo, uint64_t number,
                               const SpinPolicy& patience) {
  Desk* desk = desk_of(what.own);
  const bool is_entry = what.is_collective != 0 && what.meeting == 0;
  Ending ending{};
  ending.act = what.is_collective != 0 ? Act::kCollective : Act::kBarrier;
  ending.channel = what.channel;
  if (todo == Todo::kSkip || todo == Todo::kRefuse) {
    if (what.is_collective != 0 && !is_entry) return;
    desk->is_running = 0;
    ending.kind = todo == Todo::kSkip ? End::kSkipped : End::kUnfinished;
    ending.called = call_of(what);
    ending.expected = desk->call;
    tell(what.own, ending);
    return;
  }
  if (is_entry) begin_collective(what, desk, patience.began_ns);
  if (todo == Todo::kMeet) {
    const Waited waited = count_missing(what, ending);
    ending.value = number;
    if (waited != Waited::kDone) {
      end_early(what, ending, waited, patience);
      return;
    }
    store(&line_of(what, what.own.rank, what.own.rank)->barrier, number);
    if (what.is_collective == 0) return;
    if (is_entry) compare_calls(what, desk);
    if (is_entry && what.rows != 0 && desk->outcome == End::kNone) make_places(what, desk);
    desk->has_left = !is_entry && desk->outcome != End::kNone ? 1 : 0;
  }
  if (desk->met <= what.meeting) {
    desk->met = what.meeting + 1;
    desk->is_worked = 0;
  }
  if (what.is_last != 0) finish_collective(what, desk);
}

ASHLAR_ON_DEVICE void run_meet(const MeetArguments& what) {
  Desk* desk = desk_of(what.own);
  const Todo todo = decide(what);
  const bool is_later = what.is_collective != 0 && what.meeting != 0;
  const SpinPolicy patience{&board_of(what.own)->has_failed, is_later ? desk->began_ns : began_ns(),
                            what.own.timeout_ns};
  const uint64_t number = 1 + load(&line_of(what, what.own.rank, what.own.rank)->barrier);
  const uint32_t peer = thread_index();
  if (peer < what.own.world_size) {
    Waited waited = todo == Todo::kSkip ? Waited::kSkipped : Waited::kDone;
    if (todo == Todo::kMeet) waited = meet_peer(what, peer, number, patience);
    store(&desk->missing[peer], static_cast<uint32_t>(waited));
  }
  if (add(&desk->arrived, 1u) + 1 != thread_count()) return;
  store(&desk->arrived, 0u);
  conclude(what, has_skipped(what) ? Todo::kSkip : todo, number, patience);
}

// --- between meetings ---------------------------------------------------------------------------

// Whether what comes after that meeting is to be done now.
ASHLAR_ON_DEVICE bool is_to_be_done(const Common& own, uint32_t meeting) {
  const Desk* desk = desk_of(own);
  return desk->is_running != 0 && desk->met == meeting + 1 && desk->is_worked == 0 &&
         desk->outcome == End::kNone;
}

}  // namespace ashlar::symm::kernels
