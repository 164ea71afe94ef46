// Buffers: what they are, freeing them, and moving bytes.
#include "buffer.h"

#include <string>

#include "api/unwrap.h"
#include "base/text.h"
#include "base/units.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// A part of a buffer that a call is about.
struct Part {
  DeviceAddress at{};
  size_t bytes = 0;
};

Part part_of(const Memory& memory, size_t offset, size_t bytes) {
  const size_t whole = memory.buffer.bytes();
  if (offset > whole || bytes > whole - offset) {
    unwrap(Status::usage(text("bytes ", offset, " to ", offset + bytes,
                              " are not in the buffer (expected an end of at most ", whole, ")")));
  }
  return {memory.buffer.address() + offset, bytes};
}

void write_bytes(const BufferUser& user, const py::buffer& data, size_t offset) {
  const std::shared_ptr<Memory> memory = user.memory();
  const py::buffer_info given = data.request();
  const auto bytes = static_cast<size_t>(given.size * given.itemsize);
  if (PyBuffer_IsContiguous(given.view(), 'C') == 0) {
    unwrap(Status::usage("data has gaps (expected bytes one after the other)"));
  }
  const Part part = part_of(*memory, offset, bytes);
  if (bytes == 0) return;
  without_gil([&] {
    Device& device = *memory->device().device;
    unwrap(device.copy_to_device(part.at, given.ptr, bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));  // the data is the caller's again
  });
}

py::bytes read_bytes(const BufferUser& user, size_t offset, const py::object& size) {
  const std::shared_ptr<Memory> memory = user.memory();
  const size_t whole = memory->buffer.bytes();
  const size_t bytes = size.is_none() ? whole - std::min(offset, whole) : size.cast<size_t>();
  const Part part = part_of(*memory, offset, bytes);
  std::string found(bytes, '\0');
  if (bytes > 0) {
    without_gil([&] {
      Device& device = *memory->device().device;
      unwrap(device.copy_to_host(found.data(), part.at, bytes, memory->stream.id));
      unwrap(device.synchronize_stream(memory->stream.id));
    });
  }
  return py::bytes(found);
}

void fill(const BufferUser& user, uint8_t value) {
  const std::shared_ptr<Memory> memory = user.memory();
  if (!memory->buffer) return;
  without_gil([&] {
    unwrap(memory->device().device->fill(memory->buffer.address(), value, memory->buffer.bytes(),
                                         memory->stream.id));
  });
}

void record_stream(const BufferUser& user, const py::object& stream) {
  const std::shared_ptr<Memory> memory = user.memory();
  const StreamArgument given = stream_of(stream, memory->device());
  without_gil([&] {
    memory->owner->keep_stream(given.own);
    memory->buffer.record_stream(given.id);
  });
}

void annotate(const BufferUser& user, const std::string& note) {
  const std::shared_ptr<Memory> memory = user.memory();
  without_gil([&] { memory->owner->allocator().annotate(memory->buffer.address(), note); });
}

py::object stream_of_buffer(const BufferUser& user) {
  const std::shared_ptr<Memory> memory = user.memory();
  if (memory->stream.own != nullptr) {
    return py::cast(StreamUser{memory->stream.own});
  }
  return py::cast(memory->stream.id.value());
}

std::string describe(const BufferUser& user) {
  if (user.is_freed()) return "<ashlar.Buffer, freed>";
  const std::shared_ptr<Memory> memory = user.memory();
  return text("<ashlar.Buffer of ", format_bytes(memory->buffer.bytes()), " at ",
              memory->buffer.address(), " on ", memory->device().name(), ">");
}

// As bytes; for elements of other types, there are arrays.
py::object as_bytes(const BufferUser& user) {
  return make_array(user, py::str("uint8"), py::none());
}

using BufferClass = py::class_<BufferUser>;

void bind_moving(BufferClass& buffers) {
  buffers
      .def("write", write_bytes, py::arg("data"), py::arg("offset") = 0,
           "Copies from the host, after what is queued on the buffer's stream; waits for it.")
      .def("read", read_bytes, py::arg("offset") = 0, py::arg("size") = py::none(),
           "Copies to the host, after what is queued on the buffer's stream; waits for it.")
      .def("fill", fill, py::arg("value"), "Sets every byte; queued on the buffer's stream.")
      .def("record_stream", record_stream, py::arg("stream"),
           "Another stream uses it: freed, it is not used again before that has got past its work.")
      .def("annotate", annotate, py::arg("text"), "Says something about it in the history.");
}

void bind_protocols(BufferClass& buffers) {
  buffers
      .def("array", make_array, py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
           "The memory as elements, for other libraries: DLPack, __cuda_array_interface__.")
      .def("host_view", make_host_view, py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
           py::arg("writable") = true,
           "The memory as the host sees it, in a with statement; of simulated devices only.")
      .def("__dlpack__",
           [](const BufferUser& user, const py::kwargs& asked) {
             return as_bytes(user).attr("__dlpack__")(**asked);
           })
      .def("__dlpack_device__",
           [](const BufferUser& user) { return as_bytes(user).attr("__dlpack_device__")(); })
      .def_property_readonly("__cuda_array_interface__", [](const BufferUser& user) -> py::object {
        return as_bytes(user).attr("__cuda_array_interface__");
      });
}

}  // namespace

std::shared_ptr<Memory> BufferUser::memory() const {
  if (memory_ == nullptr) unwrap(Status::usage("the buffer was freed"));
  return memory_;
}

void BufferUser::free() { std::exchange(memory_, nullptr).reset(); }

void bind_buffers(py::module_& module) {
  BufferClass buffers(module, "Buffer",
                      "Device memory with one owner: freed by free(), at the end of a with "
                      "statement, or with its last reference.");
  buffers
      .def_property_readonly(
          "size", [](const BufferUser& user) { return user.memory()->buffer.bytes(); },
          "Bytes, as asked for.")
      .def_property_readonly(
          "address", [](const BufferUser& user) { return user.memory()->buffer.address().value(); },
          "Where it lies on the device; 0 for a buffer of 0 B.")
      .def_property_readonly("stream", stream_of_buffer,
                             "What it was allocated on: a Stream, or a number.")
      .def_property_readonly(
          "device", [](const BufferUser& user) { return user.memory()->device(); },
          "Whose memory it is.")
      .def_property_readonly("is_freed", &BufferUser::is_freed)
      .def("free", &BufferUser::free,
           "Lets go of the memory; again, does nothing. Arrays, views and tensors made of it keep "
           "it until they are gone.")
      .def("__enter__",
           [](const py::object& self) {
             (void)self.cast<const BufferUser&>().memory();
             return self;
           })
      .def("__exit__", [](BufferUser& user, const py::args&) { user.free(); })
      .def("__repr__", describe);
  bind_moving(buffers);
  bind_protocols(buffers);
}

}  // namespace ashlar::python
