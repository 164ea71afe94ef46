// SPDX-License-Identifier: Apache-2.0
//
// The contract suite of `Device`: the fixture, and one test suite per group of functions in
// device.h (see the *_contract.cc files). To test another back end, add one file that opens its
// devices and instantiates the suites; `sim_backend.cc` is an example.
//
// The suites do not depend on a back end and require only what hardware provides:
//  * tests access device memory through copies;
//  * a test that needs a missing capability skips and says why;
//  * tests have exclusive use of the devices, because they compare memory_stats before and after;
//    `accounting_slack_bytes` allows for memory that the driver takes for itself;
//  * while a gate is closed, tests do not free plain or host memory, copy pageable host memory or
//    use the default stream, because a driver may then wait for the whole device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ashlar/device.h"
#include "run_on_threads.h"
#include "waiting.h"

namespace ashlar::contract {

// The devices of one back end, for one test.
class MachineUnderTest {
 public:
  virtual ~MachineUnderTest() = default;
  virtual size_t device_count() const = 0;
  virtual Device& device(DeviceIndex index) = 0;
};

struct BackendUnderTest {
  std::string name;  // part of the test names; letters and digits only
  // Opens the devices. If the result is kUnsupported, the back end is not available on this
  // machine, and the tests are skipped.
  std::function<Result<std::unique_ptr<MachineUnderTest>>()> open;
  size_t accounting_slack_bytes = 0;
};

void PrintTo(const BackendUnderTest& backend, std::ostream* out);
std::string backend_name(const testing::TestParamInfo<BackendUnderTest>& backend);

inline constexpr char kNeedsTwoDevices[] = "needs two devices; this machine has one";

using Bytes = std::vector<uint8_t>;

// Returns a byte pattern that differs between positions and between seeds.
Bytes pattern(size_t bytes, uint8_t seed);

testing::AssertionResult ok(const Status& status);
template <typename T>
testing::AssertionResult ok(const Result<T>& result) {
  return ok(result.status());
}

// Throws if the call failed, which fails the test with a message that names the caller's line. The
// overload for Result returns the call's value.
void require_ok(const Status& status, const char* file = __builtin_FILE(),
                int line = __builtin_LINE());
template <typename T>
T require_ok(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  require_ok(result.status(), file, line);
  return *std::move(result);
}

// One extent mapped in one reservation of the same size, accessible to its device.
struct MappedRange {
  AddressRange range;
  ExtentId extent;
};

// At the end of a test, releases everything that the test obtained through the fixture, newest
// first, and expects each release to succeed. This shows that rejected calls did not damage the
// objects.
class DeviceContract : public testing::TestWithParam<BackendUnderTest> {
 protected:
  void SetUp() override;
  void TearDown() override;

  size_t device_count() const { return machine_->device_count(); }
  bool has_other() const { return device_count() > 1; }
  Device& device_at(size_t index) { return machine_->device(DeviceIndex(index)); }
  Device& device() { return device_at(0); }
  // REQUIRES: has_other().
  Device& other() { return device_at(1); }
  const DeviceProperties& properties() { return device().properties(); }
  // Returns a size that is valid for every function: the granularity, or 2 MiB without virtual
  // memory.
  size_t granule_bytes();

  // Returns an id that no device has returned.
  template <typename SomeId>
  static SomeId unknown_id() {
    return SomeId(UINT64_MAX - 4096);
  }

  // --- objects that the fixture releases

  DeviceAddress allocate(size_t bytes) { return allocate(bytes, device()); }
  DeviceAddress allocate(size_t bytes, Device& on);
  DeviceAddress reserve(size_t bytes) { return reserve(bytes, device()); }
  DeviceAddress reserve(size_t bytes, Device& on);
  ExtentId create(size_t bytes, const CreateOptions& options = {});
  ExtentId create_on(Device& on, size_t bytes);
  // Maps `extent` at [at, at + bytes), accessible to its device.
  void map_accessible(DeviceAddress at, ExtentId extent, size_t bytes);
  MappedRange map_range(size_t bytes) { return map_range(bytes, device()); }
  MappedRange map_range(size_t bytes, Device& on);
  void* allocate_pinned(size_t bytes);
  uint8_t* allocate_pinned_bytes(size_t bytes) {
    return static_cast<uint8_t*>(allocate_pinned(bytes));
  }
  StreamId create_stream() { return create_stream(device()); }
  StreamId create_stream(Device& on);
  EventId create_event(const EventOptions& options = {}) { return create_event(device(), options); }
  EventId create_event(Device& on, const EventOptions& options = {});

  // These functions register objects that the test obtained directly from the device, so that the
  // fixture releases them.
  void track_allocation(DeviceAddress address);
  void track_extent(ExtentId extent) { track_extent(extent, device()); }
  void track_extent(ExtentId extent, Device& on);
  void track_mapping(AddressRange range) { track_mapping(range, device()); }
  void track_mapping(AddressRange range, Device& on);
  void track_addresses(AddressRange range, Device& on);

  // These functions release objects before the test ends.
  void free_now(DeviceAddress address);
  void free_addresses_now(AddressRange range);
  void release_now(ExtentId extent);
  void unmap_now(AddressRange range);
  void destroy_now(StreamId stream);
  void destroy_now(EventId event);

  // --- memory contents

  // These functions copy data in a separate stream and wait for the copy.
  void write(DeviceAddress to, const Bytes& bytes) { write(to, bytes, device()); }
  void write(DeviceAddress to, const Bytes& bytes, Device& on);
  Bytes read_back(DeviceAddress from, size_t bytes) { return read_back(from, bytes, device()); }
  Bytes read_back(DeviceAddress from, size_t bytes, Device& on);
  // Returns whether data can be written to the memory and read back through the device `on`.
  testing::AssertionResult is_usable(DeviceAddress at) { return is_usable(at, device()); }
  testing::AssertionResult is_usable(DeviceAddress at, Device& on);

  // --- control streams

  // Queues a closed gate in the stream and waits until the stream reaches it. At the end of the
  // test, the fixture opens the gate if it is still closed.
  StreamGate& block_stream(StreamId stream) { return block_stream(stream, device()); }
  StreamGate& block_stream(StreamId stream, Device& on);
  // Like block_stream, but does not wait until the stream reaches the gate. Used for a second gate
  // in a stream, which the stream reaches only when the first gate opens.
  StreamGate& block_stream_later(StreamId stream);
  // Expects that the call blocks until the gate is opened, and then succeeds.
  void expect_waits_for(StreamGate& gate, const std::function<Status()>& call);
  testing::AssertionResult stays_busy(StreamId stream) { return stays_busy(stream, device()); }
  testing::AssertionResult stays_busy(StreamId stream, Device& on);
  testing::AssertionResult becomes_idle(StreamId stream);

  // --- rejected calls

  // Expects that the call failed with an error of this kind that has a message, and that this error
  // is the thread's last error. Clears the last error.
  void expect_error(StatusKind kind, Device& by, const Status& status,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE());
  template <typename T>
  void expect_error(StatusKind kind, Device& by, const Result<T>& result,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    expect_error(kind, by, result.status(), file, line);
  }
  template <typename AnyResult>
  void expect_invalid_argument(const AnyResult& result, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
    expect_error(StatusKind::kInvalidArgument, device(), result, file, line);
  }
  template <typename AnyResult>
  void expect_out_of_memory(const AnyResult& result, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
    expect_error(StatusKind::kOutOfMemory, device(), result, file, line);
  }

  // Expects that no device's memory use changes during the object's lifetime.
  class MemoryUnchangedCheck {
   public:
    explicit MemoryUnchangedCheck(DeviceContract& contract, int line = __builtin_LINE());
    ~MemoryUnchangedCheck();
    MemoryUnchangedCheck(const MemoryUnchangedCheck&) = delete;
    MemoryUnchangedCheck& operator=(const MemoryUnchangedCheck&) = delete;

   private:
    DeviceContract& contract_;
    int line_;
    std::vector<size_t> free_bytes_;
  };

  size_t free_bytes() { return free_bytes(device()); }
  size_t free_bytes(Device& on);
  // Returns whether `found` equals `expected`, up to accounting_slack_bytes.
  testing::AssertionResult equal_within_slack(size_t found, size_t expected) const;

  enum class Kind {
    kMemory,
    kPoolMemory,
    kAddresses,
    kExtent,
    kMapping,
    kHost,
    kStream,
    kEvent,
    kGraph
  };
  void track(Kind kind, Device& on, uint64_t id, std::function<Status()> undo);
  void untrack(Kind kind, Device& on, uint64_t id);

 private:
  struct Tracked {
    Kind kind;
    Device* device;
    uint64_t id;
    std::function<Status()> undo;
  };

  StreamId transfer_stream(Device& on);
  void synchronize_devices();
  void release_tracked();
  void end_captures();
  std::vector<size_t> free_bytes_of_all_devices();

  std::unique_ptr<MachineUnderTest> machine_;
  std::vector<size_t> free_bytes_at_start_;
  std::vector<Tracked> tracked_;
  // Streams for copies, indexed by device. kDefaultStream: not created yet.
  std::vector<StreamId> transfer_streams_;
  std::vector<std::unique_ptr<StreamGate>> gates_;
};

// --- one suite for each group of functions in device.h

class IdentityContract : public DeviceContract {};
class MemoryContract : public DeviceContract {};
class VirtualMemoryContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips without virtual memory
};
class SharingContract : public DeviceContract {};
class PeersContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips with a single device
};
class HostMemoryContract : public DeviceContract {};
class StreamsContract : public DeviceContract {};
class EventsContract : public DeviceContract {};
class WorkContract : public DeviceContract {};
class PoolContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips without a stream-ordered pool
  DeviceAddress allocate_async(size_t bytes, StreamId stream);
  void free_async_now(DeviceAddress address, StreamId stream);
};
class CaptureContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips without capture
  // Ends the capture. The fixture destroys the graph.
  GraphId end_capture(StreamId stream);
  using DeviceContract::destroy_now;
  void destroy_now(GraphId graph);
  CaptureState capture_state_of(StreamId stream);
};
// Tests which calls a capture forbids in each mode, on the capturing thread and on other threads.
class CaptureRulesContract : public CaptureContract {
 protected:
  // Runs a function on this thread or on another thread, and waits until it returns.
  using RunOn = std::function<void(const std::function<void()>&)>;
  struct NamedCall {
    std::string name;
    std::function<Status()> make;
  };

  void SetUp() override;
  void TearDown() override;

  // Returns blocking calls (see "capture" in device.h) on objects outside the capture. A call that
  // allocates or frees undoes its effect.
  std::vector<NamedCall> blocking_calls();
  // Captures `stream_` and expects that the call fails and invalidates the capture.
  void expect_invalidates(CaptureMode mode, const NamedCall& call, const RunOn& run_on);
  // Captures `stream_` and expects that the call succeeds and the capture continues.
  void expect_allowed(CaptureMode mode, const NamedCall& call, const RunOn& run_on);

  StreamId stream_;  // the capturing stream
  // Objects outside the capture.
  StreamId unrelated_stream_;
  EventId unrelated_event_;
  DeviceAddress unrelated_memory_;
  DeviceAddress unrelated_pool_memory_;
  void* unrelated_host_memory_ = nullptr;
};
class ConcurrencyContract : public DeviceContract {
 protected:
  static constexpr size_t kThreadCount = 4;
  static constexpr size_t kRoundCount = 20;
  // Runs the function on several threads. An exception fails the test.
  static void on_threads(const std::function<void(size_t)>& function,
                         size_t thread_count = kThreadCount) {
    run_on_threads(thread_count, function);
  }
};

}  // namespace ashlar::contract
