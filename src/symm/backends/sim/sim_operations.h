// SPDX-License-Identifier: Apache-2.0
//
// Operations on the memory of simulated devices: each is a simulated kernel, which takes the steps
// that the host takes for its own memory, by the device's view of all ranks' memory. So results
// have the same bits, and waiting, timeouts and failures are the same.
//
// A kernel that ended badly does not lose the device: what comes after it in its group is not done,
// and the next call, or `finish`, says why. Then the group can go on, as far as it has not failed.
#pragma once

#include <functional>
#include <memory>

#include "device/sim/sim_device.h"
#include "symm/backends/device/device_operations.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

class SimOperations final : public DeviceOperations {
 public:
  // `device` outlives it. kInvalidArgument: it has no bytes, or runs one thing at a time (a seed),
  // so that ranks would wait for each other for ever.
  static Result<std::unique_ptr<Operations>> make(sim::SimDevice& device,
                                                  const OperationsOptions& options);

  Status store_words(const PeerTable& peers, const WordFillRequest& what,
                     const RunOptions& run_options) override;
  Status multicast_put(const PeerTable& peers, const MulticastPut& what,
                       const RunOptions& run_options) override;
  Status run(const Signal& what, const RunOptions& run_options) override;
  Status run(const Collective& what, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  bool has_failed_work() override ASHLAR_EXCLUDES(mutex_);

 private:
  using Kernel = std::function<Status(const Limits& limits)>;

  SimOperations(sim::SimDevice& device, const OperationsOptions& options)
      : DeviceOperations(device, options), device_(device) {}

  Team team() { return {.pads = *pads_, .order = steps_, .channel = options_.channel_count - 1}; }
  struct Submission {
    Kernel kernel{};
    bool is_ordered = false;
  };
  Status submit(const Submission& work, const RunOptions& run_options);
  // What is no part of the group's work.
  Status submit_alone(const std::function<void()>& act, const RunOptions& run_options);
  Status launch(const Submission& work, StreamId stream, const std::function<Status()>& kernel);
  // What ended badly in a stream and was not told yet; told now.
  Status take_bad_end() ASHLAR_EXCLUDES(mutex_);
  void keep_bad_end(const Status& ended) ASHLAR_EXCLUDES(mutex_);
  // Returns it, noted.
  Status noted(Status ended) ASHLAR_EXCLUDES(mutex_);
  Status bad_end() const ASHLAR_EXCLUDES(mutex_);

  sim::SimDevice& device_;
  std::unique_ptr<SignalPads> pads_;  // as the device sees them; touched by kernels alone
  OrderGuard steps_;

  mutable Mutex mutex_;
  Status bad_end_ ASHLAR_GUARDED_BY(mutex_);
  bool has_ended_badly_ ASHLAR_GUARDED_BY(mutex_) = false;  // ever

  InFlightWork in_flight_;  // of what no handle counts; waits, and goes first
};

}  // namespace ashlar::symm
