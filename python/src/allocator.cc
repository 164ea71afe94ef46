// SPDX-License-Identifier: Apache-2.0
//
// Binds the class Allocator: allocation and limits. allocator_stats.cc, hooks.cc and pools.cc add
// the other functions.
#include "allocator.h"

#include <pybind11/stl.h>

#include "api/unwrap.h"
#include "base/text.h"
#include "base/units.h"
#include "buffer.h"
#include "gil.h"
#include "sizes.h"

namespace ashlar::python {
namespace {

AllocatorObject make_allocator(const py::object& device,
                               const std::optional<std::string>& options) {
  const DeviceRef ref = device_argument(device);
  // Reads the environment with the GIL held, because Python code also changes it with the GIL held.
  const AllocatorOptions parsed = options ? parse_options(*options) : options_from_environment();
  return {without_gil([&] { return make_shared_without_gil<SharedAllocator>(ref, parsed); })};
}

std::unique_ptr<BufferObject> allocate(const AllocatorObject& self, const py::object& size,
                                       const py::object& stream) {
  const size_t bytes = size_argument(size, "size");
  (void)self.allocator();  // rejects allocators of a parent process
  auto memory = make_shared_without_gil<Memory>();
  memory->owner = self.shared;
  memory->stream = stream_argument(stream, self.shared->device());
  without_gil([&] {
    self.shared->retain_stream(memory->stream.shared);
    memory->buffer = self.allocator().allocate(bytes, memory->stream.id);
  });
  return std::make_unique<BufferObject>(std::move(memory));
}

size_t trim_to(const AllocatorObject& self, const py::object& reserved, bool wait) {
  const size_t bytes = size_argument(reserved, "reserved");
  const TrimOptions options = {.wait = wait ? TrimWait::kForWork : TrimWait::kNever};
  return without_gil([&] { return self.allocator().trim_to(bytes, options); });
}

std::string describe_allocator(const AllocatorObject& self) {
  const AllocatorStats stats = without_gil([&] { return self.allocator().stats(); });
  const std::string options = format_options(self.shared->options());
  return text("<ashlar.Allocator on ", self.shared->device().name(), " (",
              options.empty() ? "defaults" : options,
              "): ", format_bytes(static_cast<size_t>(stats.allocated_bytes.all.current)),
              " allocated, ", format_bytes(static_cast<size_t>(stats.reserved_bytes.all.current)),
              " reserved>");
}

void bind_limits(AllocatorClass& allocators) {
  allocators
      .def(
          "trim",
          [](const AllocatorObject& self) { without_gil([&] { self.allocator().trim(); }); },
          "Returns cached memory to the device. Waits for pending frees.")
      .def("trim_to", trim_to, py::arg("reserved"), py::kw_only(), py::arg("wait") = false,
           "Releases cached memory until at most `reserved` bytes are reserved, or no more can be "
           "released. Returns the number of released bytes.")
      .def_property(
          "memory_fraction",
          [](const AllocatorObject& self) {
            return without_gil([&] { return self.allocator().memory_fraction(); });
          },
          [](const AllocatorObject& self, double fraction) {
            without_gil([&] { self.allocator().set_memory_fraction(fraction); });
          },
          "The memory limit, as a fraction of the device's capacity; 1: no limit.")
      .def_property(
          "caching",
          [](const AllocatorObject& self) {
            return without_gil([&] { return self.allocator().is_caching(); });
          },
          [](const AllocatorObject& self, bool caching) {
            without_gil([&] { self.allocator().set_caching(caching); });
          },
          "If False, nothing is cached: every allocation calls the device. For memory checkers.")
      .def_property_readonly(
          "largest_cached_bytes",
          [](const AllocatorObject& self) {
            return without_gil(
                [&] { return self.allocator().statistics().largest_cached_bytes(); });
          },
          "Size of the largest cached block.");
}

}  // namespace

void bind_allocators(py::module_& module) {
  AllocatorClass allocators(module, "Allocator",
                            "A caching, stream-ordered allocator of device memory. It lives until "
                            "the last reference to it, its buffers and its pools is dropped.");
  allocators
      .def(py::init(&make_allocator), py::arg("device") = "sim:0", py::arg("options") = py::none(),
           "options: see docs/reference/options.md, such as \"engine:paged,policy:lean\"; "
           "default: from the environment.")
      .def("allocate", allocate, py::arg("size"), py::arg("stream") = py::none(),
           "size: bytes, or a string such as \"64MiB\". stream: a Stream, a driver handle, or a "
           "stream of PyTorch or CuPy; default: the default stream.")
      .def_property_readonly("device",
                             [](const AllocatorObject& self) { return self.shared->device(); })
      .def_property_readonly(
          "options",
          [](const AllocatorObject& self) { return format_options(self.shared->options()); },
          "The non-default options, as text.")
      .def("__repr__", describe_allocator);
  bind_limits(allocators);
  bind_stats_and_history(allocators);
  bind_hooks(allocators);
  bind_pools(module, allocators);
}

}  // namespace ashlar::python
