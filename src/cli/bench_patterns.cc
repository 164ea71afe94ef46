// SPDX-License-Identifier: Apache-2.0
//
// The contestants, the patterns, and taking turns.
#include "cli/bench_patterns.h"

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
#include "cli/yardstick.h"

namespace ashlar {
namespace {

// Loaded, not linked: linked, it would replace malloc for the whole tool.
struct Mimalloc {
  void* (*take)(size_t bytes) = nullptr;
  void (*give)(void* memory) = nullptr;
  std::string missing;

  static Mimalloc load() {
    Mimalloc found;
    void* library = ::dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      found.take = reinterpret_cast<void* (*)(size_t)>(::dlsym(library, "mi_malloc"));
      found.give = reinterpret_cast<void (*)(void*)>(::dlsym(library, "mi_free"));
    }
    if (found.take == nullptr || found.give == nullptr) {
      found.missing = "no reference: libmimalloc.so.2 is not installed (Debian: libmimalloc2.0)";
    }
    return found;
  }
};

// --- contestants: each can take memory and give it back, from one thread -------------------------

struct MimallocUser {
  using Held = void*;
  const Mimalloc& library;
  Held take(size_t bytes) const { return library.take(bytes); }
  void give(Held& held) const { library.give(held); }
};

struct BufferUser {
  using Held = Buffer;
  Allocator& allocator;
  StreamId stream;
  Held take(size_t bytes) const { return allocator.allocate(bytes, stream); }
  void give(Held& held) const { held.reset(); }
};

struct RawUser {
  using Held = DeviceAddress;
  Allocator& allocator;
  StreamId stream;
  Held take(size_t bytes) const { return allocator.allocate_raw(bytes, stream); }
  void give(Held& held) const { allocator.free_raw(held); }
};

constexpr size_t kMost = 16 * kMiB;  // of a churn

// --- patterns: nanoseconds per allocate and free
// ---------------------------------------------------

using Nanoseconds = std::chrono::duration<double, std::nano>;

// Hits only: the first pairs may have to get memory back that other patterns have taken, and are
// not counted.
constexpr size_t kWarmUp = 100;
// Threads do so many times as much, so that it does not matter when each of them wakes.
constexpr size_t kThreadsTimes = 10;

template <typename User>
void make_pairs(const User& user, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    typename User::Held held = user.take(bytes);
    user.give(held);
  }
}

// Of each of `count` that it does.
template <typename Act>
Sample time(size_t count, const Act& act) {
  const double before = measure_yardstick();
  const auto begin = std::chrono::steady_clock::now();
  act();
  const Nanoseconds spent = std::chrono::steady_clock::now() - begin;
  return {spent.count() / static_cast<double>(count), std::max(before, measure_yardstick())};
}

template <typename User>
Sample time_pairs(const User& user, size_t bytes, size_t count) {
  make_pairs(user, bytes, kWarmUp);
  return time(count, [&] { make_pairs(user, bytes, count); });
}

// From 512 B on, log-uniform.
size_t draw_size(Random& random, size_t max_bytes) {
  const double least = 9;
  const double most = std::log2(static_cast<double>(max_bytes));
  return static_cast<size_t>(std::exp2(least + random.fraction() * (most - least)));
}

template <typename User>
Sample time_churn(const User& user, size_t live, size_t max_bytes, size_t count) {
  Random random(live);
  std::vector<typename User::Held> held;
  for (size_t i = 0; i < live; ++i) held.push_back(user.take(draw_size(random, max_bytes)));
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
      user.give(held[step.slot]);
      held[step.slot] = user.take(step.bytes);
    }
  });
  for (auto& each : held) user.give(each);
  return sample;
}

// As the slowest of them sees it.
template <typename User>
Sample time_threads(const std::vector<User>& users, size_t bytes, size_t count) {
  std::latch start(static_cast<ptrdiff_t>(users.size()));
  std::vector<Sample> seen(users.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < users.size(); ++i) {
    threads.emplace_back([&, i] {
      make_pairs(users[i], bytes, kWarmUp);
      start.arrive_and_wait();
      seen[i] = time_pairs(users[i], bytes, count);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Sample slowest;
  for (const Sample& each : seen) {
    slowest = {std::max(slowest.ns, each.ns), std::max(slowest.yardstick_ns, each.yardstick_ns)};
  }
  return slowest;
}

// --- taking turns
// ----------------------------------------------------------------------------------

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double fastest(std::vector<double> values) {
  return *std::min_element(values.begin(), values.end());
}

// One line of the outcome, how to measure it once, and what several measurements come to.
struct Entry {
  BenchResult result;
  std::function<Sample()> measure;
  double (*figure)(std::vector<double>) = median;
  std::vector<Sample> samples{};
};

double shortest_yardstick(const std::vector<Entry>& entries) {
  double shortest = std::numeric_limits<double>::max();
  for (const Entry& entry : entries) {
    for (const Sample& each : entry.samples) shortest = std::min(shortest, each.yardstick_ns);
  }
  return shortest;
}

// Those at the speed of that yardstick.
std::vector<double> undisturbed(const Entry& entry, double yardstick_ns) {
  std::vector<double> good;
  for (const Sample& each : entry.samples) {
    if (each.yardstick_ns <= kMostYardstick * yardstick_ns) good.push_back(each.ns);
  }
  return good;
}

// Of what was measured at full speed; where nothing was, of all.
double figure_of(const Entry& entry, double yardstick_ns) {
  std::vector<double> good = undisturbed(entry, yardstick_ns);
  if (good.empty()) good = undisturbed(entry, std::numeric_limits<double>::max());
  return entry.figure(std::move(good));
}

// The first round warms up and is not counted. Entries that lack `rounds` good samples go on, four
// times as long at most: neighbours come and go.
void take_turns(std::vector<Entry>& entries, size_t rounds) {
  constexpr size_t kMostTimes = 4;
  for (Entry& entry : entries) entry.measure();
  for (size_t round = 0; round < kMostTimes * rounds; ++round) {
    const double yardstick_ns = shortest_yardstick(entries);
    for (Entry& entry : entries) {
      const bool is_done = undisturbed(entry, yardstick_ns).size() >= rounds;
      if (!is_done) entry.samples.push_back(entry.measure());
    }
  }
}

// A machine and an allocator on it, with a stream for each thread.
struct Subject {
  std::unique_ptr<sim::Machine> machine;
  std::unique_ptr<Allocator> allocator;
  std::vector<StreamId> streams;

  static Result<Subject> create(EngineKind engine) {
    sim::Options options;
    options.device_count = 1;
    options.backing = sim::Backing::kBookkeeping;
    Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options);
    if (!machine.ok()) return machine.status();
    Subject subject;
    subject.machine = *std::move(machine);
    Device& device = subject.machine->device(DeviceIndex(0));
    AllocatorOptions chosen;
    chosen.engine = engine;
    subject.allocator = std::make_unique<Allocator>(device, chosen);
    for (int i = 0; i < 2; ++i) {
      Result<StreamId> stream = device.create_stream();
      if (!stream.ok()) return stream.status();
      subject.streams.push_back(*stream);
    }
    return subject;
  }
};

template <typename User>
void add_entries(std::vector<Entry>& entries, const std::string& name,
                 const std::vector<User>& users, size_t count) {
  const User& first = users.front();
  for (size_t bytes : {size_t{512}, 64 * kKiB, kMiB, 16 * kMiB}) {
    entries.push_back(
        {{"pair", name, bytes, 0, 1, 0}, [=] { return time_pairs(first, bytes, count); }});
  }
  for (size_t live : {size_t{100}, size_t{1000}, size_t{10000}}) {
    entries.push_back(
        {{"churn", name, 0, live, 1, 0}, [=] { return time_churn(first, live, kMost, count); }});
  }
  // One after the other at once: a processor's clock rate is not the same for long.
  for (size_t threads = 1; threads <= users.size(); ++threads) {
    const std::vector<User> some(users.begin(), users.begin() + static_cast<ptrdiff_t>(threads));
    entries.push_back({{"threads", name, 512, 0, threads, 0},
                       [=] { return time_threads(some, 512, kThreadsTimes * count); },
                       fastest});
  }
}

// Pairs beside that many free holes, none of which fits.
Sample time_holes(const BufferUser& user, size_t holes, size_t count) {
  constexpr size_t kHole = 512;
  constexpr size_t kPair = 4096;
  std::vector<Buffer> kept;
  std::vector<Buffer> freed;
  for (size_t i = 0; i < holes; ++i) {
    kept.push_back(user.take(kHole));
    freed.push_back(user.take(kHole));
  }
  freed.clear();
  return time_pairs(user, kPair, count);
}

// Pairs while the allocator records its history, without stacks, into a ring that is full already.
Sample time_history(const BufferUser& user, size_t bytes, size_t count) {
  HistoryOptions options;
  options.max_entries = 4096;
  user.allocator.history().start(options);
  time_pairs(user, bytes, options.max_entries);
  const Sample sample = time_pairs(user, bytes, count);
  user.allocator.history().stop();
  return sample;
}

void add_engine(std::vector<Entry>& entries, const std::string& name, const Subject& subject,
                size_t count) {
  std::vector<BufferUser> buffer_users;
  std::vector<RawUser> raw_users;
  for (const StreamId stream : subject.streams) {
    buffer_users.push_back({*subject.allocator, stream});
    raw_users.push_back({*subject.allocator, stream});
  }
  add_entries(entries, name + ".buffer", buffer_users, count);
  add_entries(entries, name + ".raw", raw_users, count);
  entries.push_back({{"history", name + ".buffer", 512, 0, 1, 0},
                     [=] { return time_history(buffer_users.front(), 512, count); }});
}

}  // namespace

Result<BenchOutcome> run_bench(const BenchEffort& effort) {
  const Mimalloc mimalloc = Mimalloc::load();
  const size_t count = effort.operations;
  std::vector<Entry> entries;
  if (mimalloc.missing.empty()) {
    const std::vector<MimallocUser> users(2, MimallocUser{mimalloc});
    add_entries(entries, "mimalloc", users, count);
    entries.push_back({{"churn16k", "mimalloc", 0, 10000, 1, 0},
                       [=] { return time_churn(users.front(), 10000, 16 * kKiB, count); }});
  }
  Result<Subject> classic = Subject::create(EngineKind::kClassic);
  if (!classic.ok()) return classic.status();
  add_engine(entries, "classic", *classic, count);
  Result<Subject> paged = Subject::create(EngineKind::kPaged);
  if (!paged.ok()) return paged.status();
  add_engine(entries, "paged", *paged, count);
  // Holes stay behind in the small memory of an allocator, which is therefore used for nothing
  // else.
  Result<Subject> holed = Subject::create(EngineKind::kPaged);
  if (!holed.ok()) return holed.status();
  for (const size_t holes : {size_t{1000}, size_t{1000000}}) {
    const BufferUser user{*holed->allocator, holed->streams.front()};
    entries.push_back({{"holes", "paged.buffer", 4096, holes, 1, 0},
                       [=] { return time_holes(user, holes, count); }});
  }

  take_turns(entries, effort.rounds);
  const double yardstick_ns = shortest_yardstick(entries);
  BenchOutcome outcome{{}, mimalloc.missing};
  for (Entry& entry : entries) {
    entry.result.ns = figure_of(entry, yardstick_ns);
    outcome.results.push_back(entry.result);
  }
  return outcome;
}

}  // namespace ashlar
