// Host views: memory of the simulated device as numpy sees it, through the guard that
// sim::DeviceMemory is. It is valid as long as the block is, and so each array keeps the block.
#include <pybind11/stl.h>

#include <cstddef>

#include "api/unwrap.h"
#include "base/text.h"
#include "buffer.h"
#include "dlpack.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// Host code may look at the block as long as this lives. Its allocator counts them, since memory
// that somebody looks at must not go (see Allocator.pause).
class HostAccess {
 public:
  HostAccess(std::shared_ptr<Memory> memory, size_t bytes, bool is_writable)
      : memory_(std::move(memory)), guard_(memory_->device().machine->memory(device().index())) {
    // What is queued there comes first.
    unwrap(device().device->synchronize_stream(memory_->stream.id));
    const DeviceAddress at = memory_->buffer.address();
    if (bytes > 0 && is_writable) {
      data_ = unwrap(guard_.view<std::byte>(at, bytes)).data();
    } else if (bytes > 0) {
      // Who takes it is told that it is read-only.
      data_ = const_cast<std::byte*>(unwrap(guard_.view<const std::byte>(at, bytes)).data());
    }
    memory_->owner->add_host_access(1);
  }
  ~HostAccess() { memory_->owner->add_host_access(-1); }
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

  void* data() const { return data_; }
  const DeviceUse& device() const { return memory_->device(); }

 private:
  std::shared_ptr<Memory> memory_;
  sim::DeviceMemory guard_;
  std::byte* data_ = nullptr;
};

// Bytes that numpy makes an array of: what the array holds instead of the view, so that the view
// can let go while arrays stay.
struct HostBytes {
  std::shared_ptr<HostAccess> access;  // shared with the view, and with tensors made of it
  ArrayShape shape;
  bool is_writable = true;

  py::buffer_info info() const {
    const auto bytes = static_cast<py::ssize_t>(shape.type->bytes());
    std::vector<py::ssize_t> strides;
    for (int64_t stride : shape.strides()) strides.push_back(stride * bytes);
    return {
        access->data(), bytes,   shape.type->format, static_cast<py::ssize_t>(shape.shape.size()),
        shape.shape,    strides, !is_writable};
  }
};

class HostView {
 public:
  HostView(std::shared_ptr<Memory> memory, ArrayShape shape, bool is_writable)
      : memory_(std::move(memory)), shape_(std::move(shape)), is_writable_(is_writable) {}

  void open() {
    if (access_ != nullptr) unwrap(Status::usage("the view is open already"));
    access_ = without_gil(
        [&] { return make_shared_without_gil<HostAccess>(memory_, shape_.bytes(), is_writable_); });
  }
  void close() noexcept { std::exchange(access_, nullptr).reset(); }

  bool is_open() const { return access_ != nullptr; }
  const ArrayShape& shape() const { return shape_; }
  bool is_writable() const { return is_writable_; }
  // Throws UsageError outside of the with statement.
  const std::shared_ptr<HostAccess>& access() const {
    if (access_ == nullptr) {
      unwrap(Status::usage(
          "the view is not open (expected: with buffer.host_view(...) as view: ...)"));
    }
    return access_;
  }

 private:
  std::shared_ptr<Memory> memory_;  // shared with the buffer
  ArrayShape shape_;
  bool is_writable_;
  std::shared_ptr<HostAccess> access_;  // shared with arrays and tensors; null: not open
};

py::object as_memoryview(const HostView& view) {
  const std::shared_ptr<HostAccess>& access = view.access();
  if (view.shape().type->format == nullptr) {
    unwrap(Status::usage(
        text("numpy knows no ", view.shape().type->name, " (expected another dtype, or DLPack)")));
  }
  const py::object bytes = py::cast(HostBytes{access, view.shape(), view.is_writable()});
  PyObject* made = PyMemoryView_FromObject(bytes.ptr());
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object as_numpy(const HostView& view) {
  return py::module_::import("numpy").attr("asarray")(as_memoryview(view));
}

py::object array_protocol(const HostView& view, const py::object& dtype, const py::object& copy) {
  py::object array = as_numpy(view);
  if (!dtype.is_none())
    return array.attr("astype")(dtype, py::arg("copy") = copy.equal(py::bool_(true)));
  if (!copy.is_none() && copy.cast<bool>()) return array.attr("copy")();
  return array;
}

py::capsule view_to_dlpack(const HostView& view, const py::object& stream,
                           const DlpackRequest& request) {
  if (!stream.is_none()) unwrap(Status::usage("stream: host memory has none (expected None)"));
  const std::shared_ptr<HostAccess>& access = view.access();
  return to_dlpack({.keeper = access,
                    .data = access->data(),
                    .device = DlpackDevice::kCpu,
                    .device_index = 0,
                    .shape = view.shape(),
                    .is_read_only = !view.is_writable()},
                   request);
}

}  // namespace

py::object make_host_view(const BufferUser& buffer, const py::object& dtype,
                          const py::object& shape, bool writable) {
  std::shared_ptr<Memory> memory = buffer.memory();
  if (!memory->device().is_simulated()) {
    unwrap(Status::usage(text("the host cannot see memory of ", memory->device().name(),
                              " (expected a simulated device; read() copies)")));
  }
  ArrayShape wanted = array_shape(dtype, shape, memory->buffer.bytes());
  return py::cast(HostView(std::move(memory), std::move(wanted), writable));
}

void bind_host_views(py::module_& module) {
  py::class_<HostBytes>(module, "_HostBytes", py::buffer_protocol(),
                        "What arrays over simulated device memory hold on to.")
      .def_buffer([](HostBytes& bytes) { return bytes.info(); });
  py::class_<HostView>(module, "HostView",
                       "Simulated device memory as the host sees it, inside of a with statement. "
                       "Arrays made of it keep the memory.")
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
      .def("numpy", as_numpy, "A numpy array over the memory itself.")
      .def("memoryview", as_memoryview, "The same without numpy.")
      .def("__array__", array_protocol, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
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
        return text("<ashlar.HostView ", shape_text(view.shape()),
                    view.is_open() ? ">" : ", closed>");
      });
}

}  // namespace ashlar::python
