// SPDX-License-Identifier: Apache-2.0
//
// Operations on device memory that need only the Device interface: copies. Signals
// and collectives need kernels and are rejected here; back ends with kernels derive from this
// class.
#pragma once

#include <functional>
#include <utility>

#include "ashlar/device.h"
#include "symm/backends/device/copy_fence.h"
#include "symm/backends/device/stream_order.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

class DeviceOperations : public Operations {
 public:
  // `device` must outlive this object. `no_kernels` is the reason why the kernels of this build
  // cannot be used, or an ok status if the build has none.
  DeviceOperations(Device& device, const OperationsOptions& options, Status no_kernels = {})
      : DeviceOperations(device, options, StreamOrder::RetainInGraph(), std::move(no_kernels)) {}

  Status put(const PeerTable& peers, int to, size_t offset,
             std::span<const std::byte> from) override;
  Status get(const PeerTable& peers, int from, size_t offset, std::span<std::byte> to) override;
  Status copy(const PeerTable& peers, const PieceCopy& copy,
              const RunOptions& run_options) override;
  Status fence_stream(StreamId stream) override;
  Status store_words(const PeerTable& peers, const WordFillRequest& request,
                     const RunOptions& run_options) override;
  Status run(const Signal& request, const RunOptions& run_options) override;
  Status run(const Collective& request, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  // Returns nothing: the group's options determine the threshold.
  Result<std::optional<Thresholds>> measure(const PeerTable& scratch, size_t bytes,
                                            Deadline deadline) override;

 protected:
  // For back ends with kernels.
  DeviceOperations(Device& device, const OperationsOptions& options,
                   StreamOrder::RetainInGraph retain_in_graph, Status no_kernels = {})
      : options_(options),
        blocking_streams_(device),
        device_(device),
        no_kernels_(std::move(no_kernels)),
        order_(device, std::move(retain_in_graph)),
        copy_fence_(device) {}

  // Queues the copy of several pieces. The default makes one copy of the device for each.
  virtual Status launch_pieces(const PeerTable& peers, const PieceCopy& copy, StreamId stream);
  // Runs work that need not be ordered with the group's collectives. If `run_options` has no
  // stream, uses an internal stream and waits for the work.
  Status run_unordered(const std::function<Status(StreamId stream)>& launch,
                       const RunOptions& run_options);

  // Work that a back end with kernels submits. Barriers and collectives are ordered: they run after
  // all earlier ordered work of the group.
  struct Work {
    std::function<Status(StreamId stream)> launch{};
    bool is_ordered = false;
  };
  // Returns the stream of a call, with its capture. If the stream is capturing, makes the graph an
  // owner of the memory that the call uses.
  Result<StreamOrder::Target> target_of(StreamId stream, const InFlightWork& in_flight);
  // Makes the graph of the target's capture an owner of `object`, whose destructor may use the
  // memory of the call. REQUIRES: the target has a capture.
  Status retain(const StreamOrder::Target& target, std::shared_ptr<const void> object) {
    return order_.retain(target, std::move(object));
  }
  Status enqueue(const StreamOrder::Target& target, const Work& work);
  // Fails the group if `ended` is a device loss. Returns `ended`.
  Status report_if_lost(const Status& ended);

  const OperationsOptions options_;
  BlockingStreams blocking_streams_;

 private:
  // Returns the error for `operations`, a plural noun, which need kernels.
  Status no_kernels_error(const char* operations) const;

  Device& device_;
  const Status no_kernels_;
  StreamOrder order_;
  CopyFence copy_fence_;
};

}  // namespace ashlar::symm
