// SPDX-License-Identifier: Apache-2.0
//
// From device addresses to what kernels see, and from calls to kernels.
#include "symm/backends/sim/sim_operations.h"

#include <utility>
#include <vector>

#include "symm/backends/device/external_buffer.h"
#include "symm/backends/sim/seen_by_device.h"
#include "symm/signals/signals.h"

namespace ashlar::symm {

Result<std::unique_ptr<Operations>> SimOperations::make(sim::SimDevice& device,
                                                        const OperationsOptions& options) {
  if (device.runs_in_calls()) {
    return Status::invalid_argument(
        "a simulated machine with a seed does one thing at a time, and ranks of symmetric memory "
        "wait for each other: make it without a seed");
  }
  std::unique_ptr<SimOperations> made(new SimOperations(device, options));
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < options.rank_info.world_size; ++rank) {
    const Result<std::byte*> seen =
        seen_by(device, options.pads->pad(rank), options.pads->pad_bytes());
    if (!seen.ok()) return seen.status();
    bases.push_back(*seen);
  }
  Result<SignalPads> pads =
      SignalPads::make(options.rank_info.rank, options.channel_count, std::move(bases));
  if (!pads.ok()) return pads.status();
  pads->set_spin_policy(options.spin_policy);
  made->pads_ = std::make_unique<SignalPads>(*std::move(pads));
  return std::unique_ptr<Operations>(std::move(made));
}

// --- kernels ------------------------------------------------------------------------------------

Status SimOperations::run(const Signal& what, const RunOptions& run_options) {
  if (Status wrong = check(*pads_, what); !wrong.ok()) return wrong;
  const auto kernel = [this, what](const Limits& limits) { return perform(*pads_, what, limits); };
  return submit({kernel, what.kind == Signal::Kind::kBarrier}, run_options);
}

Status SimOperations::run(const Collective& what, const RunOptions& run_options) {
  if (Status wrong = check(team(), what); !wrong.ok()) return wrong;
  Result<SeenByDevice> seen = SeenByDevice::of(device_, what);
  if (!seen.ok()) return seen.status();
  const auto kept =
      std::make_shared<SeenByDevice>(*std::move(seen));  // copies of a kernel share it
  const auto kernel = [this, kept](const Limits& limits) {
    return noted(perform(team(), kept->collective(), limits));
  };
  return submit({kernel, true}, run_options);
}

// A device that is lost ends waits though a kernel may be running: nothing of it is on a stack
// here, and whoever owns the memory waits for it.
Result<uint64_t> SimOperations::counter_value(int from, int channel) {
  if (Status wrong = check(*pads_, Signal{Signal::Kind::kWaitForValue, from, channel, 0});
      !wrong.ok()) {
    return wrong;
  }
  const auto value = std::make_shared<Result<uint64_t>>(uint64_t{0});
  const Status done = own_streams_.run([&](StreamId stream) {
    return device_.launch(stream, [=, this, running = in_flight_.begin()]() -> Status {
      *value = symm::counter_value(*pads_, from, channel);
      return {};
    });
  });
  return done.ok() ? *value : done;
}

// --- one rank alone -----------------------------------------------------------------------------

Status SimOperations::store_words(const PeerTable& peers, const WordFillRequest& what,
                                  const RunOptions& run_options) {
  const std::byte* first = peers.pad(what.rank) + what.offset;
  const Result<std::byte*> seen = seen_by(device_, first, what.count * sizeof(uint32_t));
  if (!seen.ok()) return seen.status();
  return submit_alone([first = *seen, what] { store_words_at(first, what); }, run_options);
}

Status SimOperations::multicast_put(const PeerTable& peers, const MulticastPut& what,
                                    const RunOptions& run_options) {
  const size_t bytes = what.from.size();
  const Result<std::byte*> from = seen_by(device_, what.from.data(), bytes);
  if (!from.ok()) return not_elsewhere(elsewhere_of(what), from.status());
  std::vector<std::byte*> all;
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const Result<std::byte*> seen = seen_by(device_, peers.buffer(rank) + what.offset, bytes);
    if (!seen.ok()) return seen.status();
    all.push_back(*seen);
  }
  const auto copy = [from = *from, bytes, all = std::move(all)] {
    for (std::byte* const to : all) copy_bytes(to, from, bytes);
  };
  return submit_alone(copy, run_options);
}

Status SimOperations::submit_alone(const std::function<void()>& act,
                                   const RunOptions& run_options) {
  const auto kernel = [act, running = run_options.in_flight->begin()]() -> Status {
    act();
    return {};
  };
  const auto launch = [&](StreamId stream) { return device_.launch(stream, kernel); };
  if (!run_options.stream) return or_lost(own_streams_.run(launch));
  if (Status capture = refuse_capture(device_, *run_options.stream); !capture.ok()) {
    return or_lost(capture);
  }
  return or_lost(launch(*run_options.stream));
}

// --- in streams ---------------------------------------------------------------------------------

Status SimOperations::submit(const Submission& work, const RunOptions& run_options) {
  if (Status before = take_bad_end(); !before.ok()) return before;
  if (run_options.stream) {
    if (Status capture = refuse_capture(device_, *run_options.stream); !capture.ok())
      return capture;
    const auto kernel = [this, run = work.kernel, timeout = run_options.timeout,
                         running = run_options.in_flight->begin()]() -> Status {
      if (!bad_end().ok()) return {};
      keep_bad_end(run({*options_.failure, Deadline::of_timeout(timeout)}));
      return {};
    };
    return launch(work, *run_options.stream, kernel);
  }
  // What ends badly elsewhere once this has begun is the next call's to tell.
  const auto outcome = std::make_shared<Status>();  // the kernel's until it has ended
  const auto kernel = [this, outcome, run = work.kernel, timeout = run_options.timeout,
                       running = run_options.in_flight->begin()]() -> Status {
    *outcome = take_bad_end();
    if (outcome->ok()) *outcome = run({*options_.failure, Deadline::of_timeout(timeout)});
    return {};
  };
  const Status done =
      own_streams_.run([&](StreamId stream) { return launch(work, stream, kernel); });
  return done.ok() ? *outcome : or_lost(done);
}

Status SimOperations::launch(const Submission& work, StreamId stream,
                             const std::function<Status()>& kernel) {
  const auto put = [&](StreamId into) { return device_.launch(into, kernel); };
  return put_in(stream, {put, work.is_ordered});
}

// Kernels of a lost device that are running end with its group.
Status SimOperations::finish(StreamId stream) {
  if (Status waited = DeviceOperations::finish(stream); !waited.ok()) return waited;
  return take_bad_end();
}

Status SimOperations::take_bad_end() {
  MutexLock lock(mutex_);
  return std::exchange(bad_end_, Status());
}

void SimOperations::keep_bad_end(const Status& ended) {
  MutexLock lock(mutex_);
  if (bad_end_.ok()) bad_end_ = ended;
}

Status SimOperations::noted(Status ended) {
  if (ended.ok() || ended.is(StatusKind::kInvalidArgument))
    return ended;  // all ranks were told the same
  MutexLock lock(mutex_);
  has_ended_badly_ = true;
  return ended;
}

bool SimOperations::has_failed_work() {
  MutexLock lock(mutex_);
  return has_ended_badly_;
}

Status SimOperations::bad_end() const {
  MutexLock lock(mutex_);
  return bad_end_;
}

}  // namespace ashlar::symm
