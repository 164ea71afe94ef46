// SPDX-License-Identifier: Apache-2.0
//
// Translates addresses and launches simulated kernels.
#include "symm/backends/sim/sim_operations.h"

#include <utility>
#include <vector>

#include "symm/backends/device/external_buffer.h"
#include "symm/backends/sim/translated_collective.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {

Result<std::unique_ptr<Operations>> SimOperations::make(sim::SimDevice& device,
                                                        const OperationsOptions& options) {
  if (device.runs_in_calls()) {
    return Status::invalid_argument(
        "a simulated machine with a seed runs one operation at a time, but ranks of symmetric "
        "memory "
        "wait for each other: make it without a seed");
  }
  std::unique_ptr<SimOperations> made(new SimOperations(device, options));
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < options.rank_info.world_size; ++rank) {
    const Result<std::byte*> base =
        translate(device, options.pads->pad(rank), options.pads->pad_bytes());
    if (!base.ok()) return base.status();
    bases.push_back(*base);
  }
  Result<SignalPads> pads =
      SignalPads::make(options.rank_info.rank, options.channel_count, std::move(bases));
  if (!pads.ok()) return pads.status();
  pads->set_spin_policy(options.spin_policy);
  made->pads_ = std::make_unique<SignalPads>(*std::move(pads));
  return std::unique_ptr<Operations>(std::move(made));
}

Status SimOperations::run(const Signal& request, const RunOptions& run_options) {
  if (Status wrong = check(*pads_, request); !wrong.ok()) return wrong;
  const auto kernel = [this, request](const Limits& limits) {
    return perform(*pads_, request, limits);
  };
  return submit({kernel, request.kind == Signal::Kind::kBarrier}, run_options);
}

Status SimOperations::run(const Collective& request, const RunOptions& run_options) {
  if (Status wrong = check(context(), request); !wrong.ok()) return wrong;
  Result<TranslatedCollective> translated = TranslatedCollective::of(device_, request);
  if (!translated.ok()) return translated.status();
  // Copies of the kernel share the collective.
  const auto shared = std::make_shared<TranslatedCollective>(*std::move(translated));
  const auto kernel = [this, shared](const Limits& limits) {
    return record_failure(perform(context(), shared->collective(), limits));
  };
  return submit({kernel, true}, run_options);
}

// If the device is lost, the wait ends while the kernel may still be running. The kernel therefore
// keeps its result on the heap, and the destructor waits for the kernel (`in_flight_`).
Result<uint64_t> SimOperations::counter_value(int from, int channel) {
  if (Status wrong = check(*pads_, Signal{Signal::Kind::kWaitForValue, from, channel, 0});
      !wrong.ok()) {
    return wrong;
  }
  const auto value = std::make_shared<Result<uint64_t>>(uint64_t{0});
  const Status done = blocking_streams_.run([&](StreamId stream) {
    return device_.launch(stream, [=, this, running = in_flight_.begin()]() -> Status {
      *value = symm::counter_value(*pads_, from, channel);
      return {};
    });
  });
  return done.ok() ? *value : done;
}

Status SimOperations::store_words(const PeerTable& peers, const WordFillRequest& request,
                                  const RunOptions& run_options) {
  const Result<std::byte*> first = translate(device_, peers.pad(request.rank) + request.offset,
                                             request.count * sizeof(uint32_t));
  if (!first.ok()) return first.status();
  return submit_unordered([first = *first, request] { store_words_at(first, request); },
                          run_options);
}

Status SimOperations::multicast_put(const PeerTable& peers, const MulticastPut& request,
                                    const RunOptions& run_options) {
  const size_t bytes = request.from.size();
  const Result<std::byte*> from = translate(device_, request.from.data(), bytes);
  if (!from.ok()) return external_buffer_error(external_buffer_of(request), from.status());
  std::vector<std::byte*> targets;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const Result<std::byte*> to = translate(device_, peers.buffer(rank) + request.offset, bytes);
    if (!to.ok()) return to.status();
    targets.push_back(*to);
  }
  const auto copy = [from = *from, bytes, targets = std::move(targets)] {
    for (std::byte* const to : targets) copy_bytes(to, from, bytes);
  };
  return submit_unordered(copy, run_options);
}

Status SimOperations::submit_unordered(const std::function<void()>& work,
                                       const RunOptions& run_options) {
  const auto launch = [&](StreamId stream, std::shared_ptr<void> running) {
    return device_.launch(stream, [work, running = std::move(running)]() -> Status {
      work();
      return {};
    });
  };
  if (!run_options.stream) {
    return report_if_lost(blocking_streams_.run(
        [&](StreamId stream) { return launch(stream, run_options.in_flight->begin()); }));
  }
  const Result<StreamOrder::Target> target = target_of(*run_options.stream, *run_options.in_flight);
  if (!target.ok()) return target.status();
  return report_if_lost(launch(target->stream, begin_work(*target, run_options)));
}

// A graph may run its kernels any number of times. It owns the memory, so that no destructor has to
// wait for these kernels.
std::shared_ptr<void> SimOperations::begin_work(const StreamOrder::Target& target,
                                                const RunOptions& run_options) {
  return target.capture ? nullptr : run_options.in_flight->begin();
}

Status SimOperations::submit(const Submission& work, const RunOptions& run_options) {
  if (Status before = take_pending_error(); !before.ok()) return before;
  if (run_options.stream) {
    const Result<StreamOrder::Target> target =
        target_of(*run_options.stream, *run_options.in_flight);
    if (!target.ok()) return target.status();
    const auto kernel = [this, run = work.kernel, timeout = run_options.timeout,
                         running = begin_work(*target, run_options)]() -> Status {
      if (!pending_error().ok()) return {};
      set_pending_error(run({*options_.failure, Deadline::of_timeout(timeout)}));
      return {};
    };
    return launch(work, *target, kernel);
  }
  // The kernel reports errors of work that has ended before it starts. Later errors are reported by
  // the next call.
  const auto outcome = std::make_shared<Status>();  // written by the kernel
  const auto kernel = [this, outcome, run = work.kernel, timeout = run_options.timeout,
                       running = run_options.in_flight->begin()]() -> Status {
    *outcome = take_pending_error();
    if (outcome->ok()) *outcome = run({*options_.failure, Deadline::of_timeout(timeout)});
    return {};
  };
  const Status done =
      blocking_streams_.run([&](StreamId stream) { return launch(work, {stream}, kernel); });
  return done.ok() ? *outcome : report_if_lost(done);
}

Status SimOperations::launch(const Submission& work, const StreamOrder::Target& target,
                             const std::function<Status()>& kernel) {
  const auto launch_kernel = [&](StreamId into) { return device_.launch(into, kernel); };
  return enqueue(target, {launch_kernel, work.is_ordered});
}

// If the device is lost, DeviceOperations::finish fails the group, which ends kernels that are
// still waiting.
Status SimOperations::finish(StreamId stream) {
  if (Status waited = DeviceOperations::finish(stream); !waited.ok()) return waited;
  return take_pending_error();
}

Status SimOperations::take_pending_error() {
  MutexLock lock(mutex_);
  return std::exchange(pending_error_, Status());
}

void SimOperations::set_pending_error(const Status& ended) {
  MutexLock lock(mutex_);
  if (pending_error_.ok()) pending_error_ = ended;
}

Status SimOperations::record_failure(Status ended) {
  // In these cases, the collective is complete on all ranks.
  if (ended.ok() || ended.is(StatusKind::kInvalidArgument)) return ended;
  MutexLock lock(mutex_);
  has_failed_work_ = true;
  return ended;
}

bool SimOperations::has_failed_work() {
  MutexLock lock(mutex_);
  return has_failed_work_;
}

Status SimOperations::pending_error() const {
  MutexLock lock(mutex_);
  return pending_error_;
}

}  // namespace ashlar::symm
