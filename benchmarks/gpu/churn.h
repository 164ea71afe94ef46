// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 512 B to 16 MiB that come and go in random order, among many that stay: what a step
// takes, and what is held for it in the end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace side_by_side {

using Clock = std::chrono::steady_clock;

inline constexpr size_t kSteps = 10'000;  // of a burst, and of each pass of a churn
inline constexpr std::chrono::milliseconds kChurnWarmUp{100};
inline constexpr std::chrono::milliseconds kChurnTurn{250};

struct Figures {
  double value = 0;  // nanoseconds, or pairs a second
  // Of churn: what is held at the end, and the most that was live.
  size_t reserved_bytes = 0;
  size_t most_live_bytes = 0;
};

inline double nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

struct Step {
  size_t slot;
  size_t bytes;
};

// 512 B to 16 MiB, log-uniform.
inline std::vector<Step> draw_steps(size_t live, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(9, 24);
  std::vector<Step> steps;
  for (size_t i = 0; i < count; ++i) {
    steps.push_back({random() % live, size_t(std::exp2(exponent(random)))});
  }
  return steps;
}

// Live blocks, which are given back at the end, also where an allocation failed in between.
template <typename User>
class LiveBlocks {
 public:
  explicit LiveBlocks(const User& user) : user_(user) {}
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;
  ~LiveBlocks() {
    for (typename User::Held each : held_) {
      if (each != nullptr) user_.give(each);
    }
  }
  void add(size_t bytes) { held_.push_back(user_.take(bytes)); }
  void replace(const Step& step) {
    user_.give(std::exchange(held_[step.slot], nullptr));
    held_[step.slot] = user_.take(step.bytes);
  }

 private:
  const User& user_;
  std::vector<typename User::Held> held_;
};

// How large they are, counted while nobody is timed.
class LiveBytes {
 public:
  void add(size_t bytes) {
    sizes_.push_back(bytes);
    count(bytes);
  }
  void replace(const Step& step) {
    live_ -= std::exchange(sizes_[step.slot], step.bytes);
    count(step.bytes);
  }
  size_t most() const { return most_; }

 private:
  void count(size_t bytes) {
    live_ += bytes;
    most_ = std::max(most_, live_);
  }
  std::vector<size_t> sizes_;
  size_t live_ = 0;
  size_t most_ = 0;
};

// Nanoseconds per free of one of the live blocks, and allocation of another in its place: a few,
// after a pause in which the others had their turns.
template <typename User>
double time_burst(const User& user, size_t live, uint64_t seed) {
  const std::vector<Step> steps = draw_steps(live, kSteps, seed);
  LiveBlocks<User> blocks(user);
  for (const Step& step : draw_steps(live, live, seed + 1)) blocks.add(step.bytes);
  const auto begin = Clock::now();
  for (const Step& step : steps) blocks.replace(step);
  return nanoseconds_since(begin) / double(kSteps);
}

// The same in a program that goes on like that, for which turns are of one length for all. Each
// pass makes the steps of the next seed; `seed_step` 0: the same ones.
template <typename User>
Figures time_churn(const User& user, size_t live, uint64_t seed, uint64_t seed_step) {
  LiveBlocks<User> blocks(user);
  LiveBytes live_bytes;
  for (const Step& step : draw_steps(live, live, seed + 1)) {
    blocks.add(step.bytes);
    live_bytes.add(step.bytes);
  }
  double counted_ns = 0;
  size_t counted_steps = 0;
  const auto begin = Clock::now();
  do {
    const std::vector<Step> steps = draw_steps(live, kSteps, seed);
    seed += seed_step;
    const auto pass_begin = Clock::now();
    for (const Step& step : steps) blocks.replace(step);
    const double took_ns = nanoseconds_since(pass_begin);
    for (const Step& step : steps) live_bytes.replace(step);
    if (pass_begin - begin < kChurnWarmUp) continue;
    counted_ns += took_ns;
    counted_steps += kSteps;
  } while (counted_steps == 0 || Clock::now() - begin < kChurnTurn);
  return {counted_ns / double(counted_steps), user.reserved_bytes(), live_bytes.most()};
}

}  // namespace side_by_side
