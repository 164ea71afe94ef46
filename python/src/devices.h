// SPDX-License-Identifier: Apache-2.0
//
// Devices, streams and events, as Python's objects and the library's calls share them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "ashlar/device.h"
#include "ashlar/sim.h"
#include "fork.h"

namespace ashlar::python {

namespace py = pybind11;

// A device, and the simulated machine that it is part of, if any: for host views, and so that the
// machine outlives every use of its devices. Shared by all that is made on the device.
struct DeviceUse {
  // Null for a vendor's device, which lives as long as the process.
  std::shared_ptr<sim::Machine> machine{};
  Device* device = nullptr;
  int made_at = fork_count();

  // The device, for calls of it. Throws InvalidArgument if it is that of a parent process.
  Device& here() const {
    require_made_here(made_at);
    return *device;
  }
  DeviceIndex index() const { return device->properties().index; }
  std::string name() const;  // "sim:0"
  bool is_simulated() const { return machine != nullptr; }
};

// In the child of a fork: the machine behind "sim:0" is to be made again.
void forget_process_machine();

// "sim:0", "cuda:1", "hip:0"; without a number, the first. Throws InvalidArgument for any other
// name.
DeviceUse device_named(const std::string& name);
// A Device, or a name. Throws InvalidArgument for anything else. REQUIRES: the GIL is held.
DeviceUse device_argument(const py::object& device);

// A stream of a device; one that was made here is destroyed with its last user: its handle in
// Python, and the allocators that have memory of it.
class OwnStream {
 public:
  OwnStream(DeviceUse device, StreamId id) : device_(std::move(device)), id_(id) {}
  ~OwnStream() { (void)device_.device->destroy_stream(id_).ok(); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const DeviceUse& device() const { return device_; }
  StreamId id() const { return id_; }

 private:
  DeviceUse device_;
  StreamId id_;
};

// What Python holds of a stream.
struct StreamUser {
  std::shared_ptr<OwnStream> own{};  // shared with allocators that have memory of it

  Device& device() const { return own->device().here(); }
};

// A stream that a call is about: the default one, one that was made here, or somebody else's.
struct StreamArgument {
  StreamId id{};
  std::shared_ptr<OwnStream> own{};  // null but for the second kind
};

// None, a Stream, a number (a driver's handle), or an object with such a number: as the protocol
// __cuda_stream__ has it, or as PyTorch's and CuPy's have it. Throws InvalidArgument for anything
// else, and for a Stream of another device.
StreamArgument stream_of(const py::object& stream, const DeviceUse& device);

void bind_devices(py::module_& module);
void bind_streams(py::module_& module);
// After streams, which it mentions.
void bind_machines(py::module_& module);

}  // namespace ashlar::python
