// SPDX-License-Identifier: Apache-2.0
//
// Allocators of pinned memory, and their buffers, which numpy and others see as they are.
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

class OwnHostAllocator {
 public:
  OwnHostAllocator(DeviceUse device, const AllocatorOptions& options)
      : device_(std::move(device)), options_(options), allocator_(device_.here(), options) {}

  const DeviceUse& device() const { return device_; }
  const AllocatorOptions& options() const { return options_; }
  KeptStreams& streams() { return streams_; }
  // Throws InvalidArgument in another process than the one that made it.
  HostAllocator& allocator() {
    require_made_here(device_.made_at);
    return allocator_;
  }

 private:
  DeviceUse device_;
  AllocatorOptions options_;
  KeptStreams streams_;
  HostAllocator allocator_;  // last: it ends before its streams and its device
};

// What Python holds of one.
struct HostAllocatorUser {
  std::shared_ptr<OwnHostAllocator> own;  // shared with its buffers

  HostAllocator& allocator() const { return own->allocator(); }
};

// A buffer, freed when its last user lets go.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<OwnHostAllocator> owner, HostBuffer buffer)
      : owner_(std::move(owner)), buffer_(std::move(buffer)) {}

  const DeviceUse& device() const { return owner_->device(); }
  // Constant.
  std::byte* data() const { return buffer_.data(); }
  size_t bytes() const { return buffer_.bytes(); }

  void record_stream(const StreamArgument& stream) {
    owner_->streams().keep(stream.own);
    MutexLock lock(mutex_);
    buffer_.record_stream(stream.id);
  }

 private:
  std::shared_ptr<OwnHostAllocator> owner_;
  Mutex mutex_;        // recording is for one thread at a time
  HostBuffer buffer_;  // last: it is freed before its allocator ends
};

// What Python holds of a buffer; empty once it was freed.
class HostBufferUser {
 public:
  explicit HostBufferUser(std::shared_ptr<PinnedMemory> memory) : memory_(std::move(memory)) {}

  bool is_freed() const { return memory_ == nullptr; }
  // Throws InvalidArgument if it was freed, or is a parent process's.
  std::shared_ptr<PinnedMemory> memory() const {
    if (memory_ == nullptr) unwrap(Status::invalid_argument("the buffer was freed"));
    require_made_here(memory_->device().made_at);
    return memory_;
  }
  void free() { std::exchange(memory_, nullptr).reset(); }

 private:
  std::shared_ptr<PinnedMemory> memory_;  // guarded by the GIL; shared with arrays and tensors
};

HostAllocatorUser make_allocator(const py::object& device,
                                 const std::optional<std::string>& options) {
  const DeviceUse use = device_argument(device);
  // With the GIL: Python's own changes of the environment hold it, too.
  const AllocatorOptions wanted = options ? parse_options(*options) : options_from_environment();
  return {without_gil([&] { return make_shared_without_gil<OwnHostAllocator>(use, wanted); })};
}

std::unique_ptr<HostBufferUser> allocate(const HostAllocatorUser& user, const py::object& size) {
  const size_t bytes = bytes_of(size, "size");
  return std::make_unique<HostBufferUser>(without_gil([&] {
    return make_shared_without_gil<PinnedMemory>(user.own, user.allocator().allocate(bytes));
  }));
}

py::object stats_of(const HostAllocatorUser& user) {
  const auto all = without_gil([&] { return user.allocator().stats().flatten(); });
  py::dict stats;
  for (const auto& [name, value] : all) stats[py::str(name)] = value;
  return py::module_::import("ashlar._display").attr("HostStats")(stats);
}

HostBytes bytes_of_buffer(const HostBufferUser& user, const py::object& dtype,
                          const py::object& shape) {
  std::shared_ptr<PinnedMemory> memory = user.memory();
  ArrayShape wanted = array_shape(dtype, shape, memory->bytes());
  std::byte* const data = memory->data();
  return {.keeper = std::move(memory), .data = data, .shape = std::move(wanted)};
}

HostBytes plain_bytes_of(const HostBufferUser& user) {
  return bytes_of_buffer(user, py::str("uint8"), py::none());
}

DlpackDevice dlpack_kind(const HostBufferUser& user) {
  const std::string& backend = user.memory()->device().device->properties().backend;
  if (backend == "cuda") return DlpackDevice::kCudaHost;
  if (backend == "hip") return DlpackDevice::kRocmHost;
  return DlpackDevice::kCpu;
}

// The buffer protocol of the buffer itself: whoever has bytes of it keeps the memory, and not the
// buffer, which can be freed meanwhile.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    const auto& user = py::handle(self).cast<const HostBufferUser&>();
    return PyObject_GetBuffer(as_memoryview(plain_bytes_of(user)).ptr(), view, flags);
  } catch (py::error_already_set& failure) {
    failure.restore();
  } catch (const std::exception& failure) {
    PyErr_SetString(PyExc_BufferError, failure.what());
  }
  view->obj = nullptr;
  return -1;
}

void bind_allocator(py::module_& module) {
  py::class_<HostAllocatorUser>(module, "HostAllocator",
                                "Pinned host memory, which a device copies from and to without "
                                "stopping; cached between uses. It lives as long as it or its "
                                "buffers are referred to.")
      .def(py::init(&make_allocator), py::arg("device") = "sim:0", py::arg("options") = py::none(),
           "options: as an Allocator's; those of pinned memory count.")
      .def("allocate", allocate, py::arg("size"),
           "size: bytes, or a text such as \"64MiB\"; aligned to pages of 4 KiB.")
      .def(
          "trim",
          [](const HostAllocatorUser& user) { without_gil([&] { user.allocator().trim(); }); },
          "Gives cached memory back to the host.")
      .def("stats", stats_of, "The statistics under PyTorch's names: {\"active_bytes.peak\": ...}.")
      .def(
          "reset_peak_stats",
          [](const HostAllocatorUser& user) {
            without_gil([&] { user.allocator().reset_peak_stats(); });
          },
          "Peaks begin anew with what there is now.")
      .def(
          "reset_total_stats",
          [](const HostAllocatorUser& user) {
            without_gil([&] { user.allocator().reset_total_stats(); });
          },
          "Sums begin anew at 0.")
      .def_property_readonly("device",
                             [](const HostAllocatorUser& user) { return user.own->device(); })
      .def_property_readonly(
          "options",
          [](const HostAllocatorUser& user) { return format_options(user.own->options()); },
          "What is not as it is by default, as text.")
      .def("__repr__", [](const HostAllocatorUser& user) {
        return text("<ashlar.HostAllocator for ", user.own->device().name(), ">");
      });
}

using HostBufferClass = py::class_<HostBufferUser>;

void bind_protocols(HostBufferClass& buffers) {
  buffers
      .def(
          "numpy",
          [](const HostBufferUser& user, const py::object& dtype, const py::object& shape) {
            return as_numpy(bytes_of_buffer(user, dtype, shape));
          },
          py::arg("dtype") = "uint8", py::arg("shape") = py::none(),
          "A numpy array over the memory itself, which keeps it.")
      .def(
          "memoryview",
          [](const HostBufferUser& user) { return as_memoryview(plain_bytes_of(user)); },
          "The bytes without numpy.")
      .def(
          "__dlpack__",
          [](const HostBufferUser& user, const py::object& stream,
             std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            if (!stream.is_none()) {
              throw py::buffer_error("stream: host memory has none (expected None)");
            }
            return host_to_dlpack(plain_bytes_of(user), dlpack_kind(user),
                                  {max_version, dl_device, copy});
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const HostBufferUser& user) {
        return py::make_tuple(static_cast<int>(dlpack_kind(user)), 0);
      });
}

void bind_buffer(py::module_& module) {
  HostBufferClass buffers(
      module, "HostBuffer", py::custom_type_setup([](PyHeapTypeObject* type) {
        type->as_buffer.bf_getbuffer = get_buffer;
        type->ht_type.tp_as_buffer = &type->as_buffer;
      }),
      "Pinned host memory with one owner: freed by free(), at the end of a with statement, or with "
      "its last reference. It has the buffer protocol.");
  buffers
      .def_property_readonly(
          "size", [](const HostBufferUser& user) { return user.memory()->bytes(); },
          "Bytes, as asked for.")
      .def_property_readonly(
          "address",
          [](const HostBufferUser& user) {
            return reinterpret_cast<uintptr_t>(user.memory()->data());
          },
          "Where it lies; 0 for a buffer of 0 B.")
      .def_property_readonly(
          "device", [](const HostBufferUser& user) { return user.memory()->device(); },
          "What it is pinned for.")
      .def_property_readonly("is_freed", &HostBufferUser::is_freed)
      .def(
          "record_stream",
          [](const HostBufferUser& user, const py::object& stream) {
            const std::shared_ptr<PinnedMemory> memory = user.memory();
            const StreamArgument given = stream_of(stream, memory->device());
            without_gil([&] { memory->record_stream(given); });
          },
          py::arg("stream"),
          "Work queued in the stream uses it: freed, it is not used again before that is done.")
      .def("free", &HostBufferUser::free,
           "Lets go of the memory; again, does nothing. Arrays and tensors made of it keep it "
           "until they are gone.")
      .def("__enter__",
           [](const py::object& self) {
             (void)self.cast<const HostBufferUser&>().memory();
             return self;
           })
      .def("__exit__", [](HostBufferUser& user, const py::args&) { user.free(); })
      .def("__repr__", [](const HostBufferUser& user) -> std::string {
        if (user.is_freed()) return "<ashlar.HostBuffer, freed>";
        const std::shared_ptr<PinnedMemory> memory = user.memory();
        return text("<ashlar.HostBuffer of ", format_bytes(memory->bytes()), " for ",
                    memory->device().name(), ">");
      });
  bind_protocols(buffers);
}

}  // namespace

void bind_host_memory(py::module_& module) {
  bind_buffer(module);  // first: the other one mentions it
  bind_allocator(module);
}

}  // namespace ashlar::python
