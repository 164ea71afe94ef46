// SPDX-License-Identifier: Apache-2.0
//
// Buffers: what they are, freeing them, and moving bytes.
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

// A part of a buffer that a call is about.
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

// Ctrl-C ends the wait for what is queued before, when nothing of the caller's is in use yet.
void wait_for_earlier(const std::shared_ptr<Memory>& memory) {
  wait_for_stream(memory->device(), memory->stream.id, memory);
}

// Memory of the host that a call was given, until the call ends.
class HostPart {
 public:
  HostPart(const py::object& given, int flags) {
    if (PyObject_GetBuffer(given.ptr(), &view_, flags) != 0) throw py::error_already_set();
  }
  ~HostPart() { PyBuffer_Release(&view_); }
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;

  void* data() const { return view_.buf; }
  size_t bytes() const { return static_cast<size_t>(view_.len); }
  // Throws InvalidArgument unless its elements lie one after the other, row by row.
  void require_rows(const char* argument) const {
    if (PyBuffer_IsContiguous(&view_, 'C') != 0) return;
    const bool is_by_columns = PyBuffer_IsContiguous(&view_, 'F') != 0;
    unwrap(Status::invalid_argument(text(
        argument, is_by_columns ? " lies column by column" : " has gaps",
        " (expected elements one after the other, row by row: numpy.ascontiguousarray copies)")));
  }

 private:
  Py_buffer view_{};
};

void write_bytes(const BufferUser& user, const py::buffer& data, const py::object& offset) {
  const std::shared_ptr<Memory> memory = user.memory();
  const HostPart given(data, PyBUF_STRIDED_RO | PyBUF_FORMAT);
  given.require_rows("data");
  const Part part = part_of(*memory, bytes_of(offset, "offset"), given.bytes());
  if (part.bytes == 0) return;
  wait_for_earlier(memory);
  without_gil([&] {
    Device& device = memory->device().here();
    unwrap(device.copy_to_device(part.at, given.data(), part.bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));  // the data is the caller's again
  });
}

void copy_to_host(const std::shared_ptr<Memory>& memory, const Part& part, void* to) {
  if (part.bytes == 0) return;
  wait_for_earlier(memory);
  without_gil([&] {
    Device& device = memory->device().here();
    unwrap(device.copy_to_host(to, part.at, part.bytes, memory->stream.id));
    unwrap(device.synchronize_stream(memory->stream.id));
  });
}

py::bytes read_bytes(const BufferUser& user, const py::object& offset, const py::object& size) {
  const std::shared_ptr<Memory> memory = user.memory();
  const size_t whole = memory->buffer.bytes();
  const size_t begin = bytes_of(offset, "offset");
  const size_t bytes = size.is_none() ? whole - std::min(begin, whole) : bytes_of(size, "size");
  const Part part = part_of(*memory, begin, bytes);
  // Nobody else knows the object yet, and so its bytes may still change.
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (made == nullptr) throw py::error_already_set();
  auto found = py::reinterpret_steal<py::bytes>(made);
  copy_to_host(memory, part, PyBytes_AS_STRING(made));
  return found;
}

size_t read_into(const BufferUser& user, const py::buffer& into, const py::object& offset) {
  const std::shared_ptr<Memory> memory = user.memory();
  const HostPart taker(into, PyBUF_STRIDED | PyBUF_FORMAT);
  taker.require_rows("into");
  const Part part = part_of(*memory, bytes_of(offset, "offset"), taker.bytes());
  copy_to_host(memory, part, taker.data());
  return part.bytes;
}

void fill(const BufferUser& user, const py::object& value) {
  const std::shared_ptr<Memory> memory = user.memory();
  const auto byte = static_cast<uint8_t>(number_of(value, "value", UINT8_MAX));
  if (!memory->buffer) return;
  without_gil([&] {
    unwrap(memory->device().here().fill(memory->buffer.address(), byte, memory->buffer.bytes(),
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

void annotate(const BufferUser& user, const py::str& said) {
  const std::shared_ptr<Memory> memory = user.memory();
  const std::string note = utf8_of(said);
  without_gil(
      [&] { memory->owner->allocator().history().annotate(memory->buffer.address(), note); });
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
  if (!user.is_of_this_process()) return "<ashlar.Buffer, the parent process's>";
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
      .def("read_into", read_into, py::arg("into"), py::arg("offset") = 0,
           "The same into memory that there is, such as a numpy array, until it is full; says how "
           "many bytes.")
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
  if (memory_ == nullptr) unwrap(Status::invalid_argument("the buffer was freed"));
  require_made_here(memory_->device().made_at);
  return memory_;
}

bool BufferUser::is_of_this_process() const {
  return memory_ == nullptr || memory_->device().made_at == fork_count();
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
