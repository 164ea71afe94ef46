// SPDX-License-Identifier: Apache-2.0
//
// One rank whose symmetric memory is on a device. The host accesses it with put and get.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ashlar/sim.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

// Creates a simulated machine with one device for each rank.
std::unique_ptr<sim::Machine> make_machine(int world_size);

// A rank whose memory is on any device, simulated or real.
struct DeviceRank {
  static constexpr size_t kBytes = size_t{64} * 1024;

  // `on` must outlive this object.
  DeviceRank(const RankSpec& own, Device& on, const GroupOptions& options);

  Device& device() const { return on_device; }
  // write() and read() access this rank's own memory; read_of() reads the memory of any rank.
  // Offsets are in bytes.
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
  std::shared_ptr<Store> store;  // the store for further groups
  Heap heap;
  Group group;
  SymmetricBuffer buffer;
  Handle handle;
  SymmetricBuffer scratch;  // a second buffer, for out-of-place results
  Handle scratch_handle;
};

struct SimDeviceRank : DeviceRank {
  // Uses device `index` of `on`, which must outlive this object.
  SimDeviceRank(const RankSpec& own, sim::Machine& on, int index, const GroupOptions& options)
      : DeviceRank(own, on.device(DeviceIndex(static_cast<uint64_t>(index))), options),
        machine(on),
        device_index(DeviceIndex(static_cast<uint64_t>(index))) {}
  SimDeviceRank(const RankSpec& own, sim::Machine& on)
      : SimDeviceRank(own, on, own.rank, SymmetricRank::group_options(own)) {}

  sim::Machine& machine;
  DeviceIndex device_index;
};

// The functions below return an error description, or an empty string on success.

// Collective. Runs every collective except the multimem ones, and put, get, signals and counters,
// with and without a stream. Checks results and guard words.
std::string run_device_program(DeviceRank& own);
// Collective over two ranks. Rank 0 times out waiting in a stream for a signal; then both ranks
// continue.
std::string check_stream_timeout(DeviceRank& own);
// REQUIRES: the group has one rank. Invalid arguments must be rejected before anything is launched.
std::string check_invalid_arguments(DeviceRank& own);

// Host memory in another group of the same ranks, on which tests compute reference results.
struct HostReference {
  HostReference(const DeviceRank& own, size_t bytes);

  Heap heap;
  Group group;
  SymmetricBuffer buffer;
  Handle handle;
};

}  // namespace ashlar::symm
