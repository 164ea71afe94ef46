// SPDX-License-Identifier: Apache-2.0
//
// Operations of a single rank on CUDA devices: storing words, copying pieces, and copying to all
// ranks through the switch or one by one.
#include "base/align.h"
#include "symm/backends/cuda/cuda_operations.h"
#include "symm/backends/cuda/kernel_plan.h"

namespace ashlar::symm {

Status CudaOperations::store_words(const PeerTable& peers, const WordFillRequest& request,
                                   const RunOptions& run_options) {
  kernels::StoreArguments arguments{};
  arguments.at = address_of(peers.pad(request.rank) + request.offset);
  arguments.count = request.count;
  arguments.value = request.value;
  return run_unordered([&](StreamId stream) { return kernels_.launch(arguments, stream); },
                       run_options);
}

// Stores whole packs through the switch, if possible, and copies the remaining bytes to each rank.
Status CudaOperations::multicast_put(const PeerTable& peers, const MulticastPut& request,
                                     const RunOptions& run_options) {
  if (Status wrong = check_usable(external_buffer_of(request)); !wrong.ok()) return wrong;
  kernels::MultimemArguments store{};
  store.is_alone = 1;
  store.multicast = address_of(request.multicast);
  store.from = address_of(request.from.data());
  if (kernels_.has_multimem_kernel(std::nullopt) &&
      is_aligned(store.multicast | store.from, kPackBytes)) {
    store.bytes = request.from.size() / kPackBytes * kPackBytes;
  }
  const std::span<const std::byte> remainder = request.from.subspan(store.bytes);
  const auto launch = [&](StreamId stream) -> Status {
    if (store.bytes != 0) {
      if (Status launched = kernels_.launch(std::nullopt, store, stream); !launched.ok()) {
        return launched;
      }
    }
    for (int rank = 0; rank < options_.rank_info.world_size && !remainder.empty(); ++rank) {
      const std::byte* to = peers.buffer(rank) + request.offset + store.bytes;
      if (to == remainder.data()) continue;
      Status copied =
          device_.copy(DeviceAddress(address_of(to)), DeviceAddress(address_of(remainder.data())),
                       remainder.size(), stream);
      if (!copied.ok()) return copied;
    }
    return {};
  };
  return run_unordered(launch, run_options);
}

// Few pieces are copied one by one, because copy engines are faster.
Status CudaOperations::launch_pieces(const PeerTable& peers, const PieceCopy& copy,
                                     StreamId stream) {
  constexpr size_t kFewPieces = 4;
  if (copy.count <= kFewPieces) return DeviceOperations::launch_pieces(peers, copy, stream);
  const size_t extent = (copy.count - 1) * copy.caller_stride + copy.bytes;
  const ExternalBuffer caller{copy.is_put ? "from" : "to", copy.caller, extent};
  if (Status wrong = check_usable(caller); !wrong.ok()) return wrong;
  const uint64_t at_rank = address_of(peers.buffer(copy.rank) + copy.offset);
  const uint64_t at_caller = address_of(copy.caller);
  kernels::PieceArguments arguments{};
  arguments.to = copy.is_put ? at_rank : at_caller;
  arguments.from = copy.is_put ? at_caller : at_rank;
  arguments.to_stride = copy.is_put ? copy.rank_stride : copy.caller_stride;
  arguments.from_stride = copy.is_put ? copy.caller_stride : copy.rank_stride;
  arguments.bytes = copy.bytes;
  arguments.count = copy.count;
  return kernels_.launch(arguments, stream);
}

}  // namespace ashlar::symm
