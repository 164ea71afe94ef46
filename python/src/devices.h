// SPDX-License-Identifier: Apache-2.0
//
// Shared ownership of devices and streams by Python objects and allocators.
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

// A device. If it is simulated, also owns a share of its machine, so that the machine exists as
// long as any object on its devices.
struct DeviceRef {
  // Null for hardware devices, which exist as long as the process.
  std::shared_ptr<sim::Machine> machine{};
  Device* device = nullptr;
  int created_after_forks = fork_count();

  // Returns the device. Throws InvalidArgument if it belongs to a parent process.
  Device& checked() const {
    require_same_process(created_after_forks);
    return *device;
  }
  DeviceIndex index() const { return device->properties().index; }
  std::string name() const;  // "sim:0"
  bool is_simulated() const { return machine != nullptr; }
};

// Called in the child after a fork. The next use of "sim:0" creates a new machine.
void reset_process_machine();

// Returns the device with a name such as "sim:0", "cuda:1" or "hip:0". A name without an index
// means the first device of the back end. Throws InvalidArgument for any other name.
DeviceRef device_named(const std::string& name);
// Converts an argument: a Device or a device name. Throws InvalidArgument for anything else.
// REQUIRES: the GIL is held.
DeviceRef device_argument(const py::object& device);

// A stream created from Python. The stream is destroyed with its last owner, such as its Python
// object or an allocator that has used the stream.
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
  std::shared_ptr<SharedStream> shared{};  // shared with allocators that have used the stream

  Device& device() const { return shared->device().checked(); }
};

// A stream argument: the default stream, a stream created from Python, or a stream of another
// library.
struct StreamArgument {
  StreamId id{};
  std::shared_ptr<SharedStream> shared{};  // null unless the stream was created from Python
};

// Converts an argument: None, a Stream, a driver handle, or an object with a driver handle
// (__cuda_stream__, PyTorch, CuPy). Throws InvalidArgument for anything else, and for a Stream of
// another device.
StreamArgument stream_argument(const py::object& stream, const DeviceRef& device);

void bind_devices(py::module_& module);
void bind_streams(py::module_& module);
// REQUIRES: bind_streams() has been called, because signatures refer to the class Stream.
void bind_machines(py::module_& module);

}  // namespace ashlar::python
