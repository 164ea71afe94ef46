// SPDX-License-Identifier: Apache-2.0
//
// What kernels of symmetric memory are told, what they keep from one to the next, and how they say
// what went wrong: plain words, the same for the host that launches them and for the device.
//
// Addresses are numbers: of the device's memory, or of pinned host memory, which the device reaches
// by the same address as the host.
#pragma once

#include <cstdint>

namespace ashlar::symm::kernels {

// Of a group on devices: where every rank's memory is travels with each kernel, whose arguments are
// at most 4096 bytes.
inline constexpr uint32_t kMostRanks = 256;

inline constexpr const char* kSignalName = "ashlar_symm_signal";
inline constexpr const char* kMeetName = "ashlar_symm_meet";
inline constexpr const char* kCopyName = "ashlar_symm_copy";
inline constexpr const char* kStoreName = "ashlar_symm_store";
inline constexpr const char* kReduceBitsName = "ashlar_symm_reduce_bits";  // and, or, xor
inline constexpr const char* kReducePrefix = "ashlar_symm_reduce_";        // the type follows
// Where multicast is: not in every image.
inline constexpr const char* kMultimemStoreName = "ashlar_symm_multimem_store";
inline constexpr const char* kMultimemSumPrefix = "ashlar_symm_multimem_sum_";  // the type follows

// Of the kernels that wait: one block, so that all of it runs, with a thread for each rank.
inline constexpr uint32_t kWaitingThreads = kMostRanks;
inline constexpr uint32_t kWorkingThreads = 256;
inline constexpr uint32_t kMostBlocks = 128;

// What a rank calls, as the notes of a pad's line have it: symm/collectives/order_guard.h.
struct CallWords {
  uint64_t code;
  uint64_t bytes;
  uint64_t offset_bytes;
  uint64_t memory;
};

// --- how it ended -------------------------------------------------------------------------------

enum class Act : uint32_t { kPut, kWait, kAdd, kWaitForValue, kLook, kBarrier, kCollective };

enum class End : uint32_t {
  kNone,
  kTimeout,
  kFailed,      // the group has
  kSkipped,     // something else of the group ended badly before, and nobody was told yet
  kUnfinished,  // another collective timed out and waits to be called again
  kDisagree,    // the ranks call different things
  kNoRoom,      // more comes than `out` has room for
  kBeyond,      // a rank offers what is not in its buffer
};

struct Ending {
  uint32_t state;  // released last. Of a call's own: 1. Of the group's: Desk::claim.
  End kind;
  Act act;
  uint32_t rank;  // whom it was about, if one
  uint32_t channel;
  uint32_t reserved;
  uint64_t waited_ns;
  uint64_t value;                     // waited for, or needed
  CallWords called;                   // what could not go on
  CallWords expected;                 // and what it did not agree with
  uint32_t missing[kMostRanks / 32];  // a bit for each rank that had not come
};

// Pinned host memory, for each group of a rank.
struct Board {
  uint32_t has_failed;  // the host sets it, and no kernel of the group waits any longer
  uint32_t told;        // how many bad ends users were told
  uint32_t has_cut;     // a collective has ended before its end, told or not: others may be in it
  Ending ending;        // of work in streams: the first that ended badly since
};

// A share of an all-to-all-v: where in the sender's piece, or in its buffer.
struct Share {
  uint64_t begin_bytes;
  uint64_t bytes;
};

// Pinned host memory, for a call.
struct Record {
  Ending ending;
  uint64_t value;  // that was looked at
  Share shares[kMostRanks];
  uint64_t has_rows;  // the two below are filled in
  int64_t out_splits[kMostRanks];
  int64_t out_offsets[kMostRanks];
};

// --- what a rank keeps from kernel to kernel ----------------------------------------------------

// Device memory, for each group of a rank; zero at first. Kernels that meet, and those between,
// come one after the other (stream_order.h), so that nothing but the claim is shared.
struct Desk {
  uint32_t claim;    // Board::told, or one more: something has ended badly
  uint32_t arrived;  // threads that are through
  uint32_t missing[kMostRanks];

  // The collective, as OrderGuard has it on the host.
  uint32_t is_running;
  uint32_t is_unfinished;  // it timed out: the same call goes on where it stopped
  uint32_t met;            // so many meetings are behind it
  uint32_t is_worked;      // so is what comes after the last of them
  uint32_t has_left;       // the ranks disagree, and have met once more
  End outcome;
  uint64_t outcome_rank;
  uint64_t needed_bytes;
  uint64_t began_ns;
  uint64_t scratch;
  CallWords call;
  CallWords agreed;     // what rank 0 calls, or this one,
  CallWords disagreed;  // and what outcome_rank does
  struct Heard {
    uint64_t from;  // in the peer's buffer
    uint64_t bytes;
    uint64_t to;  // in `out`
  } heard[kMostRanks];
};

// --- what each is told --------------------------------------------------------------------------

struct Common {
  uint64_t board;
  uint64_t desk;
  uint64_t record;  // where to say how it ended; 0: on the board
  uint32_t rank;
  uint32_t world_size;
  uint64_t timeout_ns;  // 0: for ever
};

struct SignalArguments {
  Common own;
  Act act;
  uint32_t peer;
  uint32_t channel;
  uint32_t reserved;
  uint64_t line;  // of the pad that is told, or of this rank's own
  uint64_t value;
};

struct MeetArguments {
  Common own;
  uint32_t channel;
  uint32_t is_collective;  // otherwise a barrier, and what follows does not matter
  uint32_t meeting;        // of the collective: 0 is its entry
  uint32_t is_last;
  uint64_t scratch;
  CallWords call;
  uint64_t rows;  // the Record of an all-to-all-v; 0: it is another
  uint64_t row_bytes;
  uint64_t buffer_bytes;
  uint64_t out_bytes;
  uint64_t pads[kMostRanks];
};

enum class ReduceTo : uint32_t {
  kOut,
  kScratch,
  kAll,   // the same place in every rank's piece
  kSaved  // its place in this rank's piece, whose elements are kept in scratch
};

struct ReduceArguments {
  Common own;
  uint32_t meeting;  // comes after it
  uint32_t op;       // ReduceOp
  ReduceTo to;
  uint32_t is_aligned;   // all that is read or written is so to 16 bytes
  uint64_t begin_bytes;  // in all pieces
  uint64_t bytes;
  uint64_t out;
  uint64_t pieces[kMostRanks];
};

enum class CopyKind : uint32_t {
  kPull,     // from every piece to `out`
  kPush,     // from `in` to every piece
  kFromOne,  // from the piece of `peer` to `out`
  kFromScratch,
  kRows,  // from every buffer to `out`, as was heard
};

struct CopyArguments {
  Common own;
  uint32_t meeting;
  CopyKind kind;
  uint32_t peer;
  uint32_t reserved;
  uint64_t bytes;      // of one
  uint64_t total;      // no copy goes beyond, counted in steps
  uint64_t elsewhere;  // `out` or `in`
  uint64_t out_step;   // in `out`, from rank to rank
  uint64_t piece_begin;
  uint64_t piece_step;  // in pieces, from rank to rank
  uint64_t pieces[kMostRanks];
};

// Of a sum, all ranks' parts at the address, which all of them get, or this one; of a store, what
// all get.
struct MultimemArguments {
  Common own;
  uint32_t meeting;
  uint32_t is_alone;   // no part of a collective: it comes after no meeting, and `own` is not used
  uint64_t multicast;  // this and the next two are aligned to 16 bytes
  uint64_t from;       // of a store
  uint64_t to;         // of a sum; 0: all ranks get it
  uint64_t bytes;      // a multiple of 16
};

// Words of one rank's memory, all the same.
struct StoreArguments {
  uint64_t at;  // aligned to 4 bytes
  uint64_t count;
  uint32_t value;
  uint32_t reserved;
};

static_assert(sizeof(MeetArguments) <= 4096 && sizeof(ReduceArguments) <= 4096 &&
              sizeof(CopyArguments) <= 4096);

}  // namespace ashlar::symm::kernels
