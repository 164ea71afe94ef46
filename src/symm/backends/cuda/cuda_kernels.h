// SPDX-License-Identifier: Apache-2.0
//
// The kernels of symmetric memory on one CUDA device. Loaded once per heap and shared by its
// groups. Thread safe.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "device/gpu/gpu_device.h"
#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/backends/cuda/pinned_slot_pool.h"
#include "symm/collectives/reduce/element.h"

namespace ashlar::symm {

class CudaKernels {
 public:
  // `device` must outlive the result. Returns kUnsupported if this build has no kernels for the
  // device.
  static Result<std::unique_ptr<CudaKernels>> load(gpu::GpuDevice& device);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  gpu::GpuDevice& device() const { return device_; }
  PinnedSlotPool& pinned() { return pinned_; }

  // Launch a kernel in `stream`. Kernels that wait use one block, so that all their threads are
  // resident. Other kernels use as many blocks as the size justifies, up to kernels::kMaxBlocks.
  Status launch(const kernels::SignalArguments& args, StreamId stream) const;
  Status launch(const kernels::BarrierArguments& args, StreamId stream) const;
  Status launch(const kernels::CopyArguments& args, uint64_t bytes, StreamId stream) const;
  Status launch(const kernels::StoreArguments& args, StreamId stream) const;
  Status launch_plan(const kernels::ExpertArguments& args, StreamId stream) const;
  Status launch_copy(const kernels::ExpertArguments& args, StreamId stream) const;
  Status launch(ElementType type, const kernels::ReduceArguments& args, StreamId stream) const;
  Status launch(const kernels::PieceArguments& args, StreamId stream) const;
  // REQUIRES: has_multimem_kernel(sum_of).
  Status launch(std::optional<ElementType> sum_of, const kernels::MultimemArguments& args,
                StreamId stream) const;
  // Whether a kernel can sum elements of the type `sum_of` through multicast or, if `sum_of` is
  // empty, store through it.
  bool has_multimem_kernel(std::optional<ElementType> sum_of) const {
    return multimem(sum_of) != 0;
  }

 private:
  CudaKernels(gpu::GpuDevice& device, gpu::Handle loaded)
      : device_(device), loaded_(loaded), pinned_(device) {}
  Status find_all();
  Status find(const std::string& name, gpu::Handle& kernel);
  void find_multimem();
  gpu::Handle multimem(std::optional<ElementType> sum_of) const {
    return sum_of ? multimem_sum_[static_cast<size_t>(*sum_of)] : multimem_store_;
  }

  gpu::GpuDevice& device_;
  const gpu::Handle loaded_;
  // Constant after `load`.
  gpu::Handle signal_ = 0;
  gpu::Handle barrier_ = 0;
  gpu::Handle copy_ = 0;
  gpu::Handle store_ = 0;
  gpu::Handle copy_pieces_ = 0;
  gpu::Handle plan_slices_ = 0;
  gpu::Handle copy_slices_ = 0;
  gpu::Handle reduce_bits_ = 0;
  std::array<gpu::Handle, kElementTypeCount> reduce_{};        // indexed by type
  gpu::Handle multimem_store_ = 0;                             // 0 if not available
  std::array<gpu::Handle, kElementTypeCount> multimem_sum_{};  // by type; 0 if not available
  PinnedSlotPool pinned_;
};

}  // namespace ashlar::symm
