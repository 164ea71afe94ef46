// SPDX-License-Identifier: Apache-2.0
//
// Pairs and churn of the paged engine, through its C interface, beside PyTorch's caching allocator
// and the driver's stream-ordered pool, all in one process. A shared object: side_by_side.py builds
// it, and calls it after PyTorch has taken the device into use.
// Who takes part is in contestants.h, churn in churn.h.
// No streams of the standard library here: beside PyTorch, which brings one, a compiler may have
// linked a second one into this object, and the two do not share their locales.
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

#include "ashlar/c/ashlar.h"
#include "churn.h"
#include "contestants.h"

namespace side_by_side {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kPairs = 20'000;  // in one measurement
constexpr size_t kWarmUp = 200;
constexpr int kMostThreads = 16;
constexpr std::chrono::milliseconds kThreadsRun{60};
constexpr std::chrono::seconds kMostPerPattern{5};  // after that, three rounds must do
constexpr int kLeastRounds = 3;

// --- patterns ------------------------------------------------------------------------------------

template <typename User>
void make_pairs(const User& user, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) user.give(user.take(bytes));
}

// Nanoseconds per allocate and free.
template <typename User>
double time_pairs(const User& user, size_t bytes) {
  make_pairs(user, bytes, kWarmUp);
  const auto begin = Clock::now();
  make_pairs(user, bytes, kPairs);
  return nanoseconds_since(begin) / double(kPairs);
}

// Pairs a second of all threads together, each on a stream of its own.
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
        make_pairs(users[i], bytes, kWarmUp);
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
  std::this_thread::sleep_for(kThreadsRun);
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

// --- taking turns --------------------------------------------------------------------------------

struct Pattern {
  std::string name;  // "pair", "churn", "fresh churn", "burst", "fresh burst", "threads"
  size_t bytes = 0;  // of each block; 0: 512 B to 16 MiB
  size_t live = 0;
  int threads = 1;
};

std::vector<Pattern> all_patterns() {
  std::vector<Pattern> patterns;
  for (const size_t bytes : {size_t{512}, 64 * kKiB, kMiB, 64 * kMiB, 1024 * kMiB}) {
    patterns.push_back({"pair", bytes, 0, 1});
  }
  // The same sizes in every round, and others in every round.
  for (const char* name : {"churn", "fresh churn", "burst", "fresh burst"}) {
    for (const size_t live : {size_t{100}, size_t{1'000}, size_t{10'000}}) {
      patterns.push_back({name, 0, live, 1});
    }
  }
  for (int threads = 1; threads <= kMostThreads; threads *= 2) {
    patterns.push_back({"threads", 512, 0, threads});
  }
  return patterns;
}

// Each pattern begins anew, with nothing cached.
struct Contestant {
  std::string name;
  std::function<Figures(const Pattern&, int round)> measure;
  std::function<void()> begin;
  std::function<void()> end;
};

// `give_users`: a function that gives a user for each stream.
template <typename Users>
std::function<Figures(const Pattern&, int)> measure_with(Users give_users) {
  return [give_users](const Pattern& pattern, int round) -> Figures {
    const auto users = give_users();
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
Contestant ashlar_contestant(std::string name, ashlar_device* device, const Streams& streams) {
  // The second owner is each of the functions below.
  const auto allocator = std::make_shared<ashlar_allocator*>(nullptr);
  const auto users = [=] {
    std::vector<User> all;
    for (ashlar_stream stream : streams) all.push_back({*allocator, stream});
    return all;
  };
  return {std::move(name), measure_with(users),
          [=] { must(ashlar_allocator_create(device, "engine:paged", allocator.get())); },
          [=] { ashlar_allocator_destroy(std::exchange(*allocator, nullptr)); }};
}

#if ASHLAR_WITH_TORCH
Contestant torch_contestant(const Streams& streams) {
  const auto users = [=] {
    std::vector<TorchUser> all;
    for (ashlar_stream stream : streams) all.push_back({static_cast<cudaStream_t>(stream)});
    return all;
  };
  const auto clear = [] { c10::cuda::CUDACachingAllocator::emptyCache(); };
  return {"PyTorch", measure_with(users), clear, clear};
}
#endif

#if ASHLAR_WITH_CUDART
Contestant async_contestant(const Streams& streams) {
  // By default the pool gives memory back whenever somebody synchronizes: let it keep all.
  cudaMemPool_t pool = nullptr;
  uint64_t keep_all = UINT64_MAX;
  must(cudaDeviceGetDefaultMemPool(&pool, 0));
  must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  const auto users = [=] {
    std::vector<AsyncUser> all;
    for (ashlar_stream stream : streams) all.push_back({static_cast<cudaStream_t>(stream)});
    return all;
  };
  const auto clear = [pool] {
    must(cudaDeviceSynchronize());
    must(cudaMemPoolTrimTo(pool, 0));
  };
  return {"cudaMallocAsync", measure_with(users), clear, clear};
}
#endif

std::vector<Contestant> all_contestants(const char* backend) {
  ashlar_device* device = nullptr;
  must(ashlar_device_open(backend, 0, &device));
  Streams streams(kMostThreads);
  for (ashlar_stream& stream : streams) must(ashlar_stream_create(device, 0, &stream));
  std::vector<Contestant> contestants = {
      ashlar_contestant<AddressUser>("ashlar", device, streams),
      ashlar_contestant<BlockUser>("ashlar, by handle", device, streams),
  };
#if ASHLAR_WITH_TORCH
  contestants.push_back(torch_contestant(streams));
#endif
#if ASHLAR_WITH_CUDART
  contestants.push_back(async_contestant(streams));
#endif
  return contestants;
}

struct Outcome {
  std::vector<double> values;
  size_t reserved_bytes = 0;   // at the end
  size_t most_live_bytes = 0;  // ever
  std::string failure;
};

// The first round warms up and is not counted; who failed once takes no further part.
std::vector<Outcome> take_turns(const std::vector<Contestant>& contestants, const Pattern& pattern,
                                int rounds) {
  std::vector<Outcome> outcomes(contestants.size());
  for (const Contestant& each : contestants) each.begin();
  const auto begin = Clock::now();
  for (int round = 0; round <= rounds; ++round) {
    if (round > kLeastRounds && Clock::now() - begin > kMostPerPattern) break;
    for (size_t i = 0; i < contestants.size(); ++i) {
      if (!outcomes[i].failure.empty()) continue;
      // Whoever crashes is the one that was named last.
      if (round == 0) {
        std::fprintf(stderr, "%s: %s\n", contestants[i].name.c_str(), pattern.name.c_str());
      }
      try {
        const Figures figures = contestants[i].measure(pattern, round);
        if (round > 0) outcomes[i].values.push_back(figures.value);
        outcomes[i].reserved_bytes = figures.reserved_bytes;
        outcomes[i].most_live_bytes =
            std::max(outcomes[i].most_live_bytes, figures.most_live_bytes);
      } catch (const std::exception& failure) {
        outcomes[i].failure = failure.what();
        if (outcomes[i].failure.empty()) outcomes[i].failure = "failed without a word";
      }
    }
  }
  for (const Contestant& each : contestants) each.end();
  return outcomes;
}

// --- the answer ----------------------------------------------------------------------------------

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

std::string row(const Pattern& pattern, const Contestant& who, const Outcome& outcome) {
  const std::string beginning =
      "{\"pattern\": " + quoted(pattern.name) + ", \"bytes\": " + std::to_string(pattern.bytes) +
      ", \"live\": " + std::to_string(pattern.live) +
      ", \"threads\": " + std::to_string(pattern.threads) + ", \"allocator\": " + quoted(who.name);
  if (!outcome.failure.empty() || outcome.values.empty()) {
    return beginning + ", \"failure\": " + quoted(outcome.failure) + "}";
  }
  const char* unit = pattern.name == "threads" ? "pairs_per_second" : "ns";
  std::string held;
  if (outcome.most_live_bytes > 0) {
    const double ratio = double(outcome.reserved_bytes) / double(outcome.most_live_bytes);
    held = ", \"reserved_by_most_live\": " + std::to_string(ratio);
  }
  return beginning + ", \"" + unit + "\": " + listed(outcome.values) + held + "}";
}

}  // namespace
}  // namespace side_by_side

using namespace side_by_side;

// JSON: {"results": [...]}, or {"failure": "..."}; times and rates are of each round, in order. The
// text stays until the next call.
extern "C" ASHLAR_C_API const char* ashlar_side_by_side(const char* backend, int rounds) {
  static std::string answer;
  try {
    const std::vector<Contestant> contestants = all_contestants(backend);
    std::string rows;
    for (const Pattern& pattern : all_patterns()) {
      const std::vector<Outcome> outcomes = take_turns(contestants, pattern, rounds);
      for (size_t i = 0; i < contestants.size(); ++i) {
        rows += (rows.empty() ? "\n  " : ",\n  ") + row(pattern, contestants[i], outcomes[i]);
      }
    }
    answer = "{\"results\": [" + rows + "]}";
  } catch (const std::exception& failure) {
    answer = "{\"failure\": " + quoted(failure.what()) + "}";
  }
  return answer.c_str();
}
