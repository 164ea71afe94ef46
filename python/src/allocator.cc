// SPDX-License-Identifier: Apache-2.0
//
// Allocators: making them, memory, limits.
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

AllocatorUser make_allocator(const py::object& device, const std::optional<std::string>& options) {
  const DeviceUse use = device_argument(device);
  // With the GIL: Python's own changes of the environment hold it, too.
  const AllocatorOptions wanted = options ? parse_options(*options) : options_from_environment();
  return {without_gil([&] { return make_shared_without_gil<OwnAllocator>(use, wanted); })};
}

std::unique_ptr<BufferUser> allocate(const AllocatorUser& user, const py::object& size,
                                     const py::object& stream) {
  const size_t bytes = bytes_of(size, "size");
  (void)user.allocator();  // of this process
  auto memory = make_shared_without_gil<Memory>();
  memory->owner = user.own;
  memory->stream = stream_of(stream, user.own->device());
  without_gil([&] {
    user.own->keep_stream(memory->stream.own);
    memory->buffer = user.allocator().allocate(bytes, memory->stream.id);
  });
  return std::make_unique<BufferUser>(std::move(memory));
}

size_t trim_to(const AllocatorUser& user, const py::object& reserved, bool wait) {
  const size_t bytes = bytes_of(reserved, "reserved");
  const TrimOptions options = {.wait = wait ? TrimWait::kForWork : TrimWait::kNever};
  return without_gil([&] { return user.allocator().trim_to(bytes, options); });
}

std::string describe(const AllocatorUser& user) {
  const AllocatorStats stats = without_gil([&] { return user.allocator().stats(); });
  const std::string options = format_options(user.own->options());
  return text("<ashlar.Allocator on ", user.own->device().name(), " (",
              options.empty() ? "defaults" : options,
              "): ", format_bytes(static_cast<size_t>(stats.allocated_bytes.all.current)),
              " in use, ", format_bytes(static_cast<size_t>(stats.reserved_bytes.all.current)),
              " held>");
}

void bind_limits(AllocatorClass& allocators) {
  allocators
      .def(
          "trim", [](const AllocatorUser& user) { without_gil([&] { user.allocator().trim(); }); },
          "Gives cached memory back to the device; waits for pending frees.")
      .def("trim_to", trim_to, py::arg("reserved"), py::kw_only(), py::arg("wait") = false,
           "Gives back until no more than this is held, or nothing more can go; says how many "
           "bytes went.")
      .def_property(
          "memory_fraction",
          [](const AllocatorUser& user) {
            return without_gil([&] { return user.allocator().memory_fraction(); });
          },
          [](const AllocatorUser& user, double fraction) {
            without_gil([&] { user.allocator().set_memory_fraction(fraction); });
          },
          "At most this share of the device's capacity; 1 is no limit.")
      .def_property(
          "caching",
          [](const AllocatorUser& user) {
            return without_gil([&] { return user.allocator().is_caching(); });
          },
          [](const AllocatorUser& user, bool caching) {
            without_gil([&] { user.allocator().set_caching(caching); });
          },
          "False: each allocation is the device's own, for tools that check memory accesses.")
      .def_property_readonly(
          "largest_cached_bytes",
          [](const AllocatorUser& user) {
            return without_gil(
                [&] { return user.allocator().statistics().largest_cached_bytes(); });
          },
          "The largest block to be had without asking the device.");
}

}  // namespace

void bind_allocators(py::module_& module) {
  AllocatorClass allocators(module, "Allocator",
                            "Device memory, ordered by streams and cached between uses. It lives "
                            "as long as it, its buffers or its pools are referred to.");
  allocators
      .def(py::init(&make_allocator), py::arg("device") = "sim:0", py::arg("options") = py::none(),
           "options: \"engine:paged,policy:lean\", as docs/guide/options.md lists them; without, "
           "those of the environment.")
      .def("allocate", allocate, py::arg("size"), py::arg("stream") = py::none(),
           "size: bytes, or a text such as \"64MiB\". stream: a Stream, a driver's handle, or a "
           "stream of PyTorch's or CuPy's; the default one without.")
      .def_property_readonly("device", [](const AllocatorUser& user) { return user.own->device(); })
      .def_property_readonly(
          "options", [](const AllocatorUser& user) { return format_options(user.own->options()); },
          "What is not as it is by default, as text.")
      .def("__repr__", describe);
  bind_limits(allocators);
  bind_looking(allocators);
  bind_hooks(allocators);
  bind_pools(module, allocators);
}

}  // namespace ashlar::python
