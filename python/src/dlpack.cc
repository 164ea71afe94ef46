// SPDX-License-Identifier: Apache-2.0
//
// Declares the structures of the DLPack ABI, and wraps tensors in capsules.
#include "dlpack.h"

#include <type_traits>
#include <vector>

#include "gil.h"

namespace ashlar::python {
namespace {

// DLTensor, DLManagedTensor (DLPack 0.x) and DLManagedTensorVersioned (DLPack 1.x).

struct TensorFields {
  void* data;
  int32_t device_type;
  int32_t device_index;
  int32_t dimension_count;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in numbers of elements
  uint64_t byte_offset;
};

struct ManagedTensor {
  TensorFields tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
  static constexpr const char* kName = "dltensor";
};

struct VersionedTensor {
  uint32_t major;
  uint32_t minor;
  void* manager;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  TensorFields tensor;
  static constexpr const char* kName = "dltensor_versioned";
};

static_assert(sizeof(TensorFields) == 48 && sizeof(ManagedTensor) == 64);
static_assert(sizeof(VersionedTensor) == 80);

constexpr uint64_t kReadOnly = 1;

// A DLPack tensor together with the data it points to.
template <typename Managed>
struct ExportedTensor {
  Managed managed{};
  DlpackTensor tensor{};
  std::vector<int64_t> strides{};
};

// Called by the consumer or delete_capsule, from any thread, with or without the GIL.
template <typename Managed>
void delete_tensor(Managed* managed) {
  drop_without_gil(std::unique_ptr<ExportedTensor<Managed>>(
      static_cast<ExportedTensor<Managed>*>(managed->manager)));
}

// Frees the tensor unless a consumer took it, which is visible because a consumed capsule has
// another name.
template <typename Managed>
void delete_capsule(PyObject* capsule) {
  const py::error_scope pending_exception;  // preserves a pending exception
  if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  managed->deleter(managed);
}

template <typename Managed>
py::capsule make_capsule(DlpackTensor tensor) {
  auto made = std::make_unique<ExportedTensor<Managed>>();
  made->strides = tensor.shape.strides();
  made->tensor = std::move(tensor);
  const ElementType& type = *made->tensor.shape.type;
  made->managed.tensor = {
      .data = made->tensor.shape.bytes() == 0 ? nullptr : made->tensor.data,
      .device_type = static_cast<int32_t>(made->tensor.device),
      .device_index = made->tensor.device_index,
      .dimension_count = static_cast<int32_t>(made->tensor.shape.shape.size()),
      .type_code = type.dlpack_code,
      .type_bits = type.bits,
      .type_lanes = 1,
      .shape = made->tensor.shape.shape.data(),
      .strides = made->strides.data(),
      .byte_offset = 0,
  };
  made->managed.manager = made.get();
  made->managed.deleter = delete_tensor<Managed>;
  if constexpr (std::is_same_v<Managed, VersionedTensor>) {
    made->managed.major = 1;
    made->managed.flags = made->tensor.is_read_only ? kReadOnly : 0;
  }
  PyObject* capsule = PyCapsule_New(&made->managed, Managed::kName, delete_capsule<Managed>);
  if (capsule == nullptr) throw py::error_already_set();
  (void)made.release();  // owned by the capsule, later by the consumer
  return py::reinterpret_steal<py::capsule>(capsule);
}

}  // namespace

py::capsule to_dlpack(DlpackTensor tensor, const DlpackRequest& request) {
  const std::pair<int, int> own_device = {static_cast<int>(tensor.device), tensor.device_index};
  if (request.device && *request.device != own_device) {
    throw py::buffer_error("the memory is on another device and is not copied");
  }
  if (request.copy.value_or(false)) throw py::buffer_error("memory is exported, not copied");
  if (request.max_version && request.max_version->first >= 1) {
    return make_capsule<VersionedTensor>(std::move(tensor));
  }
  if (tensor.is_read_only) {
    throw py::buffer_error(
        "read-only memory, which can only be read by consumers of DLPack 1.0 or later");
  }
  return make_capsule<ManagedTensor>(std::move(tensor));
}

}  // namespace ashlar::python
