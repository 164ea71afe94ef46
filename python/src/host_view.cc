// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python class HostView: host access to the memory of a simulated device, through
// sim::DeviceMemory. The access is valid as long as the block is allocated. Arrays therefore keep
// the block alive; they need not keep the view alive. A closed view does not keep the block alive,
// because the variable that refers to the view often outlives the with statement.
#include <pybind11/stl.h>

#include <cstddef>

#include "api/unwrap.h"
#include "base/text.h"
#include "buffer.h"
#include "dlpack.h"
#include "gil.h"
#include "host_bytes.h"
#include "interrupt.h"

namespace ashlar::python {
namespace {

// Prevents Allocator.pause while it exists.
class HostAccessGuard {
 public:
  explicit HostAccessGuard(SharedAllocator& owner) : owner_(owner) { owner_.begin_host_access(); }
  ~HostAccessGuard() { owner_.end_host_access(); }
  HostAccessGuard(const HostAccessGuard&) = delete;
  HostAccessGuard& operator=(const HostAccessGuard&) = delete;

 private:
  SharedAllocator& owner_;
};

// Host access to a block for the lifetime of this object.
class HostAccess {
 public:
  HostAccess(std::shared_ptr<Memory> memory, size_t bytes, bool is_writable)
      : memory_(std::move(memory)),
        access_guard_(*memory_->owner),
        device_memory_(memory_->device().machine->memory(device().index())) {
    // Work queued in the block's stream may still write the block.
    unwrap(device().checked().synchronize_stream(memory_->stream.id));
    const DeviceAddress at = memory_->buffer.address();
    if (bytes > 0 && is_writable) {
      data_ = unwrap(device_memory_.try_view<std::byte>(at, bytes)).data();
    } else if (bytes > 0) {
      // The cast is safe, because the memory is exported as read-only.
      data_ = const_cast<std::byte*>(
          unwrap(device_memory_.try_view<const std::byte>(at, bytes)).data());
    }
  }
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

  void* data() const { return data_; }
  const DeviceRef& device() const { return memory_->device(); }

 private:
  std::shared_ptr<Memory> memory_;
  HostAccessGuard access_guard_;
  sim::DeviceMemory device_memory_;
  std::byte* data_ = nullptr;
};

class HostView {
 public:
  HostView(std::shared_ptr<Memory> memory, ArrayShape shape, bool is_writable)
      : memory_(memory),
        kept_memory_(std::move(memory)),
        shape_(std::move(shape)),
        is_writable_(is_writable) {}

  void open() {
    if (access_ != nullptr) unwrap(Status::invalid_argument("the view is already open"));
    const std::shared_ptr<Memory> memory = memory_.lock();
    if (memory == nullptr) unwrap(Status::invalid_argument("the buffer of the view was freed"));
    wait_for_stream(memory->device(), memory->stream.id, memory);
    std::shared_ptr<HostAccess> access = without_gil(
        [&] { return make_shared_without_gil<HostAccess>(memory, shape_.bytes(), is_writable_); });
    if (access_ != nullptr)
      unwrap(Status::invalid_argument("the view is already open"));  // opened by another thread
    access_ = std::move(access);
    kept_memory_ = memory;
  }
  void close() noexcept {
    std::exchange(access_, nullptr).reset();
    std::exchange(kept_memory_, nullptr).reset();
  }

  bool is_open() const { return access_ != nullptr; }
  const ArrayShape& shape() const { return shape_; }
  bool is_writable() const { return is_writable_; }
  // Returns the access. Throws InvalidArgument unless the view is open, that is, inside its with
  // statement.
  const std::shared_ptr<HostAccess>& access() const {
    if (access_ == nullptr) {
      unwrap(Status::invalid_argument(
          "the view is not open (expected: with buffer.host_view(...) as view: ...)"));
    }
    return access_;
  }

 private:
  std::weak_ptr<Memory> memory_;         // shared with the buffer
  std::shared_ptr<Memory> kept_memory_;  // the same; null after the view was closed
  ArrayShape shape_;
  bool is_writable_;
  std::shared_ptr<HostAccess> access_;  // shared with arrays and tensors; null if not open
};

HostBytes host_bytes_of_view(const HostView& view) {
  const std::shared_ptr<HostAccess>& access = view.access();
  return {.owner = access,
          .data = access->data(),
          .shape = view.shape(),
          .is_writable = view.is_writable()};
}

py::object to_numpy_array(const HostView& view, const py::object& dtype, const py::object& copy) {
  const py::object array = as_numpy(host_bytes_of_view(view));
  const bool needs_cast = !dtype.is_none() && !py::object(array.attr("dtype")).equal(dtype);
  if (!copy.is_none() && !py::bool_(copy)) {
    if (needs_cast) throw py::value_error("another dtype needs a copy, but copy is False");
    return array;
  }
  if (needs_cast) return array.attr("astype")(dtype);
  return copy.is_none() ? array : array.attr("copy")();
}

py::capsule view_to_dlpack(const HostView& view, const py::object& stream,
                           const DlpackRequest& request) {
  if (!stream.is_none()) throw py::buffer_error("stream: host memory has none (expected None)");
  return host_to_dlpack(host_bytes_of_view(view), DlpackDevice::kCpu, request);
}

}  // namespace

py::object make_host_view(const BufferObject& buffer, const py::object& dtype,
                          const py::object& shape, bool writable) {
  std::shared_ptr<Memory> memory = buffer.memory();
  if (!memory->device().is_simulated()) {
    unwrap(
        Status::invalid_argument(text("the host cannot access memory of ", memory->device().name(),
                                      " (expected a simulated device; read() copies)")));
  }
  ArrayShape elements = array_shape(dtype, shape, memory->buffer.bytes());
  return py::cast(HostView(std::move(memory), std::move(elements), writable));
}

void bind_host_views(py::module_& module) {
  py::class_<HostView>(module, "HostView",
                       "Host access to simulated device memory, in a with statement. "
                       "Arrays made from it keep the memory alive.")
      .def("__enter__",
           [](const py::object& self) {
             self.cast<HostView&>().open();
             return self;
           })
      .def("__exit__", [](HostView& view, const py::args&) { view.close(); })
      .def_property_readonly("is_open", &HostView::is_open)
      .def_property_readonly(
          "dtype", [](const HostView& view) { return std::string(view.shape().type->name); })
      .def_property_readonly(
          "shape", [](const HostView& view) { return py::tuple(py::cast(view.shape().shape)); })
      .def(
          "numpy", [](const HostView& view) { return as_numpy(host_bytes_of_view(view)); },
          "Returns a numpy array over the memory, without a copy.")
      .def(
          "memoryview",
          [](const HostView& view) { return as_memoryview(host_bytes_of_view(view)); },
          "Returns a memoryview of the memory, without a copy. Does not need numpy.")
      .def("__array__", to_numpy_array, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def(
          "__dlpack__",
          [](const HostView& view, const py::object& stream,
             std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            return view_to_dlpack(view, stream, {max_version, dl_device, copy});
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__",
           [](const HostView&) { return py::make_tuple(static_cast<int>(DlpackDevice::kCpu), 0); })
      .def("__repr__", [](const HostView& view) {
        return text("<ashlar.HostView ", format_shape(view.shape()),
                    view.is_open() ? ">" : ", closed>");
      });
}

}  // namespace ashlar::python
