// SPDX-License-Identifier: Apache-2.0
//
// Operations of a single rank on CUDA devices: storing words, and copying to all ranks through the
// switch or one by one.
#include "base/align.h"
#include "symm/backends/cuda/cuda_operations.h"
#include "symm/backends/cuda/kernel_plan.h"
#include "symm/backends/device/event_completion.h"

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

Status CudaOperations::run_unordered(const std::function<Status(StreamId stream)>& launch,
                                     const RunOptions& run_options) {
  if (!run_options.stream) return report_if_lost(blocking_streams_.run(launch));
  const Result<StreamOrder::Target> target = target_of(*run_options.stream, *run_options.in_flight);
  if (!target.ok()) return target.status();
  if (target->capture) return report_if_lost(launch(target->stream));
  Result<std::unique_ptr<EventCompletion>> end = EventCompletion::make(device_);
  if (!end.ok()) return report_if_lost(end.status());
  // Records the event even if a launch fails, because an earlier kernel or copy may already be in
  // the stream.
  const Status launched = launch(target->stream);
  const Status recorded = device_.record_event((*end)->event(), target->stream);
  run_options.in_flight->add(*std::move(end));
  return report_if_lost(launched.ok() ? recorded : launched);
}

}  // namespace ashlar::symm
