// SPDX-License-Identifier: Apache-2.0
//
// Finds kernels by name and chooses launch sizes.
#include "symm/backends/cuda/cuda_kernels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/align.h"
#include "base/text.h"
#include "device/gpu/gpu_multicast.h"
#include "device/last_error.h"
#include "device/relaxed_capture.h"
#include "symm/backends/cuda/kernel_image.h"

namespace ashlar::symm {
namespace {

constexpr uint64_t kWarpThreads = 32;
// The number of bytes that justify one more block: four rounds of 16 bytes per thread.
constexpr uint64_t kBlockBytes = uint64_t{kernels::kWorkingThreads} * 16 * 4;

gpu::Driver::LaunchRequest launch_request(gpu::Handle kernel, uint64_t bytes,
                                          const void* argument) {
  const uint64_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  const uint64_t most = kernels::kMaxBlocks;
  return {.kernel = kernel,
          .block_count = static_cast<uint32_t>(std::clamp(blocks, uint64_t{1}, most)),
          .thread_count = kernels::kWorkingThreads,
          .argument = argument};
}

}  // namespace

Result<std::unique_ptr<CudaKernels>> CudaKernels::load(gpu::GpuDevice& device) {
  const void* image = kernel_image();
  if (image == nullptr) {
    return Status::unsupported(
        "this library was built without nvcc and clang: rebuild it with one of them");
  }
  const RelaxedCapture relaxed(device);
  const Result<gpu::Handle> loaded = device.load_kernels(image);
  if (!loaded.ok()) {
    return Status::unsupported(
        text("the kernels need compute capability 7.0 or later; the driver reports: ",
             loaded.status().message()));
  }
  std::unique_ptr<CudaKernels> made(new CudaKernels(device, *loaded));
  if (Status found = made->find_all(); !found.ok()) return found;
  (void)made->pinned().grow().ok();  // on failure, the first use tries again
  return made;
}

CudaKernels::~CudaKernels() { (void)device_.unload_kernels(loaded_).ok(); }

Status CudaKernels::find_all() {
  if (Status found = find(kernels::kSignalName, signal_); !found.ok()) return found;
  if (Status found = find(kernels::kBarrierName, barrier_); !found.ok()) return found;
  if (Status found = find(kernels::kCopyName, copy_); !found.ok()) return found;
  if (Status found = find(kernels::kStoreName, store_); !found.ok()) return found;
  if (Status found = find(kernels::kCopyPiecesName, copy_pieces_); !found.ok()) return found;
  if (Status found = find(kernels::kPlanSlicesName, plan_slices_); !found.ok()) return found;
  if (Status found = find(kernels::kCopySlicesName, copy_slices_); !found.ok()) return found;
  if (Status found = find(kernels::kReduceBitsName, reduce_bits_); !found.ok()) return found;
  for (size_t i = 0; i < reduce_.size(); ++i) {
    const std::string own = text(kernels::kReducePrefix, name(static_cast<ElementType>(i)));
    if (Status found = find(own, reduce_[i]); !found.ok()) return found;
  }
  find_multimem();
  return {};
}

// Finds the multicast kernels, if the device supports multicast and the image contains them. Signed
// and unsigned sums use the same kernel.
void CudaKernels::find_multimem() {
  if (!gpu::GpuMulticast(device_).availability().ok()) return;
  SavedLastErrors before;
  if (!find(kernels::kMultimemStoreName, multimem_store_).ok()) return before.restore();
  const std::pair<ElementType, ElementType> sums[] = {
      {ElementType::kF32, ElementType::kF32},   {ElementType::kF16, ElementType::kF16},
      {ElementType::kBf16, ElementType::kBf16}, {ElementType::kF64, ElementType::kF64},
      {ElementType::kU32, ElementType::kU32},   {ElementType::kI32, ElementType::kU32},
      {ElementType::kU64, ElementType::kU64},   {ElementType::kI64, ElementType::kU64},
  };
  for (const auto& [type, kernel_type] : sums) {
    const std::string own = text(kernels::kMultimemSumPrefix, name(kernel_type));
    (void)find(own, multimem_sum_[static_cast<size_t>(type)]).ok();
  }
  before.restore();
}

Status CudaKernels::find(const std::string& name, gpu::Handle& kernel) {
  const Result<gpu::Handle> found = device_.find_kernel(loaded_, name.c_str());
  if (!found.ok()) {
    return Status::unsupported(text("kernel ", name, ": ", found.status().message()));
  }
  kernel = *found;
  return {};
}

Status CudaKernels::launch(const kernels::SignalArguments& args, StreamId stream) const {
  return device_.launch({.kernel = signal_, .block_count = 1, .thread_count = 1, .argument = &args},
                        stream);
}

Status CudaKernels::launch(const kernels::BarrierArguments& args, StreamId stream) const {
  const uint64_t threads = align_up(uint64_t{args.common.world_size}, kWarpThreads);
  return device_.launch({.kernel = barrier_,
                         .block_count = 1,
                         .thread_count = static_cast<uint32_t>(threads),
                         .argument = &args},
                        stream);
}

Status CudaKernels::launch(const kernels::CopyArguments& args, uint64_t bytes,
                           StreamId stream) const {
  return device_.launch(launch_request(copy_, bytes, &args), stream);
}

Status CudaKernels::launch(const kernels::StoreArguments& args, StreamId stream) const {
  return device_.launch(launch_request(store_, args.count * sizeof(uint32_t), &args), stream);
}

Status CudaKernels::launch(const kernels::PieceArguments& args, StreamId stream) const {
  return device_.launch(launch_request(copy_pieces_, args.bytes * args.count, &args), stream);
}

// One thread per slice.
Status CudaKernels::launch_plan(const kernels::ExpertArguments& args, StreamId stream) const {
  const uint64_t slices = uint64_t{args.common.world_size} * args.experts;
  const uint64_t blocks = (slices + kernels::kWorkingThreads - 1) / kernels::kWorkingThreads;
  return device_.launch({.kernel = plan_slices_,
                         .block_count = static_cast<uint32_t>(blocks),
                         .thread_count = kernels::kWorkingThreads,
                         .argument = &args},
                        stream);
}

// The host does not know how many bytes are copied, so the size of `out` determines the number of
// blocks.
Status CudaKernels::launch_copy(const kernels::ExpertArguments& args, StreamId stream) const {
  const uint64_t blocks = (args.out_bytes + kBlockBytes - 1) / kBlockBytes;
  const uint64_t most = kernels::kMaxCopyBlocks;
  return device_.launch(
      {.kernel = copy_slices_,
       .block_count = static_cast<uint32_t>(std::clamp(blocks, uint64_t{1}, most)),
       .thread_count = kernels::kWorkingThreads,
       .argument = &args},
      stream);
}

Status CudaKernels::launch(ElementType type, const kernels::ReduceArguments& args,
                           StreamId stream) const {
  const auto op = static_cast<ReduceOp>(args.op);
  const bool is_bitwise = op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
  const gpu::Handle kernel = is_bitwise ? reduce_bits_ : reduce_[static_cast<size_t>(type)];
  return device_.launch(launch_request(kernel, args.bytes, &args), stream);
}

Status CudaKernels::launch(std::optional<ElementType> sum_of,
                           const kernels::MultimemArguments& args, StreamId stream) const {
  return device_.launch(launch_request(multimem(sum_of), args.bytes, &args), stream);
}

}  // namespace ashlar::symm
