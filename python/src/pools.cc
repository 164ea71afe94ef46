// SPDX-License-Identifier: Apache-2.0
//
// Pools: memory held apart from the rest, by with statements; and pausing them.
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

// A pool, held for Python.
class OwnPool {
 public:
  OwnPool(std::shared_ptr<OwnAllocator> owner, PoolId id) : owner_(std::move(owner)), id_(id) {}
  ~OwnPool() {
    try {
      owner_->allocator().pools().release(id_);
    } catch (const Error&) {
      // It is gone already: nothing is held.
    }
  }
  OwnPool(const OwnPool&) = delete;
  OwnPool& operator=(const OwnPool&) = delete;

  Allocator& allocator() const { return owner_->allocator(); }
  const DeviceUse& device() const { return owner_->device(); }
  PoolId id() const { return id_; }

 private:
  std::shared_ptr<OwnAllocator> owner_;  // shared with the allocator's other users
  PoolId id_;
};

struct PoolUser {
  std::shared_ptr<OwnPool> own;
  // The thread inside of its with statement, guarded by the GIL.
  std::optional<std::thread::id> routed_by{};

  // What this thread allocates goes to the pool.
  void enter() {
    if (routed_by) {
      unwrap(Status::invalid_argument(text("pool ", own->id(), " is in a with statement already")));
    }
    const std::thread::id self = std::this_thread::get_id();
    routed_by = self;
    try {
      without_gil([&] {
        own->allocator().pools().begin_routing(
            own->id(), [self](StreamId) { return std::this_thread::get_id() == self; });
      });
    } catch (...) {
      routed_by.reset();
      throw;
    }
  }

  // Routing holds the pool once more than its handle does.
  void exit() {
    without_gil([&] {
      own->allocator().pools().end_routing(own->id());
      own->allocator().pools().release(own->id());
    });
    routed_by.reset();
  }
};

PoolUser make_pool(const AllocatorUser& user, PoolOptions options) {
  return {.own = without_gil([&] {
            const PoolId id = user.allocator().pools().create(std::move(options));
            return make_shared_without_gil<OwnPool>(user.own, id);
          })};
}

// As long as it lives, nobody begins to look at memory from the host.
class Changing {
 public:
  using Begin = void (OwnAllocator::*)();

  Changing(OwnAllocator& owner, Begin begin) : owner_(owner) { (owner_.*begin)(); }
  ~Changing() { owner_.end_changing(); }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  OwnAllocator& owner_;
};

void pause(const AllocatorUser& user, const std::string& tag,
           const std::optional<std::string>& backup) {
  if (backup && *backup != "host") {
    unwrap(Status::invalid_argument(
        text("backup: \"", *backup, "\" is unknown (expected \"host\" or None)")));
  }
  const PauseOptions options = {.backup = backup ? PauseBackup::kHost : PauseBackup::kNone};
  without_gil([&] {
    const Changing pausing(*user.own, &OwnAllocator::begin_pausing);
    user.allocator().pools().pause(tag, options);
  });
}

void bind_pool(py::module_& module) {
  py::class_<PoolUser>(module, "Pool",
                       "Memory held apart from the rest. In a with statement, what the thread "
                       "allocates comes from it. Let go of, it goes back with the next trim.")
      .def_property_readonly("id",
                             [](const PoolUser& pool) {
                               return py::make_tuple(pool.own->id().capture, pool.own->id().user);
                             })
      .def("__enter__",
           [](const py::object& self) {
             self.cast<PoolUser&>().enter();
             return self;
           })
      .def("__exit__", [](PoolUser& pool, const py::args&) { pool.exit(); })
      .def(
          "trim",
          [](const PoolUser& pool) {
            without_gil([&] { pool.own->allocator().pools().trim(pool.own->id()); });
          },
          "Gives back what it has cached, once nobody holds it.")
      .def(
          "live",
          [](const PoolUser& pool) {
            std::vector<uint64_t> addresses;
            for (DeviceAddress each : without_gil([&] {
                   return pool.own->allocator().pools().live_addresses(pool.own->id());
                 })) {
              addresses.push_back(each.value());
            }
            return addresses;
          },
          "The addresses of what it has handed out.")
      .def_property_readonly("use_count",
                             [](const PoolUser& pool) {
                               return without_gil([&] {
                                 return pool.own->allocator().pools().use_count(pool.own->id());
                               });
                             })
      .def("__repr__", [](const PoolUser& pool) {
        return text("<ashlar.Pool ", pool.own->id(), " on ", pool.own->device().name(), ">");
      });
}

}  // namespace

void bind_pools(py::module_& module, AllocatorClass& allocators) {
  bind_pool(module);
  allocators
      .def(
          "make_pool",
          [](const AllocatorUser& user, std::string tag, bool use_on_oom, bool no_split,
             bool never_remap) {
            return make_pool(user, {.use_on_oom = use_on_oom,
                                    .no_split = no_split,
                                    .never_remap = never_remap,
                                    .tag = std::move(tag)});
          },
          py::kw_only(), py::arg("tag") = "", py::arg("use_on_oom") = false,
          py::arg("no_split") = false, py::arg("never_remap") = false,
          "tag: for pause and resume. use_on_oom: its cached blocks may serve others when nothing "
          "else does. no_split: one block for each segment. never_remap: an address keeps its "
          "memory.")
      .def("pause", pause, py::arg("tag"), py::kw_only(), py::arg("backup") = py::none(),
           "Gives the memory of the pools with this tag back, while blocks keep their addresses. "
           "backup: \"host\" keeps what is in them.")
      .def(
          "resume",
          [](const AllocatorUser& user, const std::string& tag) {
            without_gil([&] {
              const Changing resuming(*user.own, &OwnAllocator::begin_resuming);
              user.allocator().pools().resume(tag);
            });
          },
          py::arg("tag"), "Memory for them again.");
}

}  // namespace ashlar::python
