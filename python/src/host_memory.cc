// SPDX-License-Identifier: Apache-2.0
//
// Binds HostAllocator and HostBuffer, with zero-copy access for numpy, the buffer protocol and
// DLPack.
#include "host_memory.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/unwrap.h"
#include "ashlar/host.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"
#include "gil.h"
#include "host_bytes.h"
#include "memory.h"
#include "sizes.h"

namespace ashlar::python {
namespace {

class SharedHostAllocator {
 public:
  SharedHostAllocator(DeviceRef device, const AllocatorOptions& options)
      : device_(std::move(device)), options_(options), allocator_(device_.checked(), options) {}

  const DeviceRef& device() const { return device_; }
  const AllocatorOptions& options() const { return options_; }
  RetainedStreams& streams() { return streams_; }
  // Returns the allocator. Throws InvalidArgument if it belongs to a parent process.
  HostAllocator& allocator() {
    require_same_process(device_.created_after_forks);
    return allocator_;
  }

 private:
  DeviceRef device_;
  AllocatorOptions options_;
  RetainedStreams streams_;
  HostAllocator allocator_;  // the last member, so destroyed before its streams and its device
};

// The Python object of a host allocator.
struct HostAllocatorObject {
  std::shared_ptr<SharedHostAllocator> shared;  // shared with its buffers

  HostAllocator& allocator() const { return shared->allocator(); }
};

// Pinned memory, which is freed when its last owner is destroyed.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<SharedHostAllocator> owner, HostBuffer buffer)
      : owner_(std::move(owner)), buffer_(std::move(buffer)) {}

  const DeviceRef& device() const { return owner_->device(); }
  // The address and the size are constant, so reading them needs no lock.
  std::byte* data() const { return buffer_.data(); }
  size_t bytes() const { return buffer_.bytes(); }

  void record_stream(const StreamArgument& stream) {
    owner_->streams().retain(stream.shared);
    MutexLock lock(mutex_);
    buffer_.record_stream(stream.id);
  }

 private:
  std::shared_ptr<SharedHostAllocator> owner_;
  Mutex mutex_;        // HostBuffer::record_stream is not thread safe
  HostBuffer buffer_;  // the last member, so freed before its allocator is destroyed
};

// The Python object of a buffer; empty after free().
class HostBufferObject {
 public:
  explicit HostBufferObject(std::shared_ptr<PinnedMemory> memory) : memory_(std::move(memory)) {}

  bool is_freed() const { return memory_ == nullptr; }
  // Throws InvalidArgument if the buffer was freed or belongs to a parent process.
  std::shared_ptr<PinnedMemory> memory() const {
    if (memory_ == nullptr) unwrap(Status::invalid_argument("the buffer was freed"));
    require_same_process(memory_->device().created_after_forks);
    return memory_;
  }
  void free() { std::exchange(memory_, nullptr).reset(); }

 private:
  std::shared_ptr<PinnedMemory> memory_;  // guarded by the GIL; shared with arrays and tensors
};

HostAllocatorObject make_allocator(const py::object& device,
                                   const std::optional<std::string>& options) {
  const DeviceRef ref = device_argument(device);
  // Reads the environment with the GIL held, because Python code also changes it with the GIL held.
  const AllocatorOptions parsed = options ? parse_options(*options) : options_from_environment();
  return {without_gil([&] { return make_shared_without_gil<SharedHostAllocator>(ref, parsed); })};
}

std::unique_ptr<HostBufferObject> allocate(const HostAllocatorObject& self,
                                           const py::object& size) {
  const size_t bytes = size_argument(size, "size");
  return std::make_unique<HostBufferObject>(without_gil([&] {
    return make_shared_without_gil<PinnedMemory>(self.shared, self.allocator().allocate(bytes));
  }));
}

py::object stats_of(const HostAllocatorObject& self) {
  const auto all = without_gil([&] { return self.allocator().stats().flatten(); });
  py::dict stats;
  for (const auto& [name, value] : all) stats[py::str(name)] = value;
  return py::module_::import("ashlar._display").attr("HostStats")(stats);
}

HostBytes host_bytes_of_buffer(const HostBufferObject& self, const py::object& dtype,
                               const py::object& shape) {
  std::shared_ptr<PinnedMemory> memory = self.memory();
  ArrayShape elements = array_shape(dtype, shape, memory->bytes());
  std::byte* const data = memory->data();
  return {.owner = std::move(memory), .data = data, .shape = std::move(elements)};
}

HostBytes uint8_host_bytes(const HostBufferObject& self) {
  return host_bytes_of_buffer(self, py::str("uint8"), py::none());
}

DlpackDevice dlpack_kind(const HostBufferObject& self) {
  const std::string& backend = self.memory()->device().device->properties().backend;
  if (backend == "cuda") return DlpackDevice::kCudaHost;
  if (backend == "hip") return DlpackDevice::kRocmHost;
  return DlpackDevice::kCpu;
}

// Implements the buffer protocol of HostBuffer. A view keeps the memory alive, but not the
// HostBuffer, whose free() may be called while views exist.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    const auto& buffer = py::handle(self).cast<const HostBufferObject&>();
    return PyObject_GetBuffer(as_memoryview(uint8_host_bytes(buffer)).ptr(), view, flags);
  } catch (py::error_already_set& failure) {
    failure.restore();
  } catch (const std::exception& failure) {
    PyErr_SetString(PyExc_BufferError, failure.what());
  }
  view->obj = nullptr;
  return -1;
}

void bind_allocator(py::module_& module) {
  py::class_<HostAllocatorObject>(
      module, "HostAllocator",
      "A caching allocator of pinned host memory, for asynchronous copies "
      "from and to a device. It lives until the last reference to it and "
      "its buffers is dropped.")
      .def(py::init(&make_allocator), py::arg("device") = "sim:0", py::arg("options") = py::none(),
           "options: like Allocator's; only those for pinned memory apply.")
      .def("allocate", allocate, py::arg("size"),
           "size: bytes, or a string such as \"64MiB\"; aligned to pages of 4 KiB.")
      .def(
          "trim",
          [](const HostAllocatorObject& self) { without_gil([&] { self.allocator().trim(); }); },
          "Returns cached memory to the host.")
      .def("stats", stats_of,
           "Returns the statistics under PyTorch's names: {\"active_bytes.peak\": ...}.")
      .def(
          "reset_peak_stats",
          [](const HostAllocatorObject& self) {
            without_gil([&] { self.allocator().reset_peak_stats(); });
          },
          "Resets peaks to the current values.")
      .def(
          "reset_total_stats",
          [](const HostAllocatorObject& self) {
            without_gil([&] { self.allocator().reset_total_stats(); });
          },
          "Resets totals to 0.")
      .def_property_readonly("device",
                             [](const HostAllocatorObject& self) { return self.shared->device(); })
      .def_property_readonly(
          "options",
          [](const HostAllocatorObject& self) { return format_options(self.shared->options()); },
          "The non-default options, as text.")
      .def("__repr__", [](const HostAllocatorObject& self) {
        return text("<ashlar.HostAllocator for ", self.shared->device().name(), ">");
      });
}

using HostBufferClass = py::class_<HostBufferObject>;

void bind_protocols(HostBufferClass& buffers) {
  buffers
      .def(
          "numpy",
          [](const HostBufferObject& self, const py::object& dtype, const py::object& shape) {
            return as_numpy(host_bytes_of_buffer(self, dtype, shape));
          },
          py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
          "A numpy array over the memory, without a copy. Keeps the memory alive.")
      .def(
          "memoryview",
          [](const HostBufferObject& self) { return as_memoryview(uint8_host_bytes(self)); },
          "A memoryview of the bytes.")
      .def(
          "__dlpack__",
          [](const HostBufferObject& self, const py::object& stream,
             std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            if (!stream.is_none()) {
              throw py::buffer_error("stream: host memory has none (expected None)");
            }
            return host_to_dlpack(uint8_host_bytes(self), dlpack_kind(self),
                                  {max_version, dl_device, copy});
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const HostBufferObject& self) {
        return py::make_tuple(static_cast<int>(dlpack_kind(self)), 0);
      });
}

void bind_buffer(py::module_& module) {
  HostBufferClass buffers(
      module, "HostBuffer", py::custom_type_setup([](PyHeapTypeObject* type) {
        type->as_buffer.bf_getbuffer = get_buffer;
        type->ht_type.tp_as_buffer = &type->as_buffer;
      }),
      "Pinned host memory, freed by free(), at the end of a with statement, or with its last "
      "reference. Supports the buffer protocol.");
  buffers
      .def_property_readonly(
          "size", [](const HostBufferObject& self) { return self.memory()->bytes(); },
          "Size in bytes, as requested.")
      .def_property_readonly(
          "address",
          [](const HostBufferObject& self) {
            return reinterpret_cast<uintptr_t>(self.memory()->data());
          },
          "The address; 0 for an empty buffer.")
      .def_property_readonly(
          "device", [](const HostBufferObject& self) { return self.memory()->device(); },
          "The device for which the memory is pinned.")
      .def_property_readonly("is_freed", &HostBufferObject::is_freed)
      .def(
          "record_stream",
          [](const HostBufferObject& self, const py::object& stream) {
            const std::shared_ptr<PinnedMemory> memory = self.memory();
            const StreamArgument given = stream_argument(stream, memory->device());
            without_gil([&] { memory->record_stream(given); });
          },
          py::arg("stream"),
          "Marks the memory as used by the stream: reuse waits for work queued on it.")
      .def("free", &HostBufferObject::free,
           "Frees the memory; idempotent. Arrays and tensors made from it keep it alive until "
           "they are destroyed.")
      .def("__enter__",
           [](const py::object& self) {
             (void)self.cast<const HostBufferObject&>().memory();
             return self;
           })
      .def("__exit__", [](HostBufferObject& self, const py::args&) { self.free(); })
      .def("__repr__", [](const HostBufferObject& self) -> std::string {
        if (self.is_freed()) return "<ashlar.HostBuffer, freed>";
        const std::shared_ptr<PinnedMemory> memory = self.memory();
        return text("<ashlar.HostBuffer of ", format_bytes(memory->bytes()), " for ",
                    memory->device().name(), ">");
      });
  bind_protocols(buffers);
}

}  // namespace

void bind_host_memory(py::module_& module) {
  bind_buffer(module);  // bound first, because the allocator's methods return buffers
  bind_allocator(module);
}

}  // namespace ashlar::python
