// SPDX-License-Identifier: Apache-2.0
//
// Worker threads take settings from a shared counter. The calling thread waits and reports
// progress.
#include "analysis/replay/tune.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "analysis/replay/replay.h"
#include "analysis/timeline.h"
#include "base/align.h"
#include "base/guarded_thread.h"
#include "base/mutex.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr double kFirstReplayFraction = 0.15;  // assumed share of the remaining work

// The task counter and the progress of all tasks. Thread safe.
class TaskProgress {
 public:
  explicit TaskProgress(size_t task_count) : fractions_(task_count) {}

  // Returns the next task, or the number of tasks if no task is left.
  size_t take() {
    MutexLock lock(mutex_);
    return next_ < fractions_.size() ? next_++ : fractions_.size();
  }

  void set_fraction(size_t task, double fraction) {
    MutexLock lock(mutex_);
    fractions_[task] = fraction;
    has_progress_ = true;
    changed_.notify_one();
  }

  void finish(size_t task) {
    set_fraction(task, 1);
    MutexLock lock(mutex_);
    ++finished_count_;
    changed_.notify_one();
  }

  // Waits for progress and returns the total fraction; nullopt once all tasks are finished.
  std::optional<double> wait() {
    MutexLock lock(mutex_);
    while (!has_progress_ && finished_count_ < fractions_.size()) lock.wait(changed_);
    has_progress_ = false;
    if (finished_count_ == fractions_.size()) return std::nullopt;
    double sum = 0;
    for (const double fraction : fractions_) sum += fraction;
    return sum / static_cast<double>(fractions_.size());
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<double> fractions_ ASHLAR_GUARDED_BY(mutex_);  // indexed by task
  size_t next_ ASHLAR_GUARDED_BY(mutex_) = 0;
  size_t finished_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  bool has_progress_ ASHLAR_GUARDED_BY(mutex_) = false;
};

// Evaluates settings by replay.
class Tuner {
 public:
  Tuner(const Snapshot& snapshot, const Allocations& allocations, const TuneOptions& options)
      : snapshot_(snapshot), allocations_(allocations), options_(options) {}

  using ReportProgress = std::function<void(double fraction)>;
  Result<Trial> attempt(const Setting& setting, const ReportProgress& report_progress) const;

 private:
  ReplayOptions replay_options(const Setting& setting) const;
  bool has_recorded_limits() const;
  Status find_min_capacity(Trial& trial, const ReportProgress& report_progress) const;

  const Snapshot& snapshot_;
  const Allocations& allocations_;
  const TuneOptions& options_;
};

ReplayOptions Tuner::replay_options(const Setting& setting) const {
  ReplayOptions replaying;
  replaying.allocator = setting.options;
  replaying.recorded = options_.recorded;
  replaying.device = options_.device;
  replaying.capacity_bytes = options_.capacity_bytes;
  replaying.cap_bytes = options_.cap_bytes;
  replaying.keep_going = options_.keep_going;
  return replaying;
}

Result<Trial> Tuner::attempt(const Setting& setting, const ReportProgress& report_progress) const {
  Trial trial;
  trial.setting = setting;
  ReplayOptions replaying = replay_options(setting);
  const double share = options_.find_min_capacity ? kFirstReplayFraction : 1;
  replaying.progress = [&](double fraction) { report_progress(fraction * share); };
  const Result<ReplayResult> replayed = replay(snapshot_, allocations_, replaying);
  if (!replayed.ok()) return replayed.status();
  trial.is_comparable = replayed->starts_as_recorded;
  trial.oom_count = replayed->ooms.size();
  trial.peak_requested_bytes = static_cast<size_t>(replayed->stats.requested_bytes.all.peak);
  trial.peak_reserved_bytes = static_cast<size_t>(replayed->stats.reserved_bytes.all.peak);
  trial.driver_us = static_cast<double>(replayed->driver.total_ns) / 1000;
  if (has_recorded_limits()) trial.fidelity = replayed->fidelity;
  if (!options_.find_min_capacity) return trial;
  if (Status found = find_min_capacity(trial, report_progress); !found.ok()) return found;
  return trial;
}

// Whether the replay has the limits of the recorded run. Under other limits, it may differ from the
// recording for that reason alone, and its fidelity means nothing.
bool Tuner::has_recorded_limits() const {
  const bool is_unlimited =
      !options_.cap_bytes &&
      options_.capacity_bytes == assumed_capacity_bytes(snapshot_, options_.device);
  return options_.recorded_limit || is_unlimited;
}

// The number of driver calls per entry that the replays of one search may make, in addition to
// TuneOptions::max_search_driver_calls. Recordings of real programs hardly reach this limit.
// Without it, a few thousand entries that flush the cache at each request would take minutes.
constexpr uint64_t kMaxSearchDriverCallsPerEntry = 10;

uint64_t driver_call_count(const ReplayResult& replayed) {
  const auto& counts = replayed.driver.count;
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// Completion is not monotone in the capacity: with more memory the cache is flushed later, blocks
// are placed differently, and an allocation may fail that would fit with less memory. Bisection
// finds a capacity that suffices while one step less does not, which is not always the global
// minimum. The run completed in a replay with the returned capacity.
Status Tuner::find_min_capacity(Trial& trial, const ReportProgress& report_progress) const {
  ReplayOptions options = replay_options(trial.setting);
  options.stop_at_oom = true;
  if (options_.recorded_limit) {  // the search ignores the recorded limit
    options.cap_bytes.reset();
    options.capacity_bytes = assumed_capacity_bytes(snapshot_, options_.device);
  }
  size_t peak_bytes = trial.peak_reserved_bytes;
  if (!trial.completes() || options_.recorded_limit) {
    options.capacity_bytes =
        std::max(options.capacity_bytes, assumed_capacity_bytes(snapshot_, options_.device));
    const Result<ReplayResult> unlimited = replay(snapshot_, allocations_, options);
    if (!unlimited.ok()) return unlimited.status();
    if (!unlimited->ooms.empty()) return {};
    peak_bytes = static_cast<size_t>(unlimited->stats.reserved_bytes.all.peak);
  }
  const size_t step = capacity_step_bytes(peak_bytes);
  const size_t needed_bytes = std::max<size_t>(trial.peak_requested_bytes, 1);
  size_t insufficient = (needed_bytes - 1) / step * step;
  size_t sufficient = options.capacity_bytes;
  double done = kFirstReplayFraction;
  const uint64_t max_call_count =
      options_.max_search_driver_calls +
      kMaxSearchDriverCallsPerEntry * trace_of(snapshot_, options_.device).size();
  uint64_t call_count = 0;
  options.capacity_bytes = round_up(std::max(peak_bytes, step), step);
  while (options.capacity_bytes > insufficient && options.capacity_bytes < sufficient) {
    if (call_count > max_call_count) {
      trial.is_min_capacity_bound = true;
      break;
    }
    const Result<ReplayResult> replayed = replay(snapshot_, allocations_, options);
    if (!replayed.ok()) return replayed.status();
    call_count += driver_call_count(*replayed);
    (replayed->ooms.empty() ? sufficient : insufficient) = options.capacity_bytes;
    report_progress(done += (1 - done) * kFirstReplayFraction);
    options.capacity_bytes = insufficient + (sufficient - insufficient) / 2 / step * step;
  }
  trial.min_capacity_bytes = sufficient;
  return {};
}

class Workers {
 public:
  Workers(const Tuner& tuner, const std::vector<Setting>& settings)
      : tuner_(tuner),
        settings_(settings),
        progress_(settings.size()),
        results_(settings.size(), Status()),
        thrown_(settings.size()) {}

  Status run(size_t worker_count, const Tuner::ReportProgress& report_progress) {
    std::vector<GuardedThread> threads;
    Status refused;
    while (threads.size() < worker_count && refused.ok()) {
      Result<GuardedThread> started = GuardedThread::start([this] { work(); });
      if (started.ok()) {
        threads.push_back(*std::move(started));
      } else {
        refused = started.status();
      }
    }
    if (threads.empty()) return refused;  // otherwise continue with fewer threads
    while (const std::optional<double> fraction = progress_.wait()) {
      if (report_progress) report_progress(*fraction);
    }
    for (GuardedThread& thread : threads) thread.join();
    for (const std::exception_ptr& thrown : thrown_) {
      if (thrown != nullptr) std::rethrow_exception(thrown);
    }
    if (report_progress) report_progress(1);
    return {};
  }

  std::vector<Result<Trial>>& results() { return results_; }

 private:
  // Each worker writes only the results of its own tasks. They may be read after run().
  void work() {
    for (size_t task = progress_.take(); task < settings_.size(); task = progress_.take()) {
      perform(task);
      progress_.finish(task);  // also after an exception, because run() waits for all tasks
    }
  }
  void perform(size_t task) {
    try {
      results_[task] = tuner_.attempt(settings_[task], [this, task](double fraction) {
        progress_.set_fraction(task, fraction);
      });
    } catch (...) {
      thrown_[task] = std::current_exception();
    }
  }

  const Tuner& tuner_;
  const std::vector<Setting>& settings_;
  TaskProgress progress_;
  std::vector<Result<Trial>> results_;
  std::vector<std::exception_ptr> thrown_;  // the exception of each task, such as std::bad_alloc
};

constexpr size_t kEqualDivisor = 100;  // peaks that differ by less than 1/100 count as equal

size_t option_count(const std::string& conf) {
  size_t count = conf.empty() ? 0 : 1;
  int depth = 0;  // of lists such as [256:1,512:2]
  for (const char c : conf) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0) ++count;
  }
  return count;
}

// Returns the index of the best trial that completes and satisfies the predicate.
template <typename Admits>
std::optional<size_t> best_where(const std::vector<Trial>& trials, Admits admits) {
  std::vector<size_t> admitted;
  size_t lowest = SIZE_MAX;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (!trials[i].completes() || !trials[i].is_comparable || !admits(trials[i])) continue;
    admitted.push_back(i);
    lowest = std::min(lowest, trials[i].peak_reserved_bytes);
  }
  const auto rank = [](const Trial& trial) {
    return std::tuple(!trial.setting.is_recorded, option_count(trial.setting.conf),
                      trial.peak_reserved_bytes, trial.driver_us, trial.setting.conf.size());
  };
  std::optional<size_t> best;
  for (const size_t i : admitted) {
    if (trials[i].peak_reserved_bytes - lowest > lowest / kEqualDivisor) continue;
    if (!best || rank(trials[i]) < rank(trials[*best])) best = i;
  }
  return best;
}

// Bounds the host memory of the arenas of parallel replays, so that a small file with thousands of
// streams does not need gigabytes.
constexpr size_t kMaxParallelBytes = size_t{64} << 20;
constexpr size_t kBytesPerStream = size_t{24} << 10;  // estimate for an arena of the paged engine

size_t max_parallel_replays(const Snapshot& snapshot, DeviceIndex device) {
  std::set<std::pair<PoolId, StreamId>> streams;
  for (const TraceEntry& entry : trace_of(snapshot, device)) {
    streams.emplace(entry.pool, entry.stream);
  }
  return std::max<size_t>(kMaxParallelBytes / (kBytesPerStream * (streams.size() + 1)), 1);
}

}  // namespace

bool TuneResult::has_gain() const {
  if (!best || trials[*best].setting.is_recorded) return false;
  return !trials.front().completes() ||
         is_worthwhile(trials[*best].peak_reserved_bytes, baseline_bytes);
}

bool is_worthwhile(size_t peak_bytes, size_t baseline_bytes) {
  return peak_bytes < baseline_bytes - baseline_bytes / kEqualDivisor;
}

Result<TuneResult> tune(const Snapshot& snapshot, const Allocations& allocations,
                        const TuneOptions& options) {
  const bool is_capped = options.cap_bytes.value_or(SIZE_MAX) < options.capacity_bytes;
  const std::vector<Setting> settings = candidate_settings(
      {.recorded = options.recorded, .is_capped = is_capped, .available = options.available});
  const size_t wanted =
      options.worker_count > 0 ? options.worker_count : std::thread::hardware_concurrency();
  const Tuner tuner(snapshot, allocations, options);
  Workers workers(tuner, settings);
  const size_t most = std::min(settings.size(), max_parallel_replays(snapshot, options.device));
  Status ran = workers.run(std::clamp<size_t>(wanted, 1, most), options.progress);
  if (!ran.ok()) return ran;

  TuneResult result;
  for (Result<Trial>& trial : workers.results()) {
    if (!trial.ok()) return trial.status();
    result.trials.push_back(*std::move(trial));
  }
  result.lower_bound_bytes = make_timeline(snapshot, options.device, allocations).lower_bound.bytes;
  const Trial& recorded = result.trials.front();
  const size_t recorded_peak = peak_reserved_bytes_of(snapshot, options.device);
  result.baseline_bytes = recorded.fidelity ? std::min(recorded.peak_reserved_bytes, recorded_peak)
                                            : recorded.peak_reserved_bytes;
  result.has_growth = peak_reserved_bytes_of(snapshot, options.device) >
                      initial_reserved_bytes(snapshot, options.device);
  result.allocator_kind = recorded_allocator_of(options.recorded);
  result.best = best_trial(result.trials, result.allocator_kind);
  result.paged = best_paged_trial(result.trials);
  return result;
}

std::optional<size_t> best_trial(const std::vector<Trial>& trials,
                                 RecordedAllocator allocator_kind) {
  return best_where(trials,
                    [&](const Trial& trial) { return can_set(trial.setting, allocator_kind); });
}

std::optional<size_t> best_paged_trial(const std::vector<Trial>& trials) {
  const auto is_paged = [](const Trial& trial) {
    return trial.setting.options.engine == EngineKind::kPaged;
  };
  const auto is_default = [&](const Trial& trial) {
    return is_paged(trial) && trial.setting.conf.empty();
  };
  const std::optional<size_t> by_default = best_where(trials, is_default);
  return by_default ? by_default : best_where(trials, is_paged);
}

size_t capacity_step_bytes(size_t peak_bytes) {
  constexpr size_t kFinest = 2 * kMiB;
  constexpr size_t kCoarsest = 64 * kMiB;
  return std::clamp(peak_bytes / 256 / kFinest * kFinest, kFinest, kCoarsest);
}

}  // namespace ashlar
