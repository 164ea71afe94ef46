// SPDX-License-Identifier: Apache-2.0
//
// Operations on the memory of CUDA devices: each is a row of kernels in a stream (plan.h), which
// use the words of the pads as the host's threads do. So are results, waits, timeouts and failures
// the same, and several processes may share a device.
//
// No kernel traps. One that ends badly says so on the rank's board, in pinned memory; what comes
// after it in its group is not done, and the next call, or `finish`, says why. The group's failure
// is a word on that board, too, which every kernel that waits looks at.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "symm/backends/backend.h"
#include "symm/backends/cuda/cuda_kernels.h"
#include "symm/backends/cuda/plan.h"
#include "symm/backends/device/device_operations.h"
#include "symm/backends/device/external_buffer.h"

namespace ashlar::symm {

class CudaOperations final : public DeviceOperations {
 public:
  // Where kernels, and memory of their own, come from: outlive it.
  struct Means {
    CudaKernels& kernels;
    Backend& backend;
  };
  // kUnsupported: more ranks than kernels are told of.
  static Result<std::unique_ptr<Operations>> make(const Means& means,
                                                  const OperationsOptions& options);
  ~CudaOperations() override;

  Status store_words(const PeerTable& peers, const WordFillRequest& what,
                     const RunOptions& run_options) override;
  Status multicast_put(const PeerTable& peers, const MulticastPut& what,
                       const RunOptions& run_options) override;
  Status run(const Signal& what, const RunOptions& run_options) override;
  Status run(const Collective& what, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  bool has_failed_work() override;

 private:
  using Record = PinnedPool::Piece<kernels::Record>;

  CudaOperations(const Means& means, const OperationsOptions& options, SignalPads pads,
                 PinnedPool::Piece<kernels::Board> board, std::shared_ptr<MappedMemory> desk);

  Team team() { return {.pads = pads_, .order = unused_, .channel = options_.channel_count - 1}; }
  // kInvalidArgument: the device may not read and write it.
  Status check_usable(const ExternalBuffer& other);
  // Without the address of multicast where there is no kernel that could use it.
  Collective as_can_be(Collective what) const;

  // Where kernels of one call find what.
  struct Places {
    uint64_t record = 0;  // how it ended; 0: on the board
    uint64_t rows = 0;    // the record of an all-to-all-v
    uint64_t scratch = 0;
    uint64_t timeout_ns = 0;
  };
  Status launch(const Plan& plan, const Places& places, StreamId stream);
  kernels::Common own(kernels::Common rank_info, const Places& places) const;
  // `rows`: where an all-to-all-v says what came; null: it is none.
  Status submit(const Plan& plan, const AllToAllV* rows, const RunOptions& run_options);
  Status submit_in_stream(const Plan& plan, const AllToAllV* rows, const RunOptions& run_options);
  Status run_now(const Plan& plan, const AllToAllV* rows, const RunOptions& run_options);
  Result<Places> places_for(const Plan& plan, const RunOptions& run_options);
  Result<uint64_t> scratch_of(size_t bytes) ASHLAR_EXCLUDES(mutex_);

  // --- cuda_stores.cc: what is no part of the group's work
  // Puts it into the stream, or into one of its own, and waits.
  Status run_alone(const std::function<Status(StreamId stream)>& launch,
                   const RunOptions& run_options);

  // What ended badly in a stream and was not told yet; told now.
  Status take_bad_end() ASHLAR_EXCLUDES(mutex_);
  Status status_of(const kernels::Ending& ending);
  // Of what was not told yet, its number on the board; what is there is told by storing it.
  std::optional<uint32_t> untold_end() const ASHLAR_REQUIRES(mutex_);

  gpu::GpuDevice& device_;
  CudaKernels& kernels_;
  Backend& backend_;
  const SignalPads pads_;  // addresses of the device: the host looks at none of it
  OrderGuard unused_;      // the order is kept by streams, and by kernels
  const PinnedPool::Piece<kernels::Board> board_;
  const std::shared_ptr<MappedMemory> desk_;  // also its backend's, as all memory is

  Mutex mutex_;
  // The last is the largest; others may still be in use by work in streams.
  std::vector<std::shared_ptr<MappedMemory>> scratches_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
