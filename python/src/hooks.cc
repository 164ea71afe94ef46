// SPDX-License-Identifier: Apache-2.0
//
// Binds the hooks of an allocator to Python callbacks. Callbacks run with the GIL and without the
// allocator's locks. report_unraisable reports their exceptions.
#include <chrono>

#include "allocator.h"
#include "base/text.h"
#include "gil.h"

namespace ashlar::python {
namespace {

py::dict notice_to_dict(const OomNotice& notice) {
  py::dict all;
  all["device"] = notice.device.value();
  all["wanted_bytes"] = notice.wanted_bytes;
  all["limit_bytes"] = notice.limit_bytes;
  all["device_free_bytes"] = notice.device_free_bytes;
  return all;
}

// Returns microseconds since 1970. The entries that a TraceTracker receives have no time, so a
// Python tracker gets the time of its call.
int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::function<void(const OomNotice&)> as_observer(py::function function) {
  return [kept = keep_object(std::move(function))](const OomNotice& notice) {
    with_gil([&] { call_python(*kept, notice_to_dict(notice)); });
  };
}

std::function<bool()> as_free_memory_callback(py::function function) {
  return [kept = keep_object(std::move(function))] {
    bool has_freed = false;
    with_gil([&] { has_freed = py::bool_(call_python(*kept)); });
    return has_freed;
  };
}

TraceTracker as_tracker(py::function function) {
  return [kept = keep_object(std::move(function))](const TraceEntry& entry) {
    with_gil([&] {
      py::dict all;
      all["action"] = std::string(name(entry.action));
      all["addr"] = entry.address.value();
      all["size"] = entry.bytes;
      all["stream"] = entry.stream.value();
      all["time_us"] = now_us();
      all["device"] = entry.device.value();
      all["segment_pool_id"] = py::make_tuple(entry.pool.capture, entry.pool.user);
      call_python(*kept, all);
    });
  };
}

}  // namespace

void bind_hooks(AllocatorClass& allocators) {
  allocators
      .def(
          "add_oom_observer",
          [](const AllocatorObject& self, py::function observer) {
            auto hook = as_observer(std::move(observer));
            without_gil([&] { self.allocator().hooks().add_oom_observer(std::move(hook)); });
          },
          py::arg("observer"),
          "observer({\"device\", \"wanted_bytes\", \"limit_bytes\", \"device_free_bytes\"}) is "
          "called before OutOfMemoryError is raised. Hooks live as long as the allocator; a hook "
          "that refers to the allocator keeps it alive.")
      .def(
          "add_rejection_observer",
          [](const AllocatorObject& self, py::function observer) {
            auto hook = as_observer(std::move(observer));
            without_gil([&] { self.allocator().hooks().add_rejection_observer(std::move(hook)); });
          },
          py::arg("observer"),
          "Like add_oom_observer, for requests rejected without a device call.")
      .def(
          "add_free_memory_callback",
          [](const AllocatorObject& self, py::function callback) {
            auto hook = as_free_memory_callback(std::move(callback));
            without_gil(
                [&] { self.allocator().hooks().add_free_memory_callback(std::move(hook)); });
          },
          py::arg("callback"),
          "callback() is called to free memory before an allocation fails; returns whether it did.")
      .def(
          "add_tracker",
          [](const AllocatorObject& self, py::function tracker) {
            auto hook = as_tracker(std::move(tracker));
            without_gil([&] { self.allocator().hooks().add_tracker(std::move(hook)); });
          },
          py::arg("tracker"),
          "tracker({\"action\", \"addr\", \"size\", \"stream\", \"time_us\", \"device\", "
          "\"segment_pool_id\"}) is called for every operation, in order; time_us is the time of "
          "the call, since 1970. Operations of the tracker itself are reported as well, so a "
          "tracker that always allocates never returns.");
}

}  // namespace ashlar::python
