// SPDX-License-Identifier: Apache-2.0
//
// Measures churn, which is random frees and allocations of 512 B to 16 MiB among many live blocks:
// the time per step, and the reserved memory at the end.
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

inline constexpr size_t kSteps = 10'000;  // steps of a burst, and of each pass of churn
inline constexpr std::chrono::milliseconds kChurnWarmUp{100};
inline constexpr std::chrono::milliseconds kChurnDuration{250};

struct Figures {
  double value = 0;            // nanoseconds, or pairs per second
  size_t reserved_bytes = 0;   // churn only: reserved memory at the end
  size_t peak_live_bytes = 0;  // churn only: peak of the live bytes
};

inline double nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

struct Step {
  size_t slot;
  size_t bytes;
};

// Draws random slots, and sizes from 512 B to 16 MiB with a log-uniform distribution.
inline std::vector<Step> draw_steps(size_t live, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(9, 24);
  std::vector<Step> steps;
  for (size_t i = 0; i < count; ++i) {
    steps.push_back({random() % live, size_t(std::exp2(exponent(random)))});
  }
  return steps;
}

// Owns the live blocks. The destructor frees them, even after a failed allocation.
template <typename Allocator>
class LiveBlocks {
 public:
  explicit LiveBlocks(const Allocator& allocator) : allocator_(allocator) {}
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;
  ~LiveBlocks() {
    for (typename Allocator::Memory each : blocks_) {
      if (each != nullptr) allocator_.free(each);
    }
  }
  void add(size_t bytes) { blocks_.push_back(allocator_.allocate(bytes)); }
  void replace(const Step& step) {
    allocator_.free(std::exchange(blocks_[step.slot], nullptr));
    blocks_[step.slot] = allocator_.allocate(step.bytes);
  }

 private:
  const Allocator& allocator_;
  std::vector<typename Allocator::Memory> blocks_;
};

// The total size of the live blocks, updated outside of the timed section.
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
  size_t peak() const { return peak_; }

 private:
  void count(size_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  std::vector<size_t> sizes_;
  size_t live_ = 0;
  size_t peak_ = 0;
};

// Measures a short burst of steps, each of which frees one live block and allocates another block,
// in an allocator without live blocks before this call. Returns nanoseconds per step.
template <typename Allocator>
double time_burst(const Allocator& allocator, size_t live, uint64_t seed) {
  const std::vector<Step> steps = draw_steps(live, kSteps, seed);
  LiveBlocks<Allocator> blocks(allocator);
  for (const Step& step : draw_steps(live, live, seed + 1)) blocks.add(step.bytes);
  const auto begin = Clock::now();
  for (const Step& step : steps) blocks.replace(step);
  return nanoseconds_since(begin) / double(kSteps);
}

// Measures steps in steady state, for the same duration with every allocator. Returns nanoseconds
// per step, and the memory figures. Each pass of kSteps steps adds `seed_step` to the seed; 0
// repeats the same sizes.
template <typename Allocator>
Figures time_churn(const Allocator& allocator, size_t live, uint64_t seed, uint64_t seed_step) {
  LiveBlocks<Allocator> blocks(allocator);
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
  } while (counted_steps == 0 || Clock::now() - begin < kChurnDuration);
  return {counted_ns / double(counted_steps), allocator.reserved_bytes(), live_bytes.peak()};
}

}  // namespace side_by_side
