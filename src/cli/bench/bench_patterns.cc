// SPDX-License-Identifier: Apache-2.0
//
// The allocators under test, the patterns, and the order of measurements.
#include "cli/bench/bench_patterns.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"
#include "base/random.h"
#include "base/units.h"
#include "cli/bench/calibration.h"

namespace ashlar {
namespace {

// The functions of mimalloc. The library is loaded at run time, because linking it would replace
// malloc in the whole tool.
struct Mimalloc {
  void* (*allocate)(size_t bytes) = nullptr;
  void (*free)(void* memory) = nullptr;
  std::string load_error;  // empty if the library was loaded

  static Mimalloc load() {
    Mimalloc found;
    void* library = ::dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      found.allocate = reinterpret_cast<void* (*)(size_t)>(::dlsym(library, "mi_malloc"));
      found.free = reinterpret_cast<void (*)(void*)>(::dlsym(library, "mi_free"));
    }
    if (found.allocate == nullptr || found.free == nullptr) {
      found.load_error = "no reference: libmimalloc.so.2 is not installed (Debian: libmimalloc2.0)";
    }
    return found;
  }
};

// Targets are adapters that give each allocator a common interface, for use by one thread.

struct MimallocTarget {
  using Memory = void*;
  const Mimalloc& library;
  Memory allocate(size_t bytes) const { return library.allocate(bytes); }
  void free(Memory& memory) const { library.free(memory); }
};

struct BufferTarget {
  using Memory = Buffer;
  Allocator& allocator;
  StreamId stream;
  Memory allocate(size_t bytes) const { return allocator.allocate(bytes, stream); }
  void free(Memory& memory) const { memory.reset(); }
};

struct RawTarget {
  using Memory = DeviceAddress;
  Allocator& allocator;
  StreamId stream;
  Memory allocate(size_t bytes) const { return allocator.allocate_raw(bytes, stream); }
  void free(Memory& memory) const { allocator.free_raw(memory); }
};

constexpr size_t kMaxChurnBytes = 16 * kMiB;

using Nanoseconds = std::chrono::duration<double, std::nano>;

// Number of untimed pairs before each measurement of pairs, because the first pair may have to
// reclaim memory cached by other patterns.
constexpr size_t kWarmUpCount = 100;
// The pattern "threads" runs this many times as many operations, so that differences in the start
// times of the threads do not matter.
constexpr size_t kThreadOperationsFactor = 10;

template <typename Target>
void run_pairs(const Target& target, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    typename Target::Memory memory = target.allocate(bytes);
    target.free(memory);
  }
}

// Measures the time per operation of `function`, which performs `count` operations.
template <typename Function>
Sample time(size_t count, const Function& function) {
  const double before = measure_calibration_loop();
  const auto begin = std::chrono::steady_clock::now();
  function();
  const Nanoseconds spent = std::chrono::steady_clock::now() - begin;
  return {spent.count() / static_cast<double>(count), std::max(before, measure_calibration_loop())};
}

template <typename Target>
Sample time_pairs(const Target& target, size_t bytes, size_t count) {
  run_pairs(target, bytes, kWarmUpCount);
  return time(count, [&] { run_pairs(target, bytes, count); });
}

// Draws a size from 512 B to `max_bytes`, distributed log-uniformly.
size_t draw_size(Random& random, size_t max_bytes) {
  const double least = 9;
  const double most = std::log2(static_cast<double>(max_bytes));
  return static_cast<size_t>(std::exp2(least + random.fraction() * (most - least)));
}

template <typename Target>
Sample time_churn(const Target& target, size_t live, size_t max_bytes, size_t count) {
  Random random(live);
  std::vector<typename Target::Memory> memory;
  for (size_t i = 0; i < live; ++i) memory.push_back(target.allocate(draw_size(random, max_bytes)));
  struct Step {
    size_t slot;
    size_t bytes;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < count; ++i) {
    steps.push_back({random.below(live), draw_size(random, max_bytes)});
  }

  const Sample sample = time(count, [&] {
    for (const Step& step : steps) {
      target.free(memory[step.slot]);
      memory[step.slot] = target.allocate(step.bytes);
    }
  });
  for (auto& each : memory) target.free(each);
  return sample;
}

// Returns the time of the slowest thread and the longest calibration loop of all threads.
template <typename Target>
Sample time_threads(const std::vector<Target>& targets, size_t bytes, size_t count) {
  std::latch start(static_cast<ptrdiff_t>(targets.size()));
  std::vector<Sample> samples(targets.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < targets.size(); ++i) {
    threads.emplace_back([&, i] {
      run_pairs(targets[i], bytes, kWarmUpCount);
      start.arrive_and_wait();
      samples[i] = time_pairs(targets[i], bytes, count);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Sample slowest;
  for (const Sample& each : samples) {
    slowest = {std::max(slowest.ns, each.ns),
               std::max(slowest.calibration_ns, each.calibration_ns)};
  }
  return slowest;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double fastest(std::vector<double> values) {
  return *std::min_element(values.begin(), values.end());
}

// One line of the result, a function that measures it once, and a function that summarizes the
// samples.
struct Measurement {
  BenchResult result;
  std::function<Sample()> measure;
  double (*summarize)(std::vector<double>) = median;
  std::vector<Sample> samples{};
};

double fastest_calibration(const std::vector<Measurement>& measurements) {
  double fastest = std::numeric_limits<double>::max();
  for (const Measurement& measurement : measurements) {
    for (const Sample& each : measurement.samples) fastest = std::min(fastest, each.calibration_ns);
  }
  return fastest;
}

// Returns the times of the samples that were taken while the core ran at the calibrated speed.
std::vector<double> undisturbed(const Measurement& measurement, double calibration_ns) {
  std::vector<double> good;
  for (const Sample& each : measurement.samples) {
    if (each.calibration_ns <= kMaxSlowdown * calibration_ns) good.push_back(each.ns);
  }
  return good;
}

// Summarizes the undisturbed samples, or all samples if none is undisturbed.
double summarize_good(const Measurement& measurement, double calibration_ns) {
  std::vector<double> good = undisturbed(measurement, calibration_ns);
  if (good.empty()) good = undisturbed(measurement, std::numeric_limits<double>::max());
  return measurement.summarize(std::move(good));
}

// Reports the completed share of the warm-up and of the wanted samples. The share never decreases.
class ProgressReporter {
 public:
  ProgressReporter(const BenchProgress& report, size_t wanted_count)
      : report_(report), wanted_count_(static_cast<double>(wanted_count)) {}

  void update(size_t good_count) {
    share_ = std::max(share_, static_cast<double>(good_count) / wanted_count_);
    if (report_) report_(std::min(share_, 1.0));
  }

 private:
  const BenchProgress& report_;
  const double wanted_count_;
  double share_ = 0;
};

// Runs all measurements in turn, round by round, so that changes of the clock rate affect them
// equally. The first round is a warm-up and not counted. Measurements that lack `rounds`
// undisturbed samples continue for up to four times as many rounds, since other processes may
// disturb some rounds.
void measure_round_robin(std::vector<Measurement>& measurements, size_t rounds,
                         const BenchProgress& progress) {
  constexpr size_t kMaxRoundsFactor = 4;
  ProgressReporter reporter(progress, measurements.size() * (rounds + 1));
  size_t warm_up_count = 0;
  for (Measurement& measurement : measurements) {
    measurement.measure();
    reporter.update(++warm_up_count);
  }
  for (size_t round = 0; round < kMaxRoundsFactor * rounds; ++round) {
    const double calibration_ns = fastest_calibration(measurements);
    size_t good_count = warm_up_count;
    for (const Measurement& each : measurements) {
      good_count += std::min(undisturbed(each, calibration_ns).size(), rounds);
    }
    for (Measurement& measurement : measurements) {
      const bool is_done = undisturbed(measurement, calibration_ns).size() >= rounds;
      if (is_done) continue;
      measurement.samples.push_back(measurement.measure());
      reporter.update(++good_count);
    }
  }
}

// A simulated machine and an allocator on it, with a stream for each of two threads.
struct EngineFixture {
  std::unique_ptr<sim::Machine> machine;
  std::unique_ptr<Allocator> allocator;
  std::vector<StreamId> streams;

  static Result<EngineFixture> create(EngineKind engine) {
    sim::Options options;
    options.device_count = 1;
    options.backing = sim::Backing::kBookkeeping;
    Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options);
    if (!machine.ok()) return machine.status();
    EngineFixture fixture;
    fixture.machine = *std::move(machine);
    Device& device = fixture.machine->device(DeviceIndex(0));
    AllocatorOptions chosen;
    chosen.engine = engine;
    fixture.allocator = std::make_unique<Allocator>(device, chosen);
    for (int i = 0; i < 2; ++i) {
      Result<StreamId> stream = device.create_stream();
      if (!stream.ok()) return stream.status();
      fixture.streams.push_back(*stream);
    }
    return fixture;
  }
};

template <typename Target>
void add_patterns(std::vector<Measurement>& measurements, const std::string& name,
                  const std::vector<Target>& targets, size_t count) {
  const Target& first = targets.front();
  for (size_t bytes : {size_t{512}, 64 * kKiB, kMiB, 16 * kMiB}) {
    measurements.push_back(
        {{"pair", name, bytes, 0, 1, 0}, [=] { return time_pairs(first, bytes, count); }});
  }
  for (size_t live : {size_t{100}, size_t{1000}, size_t{10000}}) {
    measurements.push_back({{"churn", name, 0, live, 1, 0},
                            [=] { return time_churn(first, live, kMaxChurnBytes, count); }});
  }
  // The measurements with different thread counts are adjacent, so that they run directly after
  // each other: their results are compared, and the clock rate varies over time.
  for (size_t threads = 1; threads <= targets.size(); ++threads) {
    const std::vector<Target> subset(targets.begin(),
                                     targets.begin() + static_cast<ptrdiff_t>(threads));
    measurements.push_back(
        {{"threads", name, 512, 0, threads, 0},
         [=] { return time_threads(subset, 512, kThreadOperationsFactor * count); },
         fastest});
  }
}

// Times pairs of allocate and free in the presence of `holes` free blocks that are too small for
// them.
Sample time_holes(const BufferTarget& target, size_t holes, size_t count) {
  constexpr size_t kHoleBytes = 512;
  constexpr size_t kPairBytes = 4096;
  std::vector<Buffer> kept;
  std::vector<Buffer> freed;
  for (size_t i = 0; i < holes; ++i) {
    kept.push_back(target.allocate(kHoleBytes));
    freed.push_back(target.allocate(kHoleBytes));
  }
  freed.clear();
  return time_pairs(target, kPairBytes, count);
}

// Times pairs of allocate and free while the allocator records a trace without stacks into a full
// ring buffer.
Sample time_history(const BufferTarget& target, size_t bytes, size_t count) {
  HistoryOptions options;
  options.max_entries = 4096;
  target.allocator.history().start(options);
  time_pairs(target, bytes, options.max_entries);
  const Sample sample = time_pairs(target, bytes, count);
  target.allocator.history().stop();
  return sample;
}

void add_engine_measurements(std::vector<Measurement>& measurements, const std::string& name,
                             const EngineFixture& fixture, size_t count) {
  std::vector<BufferTarget> buffer_targets;
  std::vector<RawTarget> raw_targets;
  for (const StreamId stream : fixture.streams) {
    buffer_targets.push_back({*fixture.allocator, stream});
    raw_targets.push_back({*fixture.allocator, stream});
  }
  add_patterns(measurements, name + ".buffer", buffer_targets, count);
  add_patterns(measurements, name + ".raw", raw_targets, count);
  measurements.push_back({{"history", name + ".buffer", 512, 0, 1, 0},
                          [=] { return time_history(buffer_targets.front(), 512, count); }});
}

}  // namespace

Result<BenchOutcome> run_bench(const BenchOptions& options, const BenchProgress& progress) {
  const Mimalloc mimalloc = Mimalloc::load();
  const size_t count = options.operations;
  std::vector<Measurement> measurements;
  if (mimalloc.load_error.empty()) {
    const std::vector<MimallocTarget> targets(2, MimallocTarget{mimalloc});
    add_patterns(measurements, "mimalloc", targets, count);
    measurements.push_back({{"churn16k", "mimalloc", 0, 10000, 1, 0},
                            [=] { return time_churn(targets.front(), 10000, 16 * kKiB, count); }});
  }
  Result<EngineFixture> classic = EngineFixture::create(EngineKind::kClassic);
  if (!classic.ok()) return classic.status();
  add_engine_measurements(measurements, "classic", *classic, count);
  Result<EngineFixture> paged = EngineFixture::create(EngineKind::kPaged);
  if (!paged.ok()) return paged.status();
  add_engine_measurements(measurements, "paged", *paged, count);
  // Uses a separate allocator, because the holes, which stay in its small-block pool, would affect
  // the other patterns.
  Result<EngineFixture> fragmented = EngineFixture::create(EngineKind::kPaged);
  if (!fragmented.ok()) return fragmented.status();
  for (const size_t holes : {size_t{1000}, size_t{1000000}}) {
    const BufferTarget target{*fragmented->allocator, fragmented->streams.front()};
    measurements.push_back({{"holes", "paged.buffer", 4096, holes, 1, 0},
                            [=] { return time_holes(target, holes, count); }});
  }

  measure_round_robin(measurements, options.rounds, progress);
  const double calibration_ns = fastest_calibration(measurements);
  BenchOutcome outcome{{}, mimalloc.load_error};
  for (Measurement& measurement : measurements) {
    measurement.result.ns = summarize_good(measurement, calibration_ns);
    outcome.results.push_back(measurement.result);
  }
  return outcome;
}

}  // namespace ashlar
