// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python class Pool, and the allocator's functions that create, pause and resume pools.
#include <pybind11/stl.h>

#include <optional>
#include <thread>
#include <vector>

#include "allocator.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// A pool that Python objects retain. The pool is released when its last owner is destroyed.
class SharedPool {
 public:
  SharedPool(std::shared_ptr<SharedAllocator> owner, PoolId id)
      : owner_(std::move(owner)), id_(id) {}
  ~SharedPool() {
    try {
      owner_->allocator().pools().release(id_);
    } catch (const Error&) {
      // The call fails if the pool has already been destroyed. A destructor cannot report errors.
    }
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  Allocator& allocator() const { return owner_->allocator(); }
  const DeviceRef& device() const { return owner_->device(); }
  PoolId id() const { return id_; }

 private:
  std::shared_ptr<SharedAllocator> owner_;  // shared with the allocator's Python object
  PoolId id_;
};

struct PoolObject {
  std::shared_ptr<SharedPool> shared;
  // The thread inside the with statement; guarded by the GIL.
  std::optional<std::thread::id> routing_thread{};

  // Routes allocations on this thread to the pool.
  void enter() {
    if (routing_thread) {
      unwrap(
          Status::invalid_argument(text("pool ", shared->id(), " is already in a with statement")));
    }
    const std::thread::id self = std::this_thread::get_id();
    routing_thread = self;
    try {
      without_gil([&] {
        shared->allocator().pools().begin_routing(
            shared->id(), [self](StreamId) { return std::this_thread::get_id() == self; });
      });
    } catch (...) {
      routing_thread.reset();
      throw;
    }
  }

  // Ends the routing, and releases the pool, because begin_routing() retained it.
  void exit() {
    without_gil([&] {
      shared->allocator().pools().end_routing(shared->id());
      shared->allocator().pools().release(shared->id());
    });
    routing_thread.reset();
  }
};

PoolObject make_pool(const AllocatorObject& self, PoolOptions options) {
  return {.shared = without_gil([&] {
            const PoolId id = self.allocator().pools().create(std::move(options));
            return make_shared_without_gil<SharedPool>(self.shared, id);
          })};
}

// Prevents host access to the allocator's memory while it exists.
class PauseGuard {
 public:
  using Begin = void (SharedAllocator::*)();

  PauseGuard(SharedAllocator& owner, Begin begin) : owner_(owner) { (owner_.*begin)(); }
  ~PauseGuard() { owner_.end_pause_or_resume(); }
  PauseGuard(const PauseGuard&) = delete;
  PauseGuard& operator=(const PauseGuard&) = delete;

 private:
  SharedAllocator& owner_;
};

void pause(const AllocatorObject& self, const std::string& tag,
           const std::optional<std::string>& backup) {
  if (backup && *backup != "host") {
    unwrap(Status::invalid_argument(
        text("backup: \"", *backup, "\" is unknown (expected \"host\" or None)")));
  }
  const PauseOptions options = {.backup = backup ? PauseBackup::kHost : PauseBackup::kNone};
  without_gil([&] {
    const PauseGuard pausing(*self.shared, &SharedAllocator::begin_pause);
    self.allocator().pools().pause(tag, options);
  });
}

void bind_pool(py::module_& module) {
  py::class_<PoolObject>(
      module, "Pool",
      "An isolated pool of memory. In a with statement, allocations on the thread "
      "come from the pool. After its release, trim() returns its memory.")
      .def_property_readonly("id",
                             [](const PoolObject& pool) {
                               return py::make_tuple(pool.shared->id().capture,
                                                     pool.shared->id().user);
                             })
      .def("__enter__",
           [](const py::object& self) {
             self.cast<PoolObject&>().enter();
             return self;
           })
      .def("__exit__", [](PoolObject& pool, const py::args&) { pool.exit(); })
      .def(
          "trim",
          [](const PoolObject& pool) {
            without_gil([&] { pool.shared->allocator().pools().trim(pool.shared->id()); });
          },
          "Returns the pool's cached memory to the device, unless the pool is retained.")
      .def(
          "live",
          [](const PoolObject& pool) {
            std::vector<uint64_t> addresses;
            for (DeviceAddress each : without_gil([&] {
                   return pool.shared->allocator().pools().live_addresses(pool.shared->id());
                 })) {
              addresses.push_back(each.value());
            }
            return addresses;
          },
          "Returns the addresses of the pool's live blocks.")
      .def_property_readonly(
          "use_count",
          [](const PoolObject& pool) {
            return without_gil(
                [&] { return pool.shared->allocator().pools().use_count(pool.shared->id()); });
          })
      .def("__repr__", [](const PoolObject& pool) {
        return text("<ashlar.Pool ", pool.shared->id(), " on ", pool.shared->device().name(), ">");
      });
}

}  // namespace

void bind_pools(py::module_& module, AllocatorClass& allocators) {
  bind_pool(module);
  allocators
      .def(
          "make_pool",
          [](const AllocatorObject& self, std::string tag, bool use_on_oom, bool no_split,
             bool never_remap) {
            return make_pool(self, {.use_on_oom = use_on_oom,
                                    .no_split = no_split,
                                    .never_remap = never_remap,
                                    .tag = std::move(tag)});
          },
          py::kw_only(), py::arg("tag") = "", py::arg("use_on_oom") = false,
          py::arg("no_split") = false, py::arg("never_remap") = false,
          "tag: for pause and resume. use_on_oom: the pool's cached blocks may serve the default "
          "pool if all else fails. no_split: one block per segment. never_remap: "
          "addresses keep their physical memory.")
      .def("pause", pause, py::arg("tag"), py::kw_only(), py::arg("backup") = py::none(),
           "Releases the physical memory of pools with this tag; blocks keep their addresses. "
           "backup: \"host\" saves their contents.")
      .def(
          "resume",
          [](const AllocatorObject& self, const std::string& tag) {
            without_gil([&] {
              const PauseGuard resuming(*self.shared, &SharedAllocator::begin_resume);
              self.allocator().pools().resume(tag);
            });
          },
          py::arg("tag"), "Restores the memory of pools with this tag.");
}

}  // namespace ashlar::python
