// SPDX-License-Identifier: Apache-2.0
//
// Fails every device call once, with every fault. No block may be lost, nothing may leak, and all
// memory must be reclaimed once the device has recovered.
#include <array>
#include <ostream>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

struct SweepCase {
  const char* name = "";
  PinnedOptions options{};
  sim::FaultAction action = sim::FaultAction::kFail;
  Status status{};

  friend std::ostream& operator<<(std::ostream& out, const SweepCase& sweep) {
    return out << sweep.name;
  }
};

class PinnedSweepTest : public ::testing::TestWithParam<SweepCase> {
 protected:
  // A machine, an allocator and its blocks. Any device call of the functions below may fail.
  struct Run {
    explicit Run(const SweepCase& sweep) : machine(sim::make_machine(sim::small_options())) {
      options.pinned = sweep.options;
    }

    void run_operations() {
      make_streams();
      Result<std::unique_ptr<PinnedAllocator>> made =
          PinnedAllocator::create(machine->device(sim::kFirst), options, clock);
      if (!made.ok()) return;
      allocator = *std::move(made);
      for (const size_t bytes : {4 * kKiB, 100 * kKiB, 300 * kKiB, 2 * kMiB}) {
        PinnedBlock* block = allocate(bytes);
        PinnedBlock* other = allocate(bytes);
        use(block, uses[0]);
        use(block, uses[1]);
        use(other, uses[1]);
        free(block);
        capture(allocate(bytes));
        free(other);
        free(allocate(bytes));
      }
      finish();
      allocate(kMiB);
      for (const CaptureId each : captures) allocator->release_capture(each, std::span(uses));
      (void)allocator->trim().ok();
      free(allocate(64 * kKiB));
    }

    void make_streams() {
      for (const DeviceIndex at : {sim::kFirst, sim::kSecond}) {
        Device& device = machine->device(at);
        const Result<StreamId> stream = device.create_stream();
        uses[at.value()] = {&device, stream.ok() ? *stream : kDefaultStream};
        (void)machine->pause_stream(at, uses[at.value()].stream).ok();
        (void)device.call_host(uses[at.value()].stream, [] {}).ok();
      }
    }
    void finish() {
      for (const DeviceStream& use : uses) {
        const DeviceIndex at = use.device->properties().index;
        EXPECT_TRUE(machine->resume_stream(at, use.stream).ok() || machine_was_lost);
        (void)use.device->synchronize_stream(use.stream).ok();
      }
    }

    PinnedBlock* allocate(size_t bytes) {
      const Result<PinnedBlock*> block = allocator->allocate(bytes);
      if (!block.ok()) return nullptr;
      EXPECT_GE((*block)->bytes(), bytes);
      (*block)->memory.begin[bytes - 1] = std::byte{1};
      live.push_back(*block);
      return *block;
    }
    // Queues work that writes to the block. Each device writes to its own byte. If the memory is
    // released too early, the write fails the test.
    void use(PinnedBlock* block, const DeviceStream& use) {
      if (block == nullptr || !allocator->record_stream(block, use).ok()) return;
      std::byte* memory = block->memory.begin + use.device->properties().index.value();
      (void)use.device->call_host(use.stream, [memory] { *memory = std::byte{2}; }).ok();
    }
    void free(PinnedBlock* block) {
      if (block == nullptr) return;
      std::erase(live, block);
      EXPECT_TRUE(allocator->free(block).ok()) << "a free must not fail because of the device";
    }
    void capture(PinnedBlock* block) {
      Device& device = machine->device(sim::kFirst);
      const Result<StreamId> stream = device.create_stream();
      if (!stream.ok() || !device.begin_capture(*stream, CaptureMode::kGlobal).ok()) return;
      const Result<CaptureState> state = device.capture_state(*stream);
      if (state.ok()) captures.push_back(state->capture);
      if (state.ok()) use(block, {&device, *stream});
      free(block);
      (void)device.end_capture(*stream).ok();
      capturing.push_back(*stream);
    }

    // Makes the devices work again, and expects that all memory is reclaimed.
    void recover() {
      machine->clear_faults();
      machine->revive(sim::kFirst);
      machine->revive(sim::kSecond);
      for (const StreamId stream : capturing) {
        (void)machine->device(sim::kFirst).end_capture(stream).ok();
      }
      if (allocator == nullptr) return;
      finish();
      while (!live.empty()) free(live.back());
      for (const CaptureId each : captures) allocator->release_capture(each);
      (void)allocator->trim().ok();
      const Status trimmed = allocator->trim();
      EXPECT_TRUE(trimmed.ok()) << "reported twice: " << trimmed.to_string();
      const HostStats stats = allocator->stats();
      EXPECT_EQ(stats.active_requests.current, 0);
      EXPECT_LE(stats.allocated_bytes.current, static_cast<int64_t>(stats.reserve_used_bytes));
      EXPECT_TRUE(allocator->validate().ok()) << allocator->validate().to_string();
    }

    uint64_t call_count() const {
      uint64_t count = 0;
      for (const DeviceIndex at : {sim::kFirst, sim::kSecond}) {
        for (const uint64_t each : machine->costs(at).count) count += each;
      }
      return count;
    }
    void expect_nothing_left() const {
      for (const DeviceIndex at : {sim::kFirst, sim::kSecond}) {
        const sim::CallCosts costs = machine->costs(at);
        using enum DeviceCall;
        EXPECT_EQ(costs.count_of(kAllocateHost), costs.count_of(kFreeHost));
        EXPECT_EQ(costs.count_of(kRegisterHost), costs.count_of(kUnregisterHost));
        EXPECT_EQ(costs.count_of(kCreateEvent), costs.count_of(kDestroyEvent));
      }
    }

    std::unique_ptr<sim::Machine> machine;
    ManualClock clock;
    AllocatorOptions options;
    std::unique_ptr<PinnedAllocator> allocator;
    std::array<DeviceStream, 2> uses;
    std::vector<PinnedBlock*> live;
    std::vector<CaptureId> captures;
    std::vector<StreamId> capturing;  // may still be capturing, if ending the capture failed
    bool machine_was_lost = false;
  };

  static sim::FaultRule fault(uint64_t nth) {
    return {.nth = nth, .action = GetParam().action, .status = GetParam().status};
  }
};

TEST_P(PinnedSweepTest, SurvivesFailureOfEachCall) {
  Run clean(GetParam());
  clean.run_operations();
  const uint64_t count = clean.call_count();
  ASSERT_GT(count, 50U);
  clean.recover();
  clean.allocator.reset();
  clean.expect_nothing_left();
  for (uint64_t nth = 1; nth <= count; ++nth) {
    SCOPED_TRACE(testing::Message() << "call " << nth << " of " << count);
    Run run(GetParam());
    run.machine_was_lost = GetParam().action == sim::FaultAction::kLoseDevice;
    run.machine->inject(fault(nth));
    run.run_operations();
    run.recover();
    run.allocator.reset();
    run.expect_nothing_left();
    if (HasFailure()) return;
  }
}

// The destructor retries each failed call once and cannot report errors. A lost device is excluded,
// because nothing can be returned to it.
class PinnedDestructorSweepTest : public PinnedSweepTest {};

TEST_P(PinnedDestructorSweepTest, DestructorSurvivesFailureOfEachCall) {
  for (uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE(testing::Message() << "call " << nth);
    Run run(GetParam());
    run.run_operations();
    PinnedBlock* block = run.allocate(100 * kKiB);
    run.make_streams();
    run.use(block, run.uses[1]);
    run.free(block);
    run.use(run.allocate(kMiB), run.uses[0]);
    for (const DeviceStream& use : run.uses) {
      ASSERT_TRUE(run.machine->resume_stream(use.device->properties().index, use.stream).ok());
    }
    const uint64_t before = run.call_count();
    run.machine->inject(fault(nth));
    run.allocator.reset();
    run.expect_nothing_left();
    if (HasFailure() || nth > run.call_count() - before) break;
  }
}

std::vector<SweepCase> failing_cases() {
  PinnedOptions plain;
  plain.max_cached_bytes = kMiB;
  PinnedOptions registered;
  registered.use_host_register = true;
  registered.reserve_segment_bytes = 256 * kKiB;
  return {{"Faults", plain},
          {"OutOfMemory", plain, sim::FaultAction::kFail, Status::out_of_memory("full")},
          {"Usage", plain, sim::FaultAction::kFail, Status::invalid_argument("injected")},
          {"FaultsWhenRegistered", registered}};
}

std::vector<SweepCase> all_cases() {
  std::vector<SweepCase> cases = failing_cases();
  cases.push_back({"Loss", cases.front().options, sim::FaultAction::kLoseDevice});
  cases.push_back({"LossWhenRegistered", cases[3].options, sim::FaultAction::kLoseDevice});
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<SweepCase>& each) { return each.param.name; }

INSTANTIATE_TEST_SUITE_P(Kinds, PinnedSweepTest, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Kinds, PinnedDestructorSweepTest, ::testing::ValuesIn(failing_cases()),
                         case_name);

}  // namespace
}  // namespace ashlar
