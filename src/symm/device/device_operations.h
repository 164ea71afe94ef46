// Operations on a device's memory as far as the contract of `Device` goes: bytes are put and got by
// copies, whichever device it is. Signals and collectives are work that a device does by itself,
// which every vendor has another way for: here they are refused, and a back end that has kernels
// for them builds on this.
#pragma once

#include "ashlar/device.h"
#include "symm/device/stream_order.h"
#include "symm/operations.h"

namespace ashlar::symm {

class DeviceOperations : public Operations {
 public:
  // `device` outlives it.
  DeviceOperations(Device& device, const OperationsOptions& options)
      : options_(options), own_streams_(device), device_(device) {}

  Status put(const Peers& peers, int to, size_t place, std::span<const std::byte> from) override;
  Status get(const Peers& peers, int from, size_t place, std::span<std::byte> to) override;
  Status run(const Signal& what, const When& when) override;
  Status run(const Collective& what, const When& when) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  // Nothing is: `one_shot_bytes` of the group's options decides.
  Result<std::optional<Thresholds>> measure(const Peers& room, size_t bytes,
                                            Deadline deadline) override;

 protected:
  const OperationsOptions options_;
  OwnStreams own_streams_;

 private:
  Status refuse(const char* what) const;

  Device& device_;
};

}  // namespace ashlar::symm
