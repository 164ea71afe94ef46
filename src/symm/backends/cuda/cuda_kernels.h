// SPDX-License-Identifier: Apache-2.0
//
// The kernels of symmetric memory on one CUDA device: loaded once for a heap, launched by all of
// its groups. Thread safe.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "device/gpu/gpu_device.h"
#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/backends/cuda/pinned_pool.h"
#include "symm/collectives/reduce/element.h"

namespace ashlar::symm {

class CudaKernels {
 public:
  // `device` outlives it. kUnsupported: this build has none, or not for this device, and why.
  static Result<std::unique_ptr<CudaKernels>> load(gpu::GpuDevice& device);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  gpu::GpuDevice& device() const { return device_; }
  PinnedPool& pinned() { return pinned_; }

  // Those that wait have one block, so that all of it is on the device; those that work have as
  // many as suit the bytes.
  Status launch(const kernels::SignalArguments& what, StreamId stream) const;
  Status launch(const kernels::MeetArguments& what, StreamId stream) const;
  Status launch(const kernels::CopyArguments& what, uint64_t bytes, StreamId stream) const;
  Status launch(const kernels::StoreArguments& what, StreamId stream) const;
  Status launch(ElementType type, const kernels::ReduceArguments& what, StreamId stream) const;
  // REQUIRES: can_multimem.
  Status launch(std::optional<ElementType> sum_of, const kernels::MultimemArguments& what,
                StreamId stream) const;
  // Whether there is a kernel that adds such elements through multicast; empty: that stores.
  bool can_multimem(std::optional<ElementType> sum_of) const { return multimem(sum_of) != 0; }

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
  // Constant once loaded.
  gpu::Handle signal_ = 0;
  gpu::Handle meet_ = 0;
  gpu::Handle copy_ = 0;
  gpu::Handle store_ = 0;
  gpu::Handle reduce_bits_ = 0;
  std::array<gpu::Handle, kElementTypeCount> reduce_{};  // by type
  gpu::Handle multimem_store_ = 0;                       // 0, here and below: there is none
  std::array<gpu::Handle, kElementTypeCount> multimem_sum_{};
  PinnedPool pinned_;
};

}  // namespace ashlar::symm
