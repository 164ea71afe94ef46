// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python class Allocator: allocation, statistics, history, hooks, pools and snapshots.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "ashlar/snapshot.h"
#include "memory.h"

namespace ashlar::python {

// The Python object of an allocator.
struct AllocatorObject {
  std::shared_ptr<SharedAllocator> shared;  // shared with its buffers and pools

  Allocator& allocator() const { return shared->allocator(); }
};

using AllocatorClass = py::class_<AllocatorObject>;

void bind_allocators(py::module_& module);
// Each of these functions adds a group of methods to the class. bind_pools also binds the class
// Pool.
void bind_stats_and_history(AllocatorClass& allocators);
void bind_hooks(AllocatorClass& allocators);
void bind_pools(py::module_& module, AllocatorClass& allocators);

// Returns the snapshot as dicts and lists, in PyTorch's format.
py::object snapshot_to_dict(const Snapshot& snapshot);

}  // namespace ashlar::python
