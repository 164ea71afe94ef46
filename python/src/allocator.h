// SPDX-License-Identifier: Apache-2.0
//
// Allocators in Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "ashlar/snapshot.h"
#include "memory.h"

namespace ashlar::python {

// What Python holds of an allocator.
struct AllocatorUser {
  std::shared_ptr<OwnAllocator> own;  // shared with its buffers and pools

  Allocator& allocator() const { return own->allocator(); }
};

using AllocatorClass = py::class_<AllocatorUser>;

void bind_allocators(py::module_& module);
// Parts of the class, by what they are about.
void bind_looking(AllocatorClass& allocators);
void bind_hooks(AllocatorClass& allocators);
void bind_pools(py::module_& module, AllocatorClass& allocators);

// A snapshot as PyTorch has it in a pickle: plain dicts and lists.
py::object snapshot_as_dict(const Snapshot& snapshot);

}  // namespace ashlar::python
