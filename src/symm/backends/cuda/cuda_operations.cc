// SPDX-License-Identifier: Apache-2.0
//
// Launches kernels for calls and converts their results to statuses.
#include "symm/backends/cuda/cuda_operations.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "device/relaxed_capture.h"
#include "symm/backends/cuda/kernel_errors.h"
#include "symm/backends/device/event_completion.h"

namespace ashlar::symm {
namespace {

using kernels::ResultKind;

void copy_rows(const kernels::CallRecord& record, const AllToAllV& rows) {
  if (record.has_rows == 0) return;
  std::copy_n(record.out_splits, rows.out_splits.size(), rows.out_splits.begin());
  std::copy_n(record.out_offsets, rows.out_offsets.size(), rows.out_offsets.begin());
}

void write_shares(kernels::CallRecord& record, const std::vector<ByteRange>& shares) {
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    record.shares[rank] = {shares[rank].begin_bytes, shares[rank].bytes};
  }
}

}  // namespace

Result<std::unique_ptr<Operations>> CudaOperations::make(const Resources& resources,
                                                         const OperationsOptions& options) {
  const int world_size = options.rank_info.world_size;
  if (world_size > static_cast<int>(kernels::kMaxRanks)) {
    return Status::unsupported(text("a group of ", world_size, " ranks on CUDA devices: expected ",
                                    "at most ", kernels::kMaxRanks));
  }
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < world_size; ++rank) bases.push_back(options.pads->pad(rank));
  Result<SignalPads> pads =
      SignalPads::make(options.rank_info.rank, options.channel_count, std::move(bases));
  if (!pads.ok()) return pads.status();
  if (Status remote = pads->slots().check_all_reachable(); !remote.ok()) return remote;
  Result<PinnedSlotPool::Slot<kernels::StatusBoard>> board =
      resources.kernels.pinned().acquire_board();
  if (!board.ok()) return board.status();
  Result<std::shared_ptr<MappedMemory>> state =
      resources.backend.allocate(sizeof(kernels::DeviceState), sizeof(kernels::DeviceState));
  if (!state.ok()) return state.status();
  return std::unique_ptr<Operations>(new CudaOperations(resources, options, *std::move(pads),
                                                        *std::move(board), *std::move(state)));
}

CudaOperations::CudaOperations(const Resources& resources, const OperationsOptions& options,
                               SignalPads pads, PinnedSlotPool::Slot<kernels::StatusBoard> board,
                               std::shared_ptr<MappedMemory> state)
    : DeviceOperations(resources.kernels.device(), options,
                       [&device = resources.kernels.device()](StreamId stream,
                                                              std::shared_ptr<const void> object) {
                         return device.retain_in_graph(stream, std::move(object));
                       }),
      device_(resources.kernels.device()),
      kernels_(resources.kernels),
      backend_(resources.backend),
      pads_(std::move(pads)),
      board_(std::move(board)),
      device_state_(std::move(state)) {
  options_.failure->add_flag(&board_->has_failed);
}

CudaOperations::~CudaOperations() { options_.failure->remove_flag(&board_->has_failed); }

Status CudaOperations::run(const Signal& request, const RunOptions& run_options) {
  if (Status wrong = check(pads_, request); !wrong.ok()) return wrong;
  return submit(plan_for(pads_, request), nullptr, run_options);
}

Status CudaOperations::run(const Collective& request, const RunOptions& run_options) {
  if (Status wrong = check(context(), request); !wrong.ok()) return wrong;
  if (Status wrong = check_usable(
          std::visit([](const auto& each) { return external_buffer_of(each); }, request));
      !wrong.ok()) {
    return wrong;
  }
  if (const auto* experts = std::get_if<ExpertAllToAll>(&request)) {
    for (const ExternalBuffer& each : output_arrays_of(*experts)) {
      if (Status wrong = check_usable(each); !wrong.ok()) return wrong;
    }
  }
  const Result<KernelPlan> plan = plan_for(context(), without_unsupported_multicast(request));
  if (!plan.ok()) return plan.status();
  return submit(*plan, std::get_if<AllToAllV>(&request), run_options);
}

Collective CudaOperations::without_unsupported_multicast(Collective request) const {
  const auto can_sum = [this](const Reduction& wanted) {
    return wanted.op == ReduceOp::kSum && kernels_.has_multimem_kernel(wanted.type);
  };
  if (auto* all = std::get_if<MultimemAllReduce>(&request)) {
    if (!can_sum(all->request.reduction)) all->multicast = nullptr;
  }
  if (auto* one = std::get_if<MultimemReduce>(&request)) {
    if (!can_sum(one->request.reduction)) one->multicast = nullptr;
  }
  if (auto* gather = std::get_if<MultimemAllGather>(&request)) {
    if (!kernels_.has_multimem_kernel(std::nullopt)) gather->multicast = nullptr;
  }
  return request;
}

Status CudaOperations::check_usable(const ExternalBuffer& other) {
  if (other.address == nullptr || other.bytes == 0) return {};
  const AddressRange range{DeviceAddress(reinterpret_cast<uint64_t>(other.address)), other.bytes};
  const Status usable = device_.check_access(range, Access::kReadWrite);
  return usable.ok() ? Status() : external_buffer_error(other, usable);
}

Result<uint64_t> CudaOperations::counter_value(int from, int channel) {
  if (Status wrong = check(pads_, Signal{Signal::Kind::kWaitForValue, from, channel, 0});
      !wrong.ok()) {
    return wrong;
  }
  Result<Record> record = kernels_.pinned().acquire_record();
  if (!record.ok()) return record.status();
  const KernelPlan plan = plan_counter_read(pads_, from, channel);
  const Status done = blocking_streams_.run(
      [&](StreamId stream) { return launch(plan, {.record = record->address()}, stream); });
  if (done.ok()) return (*record)->value;
  record->abandon();
  return report_if_lost(done);
}

Status CudaOperations::finish(StreamId stream) {
  if (Status waited = DeviceOperations::finish(stream); !waited.ok()) return waited;
  return take_pending_error();
}

Status CudaOperations::submit(const KernelPlan& plan, const AllToAllV* rows,
                              const RunOptions& run_options) {
  if (Status before = take_pending_error(); !before.ok()) return before;
  return run_options.stream ? submit_in_stream(plan, rows, run_options)
                            : run_now(plan, rows, run_options);
}

Result<CudaOperations::LaunchBuffers> CudaOperations::prepare_buffers(
    const KernelPlan& plan, const RunOptions& run_options) {
  LaunchBuffers buffers;
  using std::chrono::milliseconds;
  using std::chrono::nanoseconds;
  // A timeout that does not fit 64 bits of nanoseconds is treated as infinite.
  if (run_options.timeout < std::chrono::duration_cast<milliseconds>(nanoseconds::max())) {
    buffers.timeout_ns = static_cast<uint64_t>(nanoseconds(run_options.timeout).count());
  }
  if (plan.scratch_bytes == 0) return buffers;
  const Result<uint64_t> scratch = scratch_address(plan.scratch_bytes);
  if (!scratch.ok()) return scratch.status();
  buffers.scratch = *scratch;
  return buffers;
}

// The kernels of one group that use scratch memory run one after the other, so they share a buffer.
// A call that timed out continues with its previous buffer (kernels::DeviceState::scratch).
Result<uint64_t> CudaOperations::scratch_address(size_t bytes) {
  MutexLock lock(mutex_);
  const size_t largest = scratch_buffers_.empty() ? 0 : scratch_buffers_.back()->bytes();
  if (bytes > largest) {
    const RelaxedCapture relaxed(device_);
    Result<std::shared_ptr<MappedMemory>> made = backend_.allocate(std::max(bytes, 2 * largest), 0);
    if (!made.ok()) return made.status();
    scratch_buffers_.push_back(*std::move(made));
  }
  return address_of(scratch_buffers_.back()->base());
}

Status CudaOperations::submit_in_stream(const KernelPlan& plan, const AllToAllV* rows,
                                        const RunOptions& run_options) {
  const Result<StreamOrder::Target> target = target_of(*run_options.stream, *run_options.in_flight);
  if (!target.ok()) return target.status();
  Result<LaunchBuffers> buffers = prepare_buffers(plan, run_options);
  if (!buffers.ok()) return buffers.status();
  std::shared_ptr<Record> record;  // shared with the stream work or the graph
  if (rows != nullptr) {
    Result<Record> taken = kernels_.pinned().acquire_record();
    if (!taken.ok()) return taken.status();
    record = std::make_shared<Record>(*std::move(taken));
    write_shares(**record, plan.shares);
    buffers->rows = record->address();
  }
  if (target->capture) {
    return report_if_lost(capture(plan, *buffers, *target, {rows, std::move(record)}));
  }
  Result<std::unique_ptr<EventCompletion>> end = EventCompletion::make(device_);
  if (!end.ok()) return end.status();
  const auto launch_kernels = [&](StreamId stream) -> Status {
    if (Status launched = launch(plan, *buffers, stream); !launched.ok()) return launched;
    if (rows != nullptr) {
      Status queued =
          device_.call_host(stream, [record, request = *rows] { copy_rows(**record, request); });
      if (!queued.ok()) return queued;
    }
    return device_.record_event((*end)->event(), stream);
  };
  const Status launched = enqueue(*target, {launch_kernels, plan.is_ordered});
  if (!launched.ok()) {
    // Some of the kernels may already be in the stream, so the event is recorded after them.
    (void)device_.record_event((*end)->event(), target->stream).ok();
    if (record != nullptr) record->abandon();
  }
  run_options.in_flight->add(*std::move(end));
  return report_if_lost(launched);
}

// The graph owns the record and the memory, and destroys the record first, because the record
// returns its slot to a pool of the heap.
Status CudaOperations::capture(const KernelPlan& plan, const LaunchBuffers& buffers,
                               const StreamOrder::Target& target, const CapturedRows& rows) {
  if (rows.record != nullptr) {
    if (Status retained = retain(target, rows.record); !retained.ok()) return retained;
  }
  const auto launch_kernels = [&](StreamId stream) -> Status {
    Status launched = launch(plan, buffers, stream);
    if (!launched.ok() || rows.request == nullptr) return launched;
    return device_.call_host(stream, [record = rows.record.get(), request = *rows.request] {
      copy_rows(**record, request);
    });
  };
  return enqueue(target, {launch_kernels, plan.is_ordered});
}

Status CudaOperations::run_now(const KernelPlan& plan, const AllToAllV* rows,
                               const RunOptions& run_options) {
  Result<LaunchBuffers> buffers = prepare_buffers(plan, run_options);
  if (!buffers.ok()) return buffers.status();
  for (;;) {
    Result<Record> record = kernels_.pinned().acquire_record();
    if (!record.ok()) return record.status();
    buffers->record = record->address();
    if (rows != nullptr) {
      write_shares(**record, plan.shares);
      buffers->rows = record->address();
    }
    const auto launch_kernels = [&](StreamId stream) { return launch(plan, *buffers, stream); };
    const Status done = blocking_streams_.run([&](StreamId stream) {
      return enqueue({stream}, {launch_kernels, plan.is_ordered});
    });
    if (!done.ok()) {
      record->abandon();
      return report_if_lost(done);
    }
    if (rows != nullptr) copy_rows(**record, *rows);
    const kernels::KernelResult& result = (*record)->result;
    if (result.kind != ResultKind::kSkipped) return status_of(result);
    // Skipped because of an earlier error. If another thread has just reported it, try again.
    if (Status before = take_pending_error(); !before.ok()) return before;
  }
}

kernels::CommonArguments CudaOperations::fill_common(kernels::CommonArguments common,
                                                     const LaunchBuffers& buffers) const {
  common.board = board_.address();
  common.state = address_of(device_state_->base());
  common.record = buffers.record;
  common.timeout_ns = buffers.timeout_ns;
  return common;
}

Status CudaOperations::launch(const KernelPlan& plan, const LaunchBuffers& buffers,
                              StreamId stream) {
  struct Launcher {
    const CudaOperations& operations;
    const LaunchBuffers& buffers;
    StreamId stream;

    Status operator()(kernels::SignalArguments step) const {
      step.common = operations.fill_common(step.common, buffers);
      return operations.kernels_.launch(step, stream);
    }
    Status operator()(kernels::BarrierArguments step) const {
      step.common = operations.fill_common(step.common, buffers);
      step.scratch = buffers.scratch;
      step.rows = buffers.rows;
      return operations.kernels_.launch(step, stream);
    }
    Status operator()(ReduceStep step) const {
      step.arguments.common = operations.fill_common(step.arguments.common, buffers);
      return operations.kernels_.launch(step.type, step.arguments, stream);
    }
    Status operator()(CopyStep step) const {
      step.arguments.common = operations.fill_common(step.arguments.common, buffers);
      return operations.kernels_.launch(step.arguments, step.bytes, stream);
    }
    Status operator()(MultimemStep step) const {
      step.arguments.common = operations.fill_common(step.arguments.common, buffers);
      return operations.kernels_.launch(step.sum_of, step.arguments, stream);
    }
    Status operator()(kernels::ExpertArguments step) const {
      step.common = operations.fill_common(step.common, buffers);
      return operations.kernels_.launch_plan(step, stream);
    }
    Status operator()(CopySlicesStep step) const {
      step.arguments.common = operations.fill_common(step.arguments.common, buffers);
      return operations.kernels_.launch_copy(step.arguments, stream);
    }
  };
  const Launcher launcher{*this, buffers, stream};
  for (const Step& step : plan.steps) {
    if (Status launched = std::visit(launcher, step); !launched.ok()) return launched;
  }
  return {};
}

// An error that a kernel is still writing is reported by a later call.
Status CudaOperations::take_pending_error() {
  kernels::KernelResult result{};
  {
    MutexLock lock(mutex_);
    const std::optional<uint32_t> unreported = unreported_error_locked();
    if (!unreported) return {};
    result = board_->result;
    std::atomic_ref(board_->reported_count).store(*unreported, std::memory_order_release);
  }
  return status_of(result);
}

std::optional<uint32_t> CudaOperations::unreported_error_locked() const {
  kernels::StatusBoard& board = *board_;
  const uint32_t next = std::atomic_ref(board.reported_count).load(std::memory_order_relaxed) + 1;
  const uint32_t state = std::atomic_ref(board.result.state).load(std::memory_order_acquire);
  return state == next ? std::optional(next) : std::nullopt;
}

bool CudaOperations::has_failed_work() {
  return std::atomic_ref(board_->has_incomplete_collective).load(std::memory_order_acquire) != 0;
}

Status CudaOperations::status_of(const kernels::KernelResult& result) {
  switch (result.kind) {
    case ResultKind::kNone: return {};
    case ResultKind::kFailed: return options_.failure->reason();
    case ResultKind::kTimeout: break;
    default: return mismatch_status(result, options_.rank_info.rank);
  }
  // The message describes the current contents of the pad, so the pad is copied to the host.
  const size_t bytes = options_.pads->pad_bytes();
  std::vector<PadLine> copy(bytes / sizeof(PadLine));
  const DeviceAddress at(reinterpret_cast<uint64_t>(options_.pads->pad(options_.rank_info.rank)));
  const Status copied = blocking_streams_.run(
      [&](StreamId stream) { return device_.copy_to_host(copy.data(), at, bytes, stream); });
  if (!copied.ok()) return report_if_lost(copied);
  std::vector<std::byte*> bases(static_cast<size_t>(options_.rank_info.world_size));
  bases[static_cast<size_t>(options_.rank_info.rank)] = reinterpret_cast<std::byte*>(copy.data());
  const Result<SignalPads> pads =
      SignalPads::make(options_.rank_info.rank, options_.channel_count, std::move(bases));
  return pads.ok() ? timeout_status(result, *pads) : pads.status();
}

}  // namespace ashlar::symm
