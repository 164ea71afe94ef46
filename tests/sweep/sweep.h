// SPDX-License-Identifier: Apache-2.0
//
// The common part of the sweeps of all engines, which fail the n-th device call for every n, with
// every fault. Each engine derives its own Workload; sweep.cc has the common operations and checks.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ashlar/checkpoint.h"
#include "ashlar/options.h"
#include "ashlar/sim.h"
#include "contract/plain_device.h"
#include "engine/engine.h"

namespace ashlar::sweep {

struct SweepCase {
  std::string name;
  AllocatorOptions options;
  bool on_plain_device = false;
  sim::FaultRule fault{};
  uint64_t setting = 0;  // the index of the setting, set by combine()
};
std::ostream& operator<<(std::ostream& out, const SweepCase& each);

struct NamedFault {
  std::string name;
  sim::FaultRule rule;
};
// Returns faults that are injected into one call: out of memory, a device fault, and a lost device.
std::vector<NamedFault> single_faults();
// Returns a case for every setting with every fault.
std::vector<SweepCase> combine(const std::vector<SweepCase>& settings,
                               const std::vector<NamedFault>& faults);

// One run of an engine on its own machine. If an operation fails, the run continues with the next
// operation. The derived class creates the engine on `device()`.
class Workload {
 public:
  explicit Workload(const SweepCase& each);
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  void inject(uint64_t nth, sim::FaultRule fault);
  void run();
  // Removes the faults, and expects that all memory can be released.
  void expect_no_memory_lost();
  // Returns whether the run made a device call after the failing calls; also true if the device was
  // lost.
  bool had_later_call() const;
  sim::CallCosts costs() const { return machine_->costs(kDevice); }

 protected:
  static constexpr DeviceIndex kDevice{0};
  static constexpr DeviceIndex kPeer{1};

  virtual Engine& engine() = 0;
  virtual Status validate() const = 0;
  // Performs operations that only the derived class's engine has.
  virtual void run_engine_operations() {}
  // Called for every newly allocated block.
  virtual void on_allocated(const Block& /*block*/, size_t /*bytes*/, StreamId /*stream*/) {}

  sim::Machine& machine() { return *machine_; }
  Device& device() { return plain_ != nullptr ? *plain_ : machine_->device(kDevice); }
  StreamId side() const { return side_; }
  size_t live_count() const { return live_.size(); }

  void expect_ok_or_fault(const Status& status) const;
  void expect_valid() const;
  void allocate(size_t bytes, StreamId stream = kDefaultStream);
  void record_use_of_last();
  void free_at(size_t index);
  void free_first();
  void free_all();
  // Replaces the live blocks by the checkpoint's blocks, or leaves them unchanged on failure.
  // REQUIRES: all live blocks are in the checkpoint's pool.
  void restore(const PoolCheckpoint& checkpoint);

 private:
  void fill_and_use();
  void pin_and_unpin();
  void use_pools();
  void exhaust_memory();
  void capture();
  void repair_device();

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<contract::PlainDevice> plain_;
  StreamId side_;
  StreamId captured_;
  std::vector<Block*> live_;
  int64_t begin_ns_ = 0;
  bool loses_device_ = false;
  bool was_lost_ = false;
};

class SweepTest : public ::testing::TestWithParam<SweepCase> {
 protected:
  // With a sanitizer, a sweep of every call takes ten times as long. Each setting then skips two of
  // three calls, and neighbouring settings skip different calls.
#ifdef ASHLAR_SANITIZED
  static constexpr uint64_t kStride = 3;
#else
  static constexpr uint64_t kStride = 1;
#endif

  template <typename EngineWorkload>
  void expect_no_memory_lost_when_any_call_fails() {
    uint64_t nth = 1 + GetParam().setting % kStride;
    for (bool more = true; more; nth += kStride) {
      SCOPED_TRACE(nth);
      EngineWorkload workload(GetParam());
      workload.inject(nth, GetParam().fault);
      workload.run();
      workload.expect_no_memory_lost();
      more = workload.had_later_call();
      if (HasFailure()) return;
    }
    EXPECT_GT(nth, 60U) << "the workload hardly calls the device";
    RecordProperty("call_count", std::to_string(nth));
  }
};

}  // namespace ashlar::sweep
