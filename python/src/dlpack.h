// SPDX-License-Identifier: Apache-2.0
//
// Memory handed to other libraries without a copy, by the DLPack protocol: in capsules, which
// whoever takes the tensor renames, so that its owner is told of its end exactly once.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "element_type.h"

namespace ashlar::python {

namespace py = pybind11;

// DLPack's numbers for where memory is.
enum class DlpackDevice : int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,  // pinned
  kRocm = 10,
  kRocmHost = 11,
  kExtension = 12,
};

// What is handed out.
struct DlpackTensor {
  std::shared_ptr<void>
      keeper{};  // shared with our own objects: the memory lives as long as either
  void* data = nullptr;
  DlpackDevice device = DlpackDevice::kCpu;
  int32_t device_index = 0;
  ArrayShape shape{};
  bool is_read_only = false;
};

// What __dlpack__ may be asked, but for the stream.
struct DlpackRequest {
  std::optional<std::pair<int, int>> max_version{};
  std::optional<std::pair<int, int>> device{};
  std::optional<bool> copy{};
};

// A capsule: of the first kind, or of the second one with version and flags if the asker knows it.
// Raises BufferError for what cannot be: a copy, another device, or read-only memory of the first
// kind.
py::capsule to_dlpack(DlpackTensor tensor, const DlpackRequest& request);

}  // namespace ashlar::python
