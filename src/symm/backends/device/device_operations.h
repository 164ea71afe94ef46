// SPDX-License-Identifier: Apache-2.0
//
// Operations on a device's memory as far as the contract of `Device` goes: bytes are put and got by
// copies, whichever device it is. Signals and collectives are work that a device does by itself,
// which every vendor has another way for: here they are refused, and a back end that has kernels
// for them builds on this.
#pragma once

#include <functional>
#include <utility>

#include "ashlar/device.h"
#include "symm/backends/device/stream_order.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

class DeviceOperations : public Operations {
 public:
  // `device` outlives it. `no_kernels`: why there are none; ok: this build has none.
  DeviceOperations(Device& device, const OperationsOptions& options, Status no_kernels = {})
      : options_(options),
        own_streams_(device),
        device_(device),
        no_kernels_(std::move(no_kernels)),
        order_(device) {}

  Status put(const PeerTable& peers, int to, size_t offset,
             std::span<const std::byte> from) override;
  Status get(const PeerTable& peers, int from, size_t offset, std::span<std::byte> to) override;
  Status store_words(const PeerTable& peers, const WordFillRequest& what,
                     const RunOptions& run_options) override;
  Status run(const Signal& what, const RunOptions& run_options) override;
  Status run(const Collective& what, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  // Nothing is: `one_shot_bytes` of the group's options decides.
  Result<std::optional<Thresholds>> measure(const PeerTable& room, size_t bytes,
                                            Deadline deadline) override;

 protected:
  // --- for those that have kernels

  // Puts work into a stream. What is ordered comes behind everything else that is; signals alone
  // are not.
  struct Work {
    std::function<Status(StreamId stream)> launch{};
    bool is_ordered = false;
  };
  Status put_in(StreamId stream, const Work& work);
  // A device that is lost does nothing for its group any more: then that fails, too.
  Status or_lost(const Status& ended);

  const OperationsOptions options_;
  OwnStreams own_streams_;

 private:
  Status refuse(const char* what) const;

  Device& device_;
  const Status no_kernels_;
  StreamOrder order_;
};

}  // namespace ashlar::symm
