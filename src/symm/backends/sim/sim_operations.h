// SPDX-License-Identifier: Apache-2.0
//
// Operations on the memory of simulated devices. Each operation except put and get is a simulated
// kernel that runs the host algorithm on the device's view of all ranks' memory, so results, waits,
// timeouts and failures are the same as on the host.
//
// A kernel that fails does not lose the device. Later signals and collectives of the group are
// skipped, and the next signal, collective or `finish` reports the error. Then the group is usable
// again unless it has failed.
#pragma once

#include <functional>
#include <memory>

#include "device/sim/sim_device.h"
#include "symm/backends/device/device_operations.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

class SimOperations final : public DeviceOperations {
 public:
  // `device` must outlive the result. Returns kInvalidArgument if the device has a seed, because
  // such a device runs one operation at a time, so ranks would deadlock. Returns kUnsupported if
  // the device has no memory contents.
  static Result<std::unique_ptr<Operations>> make(sim::SimDevice& device,
                                                  const OperationsOptions& options);

  Status store_words(const PeerTable& peers, const WordFillRequest& request,
                     const RunOptions& run_options) override;
  Status multicast_put(const PeerTable& peers, const MulticastPut& request,
                       const RunOptions& run_options) override;
  Status run(const Signal& request, const RunOptions& run_options) override;
  Status run(const Collective& request, const RunOptions& run_options) override;
  Result<uint64_t> counter_value(int from, int channel) override;
  Status finish(StreamId stream) override;
  bool has_failed_work() override ASHLAR_EXCLUDES(mutex_);

 private:
  using Kernel = std::function<Status(const Limits& limits)>;

  SimOperations(sim::SimDevice& device, const OperationsOptions& options)
      : DeviceOperations(device, options,
                         [&device](StreamId stream, std::shared_ptr<const void> object) {
                           return device.retain_in_graph(stream, std::move(object));
                         }),
        device_(device) {}

  CollectiveContext context() {
    return {.pads = *pads_, .runner = runner_, .channel = options_.channel_count - 1};
  }
  struct Submission {
    Kernel kernel{};
    bool is_ordered = false;
  };
  Status submit(const Submission& work, const RunOptions& run_options);
  // Runs work that need not be ordered with the group's collectives.
  Status submit_unordered(const std::function<void()>& work, const RunOptions& run_options);
  // Registers a kernel in `run_options.in_flight`, unless a graph owns the memory.
  static std::shared_ptr<void> begin_work(const StreamOrder::Target& target,
                                          const RunOptions& run_options);
  Status launch(const Submission& work, const StreamOrder::Target& target,
                const std::function<Status()>& kernel);
  // Returns and clears an error from stream work that has not been reported yet.
  Status take_pending_error() ASHLAR_EXCLUDES(mutex_);
  void set_pending_error(const Status& ended) ASHLAR_EXCLUDES(mutex_);
  // Returns `ended`, the result of a collective. Sets has_failed_work_ unless the collective is
  // complete on all ranks.
  Status record_failure(Status ended) ASHLAR_EXCLUDES(mutex_);
  Status pending_error() const ASHLAR_EXCLUDES(mutex_);

  sim::SimDevice& device_;
  std::unique_ptr<SignalPads> pads_;  // the device's view; only kernels access its words
  CollectiveRunner runner_;

  mutable Mutex mutex_;
  Status pending_error_ ASHLAR_GUARDED_BY(mutex_);
  bool has_failed_work_ ASHLAR_GUARDED_BY(mutex_) = false;  // never reset

  // The kernels that read counters. The last member, so that its destructor waits for the kernels
  // before the members that they use are destroyed.
  InFlightWork in_flight_;
};

}  // namespace ashlar::symm
