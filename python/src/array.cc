// SPDX-License-Identifier: Apache-2.0
//
// Arrays: device memory as elements, for libraries that work on the device.
#include <pybind11/stl.h>

#include <cstdint>

#include "api/unwrap.h"
#include "base/text.h"
#include "buffer.h"
#include "dlpack.h"
#include "gil.h"

namespace ashlar::python {
namespace {

struct ArrayUser {
  std::shared_ptr<Memory> memory;  // shared with the buffer, and with tensors made of either
  ArrayShape shape;
};

DlpackDevice dlpack_device(const DeviceUse& device) {
  const std::string& backend = device.device->properties().backend;
  if (backend == "cuda") return DlpackDevice::kCuda;
  if (backend == "hip") return DlpackDevice::kRocm;
  return DlpackDevice::kExtension;  // the host cannot read it as it stands: it is not kCpu
}

py::tuple dlpack_place(const ArrayUser& array) {
  const DeviceUse& device = array.memory->device();
  return py::make_tuple(static_cast<int>(dlpack_device(device)), device.index().value());
}

// The protocol has its own numbers for the default streams, and forbids those of the other vendor.
StreamArgument asker_stream(const py::object& stream, const DeviceUse& device) {
  StreamArgument given = stream_of(stream, device);
  if (stream.is_none() || given.own != nullptr) return given;
  const DlpackDevice kind = dlpack_device(device);
  if ((kind == DlpackDevice::kCuda && given.id == StreamId(0)) ||
      (kind == DlpackDevice::kRocm && (given.id == StreamId(1) || given.id == StreamId(2)))) {
    throw py::buffer_error(
        text("stream: DLPack does not allow ", given.id, " for ", device.name()));
  }
  if (kind == DlpackDevice::kCuda && given.id == StreamId(1)) given.id = kDefaultStream;
  return given;
}

// What the asker queues on its stream comes after what is queued here; and the memory, once free,
// is not used again before that.
void hand_over(Memory& memory, const StreamArgument& asker) {
  if (asker.id == memory.stream.id || !memory.buffer) return;
  memory.owner->keep_stream(asker.own);
  Device& device = memory.device().here();
  const EventId event = unwrap(device.create_event());
  Status queued = device.record_event(event, memory.stream.id);
  if (queued.ok()) queued = device.wait_event(asker.id, event);
  (void)device.destroy_event(event).ok();
  unwrap(std::move(queued));
  memory.buffer.record_stream(asker.id);
}

py::capsule array_to_dlpack(const ArrayUser& array, const py::object& stream,
                            const DlpackRequest& request) {
  const DeviceUse& device = array.memory->device();
  require_made_here(device.made_at);
  DlpackTensor tensor;
  tensor.keeper = array.memory;
  // A number to the host: whoever takes the tensor knows from its device that it cannot be read.
  tensor.data = reinterpret_cast<void*>(array.memory->buffer.address().value());
  tensor.device = dlpack_device(device);
  tensor.device_index = static_cast<int32_t>(device.index().value());
  tensor.shape = array.shape;
  py::capsule capsule = to_dlpack(std::move(tensor), request);
  const bool is_asked_not_to = py::isinstance<py::int_>(stream) && stream.equal(py::int_(-1));
  if (!is_asked_not_to) {
    const StreamArgument asker = asker_stream(stream, device);
    without_gil([&] { hand_over(*array.memory, asker); });
  }
  return capsule;
}

py::dict cuda_array_interface(const ArrayUser& array) {
  const DeviceUse& device = array.memory->device();
  if (device.device->properties().backend != "cuda") {
    throw py::attribute_error(text("__cuda_array_interface__: the memory is on ", device.name()));
  }
  if (array.shape.type->typestr == nullptr) {
    throw py::attribute_error(text("__cuda_array_interface__ knows no ", array.shape.type->name));
  }
  const StreamId stream = array.memory->stream.id;
  py::dict all;
  all["version"] = 3;
  all["shape"] = py::tuple(py::cast(array.shape.shape));
  all["typestr"] = array.shape.type->typestr;
  const bool is_empty = array.shape.bytes() == 0;  // which must lie nowhere
  all["data"] = py::make_tuple(is_empty ? 0 : array.memory->buffer.address().value(), false);
  all["strides"] = py::none();
  all["stream"] = stream == kDefaultStream ? 1 : stream.value();  // 0 would be ambiguous
  return all;
}

}  // namespace

py::object make_array(const BufferUser& buffer, const py::object& dtype, const py::object& shape) {
  std::shared_ptr<Memory> memory = buffer.memory();
  ArrayShape wanted = array_shape(dtype, shape, memory->buffer.bytes());
  return py::cast(ArrayUser{std::move(memory), std::move(wanted)});
}

void bind_arrays(py::module_& module) {
  py::class_<ArrayUser>(module, "Array",
                        "Device memory as elements in rows, for other libraries. It keeps its "
                        "memory, and so does all that they make of it.")
      .def_property_readonly(
          "dtype", [](const ArrayUser& array) { return std::string(array.shape.type->name); },
          "\"float32\".")
      .def_property_readonly(
          "shape", [](const ArrayUser& array) { return py::tuple(py::cast(array.shape.shape)); })
      .def_property_readonly(
          "size", [](const ArrayUser& array) { return array.shape.bytes(); }, "Bytes.")
      .def_property_readonly(
          "address", [](const ArrayUser& array) { return array.memory->buffer.address().value(); })
      .def_property_readonly("device",
                             [](const ArrayUser& array) { return array.memory->device(); })
      .def(
          "__dlpack__",
          [](const ArrayUser& array, const py::object& stream,
             std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            return array_to_dlpack(array, stream, {max_version, dl_device, copy});
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none(),
          "Hands the memory out; the taker's stream waits for this one's work.")
      .def("__dlpack_device__", dlpack_place)
      .def_property_readonly("__cuda_array_interface__", cuda_array_interface)
      .def("__repr__", [](const ArrayUser& array) {
        return text("<ashlar.Array ", shape_text(array.shape), " on ",
                    array.memory->device().name(), ">");
      });
}

}  // namespace ashlar::python
