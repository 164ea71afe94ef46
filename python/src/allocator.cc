// SPDX-License-Identifier: Apache-2.0
//
// Binds the class Allocator, except its statistics, history and snapshots (allocator_stats.cc).
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
  const DeviceRef use = device_argument(device);
  // With the GIL held, since Python changes the environment under it.
  const AllocatorOptions wanted = options ? parse_options(*options) : options_from_environment();
  return {without_gil([&] { return make_shared_without_gil<SharedAllocator>(use, wanted); })};
}

std::unique_ptr<BufferObject> allocate(const AllocatorObject& user, const py::object& size,
                                       const py::object& stream) {
  const size_t bytes = bytes_of(size, "size");
  (void)user.allocator();  // rejects allocators of a parent process
  auto memory = make_shared_without_gil<Memory>();
  memory->owner = user.own;
  memory->stream = stream_of(stream, user.own->device());
  without_gil([&] {
    user.own->keep_stream(memory->stream.own);
    memory->buffer = user.allocator().allocate(bytes, memory->stream.id);
  });
  return std::make_unique<BufferObject>(std::move(memory));
}

size_t trim_to(const AllocatorObject& user, const py::object& reserved, bool wait) {
  const size_t bytes = bytes_of(reserved, "reserved");
  const TrimOptions options = {.wait = wait ? TrimWait::kForWork : TrimWait::kNever};
  return without_gil([&] { return user.allocator().trim_to(bytes, options); });
}

std::string describe_allocator(const AllocatorObject& user) {
  const AllocatorStats stats = without_gil([&] { return user.allocator().stats(); });
  const std::string options = format_options(user.own->options());
  return text("<ashlar.Allocator on ", user.own->device().name(), " (",
              options.empty() ? "defaults" : options,
              "): ", format_bytes(static_cast<size_t>(stats.allocated_bytes.all.current)),
              " allocated, ", format_bytes(static_cast<size_t>(stats.reserved_bytes.all.current)),
              " reserved>");
}

void bind_limits(AllocatorClass& allocators) {
  allocators
      .def(
          "trim",
          [](const AllocatorObject& user) { without_gil([&] { user.allocator().trim(); }); },
          "Returns cached memory to the device. Waits for pending frees.")
      .def("trim_to", trim_to, py::arg("reserved"), py::kw_only(), py::arg("wait") = false,
           "Returns cached memory until at most this much is reserved, or no more can be returned. "
           "Returns the number of bytes.")
      .def_property(
          "memory_fraction",
          [](const AllocatorObject& user) {
            return without_gil([&] { return user.allocator().memory_fraction(); });
          },
          [](const AllocatorObject& user, double fraction) {
            without_gil([&] { user.allocator().set_memory_fraction(fraction); });
          },
          "Limit as a share of the device's capacity; 1: no limit.")
      .def_property(
          "caching",
          [](const AllocatorObject& user) {
            return without_gil([&] { return user.allocator().is_caching(); });
          },
          [](const AllocatorObject& user, bool caching) {
            without_gil([&] { user.allocator().set_caching(caching); });
          },
          "False: every allocation is a device allocation, for memory checkers.")
      .def_property_readonly(
          "largest_cached_bytes",
          [](const AllocatorObject& user) {
            return without_gil(
                [&] { return user.allocator().statistics().largest_cached_bytes(); });
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
           "options: settings of docs/reference/options.md, such as \"engine:paged,policy:lean\"; "
           "default: from the environment.")
      .def("allocate", allocate, py::arg("size"), py::arg("stream") = py::none(),
           "size: bytes, or a string such as \"64MiB\". stream: a Stream, a driver handle, or a "
           "stream of PyTorch or CuPy; default: the default stream.")
      .def_property_readonly("device",
                             [](const AllocatorObject& user) { return user.own->device(); })
      .def_property_readonly(
          "options",
          [](const AllocatorObject& user) { return format_options(user.own->options()); },
          "The non-default options, as text.")
      .def("__repr__", describe_allocator);
  bind_limits(allocators);
  bind_stats_and_history(allocators);
  bind_hooks(allocators);
  bind_pools(module, allocators);
}

}  // namespace ashlar::python
