// SPDX-License-Identifier: Apache-2.0
//
// Arguments of the kernels of symmetric memory, the state they keep between launches, and their
// results. The layout is the same on host and device.
//
// Addresses are integers: of device memory, or of pinned host memory, which has the same address on
// host and device.
#pragma once

#include <cstdint>

namespace ashlar::symm::kernels {

// The maximum number of ranks of a group on devices: the addresses of all ranks are passed to each
// kernel, whose arguments are limited to 4096 bytes.
inline constexpr uint32_t kMaxRanks = 256;

inline constexpr const char* kSignalName = "ashlar_symm_signal";
inline constexpr const char* kBarrierName = "ashlar_symm_barrier";
inline constexpr const char* kCopyName = "ashlar_symm_copy";
inline constexpr const char* kStoreName = "ashlar_symm_store";
inline constexpr const char* kCopyPiecesName = "ashlar_symm_copy_pieces";
inline constexpr const char* kPlanSlicesName = "ashlar_symm_plan_slices";
inline constexpr const char* kCopySlicesName = "ashlar_symm_copy_slices";
inline constexpr const char* kReduceBitsName = "ashlar_symm_reduce_bits";  // and, or, xor
inline constexpr const char* kReducePrefix = "ashlar_symm_reduce_";        // followed by the type
// Multimem kernels are not in every image.
inline constexpr const char* kMultimemStoreName = "ashlar_symm_multimem_store";
// The prefix of the names of kernels that sum; the element type follows.
inline constexpr const char* kMultimemSumPrefix = "ashlar_symm_multimem_sum_";

// The threads per block and the maximum number of blocks of kernels that do not wait.
inline constexpr uint32_t kWorkingThreads = 256;
inline constexpr uint32_t kMaxBlocks = 128;
// The maximum number of blocks of the kernel that copies slices.
inline constexpr uint32_t kMaxCopyBlocks = 1024;
// No valid number of rows is larger, so the sum over all slices of an exchange cannot overflow.
inline constexpr uint64_t kMaxRowNumber = uint64_t{1} << 47;

// A CallSignature (symm/collectives/collective_runner.h), which ranks exchange through
// PadLine::signature.
struct CallWords {
  uint64_t code;
  uint64_t bytes;
  uint64_t offset_bytes;
  uint64_t memory;
};

enum class KernelAction : uint32_t {
  kPut,
  kWait,
  kAdd,
  kWaitForValue,
  kReadCounter,
  kBarrier,
  kCollective
};

enum class ResultKind : uint32_t {
  kNone,
  kTimeout,
  kFailed,          // the group has failed
  kSkipped,         // an earlier error in the group has not been reported yet
  kUnfinished,      // another collective timed out and must be called again first
  kMismatch,        // the ranks made different calls
  kOutputTooSmall,  // `out` is too small
  kOutOfRange,      // a rank announced data that is not inside its buffer
};

struct KernelResult {
  // Stored last, with release order: 1 in a CallRecord, DeviceState::error_claim on a StatusBoard.
  uint32_t state;
  ResultKind kind;
  KernelAction action;
  uint32_t rank;  // the peer, if there is one
  uint32_t channel;
  uint32_t reserved;
  uint64_t waited_ns;
  uint64_t value;  // the awaited value, or the required bytes
  // kUnfinished: the call that cannot start, and the unfinished call. kMismatch: a rank's call, and
  // the call that it differs from. Other kinds use `called` for a rank's share or the size of
  // `out`.
  CallWords called;
  CallWords expected;
  uint32_t missing[kMaxRanks / 32];  // one bit per rank that had not arrived
};

// The errors of a group on one rank, in pinned host memory.
struct StatusBoard {
  uint32_t has_failed;      // set by the host; ends the waits of all kernels of the group
  uint32_t reported_count;  // number of errors that have been reported to the caller
  // Whether a collective has ended early. If so, other ranks may still be inside it.
  uint32_t has_incomplete_collective;
  KernelResult result;  // the first unreported error from stream work
};

// A share of an all-to-all-v, relative to the sender's range.
struct RowShare {
  uint64_t begin_bytes;
  uint64_t bytes;
};

// The result of a blocking call, and the shares and rows of an all-to-all-v, in pinned host memory.
struct CallRecord {
  KernelResult result;
  uint64_t value;  // the counter, if the call reads a counter
  RowShare shares[kMaxRanks];
  uint64_t has_rows;  // whether the two arrays below are valid
  int64_t out_splits[kMaxRanks];
  int64_t out_offsets[kMaxRanks];
};

// The state of the current collective of a group on one rank, in device memory. Initially zero.
// Kernels of collectives and barriers of a group run one after the other (stream_order.h), so only
// `error_claim` is accessed by concurrent kernels.
struct DeviceState {
  uint32_t error_claim;  // StatusBoard::reported_count, or one more if there is an unreported error
  uint32_t arrived_count;            // threads of the current barrier that have finished
  uint32_t wait_results[kMaxRanks];  // the WaitResult of each thread of the current barrier

  // The fields below are the counterpart of CollectiveRunner on the host.
  uint32_t is_running;
  uint32_t is_unfinished;  // whether the call timed out; the same call continues it
  uint32_t completed_barriers;
  uint32_t is_work_done;  // whether the work after the last completed barrier is done
  uint32_t has_left;      // whether this rank, after a mismatch, has passed the final barrier
  ResultKind outcome;
  uint64_t outcome_rank;
  uint64_t needed_bytes;  // size of the incoming rows of an all-to-all-v
  uint64_t began_ns;
  uint64_t scratch;
  CallWords call;
  CallWords expected_call;  // after a mismatch: the call of rank 0 or of this rank
  CallWords peer_call;      // after a mismatch or an invalid share: the call of outcome_rank
  struct IncomingRows {
    uint64_t from;  // the offset in the peer's buffer
    uint64_t bytes;
    uint64_t to;  // the offset in `out`
  } incoming[kMaxRanks];
};

struct CommonArguments {
  uint64_t board;
  uint64_t state;
  uint64_t record;  // receives the result; 0 for the status board
  uint32_t rank;
  uint32_t world_size;
  uint64_t timeout_ns;  // 0 for no timeout
};

struct SignalArguments {
  CommonArguments common;
  KernelAction action;
  uint32_t peer;
  uint32_t channel;
  uint32_t reserved;
  uint64_t line;  // the PadLine: in the peer's pad, or in this rank's for waits and reads
  uint64_t value;
};

struct BarrierArguments {
  CommonArguments common;
  uint32_t channel;
  uint32_t is_collective;  // 0 for a plain barrier, which ignores the fields below except `pads`
  uint32_t barrier;        // index of the barrier in the collective
  uint32_t is_last;
  uint64_t scratch;
  CallWords call;
  uint64_t rows;  // the record of an all-to-all-v; 0 for other collectives
  uint64_t row_bytes;
  uint64_t buffer_bytes;
  uint64_t out_bytes;
  uint64_t pads[kMaxRanks];
};

enum class ReduceDestination : uint32_t {
  kOut,
  kScratch,
  kAll,      // the same offset in every rank's range
  kOwnRange  // this rank's range, after its elements have been saved to scratch memory
};

struct ReduceArguments {
  CommonArguments common;
  uint32_t barrier;  // the preceding barrier
  uint32_t op;       // ReduceOp
  ReduceDestination to;
  uint32_t is_aligned;   // all addresses are aligned to 16 bytes
  uint64_t begin_bytes;  // the offset in every rank's range
  uint64_t bytes;
  uint64_t out;
  uint64_t ranges[kMaxRanks];
};

enum class CopyKind : uint32_t {
  kPull,     // copies from every range to `out`
  kPush,     // copies from `in` to every range
  kFromOne,  // copies from the range of `peer` to `out`
  kFromScratch,
  kRows,  // copies rows from every buffer to `out`, as announced by the peers
};

struct CopyArguments {
  CommonArguments common;
  uint32_t barrier;
  CopyKind kind;
  uint32_t peer;
  uint32_t reserved;
  uint64_t bytes;     // the size of each copy; kRows: the size of `out`, unused by the kernel
  uint64_t total;     // limit of `out_step * rank + bytes`
  uint64_t external;  // `out` or `in`
  uint64_t out_step;  // distance between ranks in `out`
  uint64_t range_begin;
  uint64_t range_step;  // distance between ranks in the ranges
  uint64_t ranges[kMaxRanks];
};

// A slice that this rank receives in an exchange of experts. The table of these is in scratch
// memory, in the order in which this rank receives the slices.
struct SliceEntry {
  uint64_t from;  // the first row, in the sender's range
  uint64_t rows;
  uint64_t is_invalid;   // the slice is not inside the sender's buffer
  uint64_t to;           // the first row in `out`
  uint64_t first_chunk;  // number of chunks of all slices before this one
};

enum class ExpertStep : uint32_t {
  kRead,   // reads the splits of all ranks
  kPlace,  // computes where the incoming slices are written
};

// An exchange of experts (symm/collectives/expert_exchange.h).
struct ExpertArguments {
  CommonArguments common;
  uint32_t barrier;
  ExpertStep step;  // unused by the kernel that copies
  uint32_t experts;
  uint32_t is_by_expert;  // the order of the slices of a sender
  uint32_t has_offsets;
  uint32_t alignment_rows;
  uint64_t row_bytes;
  uint64_t row_capacity;     // rows between the start of a range and the end of its buffer
  uint64_t splits_distance;  // of the splits from the start of the range, modulo 2^64
  uint64_t out;
  uint64_t out_bytes;
  uint64_t out_splits;
  uint64_t out_offsets;
  uint64_t ranges[kMaxRanks];
};

// Either a sum of all ranks' elements at the multicast address, stored to all ranks or to `to`, or
// a store from `from` to all ranks.
struct MultimemArguments {
  CommonArguments common;
  uint32_t barrier;
  uint32_t is_alone;   // not part of a collective: has no barrier and does not use `common`
  uint64_t multicast;  // this and the next two addresses are aligned to 16 bytes
  uint64_t from;       // the source of a store
  uint64_t to;         // the destination of a sum; 0 for all ranks
  uint64_t bytes;      // a multiple of 16
};

// Copies pieces of memory. A stride is the distance between the beginnings of pieces.
struct PieceArguments {
  uint64_t to;
  uint64_t from;
  uint64_t to_stride;
  uint64_t from_stride;
  uint64_t bytes;
  uint64_t count;
};

// Fills words of one rank's memory.
struct StoreArguments {
  uint64_t at;  // aligned to 4 bytes
  uint64_t count;
  uint32_t value;
  uint32_t reserved;
};

static_assert(sizeof(BarrierArguments) <= 4096 && sizeof(ReduceArguments) <= 4096 &&
              sizeof(CopyArguments) <= 4096 && sizeof(ExpertArguments) <= 4096);

}  // namespace ashlar::symm::kernels
