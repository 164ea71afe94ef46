// SPDX-License-Identifier: Apache-2.0
//
// Operations on the memory of CUDA devices. Each signal or collective is a sequence of kernels in a
// stream (kernel_plan.h) that use the words of the pads as host threads do, so results (except sums
// through multicast), waits, timeouts and failures are the same, and several processes may share a
// device.
//
// Kernels never trap. A kernel that fails writes an error to pinned memory: to the record of a
// blocking call, or to the group's status board. After an error on the board, later signals and
// collectives of the group are skipped. The next signal, collective or `finish` that the host calls
// reports the error. A failure of the group sets a word on the same board, which waiting kernels
// poll.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "symm/backends/backend.h"
#include "symm/backends/cuda/cuda_kernels.h"
#include "symm/backends/cuda/kernel_plan.h"
#include "symm/backends/device/device_operations.h"
#include "symm/backends/device/external_buffer.h"

namespace ashlar::symm {

class CudaOperations final : public DeviceOperations {
 public:
  // Both members must outlive the operations.
  struct Resources {
    CudaKernels& kernels;
    Backend& backend;
  };
  // Returns kUnsupported if there are more than kernels::kMaxRanks ranks, or if a rank's pad is not
  // mapped.
  static Result<std::unique_ptr<Operations>> make(const Resources& resources,
                                                  const OperationsOptions& options);
  ~CudaOperations() override;

  Status store_words(const PeerTable& peers, const WordFillRequest& request,
                     const RunOptions& run_options) override;
  Status multicast_put(const PeerTable& peers, const MulticastPut& request,
                       const RunOptions& run_options) override;
  Status run(const Signal& request, const RunOptions& run_options) override;
  Status run(const Collective& request, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  bool has_failed_work() override;

 private:
  // Defined in cuda_stores.cc, with store_words and multicast_put.
  Status launch_pieces(const PeerTable& peers, const PieceCopy& copy, StreamId stream) override;

  using Record = PinnedSlotPool::Slot<kernels::CallRecord>;

  CudaOperations(const Resources& resources, const OperationsOptions& options, SignalPads pads,
                 PinnedSlotPool::Slot<kernels::StatusBoard> board,
                 std::shared_ptr<MappedMemory> state);

  CollectiveContext context() {
    return {.pads = pads_, .runner = unused_runner_, .channel = options_.channel_count - 1};
  }
  // Returns kInvalidArgument if the device cannot read and write the buffer.
  Status check_usable(const ExternalBuffer& other);
  // Returns `request` without its multicast address if no kernel supports the operation.
  Collective without_unsupported_multicast(Collective request) const;

  // The addresses and the timeout for the kernels of one call.
  struct LaunchBuffers {
    uint64_t record = 0;  // receives the result; 0 for the status board
    uint64_t rows = 0;    // the record with the rows of an all-to-all-v; 0 for other calls
    uint64_t scratch = 0;
    uint64_t timeout_ns = 0;
  };
  Status launch(const KernelPlan& plan, const LaunchBuffers& buffers, StreamId stream);
  // Adds the addresses and the timeout of this call to the common arguments.
  kernels::CommonArguments fill_common(kernels::CommonArguments common,
                                       const LaunchBuffers& buffers) const;
  // `rows` receives the splits of an all-to-all-v; null for other collectives.
  Status submit(const KernelPlan& plan, const AllToAllV* rows, const RunOptions& run_options);
  Status submit_in_stream(const KernelPlan& plan, const AllToAllV* rows,
                          const RunOptions& run_options);
  // The rows of an all-to-all-v; null for other calls.
  struct CapturedRows {
    const AllToAllV* request = nullptr;
    std::shared_ptr<const Record> record{};  // also owned by the graph
  };
  // Adds the kernels of a call to a graph.
  Status capture(const KernelPlan& plan, const LaunchBuffers& buffers,
                 const StreamOrder::Target& target, const CapturedRows& rows);
  Status run_now(const KernelPlan& plan, const AllToAllV* rows, const RunOptions& run_options);
  Result<LaunchBuffers> prepare_buffers(const KernelPlan& plan, const RunOptions& run_options);
  Result<uint64_t> scratch_address(size_t bytes) ASHLAR_EXCLUDES(mutex_);

  // Returns and clears an error from stream work that has not been reported yet.
  Status take_pending_error() ASHLAR_EXCLUDES(mutex_);
  Status status_of(const kernels::KernelResult& result);
  // Returns the number of the unreported error on the board, if there is one. Storing this number
  // in StatusBoard::reported_count marks the error as reported.
  std::optional<uint32_t> unreported_error_locked() const ASHLAR_REQUIRES(mutex_);

  gpu::GpuDevice& device_;
  CudaKernels& kernels_;
  Backend& backend_;
  const SignalPads pads_;           // device addresses, which the host must not dereference
  CollectiveRunner unused_runner_;  // for `context`; streams and kernels order the calls instead
  const PinnedSlotPool::Slot<kernels::StatusBoard> board_;
  const std::shared_ptr<MappedMemory> device_state_;  // not shared with other owners

  Mutex mutex_;
  // The last buffer is the largest. The others are kept, because work in streams may still use
  // them.
  std::vector<std::shared_ptr<MappedMemory>> scratch_buffers_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
