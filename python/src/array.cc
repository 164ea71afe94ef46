// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python class Array: typed device memory for libraries that run on the device.
#include <pybind11/stl.h>

#include <cstdint>

#include "api/unwrap.h"
#include "base/text.h"
#include "buffer.h"
#include "dlpack.h"
#include "gil.h"

namespace ashlar::python {
namespace {

struct ArrayObject {
  std::shared_ptr<Memory> memory;  // shared with the buffer and exported tensors
  ArrayShape shape;
};

DlpackDevice dlpack_device(const DeviceRef& device) {
  const std::string& backend = device.device->properties().backend;
  if (backend == "cuda") return DlpackDevice::kCuda;
  if (backend == "hip") return DlpackDevice::kRocm;
  return DlpackDevice::kExtension;  // not kCpu, because the host cannot access the memory directly
}

py::tuple dlpack_device_tuple(const ArrayObject& array) {
  const DeviceRef& device = array.memory->device();
  return py::make_tuple(static_cast<int>(dlpack_device(device)), device.index().value());
}

// Converts the `stream` argument of __dlpack__. In DLPack, CUDA's default stream is 1; 0 is
// forbidden for CUDA, and 1 and 2 are forbidden for ROCm.
StreamArgument consumer_stream(const py::object& stream, const DeviceRef& device) {
  StreamArgument given = stream_argument(stream, device);
  if (stream.is_none() || given.shared != nullptr) return given;
  const DlpackDevice kind = dlpack_device(device);
  if ((kind == DlpackDevice::kCuda && given.id == StreamId(0)) ||
      (kind == DlpackDevice::kRocm && (given.id == StreamId(1) || given.id == StreamId(2)))) {
    throw py::buffer_error(
        text("stream: DLPack does not allow ", given.id, " for ", device.name()));
  }
  if (kind == DlpackDevice::kCuda && given.id == StreamId(1)) given.id = kDefaultStream;
  return given;
}

// Makes the consumer's stream wait for the work queued on the memory's stream, and delays reuse of
// the memory until work queued on the consumer's stream has finished.
void order_after_producer(Memory& memory, const StreamArgument& consumer) {
  if (consumer.id == memory.stream.id || !memory.buffer) return;
  memory.owner->retain_stream(consumer.shared);
  Device& device = memory.device().checked();
  const EventId event = unwrap(device.create_event());
  Status queued = device.record_event(event, memory.stream.id);
  if (queued.ok()) queued = device.wait_event(consumer.id, event);
  (void)device.destroy_event(event).ok();
  unwrap(std::move(queued));
  memory.buffer.record_stream(consumer.id);
}

py::capsule array_to_dlpack(const ArrayObject& array, const py::object& stream,
                            const DlpackRequest& request) {
  const DeviceRef& device = array.memory->device();
  require_same_process(device.created_after_forks);
  DlpackTensor tensor;
  tensor.owner = array.memory;
  // The data pointer is a device address, which the host must not dereference; `tensor.device`
  // tells the consumer.
  tensor.data = reinterpret_cast<void*>(array.memory->buffer.address().value());
  tensor.device = dlpack_device(device);
  tensor.device_index = static_cast<int32_t>(device.index().value());
  tensor.shape = array.shape;
  py::capsule capsule = to_dlpack(std::move(tensor), request);
  const bool skips_synchronization = py::isinstance<py::int_>(stream) && stream.equal(py::int_(-1));
  if (!skips_synchronization) {
    const StreamArgument consumer = consumer_stream(stream, device);
    without_gil([&] { order_after_producer(*array.memory, consumer); });
  }
  return capsule;
}

py::dict cuda_array_interface(const ArrayObject& array) {
  const DeviceRef& device = array.memory->device();
  if (device.device->properties().backend != "cuda") {
    throw py::attribute_error(text("__cuda_array_interface__: the memory is on ", device.name()));
  }
  if (array.shape.type->typestr == nullptr) {
    throw py::attribute_error(
        text("__cuda_array_interface__ does not support ", array.shape.type->name));
  }
  const StreamId stream = array.memory->stream.id;
  py::dict all;
  all["version"] = 3;
  all["shape"] = py::tuple(py::cast(array.shape.shape));
  all["typestr"] = array.shape.type->typestr;
  const bool is_empty = array.shape.bytes() == 0;  // the protocol requires a null address
  all["data"] = py::make_tuple(is_empty ? 0 : array.memory->buffer.address().value(), false);
  all["strides"] = py::none();
  all["stream"] = stream == kDefaultStream ? 1 : stream.value();  // the protocol forbids 0
  return all;
}

}  // namespace

py::object make_array(const BufferObject& buffer, const py::object& dtype,
                      const py::object& shape) {
  std::shared_ptr<Memory> memory = buffer.memory();
  ArrayShape elements = array_shape(dtype, shape, memory->buffer.bytes());
  return py::cast(ArrayObject{std::move(memory), std::move(elements)});
}

void bind_arrays(py::module_& module) {
  py::class_<ArrayObject>(module, "Array",
                          "A contiguous array in device memory, for other libraries. The array "
                          "and the objects created from it keep the memory alive.")
      .def_property_readonly(
          "dtype", [](const ArrayObject& array) { return std::string(array.shape.type->name); },
          "The name of the element type, such as \"float32\".")
      .def_property_readonly(
          "shape", [](const ArrayObject& array) { return py::tuple(py::cast(array.shape.shape)); })
      .def_property_readonly(
          "size", [](const ArrayObject& array) { return array.shape.bytes(); }, "Size in bytes.")
      .def_property_readonly(
          "address",
          [](const ArrayObject& array) { return array.memory->buffer.address().value(); })
      .def_property_readonly("device",
                             [](const ArrayObject& array) { return array.memory->device(); })
      .def(
          "__dlpack__",
          [](const ArrayObject& array, const py::object& stream,
             std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            return array_to_dlpack(array, stream, {max_version, dl_device, copy});
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none(),
          "Exports the memory. The consumer's stream waits for work queued on the buffer's stream.")
      .def("__dlpack_device__", dlpack_device_tuple)
      .def_property_readonly("__cuda_array_interface__", cuda_array_interface)
      .def("__repr__", [](const ArrayObject& array) {
        return text("<ashlar.Array ", format_shape(array.shape), " on ",
                    array.memory->device().name(), ">");
      });
}

}  // namespace ashlar::python
