// SPDX-License-Identifier: Apache-2.0
//
// From calls to kernels, and from what they said to statuses.
#include "symm/backends/cuda/cuda_operations.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "device/relaxed_capture.h"
#include "symm/backends/cuda/endings.h"
#include "symm/backends/device/event_completion.h"

namespace ashlar::symm {
namespace {

using kernels::End;

uint64_t address_of(const MappedMemory& memory) {
  return reinterpret_cast<uint64_t>(memory.base());
}

void copy_rows(const kernels::Record& record, const AllToAllV& rows) {
  if (record.has_rows == 0) return;
  std::copy_n(record.out_splits, rows.out_splits.size(), rows.out_splits.begin());
  std::copy_n(record.out_offsets, rows.out_offsets.size(), rows.out_offsets.begin());
}

void write_shares(kernels::Record& record, const std::vector<Share>& shares) {
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    record.shares[rank] = {shares[rank].begin_bytes, shares[rank].bytes};
  }
}

}  // namespace

// --- making -------------------------------------------------------------------------------------

Result<std::unique_ptr<Operations>> CudaOperations::make(const Means& means,
                                                         const OperationsOptions& options) {
  const int world_size = options.rank_info.world_size;
  if (world_size > static_cast<int>(kernels::kMostRanks)) {
    return Status::unsupported(text("a group of ", world_size, " ranks on CUDA devices: kernels ",
                                    "reach ", kernels::kMostRanks, " at most"));
  }
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < world_size; ++rank) bases.push_back(options.pads->pad(rank));
  Result<SignalPads> pads =
      SignalPads::make(options.rank_info.rank, options.channel_count, std::move(bases));
  if (!pads.ok()) return pads.status();
  if (Status remote = pads->slots().check_all_reachable(); !remote.ok()) return remote;
  Result<PinnedPool::Piece<kernels::Board>> board = means.kernels.pinned().take_board();
  if (!board.ok()) return board.status();
  Result<std::shared_ptr<MappedMemory>> desk =
      means.backend.allocate(sizeof(kernels::Desk), sizeof(kernels::Desk));
  if (!desk.ok()) return desk.status();
  return std::unique_ptr<Operations>(
      new CudaOperations(means, options, *std::move(pads), *std::move(board), *std::move(desk)));
}

CudaOperations::CudaOperations(const Means& means, const OperationsOptions& options,
                               SignalPads pads, PinnedPool::Piece<kernels::Board> board,
                               std::shared_ptr<MappedMemory> desk)
    : DeviceOperations(means.kernels.device(), options),
      device_(means.kernels.device()),
      kernels_(means.kernels),
      backend_(means.backend),
      pads_(std::move(pads)),
      board_(std::move(board)),
      desk_(std::move(desk)) {
  options_.failure->add_flag(&board_->has_failed);
}

CudaOperations::~CudaOperations() { options_.failure->remove_flag(&board_->has_failed); }

// --- calls --------------------------------------------------------------------------------------

Status CudaOperations::run(const Signal& what, const RunOptions& run_options) {
  if (Status wrong = check(pads_, what); !wrong.ok()) return wrong;
  return submit(plan_for(pads_, what), nullptr, run_options);
}

Status CudaOperations::run(const Collective& what, const RunOptions& run_options) {
  if (Status wrong = check(team(), what); !wrong.ok()) return wrong;
  if (Status wrong =
          check_usable(std::visit([](const auto& each) { return elsewhere_of(each); }, what));
      !wrong.ok()) {
    return wrong;
  }
  const Result<Plan> plan = plan_for(team(), as_can_be(what));
  if (!plan.ok()) return plan.status();
  return submit(*plan, std::get_if<AllToAllV>(&what), run_options);
}

Collective CudaOperations::as_can_be(Collective what) const {
  const auto can = [this](const Reduction& wanted) {
    return wanted.op == ReduceOp::kSum && kernels_.can_multimem(wanted.type);
  };
  if (auto* all = std::get_if<MultimemAllReduce>(&what)) {
    if (!can(all->request.what)) all->multicast = nullptr;
  }
  if (auto* one = std::get_if<MultimemReduce>(&what)) {
    if (!can(one->request.what)) one->multicast = nullptr;
  }
  if (auto* gather = std::get_if<MultimemAllGather>(&what)) {
    if (!kernels_.can_multimem(std::nullopt)) gather->multicast = nullptr;
  }
  return what;
}

Status CudaOperations::check_usable(const ExternalBuffer& other) {
  if (other.address == nullptr || other.bytes == 0) return {};
  const AddressRange range{DeviceAddress(reinterpret_cast<uint64_t>(other.address)), other.bytes};
  const Status usable = device_.check_access(range, Access::kReadWrite);
  return usable.ok() ? Status() : not_elsewhere(other, usable);
}

Result<uint64_t> CudaOperations::counter_value(int from, int channel) {
  if (Status wrong = check(pads_, Signal{Signal::Kind::kWaitForValue, from, channel, 0});
      !wrong.ok()) {
    return wrong;
  }
  Result<Record> record = kernels_.pinned().take_record();
  if (!record.ok()) return record.status();
  const Plan plan = plan_to_look(pads_, from, channel);
  const Status done = own_streams_.run(
      [&](StreamId stream) { return launch(plan, {.record = record->address()}, stream); });
  if (done.ok()) return (*record)->value;
  record->abandon();
  return or_lost(done);
}

Status CudaOperations::finish(StreamId stream) {
  if (Status waited = DeviceOperations::finish(stream); !waited.ok()) return waited;
  return take_bad_end();
}

// --- launching ----------------------------------------------------------------------------------

Status CudaOperations::submit(const Plan& plan, const AllToAllV* rows,
                              const RunOptions& run_options) {
  if (Status before = take_bad_end(); !before.ok()) return before;
  return run_options.stream ? submit_in_stream(plan, rows, run_options)
                            : run_now(plan, rows, run_options);
}

Result<CudaOperations::Places> CudaOperations::places_for(const Plan& plan,
                                                          const RunOptions& run_options) {
  Places places;
  using std::chrono::milliseconds;
  using std::chrono::nanoseconds;
  // What does not fit is centuries.
  if (run_options.timeout < std::chrono::duration_cast<milliseconds>(nanoseconds::max())) {
    places.timeout_ns = static_cast<uint64_t>(nanoseconds(run_options.timeout).count());
  }
  if (plan.scratch_bytes == 0) return places;
  const Result<uint64_t> scratch = scratch_of(plan.scratch_bytes);
  if (!scratch.ok()) return scratch.status();
  places.scratch = *scratch;
  return places;
}

// Kernels of one group that use it come one after the other. What a call that timed out has put
// there, its repetition finds in the same place: kernels::Desk::scratch.
Result<uint64_t> CudaOperations::scratch_of(size_t bytes) {
  MutexLock lock(mutex_);
  const size_t largest = scratches_.empty() ? 0 : scratches_.back()->bytes();
  if (bytes > largest) {
    const RelaxedCapture relaxed(device_);
    Result<std::shared_ptr<MappedMemory>> made = backend_.allocate(std::max(bytes, 2 * largest), 0);
    if (!made.ok()) return made.status();
    scratches_.push_back(*std::move(made));
  }
  return address_of(*scratches_.back());
}

Status CudaOperations::submit_in_stream(const Plan& plan, const AllToAllV* rows,
                                        const RunOptions& run_options) {
  if (Status capture = refuse_capture(device_, *run_options.stream); !capture.ok()) return capture;
  Result<Places> places = places_for(plan, run_options);
  if (!places.ok()) return places.status();
  Result<std::unique_ptr<EventCompletion>> end = EventCompletion::make(device_);
  if (!end.ok()) return end.status();
  std::shared_ptr<Record> record;  // also of the host's function behind the kernels
  if (rows != nullptr) {
    Result<Record> taken = kernels_.pinned().take_record();
    if (!taken.ok()) return taken.status();
    record = std::make_shared<Record>(*std::move(taken));
    write_shares(**record, plan.shares);
    places->rows = record->address();
  }
  const auto put = [&](StreamId stream) -> Status {
    if (Status launched = launch(plan, *places, stream); !launched.ok()) return launched;
    if (rows != nullptr) {
      Status queued =
          device_.call_host(stream, [record, what = *rows] { copy_rows(**record, what); });
      if (!queued.ok()) return queued;
    }
    return device_.record_event((*end)->event(), stream);
  };
  const Status launched = put_in(*run_options.stream, {put, plan.is_ordered});
  if (!launched.ok()) {
    // Some of it may be in the stream.
    (void)device_.record_event((*end)->event(), *run_options.stream).ok();
    if (record != nullptr) record->abandon();
  }
  run_options.in_flight->add(*std::move(end));
  return or_lost(launched);
}

Status CudaOperations::run_now(const Plan& plan, const AllToAllV* rows,
                               const RunOptions& run_options) {
  Result<Places> places = places_for(plan, run_options);
  if (!places.ok()) return places.status();
  for (;;) {
    Result<Record> record = kernels_.pinned().take_record();
    if (!record.ok()) return record.status();
    places->record = record->address();
    if (rows != nullptr) {
      write_shares(**record, plan.shares);
      places->rows = record->address();
    }
    const auto put = [&](StreamId stream) { return launch(plan, *places, stream); };
    const Status done = own_streams_.run([&](StreamId stream) {
      return put_in(stream, {put, plan.is_ordered});
    });
    if (!done.ok()) {
      record->abandon();
      return or_lost(done);
    }
    if (rows != nullptr) copy_rows(**record, *rows);
    const kernels::Ending& ending = (*record)->ending;
    if (ending.kind != End::kSkipped) return status_of(ending);
    // Unless somebody else was told just now, and the way is free.
    if (Status before = take_bad_end(); !before.ok()) return before;
  }
}

kernels::Common CudaOperations::own(kernels::Common rank_info, const Places& places) const {
  rank_info.board = board_.address();
  rank_info.desk = address_of(*desk_);
  rank_info.record = places.record;
  rank_info.timeout_ns = places.timeout_ns;
  return rank_info;
}

Status CudaOperations::launch(const Plan& plan, const Places& places, StreamId stream) {
  struct Launcher {
    const CudaOperations& operations;
    const Places& places;
    StreamId stream;

    Status operator()(kernels::SignalArguments step) const {
      step.own = operations.own(step.own, places);
      return operations.kernels_.launch(step, stream);
    }
    Status operator()(kernels::MeetArguments step) const {
      step.own = operations.own(step.own, places);
      step.scratch = places.scratch;
      step.rows = places.rows;
      return operations.kernels_.launch(step, stream);
    }
    Status operator()(ReduceStep step) const {
      step.arguments.own = operations.own(step.arguments.own, places);
      return operations.kernels_.launch(step.type, step.arguments, stream);
    }
    Status operator()(CopyStep step) const {
      step.arguments.own = operations.own(step.arguments.own, places);
      return operations.kernels_.launch(step.arguments, step.bytes, stream);
    }
    Status operator()(MultimemStep step) const {
      step.arguments.own = operations.own(step.arguments.own, places);
      return operations.kernels_.launch(step.sum_of, step.arguments, stream);
    }
  };
  const Launcher launcher{*this, places, stream};
  for (const Step& step : plan.steps) {
    if (Status launched = std::visit(launcher, step); !launched.ok()) return launched;
  }
  return {};
}

// --- how it ended -------------------------------------------------------------------------------

// What is being written just now is the next call's to tell.
Status CudaOperations::take_bad_end() {
  kernels::Ending ending{};
  {
    MutexLock lock(mutex_);
    const std::optional<uint32_t> untold = untold_end();
    if (!untold) return {};
    ending = board_->ending;
    std::atomic_ref(board_->told).store(*untold, std::memory_order_release);
  }
  return status_of(ending);
}

std::optional<uint32_t> CudaOperations::untold_end() const {
  kernels::Board& board = *board_;
  const uint32_t next = std::atomic_ref(board.told).load(std::memory_order_relaxed) + 1;
  const uint32_t state = std::atomic_ref(board.ending.state).load(std::memory_order_acquire);
  return state == next ? std::optional(next) : std::nullopt;
}

bool CudaOperations::has_failed_work() {
  return std::atomic_ref(board_->has_cut).load(std::memory_order_acquire) != 0;
}

Status CudaOperations::status_of(const kernels::Ending& ending) {
  switch (ending.kind) {
    case End::kNone: return {};
    case End::kFailed: return options_.failure->reason();
    case End::kTimeout: break;
    default: return status_of_disagreement(ending, options_.rank_info.rank);
  }
  // The pad as it is now: the kernel could not describe it.
  const size_t bytes = options_.pads->pad_bytes();
  std::vector<PadLine> copy(bytes / sizeof(PadLine));
  const DeviceAddress at(reinterpret_cast<uint64_t>(options_.pads->pad(options_.rank_info.rank)));
  const Status copied = own_streams_.run(
      [&](StreamId stream) { return device_.copy_to_host(copy.data(), at, bytes, stream); });
  if (!copied.ok()) return or_lost(copied);
  std::vector<std::byte*> bases(static_cast<size_t>(options_.rank_info.world_size));
  bases[static_cast<size_t>(options_.rank_info.rank)] = reinterpret_cast<std::byte*>(copy.data());
  const Result<SignalPads> pads =
      SignalPads::make(options_.rank_info.rank, options_.channel_count, std::move(bases));
  return pads.ok() ? status_of_timeout(ending, *pads) : pads.status();
}

}  // namespace ashlar::symm
