// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python classes for device memory: Buffer (bytes), Array (typed elements) and HostView
// (host access).
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "memory.h"

namespace ashlar::python {

// The Python object of a buffer; empty after free().
class BufferObject {
 public:
  explicit BufferObject(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

  bool is_freed() const { return memory_ == nullptr; }
  bool is_of_this_process() const;
  // Returns a shared reference, because another thread may free the buffer once the GIL is
  // released. Throws InvalidArgument if the buffer was freed or belongs to a parent process.
  std::shared_ptr<Memory> memory() const;
  void free();

 private:
  std::shared_ptr<Memory> memory_;  // guarded by the GIL; shared with arrays, views and tensors
};

void bind_buffers(py::module_& module);
void bind_arrays(py::module_& module);
void bind_host_views(py::module_& module);

// These functions implement Buffer.array and Buffer.host_view.
py::object make_array(const BufferObject& buffer, const py::object& dtype, const py::object& shape);
py::object make_host_view(const BufferObject& buffer, const py::object& dtype,
                          const py::object& shape, bool writable);

}  // namespace ashlar::python
