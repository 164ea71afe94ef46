// SPDX-License-Identifier: Apache-2.0
//
// Measures the paged engine through its C API, PyTorch's caching allocator and the driver's
// stream-ordered pool in one process. side_by_side.py builds this as a shared object and calls it
// after PyTorch has initialized the device. allocators.h has the allocators, churn.h the churn
// patterns.
//
// This file does not use iostreams: next to PyTorch, which brings its own standard library, the
// compiler may link a second copy of the library into this object, and the two copies do not share
// locales.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocators.h"
#include "ashlar/c/ashlar.h"
#include "churn.h"

namespace side_by_side {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kPairs = 20'000;  // pairs in one measurement
constexpr size_t kWarmUpPairs = 200;
constexpr int kMaxThreads = 16;
constexpr std::chrono::milliseconds kThreadsDuration{60};
// After this time, a pattern ends as soon as kMinRounds rounds were counted.
constexpr std::chrono::seconds kMaxPatternTime{5};
constexpr int kMinRounds = 3;

// --- patterns ------------------------------------------------------------------------------------

template <typename User>
void make_pairs(const User& user, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) user.free(user.allocate(bytes));
}

// Returns the nanoseconds per pair of allocation and free.
template <typename User>
double time_pairs(const User& user, size_t bytes) {
  make_pairs(user, bytes, kWarmUpPairs);
  const auto begin = Clock::now();
  make_pairs(user, bytes, kPairs);
  return nanoseconds_since(begin) / double(kPairs);
}

// Returns the pairs per second of all threads together. Each thread uses its own stream.
template <typename User>
double count_pairs(const std::vector<User>& users, size_t bytes) {
  std::latch start(std::ptrdiff_t(users.size()) + 1);
  std::atomic<bool> stop{false};
  std::vector<size_t> counts(users.size());
  std::vector<std::exception_ptr> failures(users.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < users.size(); ++i) {
    threads.emplace_back([&, i] {
      bool is_started = false;
      try {
        make_pairs(users[i], bytes, kWarmUpPairs);
        is_started = true;
        start.arrive_and_wait();
        size_t count = 0;
        for (; !stop.load(std::memory_order_relaxed); count += 64) make_pairs(users[i], bytes, 64);
        counts[i] = count;
      } catch (...) {
        failures[i] = std::current_exception();
        if (!is_started) start.count_down();
      }
    });
  }
  start.arrive_and_wait();
  const auto begin = Clock::now();
  std::this_thread::sleep_for(kThreadsDuration);
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  const double seconds = nanoseconds_since(begin) / 1e9;
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  size_t total = 0;
  for (const size_t count : counts) total += count;
  return double(total) / seconds;
}

// --- rounds --------------------------------------------------------------------------------

struct Pattern {
  std::string name;  // "pair", "churn", "fresh churn", "burst", "fresh burst", "threads"
  size_t bytes = 0;  // the size of each block; 0: sizes from 512 B to 16 MiB
  size_t live = 0;
  int threads = 1;
};

std::vector<Pattern> all_patterns() {
  std::vector<Pattern> patterns;
  for (const size_t bytes : {size_t{512}, 64 * kKiB, kMiB, 64 * kMiB, 1024 * kMiB}) {
    patterns.push_back({"pair", bytes, 0, 1});
  }
  // "churn" and "burst" repeat the sizes in every round; the fresh patterns draw new sizes.
  for (const char* name : {"churn", "fresh churn", "burst", "fresh burst"}) {
    for (const size_t live : {size_t{100}, size_t{1'000}, size_t{10'000}}) {
      patterns.push_back({name, 0, live, 1});
    }
  }
  for (int threads = 1; threads <= kMaxThreads; threads *= 2) {
    patterns.push_back({"threads", 512, 0, threads});
  }
  return patterns;
}

// A measured allocator. run_rounds calls begin() before the rounds of a pattern and end() after
// them, so that each pattern starts with an empty cache.
struct Candidate {
  std::string name;
  std::function<Figures(const Pattern&, int round)> measure;
  std::function<void()> begin;
  std::function<void()> end;
};

// Returns a function that measures one round of a pattern. `make_allocators` returns one front end
// of the allocator per stream (allocators.h).
template <typename Users>
std::function<Figures(const Pattern&, int)> measure_with(Users make_allocators) {
  return [make_allocators](const Pattern& pattern, int round) -> Figures {
    const auto users = make_allocators();
    if (pattern.name == "pair") return {time_pairs(users.front(), pattern.bytes)};
    const uint64_t fresh_seed = 1000 * uint64_t(round + 1);
    const auto& user = users.front();
    if (pattern.name == "churn") return time_churn(user, pattern.live, 1, 0);
    if (pattern.name == "fresh churn") return time_churn(user, pattern.live, fresh_seed, 2);
    if (pattern.name == "burst") return {time_burst(user, pattern.live, 1)};
    if (pattern.name == "fresh burst") return {time_burst(user, pattern.live, fresh_seed)};
    const std::vector some(users.begin(), users.begin() + pattern.threads);
    return {count_pairs(some, pattern.bytes)};
  };
}

using Streams = std::vector<ashlar_stream>;

template <typename User>
Candidate ashlar_candidate(std::string name, ashlar_device* device, const Streams& streams) {
  // The functions below share the allocator.
  const auto allocator = std::make_shared<ashlar_allocator*>(nullptr);
  const auto users = [=] {
    std::vector<User> all;
    for (ashlar_stream stream : streams) all.push_back({*allocator, stream});
    return all;
  };
  return {std::move(name), measure_with(users),
          [=] { check(ashlar_allocator_create(device, "engine:paged", allocator.get())); },
          [=] { ashlar_allocator_destroy(std::exchange(*allocator, nullptr)); }};
}

#if ASHLAR_WITH_TORCH
Candidate torch_candidate(const Streams& streams) {
  const auto users = [=] {
    std::vector<TorchAllocator> all;
    for (ashlar_stream stream : streams) all.push_back({static_cast<cudaStream_t>(stream)});
    return all;
  };
  const auto clear = [] { c10::cuda::CUDACachingAllocator::emptyCache(); };
  return {"PyTorch", measure_with(users), clear, clear};
}
#endif

#if ASHLAR_WITH_CUDART
Candidate async_candidate(const Streams& streams) {
  // By default, the pool releases memory at each synchronization. This setting makes the pool keep
  // all its memory.
  cudaMemPool_t pool = nullptr;
  uint64_t keep_all = UINT64_MAX;
  check(cudaDeviceGetDefaultMemPool(&pool, 0));
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  const auto users = [=] {
    std::vector<AsyncAllocator> all;
    for (ashlar_stream stream : streams) all.push_back({static_cast<cudaStream_t>(stream)});
    return all;
  };
  const auto clear = [pool] {
    check(cudaDeviceSynchronize());
    check(cudaMemPoolTrimTo(pool, 0));
  };
  return {"cudaMallocAsync", measure_with(users), clear, clear};
}
#endif

std::vector<Candidate> all_candidates(const char* backend) {
  ashlar_device* device = nullptr;
  check(ashlar_device_open(backend, 0, &device));
  Streams streams(kMaxThreads);
  for (ashlar_stream& stream : streams) check(ashlar_stream_create(device, 0, &stream));
  std::vector<Candidate> candidates = {
      ashlar_candidate<AddressAllocator>("ashlar", device, streams),
      ashlar_candidate<BlockAllocator>("ashlar, by handle", device, streams),
  };
#if ASHLAR_WITH_TORCH
  candidates.push_back(torch_candidate(streams));
#endif
#if ASHLAR_WITH_CUDART
  candidates.push_back(async_candidate(streams));
#endif
  return candidates;
}

struct Outcome {
  std::vector<double> values;
  size_t reserved_bytes = 0;  // reserved at the end of the last round
  size_t peak_live_bytes = 0;
  std::string failure;
};

// Measures the candidates in turn. The first round is a warm-up and is not counted. After a
// failure, a candidate is skipped.
std::vector<Outcome> run_rounds(const std::vector<Candidate>& candidates, const Pattern& pattern,
                                int rounds) {
  std::vector<Outcome> outcomes(candidates.size());
  for (const Candidate& each : candidates) each.begin();
  const auto begin = Clock::now();
  for (int round = 0; round <= rounds; ++round) {
    if (round > kMinRounds && Clock::now() - begin > kMaxPatternTime) break;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!outcomes[i].failure.empty()) continue;
      // If the process crashes, the last printed line names the allocator and the pattern.
      if (round == 0) {
        std::fprintf(stderr, "%s: %s\n", candidates[i].name.c_str(), pattern.name.c_str());
      }
      try {
        const Figures figures = candidates[i].measure(pattern, round);
        if (round > 0) outcomes[i].values.push_back(figures.value);
        outcomes[i].reserved_bytes = figures.reserved_bytes;
        outcomes[i].peak_live_bytes =
            std::max(outcomes[i].peak_live_bytes, figures.peak_live_bytes);
      } catch (const std::exception& failure) {
        outcomes[i].failure = failure.what();
        if (outcomes[i].failure.empty()) outcomes[i].failure = "failed without a word";
      }
    }
  }
  for (const Candidate& each : candidates) each.end();
  return outcomes;
}

// --- JSON ----------------------------------------------------------------------------------

std::string listed(const std::vector<double>& values) {
  std::string list;
  for (const double each : values) list += (list.empty() ? "" : ", ") + std::to_string(each);
  return '[' + list + ']';
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') result += '\\';
    result += static_cast<unsigned char>(each) < 0x20 ? ' ' : each;
  }
  return result + '"';
}

std::string row(const Pattern& pattern, const Candidate& who, const Outcome& outcome) {
  const std::string beginning =
      "{\"pattern\": " + quoted(pattern.name) + ", \"bytes\": " + std::to_string(pattern.bytes) +
      ", \"live\": " + std::to_string(pattern.live) +
      ", \"threads\": " + std::to_string(pattern.threads) + ", \"allocator\": " + quoted(who.name);
  if (!outcome.failure.empty() || outcome.values.empty()) {
    return beginning + ", \"failure\": " + quoted(outcome.failure) + "}";
  }
  const char* unit = pattern.name == "threads" ? "pairs_per_second" : "ns";
  std::string held;
  if (outcome.peak_live_bytes > 0) {
    const double ratio = double(outcome.reserved_bytes) / double(outcome.peak_live_bytes);
    held = ", \"reserved_by_most_live\": " + std::to_string(ratio);
  }
  return beginning + ", \"" + unit + "\": " + listed(outcome.values) + held + "}";
}

}  // namespace
}  // namespace side_by_side

using namespace side_by_side;

// Returns JSON: {"results": [...]} with the times and rates of each round, or {"failure": "..."}.
// The string is valid until the next call.
extern "C" ASHLAR_C_API const char* ashlar_side_by_side(const char* backend, int rounds) {
  static std::string result;
  try {
    const std::vector<Candidate> candidates = all_candidates(backend);
    std::string rows;
    for (const Pattern& pattern : all_patterns()) {
      const std::vector<Outcome> outcomes = run_rounds(candidates, pattern, rounds);
      for (size_t i = 0; i < candidates.size(); ++i) {
        rows += (rows.empty() ? "\n  " : ",\n  ") + row(pattern, candidates[i], outcomes[i]);
      }
    }
    result = "{\"results\": [" + rows + "]}";
  } catch (const std::exception& failure) {
    result = "{\"failure\": " + quoted(failure.what()) + "}";
  }
  return result.c_str();
}
