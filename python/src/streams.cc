// SPDX-License-Identifier: Apache-2.0
//
// Streams and events.
#include "api/unwrap.h"
#include "base/text.h"
#include "devices.h"
#include "gil.h"
#include "interrupt.h"
#include "sizes.h"
#include "texts.h"

namespace ashlar::python {
namespace {

StreamUser make_stream(const py::object& on, int priority) {
  const DeviceUse device = device_argument(on);
  return {without_gil([&] {
    const StreamId id = unwrap(device.here().create_stream({.priority = priority}));
    return make_shared_without_gil<OwnStream>(device, id);
  })};
}

// The protocol's version is 0; its function is called without arguments.
py::object cuda_stream(const StreamUser& user) {
  const DeviceUse& device = user.own->device();
  if (device.device->properties().backend != "cuda") {
    throw py::attribute_error(text("__cuda_stream__: the stream is of ", device.name()));
  }
  const uint64_t handle = user.own->id().value();
  return py::cpp_function([handle] { return py::make_tuple(0, handle); });
}

void bind_stream(py::module_& module) {
  py::class_<StreamUser>(module, "Stream",
                         "An ordered queue of device work, destroyed with its last user.")
      .def(py::init(&make_stream), py::arg("device") = "sim:0", py::arg("priority") = 0,
           "priority: higher is more urgent.")
      .def_property_readonly(
          "handle", [](const StreamUser& user) { return user.own->id().value(); },
          "The driver's own number for it.")
      .def_property_readonly(
          "device", [](const StreamUser& user) { return user.own->device(); }, "Whose it is.")
      .def(
          "synchronize",
          [](const StreamUser& user) {
            wait_for_stream(user.own->device(), user.own->id(), user.own);
          },
          "Waits for all work queued so far.")
      .def(
          "is_idle",
          [](const StreamUser& user) {
            return without_gil([&] { return unwrap(user.device().is_idle(user.own->id())); });
          },
          "Whether all work queued so far is done.")
      .def_property_readonly("__cuda_stream__", cuda_stream,
                             "A function for libraries that ask so, of CUDA devices' streams: "
                             "gives (0, handle).")
      .def("__eq__",
           [](const StreamUser& user, const py::object& other) {
             return py::isinstance<StreamUser>(other) &&
                    other.cast<const StreamUser&>().own == user.own;
           })
      .def("__hash__",
           [](const StreamUser& user) { return reinterpret_cast<uintptr_t>(user.own.get()) >> 4; })
      .def("__repr__", [](const StreamUser& user) {
        return text("<ashlar.Stream ", user.own->id(), " of ", user.own->device().name(), ">");
      });
}

// An event, destroyed with its handle.
class OwnEvent {
 public:
  OwnEvent(DeviceUse device, EventId id) : device_(std::move(device)), id_(id) {}
  ~OwnEvent() { (void)device_.device->destroy_event(id_).ok(); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;

  const DeviceUse& use() const { return device_; }
  Device& device() const { return device_.here(); }
  EventId id() const { return id_; }

 private:
  DeviceUse device_;
  EventId id_;
};

// What Python holds of one.
struct EventUser {
  std::shared_ptr<OwnEvent> own;
};

EventUser make_event(const py::object& on, bool timing) {
  const DeviceUse device = device_argument(on);
  return {without_gil([&] {
    const EventId id = unwrap(device.here().create_event({.timing = timing}));
    return make_shared_without_gil<OwnEvent>(device, id);
  })};
}

void bind_event(py::module_& module) {
  py::class_<EventUser>(module, "Event",
                        "A marker in a stream: done when all work before it is finished.")
      .def(py::init(&make_event), py::arg("device") = "sim:0", py::kw_only(),
           py::arg("timing") = false, "timing: elapsed_ms will be asked for.")
      .def(
          "record",
          [](const EventUser& event, const py::object& stream) {
            const StreamArgument given = stream_of(stream, event.own->use());
            without_gil(
                [&] { unwrap(event.own->device().record_event(event.own->id(), given.id)); });
          },
          py::arg("stream") = py::none(), "Means \"all work queued in the stream so far\".")
      .def(
          "is_done",
          [](const EventUser& event) {
            return without_gil(
                [&] { return unwrap(event.own->device().is_done(event.own->id())); });
          },
          "Whether what it was recorded for is finished.")
      .def(
          "synchronize",
          [](const EventUser& event) {
            const bool is_done =
                without_gil([&] { return unwrap(event.own->device().is_done(event.own->id())); });
            if (is_done) return;
            interruptible([own = event.own](const std::stop_token&) {
              unwrap(own->device().synchronize_event(own->id()));
            });
          },
          "Waits for what it was recorded for.")
      .def(
          "wait",
          [](const EventUser& event, const py::object& stream) {
            const StreamArgument given = stream_of(stream, event.own->use());
            without_gil([&] { unwrap(event.own->device().wait_event(given.id, event.own->id())); });
          },
          py::arg("stream") = py::none(), "Later work of the stream starts after it.")
      .def(
          "elapsed_ms",
          [](const EventUser& begin, const EventUser& end) {
            return without_gil([&] {
              return unwrap(begin.own->device().elapsed_ms(begin.own->id(), end.own->id()));
            });
          },
          py::arg("end"), "From this event to that one; both made with timing, and done.")
      .def("__repr__", [](const EventUser& event) {
        return text("<ashlar.Event of ", event.own->use().name(), ">");
      });
}

// What another library's stream has for a handle; the object itself where it has none.
py::object handle_of(const py::object& stream) {
  if (py::hasattr(stream, "__cuda_stream__")) {
    const py::object told = stream.attr("__cuda_stream__")();
    if (py::isinstance<py::tuple>(told) && py::len(told) == 2) return py::tuple(told)[1];
  }
  for (const char* attribute : {"cuda_stream", "ptr"}) {  // of PyTorch's streams, of CuPy's
    if (py::hasattr(stream, attribute)) return stream.attr(attribute);
  }
  return stream;
}

}  // namespace

StreamArgument stream_of(const py::object& stream, const DeviceUse& device) {
  if (stream.is_none()) return {};
  if (py::isinstance<StreamUser>(stream)) {
    const auto& user = stream.cast<const StreamUser&>();
    if (user.own->device().device != device.device) {
      unwrap(Status::invalid_argument(text("the stream is of ", user.own->device().name(),
                                           " (expected one of ", device.name(), ")")));
    }
    return {.id = user.own->id(), .own = user.own};
  }
  const std::optional<uint64_t> handle = try_number_of(handle_of(stream));
  if (!handle) {
    unwrap(Status::invalid_argument(
        text("stream: ", repr_of(stream),
             " is no stream (expected an ashlar.Stream, a handle, or None)")));
  }
  return {.id = StreamId(*handle)};
}

void bind_streams(py::module_& module) {
  bind_stream(module);
  bind_event(module);
}

}  // namespace ashlar::python
