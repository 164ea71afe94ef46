// SPDX-License-Identifier: Apache-2.0
//
// Zero-copy export of memory with the DLPack protocol. A consumer renames the capsule and later
// calls the deleter; if there is no consumer, the capsule's destructor calls it. The deleter
// therefore runs exactly once.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "element_type.h"

namespace ashlar::python {

namespace py = pybind11;

// Values of DLDeviceType.
enum class DlpackDevice : int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,  // pinned host memory
  kRocm = 10,
  kRocmHost = 11,
  kExtension = 12,
};

// A tensor to export.
struct DlpackTensor {
  std::shared_ptr<void> owner{};  // keeps the memory alive; shared with Python objects
  void* data = nullptr;
  DlpackDevice device = DlpackDevice::kCpu;
  int32_t device_index = 0;
  ArrayShape shape{};
  bool is_read_only = false;
};

// Arguments of __dlpack__ except the stream.
struct DlpackRequest {
  std::optional<std::pair<int, int>> max_version{};
  std::optional<std::pair<int, int>> device{};
  std::optional<bool> copy{};
};

// Returns a capsule, which is versioned if the consumer supports DLPack 1.0 or later. Raises
// BufferError if a copy or another device is requested, and for read-only memory in an unversioned
// capsule, which has no flag for it.
py::capsule to_dlpack(DlpackTensor tensor, const DlpackRequest& request);

}  // namespace ashlar::python
