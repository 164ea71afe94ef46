// SPDX-License-Identifier: Apache-2.0
//
// A simulated machine with any number of accelerators of any capacity, which needs no GPU. Its
// devices implement `Device` with real memory and asynchronous streams. This header adds what only
// a simulation offers: kernels written as host functions, host access to device memory, fault
// injection, paused streams, deterministic scheduling from a seed, and modelled cost.
//
// Thread safe, like the devices. The machine must outlive all uses of its devices. A forked child
// must not use its parent's machine: device calls fail, and destroying its copy does nothing.
//
// Errors: `create`, `launch` and `view` throw; their `try_` forms return a Result or a Status.
// Kernels, and functions that control the simulation and can fail, return Status.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/device_call.h"
#include "ashlar/export.h"

namespace ashlar::sim {

// kMemory: device memory holds data. kBookkeeping: addresses are synthetic and hold no data, so
// that millions of allocations need no host mappings; copies and kernels succeed without effect.
enum class Backing { kMemory, kBookkeeping };

inline constexpr size_t kMaxDeviceCount = 64;
inline constexpr size_t kMaxCapacityBytes = size_t{1} << 46;

struct Options {
  size_t device_count = 2;                     // 1 .. kMaxDeviceCount
  size_t capacity_bytes = size_t{141} << 30;   // capacity of each device; at most kMaxCapacityBytes
  size_t granularity_bytes = size_t{2} << 20;  // a power of two, at least 64 KiB
  Backing backing = Backing::kMemory;
  // If set, execution is deterministic: work runs only inside device calls, on the calling thread,
  // in an order determined by the seed, and the default clock advances only by modelled work and
  // injected delays. REQUIRES: the program calls the machine from one thread at a time.
  std::optional<uint64_t> seed{};
  // The clock that measures the time between events, and sleeps for injected delays. Null: a
  // SteadyClock, or a ManualClock if `seed` is set. The clock must outlive the machine.
  Clock* clock = nullptr;
  // Limit on simultaneous mappings. 0: derived from the host's vm.max_map_count.
  size_t max_mappings = 0;
  // How long exports, imports and sharing wait for another process.
  std::chrono::milliseconds ipc_timeout{5000};
};

class Machine;

// Gives host code access to device memory, in kernels and in tests that inspect memory. Pointers
// stay valid until the memory is unmapped or freed.
class ASHLAR_EXPORT DeviceMemory {
 public:
  // Returns the `count` values at `at`, read-only if T is const. kInvalidArgument: the address is
  // misaligned, or the device may not read (if T is const) or write part of the range.
  // kUnsupported: the backing is Backing::kBookkeeping.
  template <typename T>
  std::span<T> view(DeviceAddress at, size_t count) const {
    return try_view<T>(at, count).value();
  }
  template <typename T>
  Result<std::span<T>> try_view(DeviceAddress at, size_t count) const {
    if (at.value() % alignof(T) != 0)
      return Status::invalid_argument("the address is not aligned for the type");
    const size_t wanted_bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    const Access access = std::is_const_v<T> ? Access::kRead : Access::kReadWrite;
    Result<void*> memory = bytes(at, wanted_bytes, access);
    if (!memory.ok()) return memory.status();
    return std::span<T>(static_cast<T*>(*memory), count);
  }

 private:
  friend class Machine;
  DeviceMemory(Machine& machine, DeviceIndex accessor) : machine_(machine), accessor_(accessor) {}
  Result<void*> bytes(DeviceAddress at, size_t wanted_bytes, Access access) const;

  Machine& machine_;
  DeviceIndex accessor_;
};

// A function that runs as device work, in stream order. It must not call a device. If it fails or
// throws, the device is lost, as after an illegal access on hardware.
using Kernel = std::function<Status(const DeviceMemory& memory)>;

enum class FaultAction {
  kFail,        // the call returns `status` and has no effect
  kDelay,       // the call takes `delay` longer
  kHang,        // the call blocks until release_hung_calls
  kLoseDevice,  // this and every later call on the device return kDeviceLost
};

// Selects the calls that `action` applies to: the `nth` matching call from now on (1 is the next
// call) and the `count - 1` matching calls after it, each with the given probability. The random
// numbers come from the machine's seed.
struct FaultRule {
  std::optional<DeviceCall> call{};     // empty: every call
  std::optional<DeviceIndex> device{};  // empty: every device
  uint64_t nth = 1;
  uint64_t count = 1;  // kForever: all calls from the nth on
  double probability = 1.0;
  FaultAction action = FaultAction::kFail;
  Status status{};                    // the error for kFail; if ok: a generic kDeviceFault
  std::chrono::nanoseconds delay{0};  // the additional time for kDelay

  static constexpr uint64_t kForever = UINT64_MAX;
};

// The successful driver calls of one device and their modelled cost on an H200 with driver 580. See
// docs/internals/cost_model.md.
struct CallCosts {
  std::array<uint64_t, kDeviceCallCount> count{};
  std::array<int64_t, kDeviceCallCount> modelled_ns{};
  int64_t total_ns = 0;

  uint64_t count_of(DeviceCall call) const { return count[static_cast<size_t>(call)]; }
};

class ASHLAR_EXPORT Machine {
 public:
  // Creates a machine. kInvalidArgument: an option is out of range; the message names the option.
  static Result<std::unique_ptr<Machine>> try_create(const Options& options = {});
  static std::unique_ptr<Machine> create(const Options& options = {}) {
    return try_create(options).value();
  }
  // Waits for running work and drops queued work.
  ~Machine();

  size_t device_count() const;
  // REQUIRES: index below device_count().
  Device& device(DeviceIndex index);
  Clock& clock();  // Options::clock, or the machine's own

  // --- device work and memory

  Status try_launch(DeviceIndex device, StreamId stream, Kernel kernel);
  void launch(DeviceIndex device, StreamId stream, Kernel kernel) {
    throw_if_error(try_launch(device, stream, std::move(kernel)));
  }
  // Returns host access to memory with the access rights of `accessor`, for tests that inspect
  // memory outside of kernels.
  DeviceMemory memory(DeviceIndex accessor);

  // With Backing::kBookkeeping: sets the address of the device's next allocation or reservation, if
  // that address is free. Several calls queue up. Replays need this function because, among equal
  // free blocks, an allocator takes the block with the lowest address.
  void set_next_address(DeviceIndex device, DeviceAddress at);
  // With Backing::kBookkeeping: sets a function that chooses the addresses of the device's
  // allocations for which set_next_address was not called. If `choose` is empty, a model of the
  // CUDA driver chooses. The function must not call the machine.
  void set_address_policy(DeviceIndex device, std::function<DeviceAddress(size_t bytes)> choose);

  // --- scheduling

  // Pauses the stream: no more of its work starts until resume_stream; running work finishes. With
  // a seed, a call that waits for a paused stream returns kDeviceFault instead of blocking forever.
  // kInvalidArgument: the device or the stream does not exist.
  Status pause_stream(DeviceIndex device, StreamId stream);
  // With a seed: pauses the stream until a call has to wait for work, which then resumes all
  // streams that were paused with this function. kInvalidArgument: see pause_stream.
  Status pause_stream_until_waited(DeviceIndex device, StreamId stream);
  // Resumes a paused stream. kInvalidArgument: see pause_stream.
  Status resume_stream(DeviceIndex device, StreamId stream);
  // With a seed: runs one task that is ready. Returns false if no task is ready.
  bool step();

  // --- faults

  // Applies the rule to later calls. If several rules select a call, the earliest rule applies.
  void inject(FaultRule rule);
  void clear_faults();
  void release_hung_calls();
  size_t hung_call_count() const;
  // Marks the device as lost.
  void lose(DeviceIndex device, Status reason);
  // Makes a lost device usable again. Its memory, streams and other objects still exist; a real
  // device would need a restart of the process.
  void revive(DeviceIndex device);

  // --- modelled cost

  CallCosts costs(DeviceIndex device) const;
  void reset_costs(DeviceIndex device);

  // For Ashlar's own code and tests; defined in src/device/sim/machine_impl.h.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Machine(std::unique_ptr<Impl> impl);
  friend class DeviceMemory;

  std::unique_ptr<Impl> impl_;
};

// Installs a SIGSEGV handler that explains host accesses to simulated device memory on standard
// error, then passes the signal to the handler that was installed before. Only the first call in a
// process has an effect.
ASHLAR_EXPORT void explain_host_access();

}  // namespace ashlar::sim
