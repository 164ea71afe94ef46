// SPDX-License-Identifier: Apache-2.0
//
// One rank of symmetric memory on a device, as a user's program has it: the host reaches
// memory by put and get, or by kernels.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ashlar/sim.h"
#include "mp/symmetric_rank.h"

namespace ashlar::symm {

// Of a machine that has a device for every rank.
std::unique_ptr<sim::Machine> machine_for(int world_size);

// On any device: a simulated one, or a vendor's.
struct RankOnDevice {
  static constexpr size_t kBytes = size_t{64} * 1024;

  // `device` outlives it.
  RankOnDevice(const BareRank& own, Device& on, const GroupOptions& options);

  Device& device() const { return on_device; }
  // This rank's own memory, at an offset in bytes.
  template <typename T>
  void write(const std::vector<T>& values, int64_t offset = 0) const {
    handle.put(handle.rank(), std::as_bytes(std::span(values)), offset);
  }
  template <typename T>
  std::vector<T> read(size_t count, int64_t offset = 0) const {
    return read_of<T>(handle, handle.rank(), count, offset);
  }
  template <typename T>
  static std::vector<T> read_of(const Handle& handle, int rank, size_t count, int64_t offset = 0) {
    std::vector<T> values(count);
    handle.get(rank, std::as_writable_bytes(std::span(values)), offset);
    return values;
  }

  Device& on_device;
  std::shared_ptr<Store> store;  // for further groups
  Heap heap;
  Group group;
  Buffer buffer;
  Handle handle;
  Buffer scratch;  // more of the device's memory, for results that go elsewhere
  Handle scratch_handle;
};

struct DeviceRank : RankOnDevice {
  // On device `index` of `on`, which outlives it.
  DeviceRank(const BareRank& own, sim::Machine& on, int index, const GroupOptions& options)
      : RankOnDevice(own, on.device(DeviceIndex(static_cast<uint64_t>(index))), options),
        machine(on),
        at(DeviceIndex(static_cast<uint64_t>(index))) {}
  DeviceRank(const BareRank& own, sim::Machine& on)
      : DeviceRank(own, on, own.rank, SymmetricRank::group_options(own)) {}

  sim::Machine& machine;
  DeviceIndex at;
};

// Collective: every collective and put, get, signals and counters, with and without a stream, the
// results as they are to be, and nothing written around them. What is wrong, or nothing.
std::string run_device_program(RankOnDevice& own);
// Collective, of two ranks: rank 0 waits in a stream for a signal that does not come in time, and
// both go on. As above.
std::string run_into_a_timeout(RankOnDevice& own);
// Of one rank: every argument that makes no sense is refused before anything is launched, and so is
// a stream that captures. As above.
std::string make_mistakes(RankOnDevice& own);

// Memory of the host in a group of the same ranks, for comparison.
struct HostTwin {
  HostTwin(const RankOnDevice& own, size_t bytes);

  Heap heap;
  Group group;
  Buffer buffer;
  Handle handle;
};

}  // namespace ashlar::symm
