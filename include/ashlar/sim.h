// SPDX-License-Identifier: Apache-2.0
//
// The simulated machine: any number of accelerators of any capacity, with real memory and real
// asynchrony, and no GPU. What `Device` promises, a simulated device does; this header adds what
// only a simulation can offer: kernels written as host functions, a look behind the curtain,
// faults on demand, holding a stream, a seed for the order of things, and a modelled clock.
//
// Thread safe, like the devices themselves. The machine outlives every use of its devices. A child
// made by fork must not use its parent's machine; the end of its copy does nothing.
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

// kMemory: device memory holds bytes. kBookkeeping: addresses are invented and hold nothing, so
// that millions of allocations cost no mapping; copies and kernels are accepted and move nothing.
enum class Backing { kMemory, kBookkeeping };

inline constexpr size_t kMostDevices = 64;
inline constexpr size_t kMostCapacityBytes = size_t{1} << 46;

struct Options {
  size_t device_count = 2;                     // 1 .. kMostDevices
  size_t capacity_bytes = size_t{141} << 30;   // of each device; up to kMostCapacityBytes
  size_t granularity_bytes = size_t{2} << 20;  // a power of two, from 64 KiB
  Backing backing = Backing::kMemory;
  // Set: nothing runs by itself. Work advances inside device calls, on the calling thread, in an
  // order that follows from the seed, on a clock that advances only by modelled work. For programs
  // that call the machine from one thread at a time.
  std::optional<uint64_t> seed{};
  // Times events and injected latency. Null: the machine's own (steady, or manual with a seed).
  // It outlives the machine.
  Clock* clock = nullptr;
  // Mappings alive at once. 0: what the host allows (vm.max_map_count), less a reserve.
  size_t max_mappings = 0;
  // What export, import and sharing wait at most for another process.
  std::chrono::milliseconds ipc_timeout{5000};
};

class Machine;

// Device memory made visible to host code, for as long as this lives: for kernels, and for tests
// that need to look. It stays valid until the memory is unmapped or freed.
class ASHLAR_EXPORT DeviceMemory {
 public:
  // `count` values from `at`, for reading if T is const. kInvalidArgument: some part of them is not
  // accessible so to the device. kUnsupported: in bookkeeping there are no bytes to see.
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

// Device work. Runs when its stream gets there; a failure, or an exception, makes the device lost,
// as an illegal access does on hardware. It must not call a device.
using Kernel = std::function<Status(const DeviceMemory& memory)>;

// What happens to the calls a rule picks.
enum class FaultAction {
  kFail,        // the call returns `status` and does nothing
  kDelay,       // it takes `delay` longer
  kHang,        // it does not go on until release_hangs
  kLoseDevice,  // it returns kDeviceLost, and so does every later call on that device
};

// Picks calls: the `nth` of its kind (1 is the next one), and the `count - 1` after it; each of
// those with `probability`, drawn from the machine's seed.
struct FaultRule {
  std::optional<DeviceCall> call{};     // empty: every call
  std::optional<DeviceIndex> device{};  // empty: on every device
  uint64_t nth = 1;
  uint64_t count = 1;  // kForever: all from the nth on
  double probability = 1.0;
  FaultAction action = FaultAction::kFail;
  Status status{};                    // for kFail; ok stands for a kDeviceFault
  std::chrono::nanoseconds delay{0};  // for kDelay

  static constexpr uint64_t kForever = UINT64_MAX;
};

// What the driver calls of one device that succeeded have come to, at the prices of the cost model:
// one H200 under driver 580, as docs/design/cost_model.md lists them.
struct CallCosts {
  std::array<uint64_t, kDeviceCallCount> count{};
  std::array<int64_t, kDeviceCallCount> modelled_ns{};
  int64_t total_ns = 0;

  uint64_t count_of(DeviceCall call) const { return count[static_cast<size_t>(call)]; }
};

class ASHLAR_EXPORT Machine {
 public:
  // kInvalidArgument: an option makes no sense; the message names it.
  static Result<std::unique_ptr<Machine>> try_create(const Options& options = {});
  static std::unique_ptr<Machine> create(const Options& options = {}) {
    return try_create(options).value();
  }
  // Waits for the work that is running, drops what is queued.
  ~Machine();

  size_t device_count() const;
  // REQUIRES: index below device_count().
  Device& device(DeviceIndex index);
  Clock& clock();

  // --- device work and memory ---------------------------------------------------------------

  Status try_launch(DeviceIndex device, StreamId stream, Kernel kernel);
  void launch(DeviceIndex device, StreamId stream, Kernel kernel) {
    throw_if_error(try_launch(device, stream, std::move(kernel)));
  }
  // Memory as that device sees it, for a test that looks from outside of any kernel.
  DeviceMemory memory(DeviceIndex accessor);

  // In bookkeeping: the device's next allocation or reservation lies here, if that is free; for
  // replays, where addresses decide between equal blocks. Calls are queued.
  void place_next(DeviceIndex device, DeviceAddress at);
  // In bookkeeping: where the device's other plain allocations lie, if that is free; empty: the
  // driver's rule says. The function must not call the machine.
  void place_by(DeviceIndex device, std::function<DeviceAddress(size_t bytes)> choose);

  // --- the order of things --------------------------------------------------------------------

  // Starts nothing more in this stream until resumed; what is running finishes. With a seed, a
  // call that waits for a held stream returns kDeviceFault instead of waiting for ever.
  Status hold(DeviceIndex device, StreamId stream);
  // With a seed: the same, but a call that has to wait lets it go, with all others held so: time
  // passes while one waits.
  Status hold_until_waited(DeviceIndex device, StreamId stream);
  Status resume(DeviceIndex device, StreamId stream);
  // With a seed: runs one piece of work that is ready, if any. Says whether there was one.
  bool step();

  // --- faults ---------------------------------------------------------------------------------

  void inject(FaultRule rule);
  void clear_faults();
  void release_hangs();
  size_t hanging_count() const;
  // Makes the device lost, or well again (as a restarted process would find it).
  void lose(DeviceIndex device, Status reason);
  void revive(DeviceIndex device);

  // --- modelled cost ----------------------------------------------------------------------------

  CallCosts costs(DeviceIndex device) const;
  void reset_costs(DeviceIndex device);

  // The machine's parts; defined in src/device/sim.
  struct Parts;
  Parts& parts() { return *parts_; }

 private:
  explicit Machine(std::unique_ptr<Parts> parts);
  friend class DeviceMemory;

  std::unique_ptr<Parts> parts_;
};

// Asks that a host access to simulated device memory be explained on standard error before the
// process ends by SIGSEGV as it would have anyway. Off unless asked for; the handler that was
// installed before gets the signal next. Once per process; asking again does nothing.
ASHLAR_EXPORT void explain_host_access();

}  // namespace ashlar::sim
