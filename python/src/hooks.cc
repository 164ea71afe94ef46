// SPDX-License-Identifier: Apache-2.0
//
// Functions of Python that an allocator calls: with none of its locks held, and with the GIL. What
// they raise is reported by sys.unraisablehook and goes no further.
#include <chrono>

#include "allocator.h"
#include "base/text.h"
#include "gil.h"

namespace ashlar::python {
namespace {

py::dict notice_as_dict(const OomNotice& notice) {
  py::dict all;
  all["device"] = notice.device.value();
  all["wanted_bytes"] = notice.wanted_bytes;
  all["limit_bytes"] = notice.limit_bytes;
  all["device_free_bytes"] = notice.device_free_bytes;
  return all;
}

// Since 1970. Trackers are told nothing of the time, but soon.
int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::function<void(const OomNotice&)> as_observer(py::function function) {
  return [kept = keep_object(std::move(function))](const OomNotice& notice) {
    with_gil([&] { call_back(*kept, notice_as_dict(notice)); });
  };
}

std::function<bool()> as_free_memory_callback(py::function function) {
  return [kept = keep_object(std::move(function))] {
    bool has_freed = false;
    with_gil([&] { has_freed = py::bool_(call_back(*kept)); });
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
      call_back(*kept, all);
    });
  };
}

}  // namespace

void bind_hooks(AllocatorClass& allocators) {
  allocators
      .def(
          "add_oom_observer",
          [](const AllocatorUser& user, py::function observer) {
            auto hook = as_observer(std::move(observer));
            without_gil([&] { user.allocator().hooks().add_oom_observer(std::move(hook)); });
          },
          py::arg("observer"),
          "observer({\"device\", \"wanted_bytes\", \"limit_bytes\", \"device_free_bytes\"}) is "
          "called before OutOfMemoryError is raised. Hooks stay as long as the allocator: one that "
          "refers to it keeps it alive.")
      .def(
          "add_rejection_observer",
          [](const AllocatorUser& user, py::function observer) {
            auto hook = as_observer(std::move(observer));
            without_gil([&] { user.allocator().hooks().add_rejection_observer(std::move(hook)); });
          },
          py::arg("observer"), "The same for what is refused without asking the device.")
      .def(
          "add_free_memory_callback",
          [](const AllocatorUser& user, py::function callback) {
            auto hook = as_free_memory_callback(std::move(callback));
            without_gil(
                [&] { user.allocator().hooks().add_free_memory_callback(std::move(hook)); });
          },
          py::arg("callback"),
          "callback() is asked to free something when there is no room, and says whether it did.")
      .def(
          "add_tracker",
          [](const AllocatorUser& user, py::function tracker) {
            auto hook = as_tracker(std::move(tracker));
            without_gil([&] { user.allocator().hooks().add_tracker(std::move(hook)); });
          },
          py::arg("tracker"),
          "tracker({\"action\", \"addr\", \"size\", \"stream\", \"time_us\", \"device\", "
          "\"segment_pool_id\"}) sees every act, in order; time_us is when it is told, since 1970. "
          "What a tracker itself does with the allocator is told as well: one that always "
          "allocates never ends.");
}

}  // namespace ashlar::python
