// SPDX-License-Identifier: Apache-2.0
//
// Applies each edit to a copy of the run, then replays the recorded and the edited run.
#include "analysis/whatif/what_if.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace ashlar {
namespace {

size_t peak_bytes_of(const Stat& stat) {
  return static_cast<size_t>(std::max<int64_t>(stat.peak, 0));
}

// The requested bytes of a run, which its operations determine. A request that failed in the
// recording and succeeds in the replay counts while the replay holds it.
class RequestedBytes {
 public:
  // `replayed` is the replay of the run; null: requests that failed in the recording do not count.
  RequestedBytes(const EditedRun& run, const ReplayResult* replayed)
      : run_(run), start_(run.requested_bytes_at_start()), after_(run.requested_bytes()) {
    if (replayed == nullptr) return;
    std::set<uint32_t> failed;
    for (const ReplayedOom& each : replayed->ooms) {
      if (each.entry) failed.insert(*each.entry);
    }
    for (uint32_t i = 0; i < run.size(); ++i) {
      if (!failed.contains(i)) after_[i] += run.operations()[i].failed_bytes;
    }
  }

  // Sets the peaks of requested bytes: `requested` and `requested_by_phase`.
  void add_peaks(WhatIfPeaks& peaks) const {
    const Iterations& iterations = training_of(run_.recording()).iterations;
    const std::optional<uint32_t> peak = peak_operation();
    peaks.requested.bytes = peak ? after_[*peak] : bytes_at_start();
    if (peak) peaks.requested.entry = run_.operations()[*peak].entry;
    for (uint32_t i = run_.dropped_at_start(); i < run_.size(); ++i) {
      const uint32_t phase = iterations.phase_index_at(run_.operations()[i].entry);
      const auto index = static_cast<size_t>(iterations.phases[phase].phase);
      peaks.requested_by_phase[index] = std::max(peaks.requested_by_phase[index], after_[i]);
    }
  }

  // Returns the requested bytes at the peak by stack, largest first.
  std::vector<StackTotal> stacks_at_peak() const {
    const std::optional<uint32_t> peak = peak_operation();
    // group_by_stack() expects the allocations of a recording.
    Allocations present;
    std::vector<uint32_t> selected;
    const auto add = [&](Allocation allocation, size_t bytes) {
      allocation.bytes = bytes;
      selected.push_back(static_cast<uint32_t>(present.all.size()));
      present.all.push_back(allocation);
    };
    for (const uint32_t id : run_.present_after(peak ? *peak + 1 : run_.dropped_at_start())) {
      add(run_.recorded(id), run_.allocations()[id].bytes);
    }
    if (peak && run_.operations()[*peak].failed_bytes > 0) {
      Allocation request;
      request.stack = run_.operations()[*peak].stack;
      add(request, run_.operations()[*peak].failed_bytes);
    }
    return group_by_stack(present, selected, run_.recording().recording().stack_numbers());
  }

 private:
  // The requested bytes before the first operation of the edited program.
  size_t bytes_at_start() const {
    const uint32_t dropped = run_.dropped_at_start();
    return dropped == 0 ? start_ : after_[dropped - 1];
  }

  // Returns the first operation after which the requested bytes are highest; unset: they are at
  // least as high before the first operation.
  std::optional<uint32_t> peak_operation() const {
    std::optional<uint32_t> peak;
    size_t highest = bytes_at_start();
    for (uint32_t i = run_.dropped_at_start(); i < run_.size(); ++i) {
      if (after_[i] <= highest) continue;
      highest = after_[i];
      peak = i;
    }
    return peak;
  }

  const EditedRun& run_;
  size_t start_;
  std::vector<size_t> after_;  // each operation
};

WhatIfPeaks peaks_of_replay(const EditedRun& run, const RequestedBytes& requested,
                            const ReplayResult& replayed) {
  WhatIfPeaks peaks;
  requested.add_peaks(peaks);
  const auto entry_of = [&run](std::optional<uint32_t> operation) {
    return operation ? std::optional(run.operations()[*operation].entry) : std::nullopt;
  };
  peaks.allocated = {peak_bytes_of(replayed.stats.allocated_bytes.all),
                     entry_of(replayed.allocated_peak_entry)};
  peaks.reserved = {peak_bytes_of(replayed.stats.reserved_bytes.all),
                    entry_of(replayed.reserved_peak_entry)};
  peaks.oom_count = replayed.ooms.size();
  return peaks;
}

std::vector<std::string> warnings_for(const DeviceRecording& recording, const ReplayResult& before,
                                      const ReplayResult& after) {
  std::vector<std::string> warnings;
  const size_t recorded = recording.timeline().reserved_peak.bytes;
  const size_t replayed = peak_bytes_of(before.stats.reserved_bytes.all);
  if (!before.starts_as_recorded || !after.starts_as_recorded) {
    warnings.push_back(
        "the beginning of the history is missing, and the replay starts with another layout: "
        "reserved bytes are estimates");
  } else if (replayed != recorded) {
    warnings.push_back(text("a replay of the unchanged run reserves ", format_bytes(replayed),
                            " instead of the recorded ", format_bytes(recorded),
                            ": reserved bytes are estimates"));
  }
  const bool ended_by_oom = recording.has_oom();
  if (ended_by_oom) {
    warnings.push_back(
        "the recorded run ran out of memory: what it would have allocated later is not known, so "
        "the peaks are lower bounds");
  }
  if (recording.allocations().preexisting_count > 0) {
    warnings.push_back(
        text(recording.allocations().preexisting_count,
             " allocations were made before the recording; edits of them are based "
             "on their sizes, and the memory that was reserved then stays reserved"));
  }
  return warnings;
}

}  // namespace

Result<WhatIfResult> what_if(const DeviceRecording& recording, const std::vector<Edit>& edits,
                             const WhatIfOptions& options) {
  WhatIfResult result;
  const EditedRun recorded(recording);
  const RunEditor editor(recording, options.names);
  EditedRun edited(recording);
  for (const Edit& edit : edits) {
    Result<EditOutcome> outcome = editor.apply(edited, edit);
    if (!outcome.ok()) return outcome.status();
    result.edits.push_back(*std::move(outcome));
  }

  ReplayOptions replaying = options.recorded;
  if (options.progress) replaying.progress = [&](double share) { options.progress(share / 2); };
  const Result<ReplayResult> before =
      replay(recording.snapshot(), recording.allocations(), replaying);
  if (!before.ok()) return before.status();
  replaying = options.edited;
  if (options.progress) {
    replaying.progress = [&](double share) { options.progress(0.5 + share / 2); };
  }
  replaying.peaks_from = edited.dropped_at_start();
  const ReplayInput input = to_replay_input(edited);
  const Result<ReplayResult> after = replay(input.snapshot, input.allocations, replaying);
  if (!after.ok()) return after.status();

  RequestedBytes(recorded, nullptr).add_peaks(result.before);
  const Timeline& timeline = recording.timeline();
  result.before.requested = {timeline.requested_peak.bytes, timeline.requested_peak.entry};
  result.before.allocated = {peak_bytes_of(before->stats.allocated_bytes.all),
                             before->allocated_peak_entry};
  result.before.reserved = {timeline.reserved_peak.bytes, before->reserved_peak_entry};
  result.before.oom_count = summarize_device(recording.snapshot(), recording.device()).oom_count;
  const RequestedBytes requested(edited, &*after);
  result.after = peaks_of_replay(edited, requested, *after);
  result.after_stacks = requested.stacks_at_peak();
  result.iteration_count = training_of(recording).iterations.complete_count();
  result.warnings = warnings_for(recording, *before, *after);
  return result;
}

}  // namespace ashlar
