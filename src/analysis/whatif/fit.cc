// SPDX-License-Identifier: Apache-2.0
//
// A run whose requested bytes exceed the limit cannot fit, whatever the engine does, so edits are
// compared by requested bytes, and a run is replayed only once those are low enough.
#include "analysis/whatif/fit.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr size_t kMaxFitEdits = 8;         // of one proposal
constexpr size_t kMaxTriedFunctions = 12;  // per step, those that save the most at the peak
// An edit must reduce the excess by this share.
constexpr double kMinGain = 0.005;
// After a run within the limit did not fit because of fragmentation, the goal is this share of what
// the run requests.
constexpr double kNextGoal = 0.97;

// The requested bytes of a run, above a goal.
struct RequestedExcess {
  size_t peak_bytes = 0;
  uint32_t peak = 0;  // operation
  // Summed over all operations, so that an edit gains even if it lowers only some of the peaks.
  double above_goal = 0;
};

RequestedExcess excess_of(const EditedRun& run, size_t goal_bytes) {
  RequestedExcess excess;
  const std::vector<size_t> requested = run.requested_bytes();
  for (uint32_t i = run.dropped_at_start(); i < run.size(); ++i) {
    const size_t bytes = requested[i] + run.operations()[i].failed_bytes;
    if (bytes > goal_bytes) excess.above_goal += static_cast<double>(bytes - goal_bytes);
    if (bytes <= excess.peak_bytes) continue;
    excess.peak_bytes = bytes;
    excess.peak = i;
  }
  return excess;
}

size_t cost_of(const EditEffect& effect) {
  return effect.recomputed_bytes_per_iteration + effect.offloaded_bytes_per_iteration;
}

// An edited run with its edits.
struct FitAttempt {
  EditedRun run;
  std::vector<FitEdit> edits{};
  size_t cost = 0;  // bytes recomputed and moved per iteration, by all edits
  RequestedExcess excess{};
};

class FitSearch {
 public:
  FitSearch(const DeviceRecording& recording, const FitOptions& options)
      : recording_(recording),
        options_(options),
        editor_(recording, options.names),
        functions_(recording, editor_, options.names),
        settings_(candidate_settings({.recorded = recording.options(),
                                      .is_capped = false,
                                      .available = options.available})) {
    result_.limit_bytes = options.limit_bytes;
    result_.candidate_count = functions_.all().size();
  }

  Result<FitResult> search() {
    FitAttempt recorded = {.run = EditedRun(recording_)};
    recorded.excess = excess_of(recorded.run, options_.limit_bytes);
    if (Status tried = try_settings(recorded); !tried.ok()) return tried;
    const bool needs_code = !result_.fits_as_recorded && !has_supported_setting_;
    if (needs_code) {
      if (Status tried = try_edits(std::move(recorded)); !tried.ok()) return tried;
    }
    result_.is_complete = !is_exhausted();
    return std::move(result_);
  }

 private:
  enum class Settings { kRecorded, kSupported, kOther };

  // Proposes the first setting of the recorded allocator that fits without edits, and the first
  // other one.
  Status try_settings(const FitAttempt& recorded) {
    if (recorded.excess.peak_bytes > options_.limit_bytes) return {};
    for (const Settings kind : {Settings::kRecorded, Settings::kSupported, Settings::kOther}) {
      const Result<std::optional<Setting>> found = setting_that_fits(recorded.run, kind);
      if (!found.ok()) return found.status();
      if (!*found) continue;
      result_.fits_as_recorded = kind == Settings::kRecorded;
      if (result_.fits_as_recorded) return {};
      has_supported_setting_ = has_supported_setting_ || kind == Settings::kSupported;
      if (Status proposed = propose({}, *found); !proposed.ok()) return proposed;
    }
    return {};
  }

  Status try_edits(FitAttempt current) {
    size_t goal = options_.limit_bytes;
    while (true) {
      if (current.excess.peak_bytes <= goal && !current.edits.empty()) {
        const Result<std::optional<Setting>> setting = any_setting_that_fits(current.run);
        if (!setting.ok()) return setting.status();
        if (*setting) return propose_needed(current.edits, **setting);
      }
      if (current.excess.peak_bytes <= goal) {
        const auto lower = static_cast<double>(current.excess.peak_bytes) * kNextGoal;
        goal = static_cast<size_t>(lower);
        current.excess = excess_of(current.run, goal);
      }
      if (current.edits.size() == kMaxFitEdits || is_exhausted()) break;
      Result<std::optional<FitAttempt>> next = add_edit(current, goal);
      if (!next.ok()) return next.status();
      if (!*next) break;
      current = **std::move(next);
    }
    if (!result_.proposals.empty()) return {};
    FitProposal closest;
    closest.edits = std::move(current.edits);
    Result<WhatIfResult> prediction = predict(closest, options_.recorded);
    if (!prediction.ok()) return prediction.status();
    closest.prediction = *std::move(prediction);
    result_.closest = std::move(closest);
    return {};
  }

  // Adds the best edit of the cheapest kind that gains anything; unset: none does.
  Result<std::optional<FitAttempt>> add_edit(const FitAttempt& current, size_t goal) {
    const std::vector<size_t> saved = functions_.saved_bytes_at(current.run, current.excess.peak);
    std::vector<size_t> order;
    for (size_t i = 0; i < saved.size(); ++i) {
      const auto gain = static_cast<double>(saved[i]);
      const auto peak = static_cast<double>(current.excess.peak_bytes);
      if (gain > peak * kMinGain) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return saved[a] > saved[b]; });
    if (order.size() > kMaxTriedFunctions) order.resize(kMaxTriedFunctions);

    for (const EditKind kind : {EditKind::kSetToNone, EditKind::kRecompute, EditKind::kOffload}) {
      std::optional<FitAttempt> best;
      const size_t count = kind == EditKind::kSetToNone ? 1 : order.size();
      for (size_t i = 0; i < count && !is_exhausted(); ++i) {
        if (options_.keep_going && !options_.keep_going()) {
          return Status::timeout("the search was cancelled");
        }
        FitEdit edit;
        if (kind == EditKind::kSetToNone) {
          edit.edit = {.kind = kind, .text = std::string(option_of(kind))};
        } else {
          edit.function = functions_.all()[order[i]];
          edit.edit = parse_edit(kind, edit.function->selector).value();
        }
        std::optional<FitAttempt> tried = try_edit(current, std::move(edit), goal);
        if (tried && (!best || is_better(*tried, *best, current, goal))) best = std::move(tried);
      }
      if (best) return best;
    }
    return std::optional<FitAttempt>();
  }

  // Adds an edit, and drops those of functions that call its function or are called by it: a
  // recording does not tell what nested checkpoints save. Unset: the edit is not possible, or gains
  // too little.
  std::optional<FitAttempt> try_edit(const FitAttempt& current, FitEdit edit, size_t goal) {
    ++result_.tried_edit_count;
    std::vector<FitEdit> edits;
    for (const FitEdit& each : current.edits) {
      const bool is_nested = each.function && edit.function &&
                             functions_.are_nested(each.function->index, edit.function->index);
      if (!is_nested) edits.push_back(each);
    }
    const bool replaces = edits.size() < current.edits.size();
    FitAttempt next = {.run = replaces ? EditedRun(recording_) : current.run};
    if (!replaces) next.cost = current.cost;
    edits.push_back(std::move(edit));
    for (size_t i = replaces ? 0 : edits.size() - 1; i < edits.size(); ++i) {
      spend(next.run.size());
      const Result<EditOutcome> outcome = editor_.apply(next.run, edits[i].edit);
      if (!outcome.ok()) return std::nullopt;
      next.cost += cost_of(outcome->effect);
    }
    next.edits = std::move(edits);
    next.excess = excess_of(next.run, goal);
    const bool gains = next.excess.above_goal < current.excess.above_goal * (1 - kMinGain);
    return gains ? std::optional(std::move(next)) : std::nullopt;
  }

  // An edit that suffices is better than one that does not. Of several that suffice, the cheapest
  // is best; otherwise, the one that gains most for its cost.
  static bool is_better(const FitAttempt& a, const FitAttempt& b, const FitAttempt& before,
                        size_t goal) {
    const bool a_suffices = a.excess.peak_bytes <= goal;
    const bool b_suffices = b.excess.peak_bytes <= goal;
    if (a_suffices != b_suffices) return a_suffices;
    if (a_suffices) return a.cost < b.cost;
    const auto value = [&before](const FitAttempt& each) {
      const size_t price = each.cost > before.cost ? each.cost - before.cost : 1;
      return (before.excess.above_goal - each.excess.above_goal) / static_cast<double>(price);
    };
    return value(a) > value(b);
  }

  // Proposes the edits without those that later edits made unnecessary.
  Status propose_needed(std::vector<FitEdit> edits, const Setting& setting) {
    for (size_t i = 0; edits.size() > 1 && i + 1 < edits.size();) {
      std::vector<FitEdit> fewer = edits;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const Result<bool> fits = fit_with(fewer, setting);
      if (!fits.ok()) return fits.status();
      if (*fits) {
        edits = std::move(fewer);
      } else {
        ++i;
      }
    }
    return propose(std::move(edits), setting);
  }

  Result<bool> fit_with(const std::vector<FitEdit>& edits, const Setting& setting) {
    EditedRun run(recording_);
    for (const FitEdit& each : edits) {
      spend(run.size());
      if (!editor_.apply(run, each.edit).ok()) return false;
    }
    if (excess_of(run, 0).peak_bytes > options_.limit_bytes) return false;
    return fits(run, setting);
  }

  Result<std::optional<Setting>> any_setting_that_fits(const EditedRun& run) {
    for (const Settings kind : {Settings::kRecorded, Settings::kSupported, Settings::kOther}) {
      Result<std::optional<Setting>> found = setting_that_fits(run, kind);
      if (!found.ok() || *found) return found;
    }
    return std::optional<Setting>();
  }

  Result<std::optional<Setting>> setting_that_fits(const EditedRun& run, Settings kind) {
    const RecordedAllocator allocator = recorded_allocator_of(recording_.options());
    for (const Setting& setting : settings_) {
      if (is_exhausted()) break;
      const Settings kind_of_setting = setting.is_recorded           ? Settings::kRecorded
                                       : can_set(setting, allocator) ? Settings::kSupported
                                                                     : Settings::kOther;
      if (kind_of_setting != kind) continue;
      const Result<bool> found = fits(run, setting);
      if (!found.ok()) return found.status();
      if (*found) return std::optional(setting);
    }
    return std::optional<Setting>();
  }

  // Returns whether no request fails on a device with the limit as its capacity.
  Result<bool> fits(const EditedRun& run, const Setting& setting) {
    spend(run.size());
    ++result_.replay_count;
    ReplayOptions replaying = limited(setting);
    replaying.stop_at_oom = true;
    replaying.keep_going = options_.keep_going;
    replaying.peaks_from = run.dropped_at_start();
    const ReplayInput input = to_replay_input(run);
    const Result<ReplayResult> replayed = replay(input.snapshot, input.allocations, replaying);
    if (!replayed.ok()) return replayed.status();
    return replayed->ooms.empty();
  }

  ReplayOptions limited(const Setting& setting) const {
    ReplayOptions replaying = options_.recorded;
    replaying.allocator = setting.options;
    replaying.capacity_bytes = options_.limit_bytes;
    replaying.cap_bytes.reset();
    return replaying;
  }

  Status propose(std::vector<FitEdit> edits, const std::optional<Setting>& setting) {
    FitProposal proposal;
    proposal.edits = std::move(edits);
    if (setting && !setting->is_recorded) proposal.setting = setting;
    Result<WhatIfResult> prediction = predict(proposal, limited(setting ? *setting : settings_[0]));
    if (!prediction.ok()) return prediction.status();
    proposal.prediction = *std::move(prediction);
    result_.proposals.push_back(std::move(proposal));
    return {};
  }

  Result<WhatIfResult> predict(const FitProposal& proposal, const ReplayOptions& edited) const {
    WhatIfOptions options;
    options.recorded = options_.recorded;
    options.edited = edited;
    options.recorded.keep_going = options.edited.keep_going = options_.keep_going;
    options.names = options_.names;
    std::vector<Edit> edits;
    for (const FitEdit& each : proposal.edits) edits.push_back(each.edit);
    return what_if(recording_, edits, options);
  }

  void spend(uint64_t operations) {
    spent_ += operations;
    if (!options_.progress) return;
    const auto most = static_cast<double>(options_.max_operations);
    options_.progress(std::min(1.0, static_cast<double>(spent_) / std::max(most, 1.0)));
  }
  bool is_exhausted() const { return spent_ >= options_.max_operations; }

  const DeviceRecording& recording_;
  const FitOptions& options_;
  RunEditor editor_;
  CandidateFunctions functions_;
  std::vector<Setting> settings_;  // the recorded one first
  bool has_supported_setting_ = false;
  uint64_t spent_ = 0;
  FitResult result_;
};

}  // namespace

Result<FitResult> find_fit(const DeviceRecording& recording, const FitOptions& options) {
  return FitSearch(recording, options).search();
}

}  // namespace ashlar
