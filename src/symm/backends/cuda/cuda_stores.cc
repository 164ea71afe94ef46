// SPDX-License-Identifier: Apache-2.0
//
// What a rank does alone on CUDA devices: words stored by a kernel, bytes copied to all ranks by
// one that goes through the switch, or one rank after the other.
#include "base/align.h"
#include "symm/backends/cuda/cuda_operations.h"
#include "symm/backends/device/event_completion.h"

namespace ashlar::symm {
namespace {

uint64_t address_at(const std::byte* memory) { return reinterpret_cast<uint64_t>(memory); }

}  // namespace

Status CudaOperations::store_words(const PeerTable& peers, const WordFillRequest& what,
                                   const RunOptions& run_options) {
  kernels::StoreArguments arguments{};
  arguments.at = address_at(peers.pad(what.rank) + what.offset);
  arguments.count = what.count;
  arguments.value = what.value;
  return run_alone([&](StreamId stream) { return kernels_.launch(arguments, stream); },
                   run_options);
}

// What is left over goes as copies: no kernel is worth a few bytes.
Status CudaOperations::multicast_put(const PeerTable& peers, const MulticastPut& what,
                                     const RunOptions& run_options) {
  if (Status wrong = check_usable(elsewhere_of(what)); !wrong.ok()) return wrong;
  kernels::MultimemArguments through{};
  through.is_alone = 1;
  through.multicast = address_at(what.multicast);
  through.from = address_at(what.from.data());
  if (kernels_.can_multimem(std::nullopt) &&
      is_aligned(through.multicast | through.from, kPackBytes)) {
    through.bytes = what.from.size() / kPackBytes * kPackBytes;
  }
  const std::span<const std::byte> rest = what.from.subspan(through.bytes);
  const auto launch = [&](StreamId stream) -> Status {
    if (through.bytes != 0) {
      if (Status launched = kernels_.launch(std::nullopt, through, stream); !launched.ok()) {
        return launched;
      }
    }
    for (int rank = 0; rank < options_.rank_info.world_size && !rest.empty(); ++rank) {
      const std::byte* to = peers.buffer(rank) + what.offset + through.bytes;
      if (to == rest.data()) continue;
      Status copied = device_.copy(DeviceAddress(address_at(to)),
                                   DeviceAddress(address_at(rest.data())), rest.size(), stream);
      if (!copied.ok()) return copied;
    }
    return {};
  };
  return run_alone(launch, run_options);
}

Status CudaOperations::run_alone(const std::function<Status(StreamId stream)>& launch,
                                 const RunOptions& run_options) {
  if (!run_options.stream) return or_lost(own_streams_.run(launch));
  if (Status capture = refuse_capture(device_, *run_options.stream); !capture.ok()) {
    return or_lost(capture);
  }
  Result<std::unique_ptr<EventCompletion>> end = EventCompletion::make(device_);
  if (!end.ok()) return or_lost(end.status());
  // Some of it may be in the stream, also if the rest could not be.
  const Status launched = launch(*run_options.stream);
  const Status recorded = device_.record_event((*end)->event(), *run_options.stream);
  run_options.in_flight->add(*std::move(end));
  return or_lost(launched.ok() ? recorded : launched);
}

}  // namespace ashlar::symm
