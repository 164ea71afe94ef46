// SPDX-License-Identifier: Apache-2.0
//
// Device memory in Python: a Buffer of bytes, and an Array of elements over one.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "memory.h"

namespace ashlar::python {

// What Python holds of a buffer; empty once it was freed.
class BufferUser {
 public:
  explicit BufferUser(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

  bool is_freed() const { return memory_ == nullptr; }
  bool is_of_this_process() const;
  // Throws InvalidArgument if it was freed, or is a parent process's. A copy of its own, since
  // another thread may free it as soon as the GIL is released.
  std::shared_ptr<Memory> memory() const;
  void free();

 private:
  std::shared_ptr<Memory> memory_;  // guarded by the GIL; shared with arrays, views and tensors
};

void bind_buffers(py::module_& module);
void bind_arrays(py::module_& module);
void bind_host_views(py::module_& module);

// The makers of the latter two, as methods of a Buffer.
py::object make_array(const BufferUser& buffer, const py::object& dtype, const py::object& shape);
py::object make_host_view(const BufferUser& buffer, const py::object& dtype,
                          const py::object& shape, bool writable);

}  // namespace ashlar::python
