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

// A range of device memory inside one buffer.
struct BufferRange {
  DeviceAddress at{};
  size_t bytes = 0;
};

BufferRange buffer_range(const Memory& memory, size_t offset, size_t bytes) {
  const size_t whole = memory.buffer.bytes();
  if (offset > whole || bytes > whole - offset) {
    unwrap(Status::invalid_argument(text(bytes, " B from byte ", offset,
                                         " on are not in the buffer, which "
                                         "has ",
                                         whole, " B")));
  }
  return {memory.buffer.address() + offset, bytes};
}

// Waits for work queued on the buffer's stream. Called before a copy, which would otherwise wait in
// a device call that Ctrl-C cannot interrupt.
void wait_for_queued_work(const std::shared_ptr<Memory>& memory) {
  wait_for_stream(memory->device(), memory->stream.id, memory);
}

// Host memory of an argument that supports the buffer protocol. The destructor releases the view.
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
  // Throws InvalidArgument, which names `argument`, unless the memory is C-contiguous.
  void require_c_contiguous(const char* argument) const {
    if (PyBuffer_IsContiguous(&view_, 'C') != 0) return;
    const bool is_column_major = PyBuffer_IsContiguous(&view_, 'F') != 0;
    unwrap(Status::invalid_argument(
        text(argument, is_column_major ? " is in column-major order" : " has gaps",
             " (expected C-contiguous memory; numpy.ascontiguousarray copies)")));
  }

 private:
  Py_buffer view_{};
};

void write_bytes(const BufferObject& self, const py::buffer& data, const py::object& offset) {
  const std::shared_ptr<Memory> memory = self.memory();
  const PyBufferView given(data, PyBUF_STRIDED_RO | PyBUF_FORMAT);
  given.require_c_contiguous("data");
  const BufferRange range = buffer_range(*memory, size_argument(offset, "offset"), given.bytes());
  if (range.bytes == 0) return;
  wait_for_queued_work(memory);
  without_gil([&] {
    Device& device = memory->device().checked();
    unwrap(device.copy_to_device(range.at, given.data(), range.bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));  // the caller may reuse `data` afterwards
  });
}

void copy_to_host(const std::shared_ptr<Memory>& memory, const BufferRange& range, void* to) {
  if (range.bytes == 0) return;
  wait_for_queued_work(memory);
  without_gil([&] {
    Device& device = memory->device().checked();
    unwrap(device.copy_to_host(to, range.at, range.bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));
  });
}

py::bytes read_bytes(const BufferObject& self, const py::object& offset, const py::object& size) {
  const std::shared_ptr<Memory> memory = self.memory();
  const size_t whole = memory->buffer.bytes();
  const size_t begin = size_argument(offset, "offset");
  const size_t bytes =
      size.is_none() ? whole - std::min(begin, whole) : size_argument(size, "size");
  const BufferRange range = buffer_range(*memory, begin, bytes);
  // The bytes object has no other reference yet, so it may be written.
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (made == nullptr) throw py::error_already_set();
  auto result = py::reinterpret_steal<py::bytes>(made);
  copy_to_host(memory, range, PyBytes_AS_STRING(made));
  return result;
}

size_t read_into(const BufferObject& self, const py::buffer& into, const py::object& offset) {
  const std::shared_ptr<Memory> memory = self.memory();
  const PyBufferView destination(into, PyBUF_STRIDED | PyBUF_FORMAT);
  destination.require_c_contiguous("into");
  const BufferRange range =
      buffer_range(*memory, size_argument(offset, "offset"), destination.bytes());
  copy_to_host(memory, range, destination.data());
  return range.bytes;
}

void fill(const BufferObject& self, const py::object& value) {
  const std::shared_ptr<Memory> memory = self.memory();
  const auto byte = static_cast<uint8_t>(number_argument(value, "value", UINT8_MAX));
  if (!memory->buffer) return;
  without_gil([&] {
    unwrap(memory->device().checked().fill(memory->buffer.address(), byte, memory->buffer.bytes(),
                                           memory->stream.id));
  });
}

void record_stream(const BufferObject& self, const py::object& stream) {
  const std::shared_ptr<Memory> memory = self.memory();
  const StreamArgument given = stream_argument(stream, memory->device());
  without_gil([&] {
    memory->owner->retain_stream(given.shared);
    memory->buffer.record_stream(given.id);
  });
}

void annotate(const BufferObject& self, const py::str& annotation) {
  const std::shared_ptr<Memory> memory = self.memory();
  const std::string note = encode_utf8(annotation);
  without_gil(
      [&] { memory->owner->allocator().history().annotate(memory->buffer.address(), note); });
}

py::object stream_of_buffer(const BufferObject& self) {
  const std::shared_ptr<Memory> memory = self.memory();
  if (memory->stream.shared != nullptr) {
    return py::cast(StreamObject{memory->stream.shared});
  }
  return py::cast(memory->stream.id.value());
}

std::string describe_buffer(const BufferObject& self) {
  if (self.is_freed()) return "<ashlar.Buffer, freed>";
  if (!self.is_of_this_process()) return "<ashlar.Buffer of the parent process>";
  const std::shared_ptr<Memory> memory = self.memory();
  return text("<ashlar.Buffer of ", format_bytes(memory->buffer.bytes()), " at ",
              memory->buffer.address(), " on ", memory->device().name(), ">");
}

// Returns the buffer as an Array of bytes. Buffer's own DLPack and CUDA array interfaces use it.
py::object byte_array(const BufferObject& self) {
  return make_array(self, py::str("uint8"), py::none());
}

using BufferClass = py::class_<BufferObject>;

void bind_transfers(BufferClass& buffers) {
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
           "Returns a typed array over the memory, for DLPack and __cuda_array_interface__.")
      .def("host_view", make_host_view, py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
           py::arg("writable") = true,
           "Returns a HostView, which gives host access inside a with statement. Simulated devices "
           "only.")
      .def("__dlpack__",
           [](const BufferObject& self, const py::kwargs& arguments) {
             return byte_array(self).attr("__dlpack__")(**arguments);
           })
      .def("__dlpack_device__",
           [](const BufferObject& self) { return byte_array(self).attr("__dlpack_device__")(); })
      .def_property_readonly("__cuda_array_interface__",
                             [](const BufferObject& self) -> py::object {
                               return byte_array(self).attr("__cuda_array_interface__");
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
          "size", [](const BufferObject& self) { return self.memory()->buffer.bytes(); },
          "Size in bytes, as requested.")
      .def_property_readonly(
          "address",
          [](const BufferObject& self) { return self.memory()->buffer.address().value(); },
          "The device address; 0 for an empty buffer.")
      .def_property_readonly("stream", stream_of_buffer,
                             "The stream that the memory was allocated on: a Stream or a handle.")
      .def_property_readonly(
          "device", [](const BufferObject& self) { return self.memory()->device(); }, "The device.")
      .def_property_readonly("is_freed", &BufferObject::is_freed)
      .def("free", &BufferObject::free,
           "Frees the memory; idempotent. Arrays, views and tensors made from it keep the memory "
           "alive "
           "until they are destroyed.")
      .def("__enter__",
           [](const py::object& self) {
             (void)self.cast<const BufferObject&>().memory();
             return self;
           })
      .def("__exit__", [](BufferObject& self, const py::args&) { self.free(); })
      .def("__repr__", describe_buffer);
  bind_transfers(buffers);
  bind_protocols(buffers);
}

}  // namespace ashlar::python
