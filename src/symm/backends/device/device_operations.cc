// SPDX-License-Identifier: Apache-2.0
//
// Implements copies. Returns errors for operations that need kernels.
#include "symm/backends/device/device_operations.h"

#include "base/text.h"
#include "device/relaxed_capture.h"
#include "symm/backends/device/event_completion.h"

namespace ashlar::symm {
namespace {

DeviceAddress buffer_address(const PeerTable& peers, int rank, size_t offset) {
  return DeviceAddress(reinterpret_cast<uint64_t>(peers.buffer(rank) + offset));
}

}  // namespace

Status DeviceOperations::put(const PeerTable& peers, int to, size_t offset,
                             std::span<const std::byte> from) {
  if (from.empty()) return {};
  return blocking_streams_.run([&](StreamId stream) {
    return device_.copy_to_device(buffer_address(peers, to, offset), from.data(), from.size(),
                                  stream);
  });
}

Status DeviceOperations::get(const PeerTable& peers, int from, size_t offset,
                             std::span<std::byte> to) {
  if (to.empty()) return {};
  return blocking_streams_.run([&](StreamId stream) {
    return device_.copy_to_host(to.data(), buffer_address(peers, from, offset), to.size(), stream);
  });
}

Status DeviceOperations::copy(const PeerTable& peers, const PieceCopy& copy,
                              const RunOptions& run_options) {
  if (copy.total_bytes() == 0) return {};
  const auto launch = [&](StreamId stream) { return launch_pieces(peers, copy, stream); };
  if (Status done = run_unordered(launch, run_options); !done.ok()) return done;
  if (!run_options.stream) return {};
  const Result<StreamOrder::Target> target = order_.find_capture(*run_options.stream);
  if (!target.ok()) return report_if_lost(target.status());
  return target->capture ? Status() : report_if_lost(copy_fence_.record(target->stream));
}

Status DeviceOperations::launch_pieces(const PeerTable& peers, const PieceCopy& copy,
                                       StreamId stream) {
  for (size_t piece = 0; piece < copy.count; ++piece) {
    const DeviceAddress at_rank =
        buffer_address(peers, copy.rank, copy.offset + piece * copy.rank_stride);
    const DeviceAddress at_caller(
        reinterpret_cast<uint64_t>(copy.caller + piece * copy.caller_stride));
    Status copied = copy.is_put ? device_.copy(at_rank, at_caller, copy.bytes, stream)
                                : device_.copy(at_caller, at_rank, copy.bytes, stream);
    if (!copied.ok()) return copied;
  }
  return {};
}

// In a capture, the copies of one stream are done in order, and events order its streams.
Status DeviceOperations::fence_stream(StreamId stream) {
  const Result<StreamOrder::Target> target = order_.find_capture(stream);
  if (!target.ok()) return report_if_lost(target.status());
  return target->capture ? Status() : report_if_lost(copy_fence_.wait(stream));
}

Status DeviceOperations::run_unordered(const std::function<Status(StreamId stream)>& launch,
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

Status DeviceOperations::store_words(const PeerTable& /*peers*/, const WordFillRequest& /*request*/,
                                     const RunOptions& /*run_options*/) {
  return no_kernels_error("stores of words");
}

Status DeviceOperations::run(const Signal& /*request*/, const RunOptions& /*run_options*/) {
  return no_kernels_error("signals and barriers");
}

Status DeviceOperations::run(const Collective& /*request*/, const RunOptions& /*run_options*/) {
  return no_kernels_error("collectives");
}

Result<uint64_t> DeviceOperations::counter_value(int /*from*/, int /*channel*/) {
  return no_kernels_error("counters");
}

Status DeviceOperations::finish(StreamId stream) {
  const RelaxedCapture relaxed(device_);
  return report_if_lost(device_.synchronize_stream(stream));
}

Result<StreamOrder::Target> DeviceOperations::target_of(StreamId stream,
                                                        const InFlightWork& in_flight) {
  Result<StreamOrder::Target> target = order_.find_capture(stream);
  if (!target.ok()) return report_if_lost(target.status());
  if (!target->capture) return target;
  const Status retained = order_.retain(*target, in_flight.owner());
  return retained.ok() ? std::move(target) : report_if_lost(retained);
}

Status DeviceOperations::enqueue(const StreamOrder::Target& target, const Work& work) {
  if (!work.is_ordered) return work.launch(target.stream);
  return order_.enqueue(target, [&] { return work.launch(target.stream); });
}

Status DeviceOperations::report_if_lost(const Status& ended) {
  if (!ended.is(StatusKind::kDeviceLost)) return ended;
  options_.failure->report(Status::device_lost(
      "work", ended.code(),
      text("the device of rank ", options_.rank_info.rank, " was lost: ", ended.message())));
  return ended;
}

Result<std::optional<Thresholds>> DeviceOperations::measure(const PeerTable& /*scratch*/,
                                                            size_t /*bytes*/,
                                                            Deadline /*deadline*/) {
  return std::optional<Thresholds>();
}

Status DeviceOperations::no_kernels_error(const char* operations) const {
  if (!no_kernels_.ok()) {
    return Status::unsupported(text("the kernels for the ", operations, " of back end ",
                                    device_.properties().backend,
                                    " cannot be used here: ", no_kernels_.message()));
  }
  return Status::unsupported(
      text("this build has no kernels for the ", operations, " of back end ",
           device_.properties().backend,
           ": use put, get or your own kernels, which can access all ranks' memory"));
}

}  // namespace ashlar::symm
