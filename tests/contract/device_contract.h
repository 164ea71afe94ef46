// SPDX-License-Identifier: Apache-2.0
//
// The suite that every back end of `Device` must pass: its fixture, and one test suite per group
// of device.h (see the *_contract.cc files). A back end joins by one file that opens its devices
// and instantiates the suites; `sim_backend.cc` shows how.
//
// Nothing here knows a back end, so the tests ask only for what hardware can give:
//  * device memory is looked at through copies;
//  * what a device lacks is read from its properties, and such a test skips and says why;
//  * the devices are ours alone while a test runs, since it compares what memory_stats says before
//    and after; what a driver takes for itself is `accounting_slack_bytes`;
//  * while a gate is closed, no test frees plain or host memory, copies pageable host memory or
//    uses the default stream: a driver may wait for the whole device there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ashlar/device.h"
#include "on_threads.h"
#include "waiting.h"

namespace ashlar::contract {

// The devices of one back end, opened for one test.
class MachineUnderTest {
 public:
  virtual ~MachineUnderTest() = default;
  virtual size_t device_count() const = 0;
  virtual Device& device(DeviceIndex index) = 0;
};

struct BackendUnderTest {
  std::string name;  // letters and digits; becomes part of the tests' names
  // kUnsupported: the back end is not on this machine; the tests skip and say why.
  std::function<Result<std::unique_ptr<MachineUnderTest>>()> open;
  size_t accounting_slack_bytes = 0;
};

void PrintTo(const BackendUnderTest& backend, std::ostream* out);
std::string backend_name(const testing::TestParamInfo<BackendUnderTest>& backend);

inline constexpr char kNeedsTwoDevices[] = "needs two devices; this machine has one";

using Bytes = std::vector<uint8_t>;

// Bytes that differ from their neighbours and, with another seed, from each other.
Bytes pattern(size_t bytes, uint8_t seed);

testing::AssertionResult ok(const Status& status);
template <typename T>
testing::AssertionResult ok(const Result<T>& result) {
  return ok(result.status());
}

// Ends the test with a failure that names the caller, unless the call succeeded.
void must(const Status& status, const char* file = __builtin_FILE(), int line = __builtin_LINE());
template <typename T>
T must(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  must(result.status(), file, line);
  return *std::move(result);
}

// Mapped memory, accessible to its device: one extent behind one whole reservation.
struct MappedRange {
  AddressRange range;
  ExtentId extent;
};

// Whatever a test obtains through the fixture is taken back at its end, newest first, and taking
// it back must succeed: so every misuse before that is seen to have left the thing itself alone.
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
  // A size that suits every function: the granularity, or 2 MiB where there is none.
  size_t granule_bytes();

  // Ids that no device gave out.
  template <typename SomeId>
  static SomeId never_given() {
    return SomeId(UINT64_MAX - 4096);
  }

  // --- things with an end ---------------------------------------------------------------------

  DeviceAddress allocated(size_t bytes) { return allocated(bytes, device()); }
  DeviceAddress allocated(size_t bytes, Device& on);
  DeviceAddress reserved(size_t bytes) { return reserved(bytes, device()); }
  DeviceAddress reserved(size_t bytes, Device& on);
  ExtentId created(size_t bytes, const CreateOptions& options = {});
  ExtentId created_on(Device& on, size_t bytes);
  // `extent` behind [at, at + bytes), accessible to its device.
  void map_accessible(DeviceAddress at, ExtentId extent, size_t bytes);
  MappedRange mapped_range(size_t bytes) { return mapped_range(bytes, device()); }
  MappedRange mapped_range(size_t bytes, Device& on);
  void* pinned(size_t bytes);
  uint8_t* pinned_bytes(size_t bytes) { return static_cast<uint8_t*>(pinned(bytes)); }
  StreamId new_stream() { return new_stream(device()); }
  StreamId new_stream(Device& on);
  EventId new_event(const EventOptions& options = {}) { return new_event(device(), options); }
  EventId new_event(Device& on, const EventOptions& options = {});

  // What the test got from the device itself: from here on the fixture's to take back.
  void keep_allocated(DeviceAddress address);
  void keep_extent(ExtentId extent) { keep_extent(extent, device()); }
  void keep_extent(ExtentId extent, Device& on);
  void keep_mapping(AddressRange range) { keep_mapping(range, device()); }
  void keep_mapping(AddressRange range, Device& on);
  void keep_addresses(AddressRange range, Device& on);

  // Take back before the test ends.
  void free_now(DeviceAddress address);
  void free_addresses_now(AddressRange range);
  void release_now(ExtentId extent);
  void unmap_now(AddressRange range);
  void destroy_now(StreamId stream);
  void destroy_now(EventId event);

  // --- bytes ----------------------------------------------------------------------------------

  // In a stream of their own, waited for.
  void write(DeviceAddress to, const Bytes& bytes) { write(to, bytes, device()); }
  void write(DeviceAddress to, const Bytes& bytes, Device& on);
  Bytes read_back(DeviceAddress from, size_t bytes) { return read_back(from, bytes, device()); }
  Bytes read_back(DeviceAddress from, size_t bytes, Device& on);
  // Whether the memory can be written and read, through `on`.
  testing::AssertionResult holds_bytes(DeviceAddress at) { return holds_bytes(at, device()); }
  testing::AssertionResult holds_bytes(DeviceAddress at, Device& on);

  // --- holding streams --------------------------------------------------------------------------

  // Closes a gate in the stream; returns when the stream stands at it. Opened at the test's end.
  Gate& hold(StreamId stream) { return hold(stream, device()); }
  Gate& hold(StreamId stream, Device& on);
  // Does not wait for the stream to get there: for a second gate.
  Gate& hold_later(StreamId stream);
  // The call waits until the gate is opened, and then succeeds.
  void expect_waits_for(Gate& gate, const std::function<Status()>& call);
  testing::AssertionResult stays_busy(StreamId stream) { return stays_busy(stream, device()); }
  testing::AssertionResult stays_busy(StreamId stream, Device& on);
  testing::AssertionResult becomes_idle(StreamId stream);

  // --- refusals ---------------------------------------------------------------------------------

  // The call failed with just this kind, says why, and is this thread's last error until taken.
  void expect_refused(StatusKind kind, Device& by, const Status& status,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE());
  template <typename T>
  void expect_refused(StatusKind kind, Device& by, const Result<T>& result,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    expect_refused(kind, by, result.status(), file, line);
  }
  template <typename Outcome>
  void expect_usage(const Outcome& outcome, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
    expect_refused(StatusKind::kInvalidArgument, device(), outcome, file, line);
  }
  template <typename Outcome>
  void expect_out_of_memory(const Outcome& outcome, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
    expect_refused(StatusKind::kOutOfMemory, device(), outcome, file, line);
  }

  // While this lives, no device's memory use changes. Around misuse, which must leave it alone.
  class Untouched {
   public:
    explicit Untouched(DeviceContract& contract, int line = __builtin_LINE());
    ~Untouched();
    Untouched(const Untouched&) = delete;
    Untouched& operator=(const Untouched&) = delete;

   private:
    DeviceContract& contract_;
    int line_;
    std::vector<size_t> free_bytes_;
  };

  size_t free_bytes() { return free_bytes(device()); }
  size_t free_bytes(Device& on);
  // `found` is `expected`, but for what the driver may have taken or given back for itself.
  testing::AssertionResult same_use(size_t found, size_t expected) const;

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
  void keep(Kind kind, Device& on, uint64_t thing, std::function<Status()> undo);
  void forget(Kind kind, Device& on, uint64_t thing);

 private:
  struct Kept {
    Kind kind;
    Device* device;
    uint64_t thing;
    std::function<Status()> undo;
  };

  StreamId side_stream(Device& on);
  void synchronize_devices();
  void take_back_everything();
  void end_captures();
  std::vector<size_t> free_bytes_everywhere();

  std::unique_ptr<MachineUnderTest> machine_;
  std::vector<size_t> free_bytes_at_start_;
  std::vector<Kept> kept_;
  std::vector<StreamId> side_streams_;  // by device index; the default stream: none made yet
  std::vector<std::unique_ptr<Gate>> gates_;
};

// --- one suite per group of device.h ----------------------------------------------------------

class IdentityContract : public DeviceContract {};
class MemoryContract : public DeviceContract {};
class VirtualMemoryContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips where there is no virtual memory
};
class SharingContract : public DeviceContract {};
class PeersContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips where there is one device only
};
class HostMemoryContract : public DeviceContract {};
class StreamsContract : public DeviceContract {};
class EventsContract : public DeviceContract {};
class WorkContract : public DeviceContract {};
class PoolContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips where there is no stream-ordered pool
  DeviceAddress allocated_async(size_t bytes, StreamId stream);
  void free_async_now(DeviceAddress address, StreamId stream);
};
class CaptureContract : public DeviceContract {
 protected:
  void SetUp() override;  // skips where there is no capture
  // Ends the capture; the graph is destroyed at the end of the test.
  GraphId captured(StreamId stream);
  using DeviceContract::destroy_now;
  void destroy_now(GraphId graph);
  CaptureState state_of(StreamId stream);
};
// What a capture forbids, in which mode and from which thread.
class CaptureRulesContract : public CaptureContract {
 protected:
  // Runs a piece of the test, on this thread or on another, and waits for it.
  using Where = std::function<void(const std::function<void()>&)>;
  struct NamedCall {
    std::string name;
    std::function<Status()> make;
  };

  void SetUp() override;
  void TearDown() override;

  // The calls that might wait unseen, on things that no capture touches. Each gives back what it
  // took, or takes again what it gave back.
  std::vector<NamedCall> calls_that_might_wait();
  // The call fails, and the capture that was going on is good for nothing any more.
  void expect_invalidates(CaptureMode mode, const NamedCall& call, const Where& where);
  // The call succeeds, and the capture goes on.
  void expect_harmless(CaptureMode mode, const NamedCall& call, const Where& where);

  StreamId stream_;            // the one that captures
  StreamId bystander_stream_;  // these take no part in the capture
  EventId bystander_event_;
  DeviceAddress bystander_;
  DeviceAddress bystander_pooled_;
  void* bystander_host_ = nullptr;
};
class ConcurrencyContract : public DeviceContract {
 protected:
  static constexpr size_t kThreadCount = 4;
  static constexpr size_t kRoundCount = 20;
  // Runs the act on that many threads at once; an exception in one fails the test.
  static void on_threads(const std::function<void(size_t)>& act,
                         size_t thread_count = kThreadCount) {
    run_on_threads(thread_count, act);
  }
};

}  // namespace ashlar::contract
