// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python class Buffer: properties, freeing and copies.
#include "buffer.h"

#include <string>

#include "api/unwrap.h"
#include "base/text.h"
#include "base/units.h"
#include "gil.h"
#include "interrupt.h"
#include "sizes.h"
#include "texts.h"

namespace ashlar::python {
namespace {

// A range of a buffer.
struct Part {
  DeviceAddress at{};
  size_t bytes = 0;
};

Part part_of(const Memory& memory, size_t offset, size_t bytes) {
  const size_t whole = memory.buffer.bytes();
  if (offset > whole || bytes > whole - offset) {
    unwrap(Status::invalid_argument(text(bytes, " B from byte ", offset,
                                         " on are not in the buffer, which "
                                         "has ",
                                         whole, " B")));
  }
  return {memory.buffer.address() + offset, bytes};
}

// Waits for queued work before the caller's memory is used, so that Ctrl-C can interrupt the wait.
void wait_for_earlier(const std::shared_ptr<Memory>& memory) {
  wait_for_stream(memory->device(), memory->stream.id, memory);
}

// Host memory of an argument with the buffer protocol, for the duration of a call.
class PyBufferView {
 public:
  PyBufferView(const py::object& given, int flags) {
    if (PyObject_GetBuffer(given.ptr(), &view_, flags) != 0) throw py::error_already_set();
  }
  ~PyBufferView() { PyBuffer_Release(&view_); }
  PyBufferView(const PyBufferView&) = delete;
  PyBufferView& operator=(const PyBufferView&) = delete;

  void* data() const { return view_.buf; }
  size_t bytes() const { return static_cast<size_t>(view_.len); }
  // Throws InvalidArgument unless it is C-contiguous.
  void require_rows(const char* argument) const {
    if (PyBuffer_IsContiguous(&view_, 'C') != 0) return;
    const bool is_by_columns = PyBuffer_IsContiguous(&view_, 'F') != 0;
    unwrap(Status::invalid_argument(
        text(argument, is_by_columns ? " is in column-major order" : " has gaps",
             " (expected C-contiguous memory; numpy.ascontiguousarray copies)")));
  }

 private:
  Py_buffer view_{};
};

void write_bytes(const BufferObject& user, const py::buffer& data, const py::object& offset) {
  const std::shared_ptr<Memory> memory = user.memory();
  const PyBufferView given(data, PyBUF_STRIDED_RO | PyBUF_FORMAT);
  given.require_rows("data");
  const Part part = part_of(*memory, bytes_of(offset, "offset"), given.bytes());
  if (part.bytes == 0) return;
  wait_for_earlier(memory);
  without_gil([&] {
    Device& device = memory->device().checked();
    unwrap(device.copy_to_device(part.at, given.data(), part.bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));  // the caller may reuse the data
  });
}

void copy_to_host(const std::shared_ptr<Memory>& memory, const Part& part, void* to) {
  if (part.bytes == 0) return;
  wait_for_earlier(memory);
  without_gil([&] {
    Device& device = memory->device().checked();
    unwrap(device.copy_to_host(to, part.at, part.bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));
  });
}

py::bytes read_bytes(const BufferObject& user, const py::object& offset, const py::object& size) {
  const std::shared_ptr<Memory> memory = user.memory();
  const size_t whole = memory->buffer.bytes();
  const size_t begin = bytes_of(offset, "offset");
  const size_t bytes = size.is_none() ? whole - std::min(begin, whole) : bytes_of(size, "size");
  const Part part = part_of(*memory, begin, bytes);
  // The bytes object has no other reference yet, so it may be written.
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (made == nullptr) throw py::error_already_set();
  auto found = py::reinterpret_steal<py::bytes>(made);
  copy_to_host(memory, part, PyBytes_AS_STRING(made));
  return found;
}

size_t read_into(const BufferObject& user, const py::buffer& into, const py::object& offset) {
  const std::shared_ptr<Memory> memory = user.memory();
  const PyBufferView destination(into, PyBUF_STRIDED | PyBUF_FORMAT);
  destination.require_rows("into");
  const Part part = part_of(*memory, bytes_of(offset, "offset"), destination.bytes());
  copy_to_host(memory, part, destination.data());
  return part.bytes;
}

void fill(const BufferObject& user, const py::object& value) {
  const std::shared_ptr<Memory> memory = user.memory();
  const auto byte = static_cast<uint8_t>(number_of(value, "value", UINT8_MAX));
  if (!memory->buffer) return;
  without_gil([&] {
    unwrap(memory->device().checked().fill(memory->buffer.address(), byte, memory->buffer.bytes(),
                                           memory->stream.id));
  });
}

void record_stream(const BufferObject& user, const py::object& stream) {
  const std::shared_ptr<Memory> memory = user.memory();
  const StreamArgument given = stream_of(stream, memory->device());
  without_gil([&] {
    memory->owner->keep_stream(given.own);
    memory->buffer.record_stream(given.id);
  });
}

void annotate(const BufferObject& user, const py::str& annotation) {
  const std::shared_ptr<Memory> memory = user.memory();
  const std::string note = utf8_of(annotation);
  without_gil(
      [&] { memory->owner->allocator().history().annotate(memory->buffer.address(), note); });
}

py::object stream_of_buffer(const BufferObject& user) {
  const std::shared_ptr<Memory> memory = user.memory();
  if (memory->stream.own != nullptr) {
    return py::cast(StreamObject{memory->stream.own});
  }
  return py::cast(memory->stream.id.value());
}

std::string describe_buffer(const BufferObject& user) {
  if (user.is_freed()) return "<ashlar.Buffer, freed>";
  if (!user.is_of_this_process()) return "<ashlar.Buffer of the parent process>";
  const std::shared_ptr<Memory> memory = user.memory();
  return text("<ashlar.Buffer of ", format_bytes(memory->buffer.bytes()), " at ",
              memory->buffer.address(), " on ", memory->device().name(), ">");
}

// Transfers of bytes; for typed elements, see Array.
py::object as_bytes(const BufferObject& user) {
  return make_array(user, py::str("uint8"), py::none());
}

using BufferClass = py::class_<BufferObject>;

void bind_moving(BufferClass& buffers) {
  buffers
      .def("write", write_bytes, py::arg("data"), py::arg("offset") = 0,
           "Copies from the host after work queued on the buffer's stream, and waits.")
      .def("read", read_bytes, py::arg("offset") = 0, py::arg("size") = py::none(),
           "Copies to the host after work queued on the buffer's stream, and waits.")
      .def("read_into", read_into, py::arg("into"), py::arg("offset") = 0,
           "Like read(), into existing memory such as a numpy array. Returns the number of bytes.")
      .def("fill", fill, py::arg("value"), "Sets every byte. Queued on the buffer's stream.")
      .def("record_stream", record_stream, py::arg("stream"),
           "Marks the memory as used by another stream: reuse waits for work queued on it.")
      .def("annotate", annotate, py::arg("text"), "Attaches a string to the buffer, in the trace.");
}

void bind_protocols(BufferClass& buffers) {
  buffers
      .def("array", make_array, py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
           "A typed array over the memory, for DLPack and __cuda_array_interface__.")
      .def("host_view", make_host_view, py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
           py::arg("writable") = true,
           "Host access to the memory, in a with statement. Simulated devices only.")
      .def("__dlpack__",
           [](const BufferObject& user, const py::kwargs& asked) {
             return as_bytes(user).attr("__dlpack__")(**asked);
           })
      .def("__dlpack_device__",
           [](const BufferObject& user) { return as_bytes(user).attr("__dlpack_device__")(); })
      .def_property_readonly("__cuda_array_interface__",
                             [](const BufferObject& user) -> py::object {
                               return as_bytes(user).attr("__cuda_array_interface__");
                             });
}

}  // namespace

std::shared_ptr<Memory> BufferObject::memory() const {
  if (memory_ == nullptr) unwrap(Status::invalid_argument("the buffer was freed"));
  require_same_process(memory_->device().created_after_forks);
  return memory_;
}

bool BufferObject::is_of_this_process() const {
  return memory_ == nullptr || memory_->device().created_after_forks == fork_count();
}

void BufferObject::free() { std::exchange(memory_, nullptr).reset(); }

void bind_buffers(py::module_& module) {
  BufferClass buffers(module, "Buffer",
                      "Device memory, freed by free(), at the end of a with statement, or with "
                      "its last reference.");
  buffers
      .def_property_readonly(
          "size", [](const BufferObject& user) { return user.memory()->buffer.bytes(); },
          "Size in bytes, as requested.")
      .def_property_readonly(
          "address",
          [](const BufferObject& user) { return user.memory()->buffer.address().value(); },
          "The device address; 0 for an empty buffer.")
      .def_property_readonly("stream", stream_of_buffer,
                             "The stream it was allocated on: a Stream or a handle.")
      .def_property_readonly(
          "device", [](const BufferObject& user) { return user.memory()->device(); }, "The device.")
      .def_property_readonly("is_freed", &BufferObject::is_freed)
      .def("free", &BufferObject::free,
           "Frees the memory; idempotent. Arrays, views and tensors made from it keep it alive "
           "until they are destroyed.")
      .def("__enter__",
           [](const py::object& self) {
             (void)self.cast<const BufferObject&>().memory();
             return self;
           })
      .def("__exit__", [](BufferObject& user, const py::args&) { user.free(); })
      .def("__repr__", describe_buffer);
  bind_moving(buffers);
  bind_protocols(buffers);
}

}  // namespace ashlar::python
