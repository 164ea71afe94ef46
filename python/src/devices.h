// SPDX-License-Identifier: Apache-2.0
//
// Devices and streams, shared between Python objects and the library.
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

// A device, and its simulated machine if it has one. Keeps the machine alive as long as any object
// on its devices exists.
struct DeviceRef {
  // Null for hardware devices, which live as long as the process.
  std::shared_ptr<sim::Machine> machine{};
  Device* device = nullptr;
  int created_after_forks = fork_count();

  // Throws InvalidArgument if the device belongs to a parent process.
  Device& checked() const {
    require_same_process(created_after_forks);
    return *device;
  }
  DeviceIndex index() const { return device->properties().index; }
  std::string name() const;  // "sim:0"
  bool is_simulated() const { return machine != nullptr; }
};

// After a fork, in the child: the machine of "sim:0" is created anew on next use.
void reset_process_machine();

// Accepts "sim:0", "cuda:1", "hip:0"; without an index, the first device. Throws InvalidArgument
// for any other name.
DeviceRef device_named(const std::string& name);
// A Device, or a name. Throws InvalidArgument for anything else. REQUIRES: the GIL is held.
DeviceRef device_argument(const py::object& device);

// A stream created from Python. Destroyed with its last owner: the Python object and the allocators
// with memory of the stream.
class SharedStream {
 public:
  SharedStream(DeviceRef device, StreamId id) : device_(std::move(device)), id_(id) {}
  ~SharedStream() { (void)device_.device->destroy_stream(id_).ok(); }
  SharedStream(const SharedStream&) = delete;
  SharedStream& operator=(const SharedStream&) = delete;

  const DeviceRef& device() const { return device_; }
  StreamId id() const { return id_; }

 private:
  DeviceRef device_;
  StreamId id_;
};

// The Python object of a stream.
struct StreamObject {
  std::shared_ptr<SharedStream> own{};  // shared with allocators that have memory of the stream

  Device& device() const { return own->device().checked(); }
};

// A stream argument: the default stream, one created from Python, or a foreign one.
struct StreamArgument {
  StreamId id{};
  std::shared_ptr<SharedStream> own{};  // null unless created from Python
};

// Accepts None, a Stream, a driver handle, or an object with such a handle (__cuda_stream__,
// PyTorch, CuPy). Throws InvalidArgument for anything else, and for a Stream of another device.
StreamArgument stream_of(const py::object& stream, const DeviceRef& device);

void bind_devices(py::module_& module);
void bind_streams(py::module_& module);
// REQUIRES: bind_streams() was called, whose types it refers to.
void bind_machines(py::module_& module);

}  // namespace ashlar::python
