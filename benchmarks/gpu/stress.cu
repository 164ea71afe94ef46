// SPDX-License-Identifier: Apache-2.0
//
// Checks that remapped memory never mixes the contents of two blocks. Eight streams, each with its
// own thread, allocate through the C API, fill every block with a kernel, and check the block with
// a kernel before the free. On average, a quarter of the checks run on another stream. Sizes never
// repeat, and alternate between small and large phases under `policy:lean`, which reserves new
// memory only if no memory can be stitched. Reports how often memory was stitched. With the paged
// engine, fails if memory was never stitched, because the test then checked no remapped memory.
//
//   gpu_stress [--seconds N] [--short] [--conf OPTIONS]
//
// --conf selects another engine ("engine:async"). Exit status: 0 all bytes correct, 1 mismatches,
// 2 failure, 3 the paged engine never stitched memory.
//
// nvcc builds this file for a GPU (scripts/gpu). A C++ compiler builds it with copies instead of
// kernels, for `--backend sim` or a stand-in driver.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "ashlar/c/ashlar.h"

namespace {

constexpr int kStreams = 8;
constexpr size_t kUnitBytes = 512;  // all sizes are multiples of this
constexpr size_t kMiB = size_t{1} << 20;
constexpr int kPhaseBlocks = 64;  // blocks per phase of small or large sizes

struct Options {
  const char* backend = "cuda";
  const char* conf = "engine:paged,policy:lean";
  double seconds = 10;
  uint64_t max_steps = UINT64_MAX;  // maximum number of steps of each stream
  size_t max_bytes = 64 * kMiB;     // approximate maximum size of a block
  size_t live_bytes = 192 * kMiB;   // maximum of the live bytes of each stream
};

void must(ashlar_status status) {
  if (status != ASHLAR_OK) throw std::runtime_error(ashlar_last_message());
}

// --- filling and checking ------------------------------------------------------------------------

struct Block {
  uint32_t* words;
  size_t bytes;
  uint32_t seed;
  size_t word_count() const { return bytes / sizeof(uint32_t); }
};

#ifdef __CUDACC__
#define ASHLAR_HOST_DEVICE __host__ __device__
#else
#define ASHLAR_HOST_DEVICE
#endif

ASHLAR_HOST_DEVICE inline uint32_t word_of(uint32_t seed, size_t index) {
  uint32_t word = seed ^ (uint32_t(index) * 0x9e3779b9u);
  word = (word ^ (word >> 16)) * 0x85ebca6bu;
  return word ^ (word >> 13);
}

#ifdef __CUDACC__

void must(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

__global__ void fill_kernel(uint32_t* words, size_t count, uint32_t seed) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    words[i] = word_of(seed, i);
  }
}

__global__ void check_kernel(const uint32_t* words, size_t count, uint32_t seed,
                             unsigned long long* mismatches) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  unsigned long long wrong = 0;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    if (words[i] != word_of(seed, i)) ++wrong;
  }
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

class Checker {
 public:
  explicit Checker(ashlar_device* /*device*/) {
    must(cudaMalloc(&mismatches_, sizeof(*mismatches_)));
    must(cudaMemset(mismatches_, 0, sizeof(*mismatches_)));
    must(cudaDeviceSynchronize());
  }
  void fill(const Block& block, ashlar_stream stream) {
    fill_kernel<<<grid(block), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        block.words, block.word_count(), block.seed);
    must(cudaGetLastError());
  }
  void check(const Block& block, ashlar_stream stream) {
    check_kernel<<<grid(block), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        block.words, block.word_count(), block.seed, mismatches_);
    must(cudaGetLastError());
  }
  // Waits for all queued work, and returns the number of wrong words.
  uint64_t mismatches() const {
    unsigned long long count = 0;
    must(cudaDeviceSynchronize());
    must(cudaMemcpy(&count, mismatches_, sizeof(count), cudaMemcpyDeviceToHost));
    return count;
  }

 private:
  static constexpr unsigned kThreads = 256;
  static unsigned grid(const Block& block) {
    const size_t wanted = (block.word_count() + kThreads - 1) / kThreads;
    return unsigned(wanted < 264 ? wanted : 264);
  }
  unsigned long long* mismatches_ = nullptr;
};

#else

class Checker {
 public:
  explicit Checker(ashlar_device* device) : device_(device) {}
  void fill(const Block& block, ashlar_stream stream) {
    std::vector<uint32_t> words(block.word_count());
    for (size_t i = 0; i < words.size(); ++i) words[i] = word_of(block.seed, i);
    must(ashlar_copy_to_device(device_, block.words, words.data(), block.bytes, stream));
    must(ashlar_stream_synchronize(device_, stream));
  }
  void check(const Block& block, ashlar_stream stream) {
    std::vector<uint32_t> words(block.word_count());
    must(ashlar_copy_to_host(device_, words.data(), block.words, block.bytes, stream));
    must(ashlar_stream_synchronize(device_, stream));
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] != word_of(block.seed, i)) ++mismatches_;
    }
  }
  uint64_t mismatches() const { return mismatches_; }

 private:
  ashlar_device* device_;
  std::atomic<uint64_t> mismatches_{0};
};

#endif

// --- one stream ----------------------------------------------------------------------------------

struct Shared {
  Options options;
  ashlar_device* device = nullptr;
  ashlar_allocator* allocator = nullptr;
  std::vector<ashlar_stream> streams;
  std::chrono::steady_clock::time_point end;
  std::atomic<uint64_t> block_count{0};
  std::atomic<uint64_t> checked_bytes{0};
  std::atomic<uint64_t> neighbour_count{0};
};

class Worker {
 public:
  Worker(Shared& shared, Checker& checker, int number)
      : shared_(shared),
        checker_(checker),
        number_(number),
        stream_(shared.streams[size_t(number)]),
        neighbour_(shared.streams[size_t((number + 1) % kStreams)]),
        random_(uint64_t(number) + 1) {
    must(ashlar_event_create(shared.device, &filled_));
  }

  void run() {
    const Options& options = shared_.options;
    for (uint64_t step = 0; step < options.max_steps; ++step) {
      if (std::chrono::steady_clock::now() > shared_.end) break;
      const bool is_large = step / kPhaseBlocks % 2 == 1;
      const size_t bytes = draw_bytes(is_large);
      while (!blocks_.empty() && live_bytes_ + bytes > options.live_bytes) check_and_free();
      allocate(bytes);
    }
    while (!blocks_.empty()) check_and_free();
    must(ashlar_stream_synchronize(shared_.device, stream_));
  }

 private:
  // Draws a size that no stream has used before: a stream uses only multiples of kUnitBytes whose
  // factor is congruent to its index plus one, modulo the number of streams.
  size_t draw_bytes(bool is_large) {
    const double most = std::log2(double(shared_.options.max_bytes));
    const double middle = 9 + (most - 9) * 0.7;
    std::uniform_real_distribution<double> exponent(is_large ? middle : 9,
                                                    is_large ? most : middle);
    size_t unit = size_t(std::exp2(exponent(random_))) / kUnitBytes;
    unit = unit / kStreams * kStreams + size_t(number_) + 1;
    while (!used_units_.insert(unit).second) unit += kStreams;
    return unit * kUnitBytes;
  }

  void allocate(size_t bytes) {
    void* memory = nullptr;
    must(ashlar_allocate(shared_.allocator, bytes, stream_, &memory));
    blocks_.push_back({static_cast<uint32_t*>(memory), bytes, uint32_t(random_())});
    live_bytes_ += bytes;
    checker_.fill(blocks_.back(), stream_);
    ++shared_.block_count;
  }

  // Checks and frees a random live block.
  void check_and_free() {
    std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
    const Block block = blocks_.back();
    blocks_.pop_back();
    live_bytes_ -= block.bytes;
    if (random_() % 4 == 0) {
      must(ashlar_event_record(shared_.device, filled_, stream_));
      must(ashlar_event_wait(shared_.device, filled_, neighbour_));
      checker_.check(block, neighbour_);
      must(ashlar_record_stream(shared_.allocator, block.words, neighbour_));
      ++shared_.neighbour_count;
    } else {
      checker_.check(block, stream_);
    }
    must(ashlar_free(shared_.allocator, block.words));
    shared_.checked_bytes += block.bytes;
  }

  Shared& shared_;
  Checker& checker_;
  const int number_;
  ashlar_stream const stream_;
  ashlar_stream const neighbour_;
  std::mt19937_64 random_;
  ashlar_event filled_ = 0;
  std::unordered_set<size_t> used_units_;
  std::vector<Block> blocks_;
  size_t live_bytes_ = 0;
};

// --- all streams ---------------------------------------------------------------------------------

void run_workers(Shared& shared, Checker& checker) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kStreams);
  for (int number = 0; number < kStreams; ++number) {
    threads.emplace_back([&, number] {
      try {
        Worker(shared, checker, number).run();
      } catch (const std::exception& failure) {
        failures[size_t(number)] = failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw std::runtime_error(failure);
  }
}

int run(const Options& options) {
  Shared shared;
  shared.options = options;
  must(ashlar_device_open(options.backend, 0, &shared.device));
  must(ashlar_allocator_create(shared.device, options.conf, &shared.allocator));
  shared.streams.resize(kStreams);
  for (ashlar_stream& stream : shared.streams) {
    must(ashlar_stream_create(shared.device, 0, &stream));
  }
  Checker checker(shared.device);
  const auto begin = std::chrono::steady_clock::now();
  shared.end = begin + std::chrono::milliseconds(int64_t(options.seconds * 1000));
  run_workers(shared, checker);
  const uint64_t mismatches = checker.mismatches();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  ashlar_stats stats = {};
  stats.struct_size = sizeof(stats);
  must(ashlar_get_stats(shared.allocator, &stats));
  std::printf(
      "{\"mismatches\": %llu, \"blocks\": %llu, \"checked_bytes\": %llu, "
      "\"checked_by_a_neighbour\": %llu, \"peak_requested_bytes\": %lld, "
      "\"peak_reserved_bytes\": %lld, \"device_allocs\": %lld, \"stitches\": %lld, "
      "\"seconds\": %.2f}\n",
      static_cast<unsigned long long>(mismatches),
      static_cast<unsigned long long>(shared.block_count.load()),
      static_cast<unsigned long long>(shared.checked_bytes.load()),
      static_cast<unsigned long long>(shared.neighbour_count.load()),
      static_cast<long long>(stats.requested_bytes.peak),
      static_cast<long long>(stats.reserved_bytes.peak),
      static_cast<long long>(stats.device_allocs), static_cast<long long>(stats.stitches),
      seconds.count());
  ashlar_allocator_destroy(shared.allocator);
  if (mismatches != 0) return 1;
  const bool can_stitch = std::strstr(options.conf, "engine:paged") != nullptr;
  return can_stitch && stats.stitches == 0 ? 3 : 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  Options options;
  for (int i = 1; i < argument_count; ++i) {
    const bool has_value = i + 1 < argument_count;
    if (std::strcmp(arguments[i], "--short") == 0) {
      options.max_steps = 3 * kPhaseBlocks;
      options.max_bytes = 2 * kMiB;
      options.live_bytes = 8 * kMiB;
    } else if (std::strcmp(arguments[i], "--seconds") == 0 && has_value) {
      options.seconds = std::atof(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--backend") == 0 && has_value) {
      options.backend = arguments[++i];
    } else if (std::strcmp(arguments[i], "--conf") == 0 && has_value) {
      options.conf = arguments[++i];
    } else {
      std::fprintf(
          stderr,
          "gpu_stress: what is %s? (expected --seconds N, --short, --backend B, --conf O)\n",
          arguments[i]);
      return 2;
    }
  }
  try {
    return run(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_stress: %s\n", failure.what());
    return 2;
  }
}
