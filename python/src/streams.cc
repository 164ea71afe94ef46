// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python classes Stream and Event.
#include "api/unwrap.h"
#include "base/text.h"
#include "devices.h"
#include "gil.h"
#include "interrupt.h"
#include "sizes.h"
#include "texts.h"

namespace ashlar::python {
namespace {

StreamObject make_stream(const py::object& on, int priority) {
  const DeviceRef device = device_argument(on);
  return {without_gil([&] {
    const StreamId id = unwrap(device.checked().create_stream({.priority = priority}));
    return make_shared_without_gil<SharedStream>(device, id);
  })};
}

// Implements Stream.__cuda_stream__ with version 0 of the protocol.
py::object cuda_stream(const StreamObject& self) {
  const DeviceRef& device = self.shared->device();
  if (device.device->properties().backend != "cuda") {
    throw py::attribute_error(text("__cuda_stream__: the stream is of ", device.name()));
  }
  const uint64_t handle = self.shared->id().value();
  return py::cpp_function([handle] { return py::make_tuple(0, handle); });
}

void bind_stream(py::module_& module) {
  py::class_<StreamObject>(module, "Stream",
                           "An ordered queue of device work, destroyed with its last owner.")
      .def(py::init(&make_stream), py::arg("device") = "sim:0", py::arg("priority") = 0,
           "priority: higher is more urgent.")
      .def_property_readonly(
          "handle", [](const StreamObject& self) { return self.shared->id().value(); },
          "The driver handle.")
      .def_property_readonly(
          "device", [](const StreamObject& self) { return self.shared->device(); }, "The device.")
      .def(
          "synchronize",
          [](const StreamObject& self) {
            wait_for_stream(self.shared->device(), self.shared->id(), self.shared);
          },
          "Waits for all work queued so far.")
      .def(
          "is_idle",
          [](const StreamObject& self) {
            return without_gil([&] { return unwrap(self.device().is_idle(self.shared->id())); });
          },
          "Whether all work queued so far is done.")
      .def_property_readonly("__cuda_stream__", cuda_stream,
                             "The __cuda_stream__ protocol, for streams of CUDA devices: returns "
                             "(0, handle).")
      .def("__eq__",
           [](const StreamObject& self, const py::object& other) {
             return py::isinstance<StreamObject>(other) &&
                    other.cast<const StreamObject&>().shared == self.shared;
           })
      .def("__hash__",
           [](const StreamObject& self) {
             return reinterpret_cast<uintptr_t>(self.shared.get()) >> 4;
           })
      .def("__repr__", [](const StreamObject& self) {
        return text("<ashlar.Stream ", self.shared->id(), " of ", self.shared->device().name(),
                    ">");
      });
}

// An event. Its Python object and running waits share the event, which is destroyed with its last
// owner.
class SharedEvent {
 public:
  SharedEvent(DeviceRef device, EventId id) : device_(std::move(device)), id_(id) {}
  ~SharedEvent() { (void)device_.device->destroy_event(id_).ok(); }
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  const DeviceRef& device_ref() const { return device_; }
  Device& device() const { return device_.checked(); }
  EventId id() const { return id_; }

 private:
  DeviceRef device_;
  EventId id_;
};

// The Python object of an event.
struct EventObject {
  std::shared_ptr<SharedEvent> shared;
};

EventObject make_event(const py::object& on, bool timing) {
  const DeviceRef device = device_argument(on);
  return {without_gil([&] {
    const EventId id = unwrap(device.checked().create_event({.timing = timing}));
    return make_shared_without_gil<SharedEvent>(device, id);
  })};
}

void bind_event(py::module_& module) {
  py::class_<EventObject>(module, "Event",
                          "A marker in a stream: done when all work before it is finished.")
      .def(py::init(&make_event), py::arg("device") = "sim:0", py::kw_only(),
           py::arg("timing") = false, "timing: enables elapsed_ms.")
      .def(
          "record",
          [](const EventObject& event, const py::object& stream) {
            const StreamArgument given = stream_argument(stream, event.shared->device_ref());
            without_gil(
                [&] { unwrap(event.shared->device().record_event(event.shared->id(), given.id)); });
          },
          py::arg("stream") = py::none(),
          "Makes the event represent all work queued in the stream so far.")
      .def(
          "is_done",
          [](const EventObject& event) {
            return without_gil(
                [&] { return unwrap(event.shared->device().is_done(event.shared->id())); });
          },
          "Whether the work that the event represents has finished.")
      .def(
          "synchronize",
          [](const EventObject& event) {
            const bool is_done = without_gil(
                [&] { return unwrap(event.shared->device().is_done(event.shared->id())); });
            if (is_done) return;
            interruptible([shared = event.shared](const std::stop_token&) {
              unwrap(shared->device().synchronize_event(shared->id()));
            });
          },
          "Waits for the work that the event represents.")
      .def(
          "wait",
          [](const EventObject& event, const py::object& stream) {
            const StreamArgument given = stream_argument(stream, event.shared->device_ref());
            without_gil(
                [&] { unwrap(event.shared->device().wait_event(given.id, event.shared->id())); });
          },
          py::arg("stream") = py::none(), "Makes later work of the stream wait for the event.")
      .def(
          "elapsed_ms",
          [](const EventObject& begin, const EventObject& end) {
            return without_gil([&] {
              return unwrap(
                  begin.shared->device().elapsed_ms(begin.shared->id(), end.shared->id()));
            });
          },
          py::arg("end"),
          "Milliseconds from this event to `end`. Both need timing and must be done.")
      .def("__repr__", [](const EventObject& event) {
        return text("<ashlar.Event of ", event.shared->device_ref().name(), ">");
      });
}

// Returns the driver handle of another library's stream, or `stream` itself if it has no handle.
py::object handle_of(const py::object& stream) {
  if (py::hasattr(stream, "__cuda_stream__")) {
    const py::object result = stream.attr("__cuda_stream__")();
    if (py::isinstance<py::tuple>(result) && py::len(result) == 2) return py::tuple(result)[1];
  }
  for (const char* attribute : {"cuda_stream", "ptr"}) {  // PyTorch, CuPy
    if (py::hasattr(stream, attribute)) return stream.attr(attribute);
  }
  return stream;
}

}  // namespace

StreamArgument stream_argument(const py::object& stream, const DeviceRef& device) {
  if (stream.is_none()) return {};
  if (py::isinstance<StreamObject>(stream)) {
    const std::shared_ptr<SharedStream>& shared = stream.cast<const StreamObject&>().shared;
    if (shared->device().device != device.device) {
      unwrap(Status::invalid_argument(text("the stream belongs to ", shared->device().name(),
                                           " (expected one of ", device.name(), ")")));
    }
    return {.id = shared->id(), .shared = shared};
  }
  const std::optional<uint64_t> handle = try_number(handle_of(stream));
  if (!handle) {
    unwrap(Status::invalid_argument(
        text("stream: ", repr_of(stream),
             " is not a stream (expected an ashlar.Stream, a handle, or None)")));
  }
  return {.id = StreamId(*handle)};
}

void bind_streams(py::module_& module) {
  bind_stream(module);
  bind_event(module);
}

}  // namespace ashlar::python
