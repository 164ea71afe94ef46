// SPDX-License-Identifier: Apache-2.0
//
// Measures how the cost of the engines depends on the number of streams, pools and pending frees.
//
//   stream_scaling [--rounds N]
//
// Prints the processor time of this process, as medians over the rounds. The engines alternate
// within a round. Compare figures of one run only. Devices are simulated and have no memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/replay/replay.h"
#include "ashlar/sim.h"
#include "base/units.h"
#include "engine/factory/make_engine.h"

namespace ashlar {
namespace {

constexpr size_t kBlockBytes = 512;
constexpr size_t kSegmentBytes = 2 * kMiB;
constexpr size_t kCapacityBytes = size_t{256} << 30;
constexpr uint64_t kFirstAddress = 0x7f0000000000;

double processor_us() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double time_us(const std::function<void()>& run) {
  const double begin = processor_us();
  run();
  return processor_us() - begin;
}

template <typename Value>
Value require(Result<Value> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "stream_scaling: %s\n", result.status().to_string().c_str());
  std::exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// An engine on a device of its own, with streams.
struct Bench {
  Bench(EngineKind kind, size_t stream_count) {
    sim::Options options;
    options.device_count = 1;
    options.capacity_bytes = kCapacityBytes;
    options.backing = sim::Backing::kBookkeeping;
    machine = sim::Machine::create(options);
    Device& device = machine->device(DeviceIndex(0));
    AllocatorOptions allocator;
    allocator.engine = kind;
    engine = require(make_engine(device, allocator));
    for (size_t i = 0; i < stream_count; ++i) streams.push_back(require(device.create_stream()));
  }
  void allocate(StreamId stream) {
    blocks.push_back(require(engine->allocate({kBlockBytes, stream})));
  }

  std::unique_ptr<sim::Machine> machine;
  std::unique_ptr<Engine> engine;
  std::vector<StreamId> streams;
  std::vector<Block*> blocks;
};

// The times of one engine, in microseconds.
struct Times {
  double allocate_all = 0;  // one block on each stream
  double stats = 0;
  double allocate_further = 0;  // one block on a further stream; mean over kMoreStreams
  double pair = 0;              // an allocation and a free on the last stream; mean over kPairs
  double trim = 0;              // a free of all blocks, and a trim
};
constexpr size_t kMoreStreams = 256;
constexpr size_t kPairs = 100'000;

Times measure_streams(EngineKind kind, size_t stream_count) {
  Bench bench(kind, stream_count + kMoreStreams);
  Times times;
  times.allocate_all = time_us([&] {
    for (size_t i = 0; i < stream_count; ++i) bench.allocate(bench.streams[i]);
  });
  times.stats = time_us([&] { (void)bench.engine->stats(); });
  times.allocate_further = time_us([&] {
                             for (size_t i = stream_count; i < bench.streams.size(); ++i) {
                               bench.allocate(bench.streams[i]);
                             }
                           }) /
                           kMoreStreams;
  times.pair =
      time_us([&] {
        for (size_t i = 0; i < kPairs; ++i) {
          Block* block = require(bench.engine->allocate({kBlockBytes, bench.streams.back()}));
          if (!bench.engine->free(block).ok()) std::abort();
        }
      }) /
      kPairs;
  times.trim = time_us([&] {
    for (Block* block : bench.blocks) {
      if (!bench.engine->free(block).ok()) std::abort();
    }
    if (!bench.engine->trim().ok()) std::abort();
  });
  return times;
}

void print_streams(size_t stream_count, int rounds) {
  double Times::*const fields[] = {&Times::allocate_all, &Times::stats, &Times::allocate_further,
                                   &Times::pair, &Times::trim};
  const char* const names[] = {"one block per stream", "stats()", "allocation on a further stream",
                               "allocate and free", "free all and trim"};
  constexpr size_t kFieldCount = std::size(fields);
  std::vector<double> ratio[kFieldCount];
  std::vector<double> value[2][kFieldCount];
  for (int round = 0; round < rounds; ++round) {
    const Times classic = measure_streams(EngineKind::kClassic, stream_count);
    const Times paged = measure_streams(EngineKind::kPaged, stream_count);
    for (size_t i = 0; i < kFieldCount; ++i) {
      value[0][i].push_back(classic.*fields[i]);
      value[1][i].push_back(paged.*fields[i]);
      ratio[i].push_back(paged.*fields[i] / (classic.*fields[i]));
    }
  }
  for (size_t i = 0; i < kFieldCount; ++i) {
    std::printf("%8zu  %-32s %12.3f %12.3f %8.2f\n", stream_count, names[i], median(value[0][i]),
                median(value[1][i]), median(ratio[i]));
  }
}

// Builds a trace of blocks that are allocated one after another, and live until the end.
class TraceMaker {
 public:
  TraceMaker() { snapshot_.device_traces.resize(1); }

  void allocate(uint64_t number, uint64_t stream, PoolId pool) {
    add(TraceAction::kSegmentAlloc, number, kSegmentBytes, stream, pool);
    add(TraceAction::kAlloc, number, kBlockBytes, stream, pool);
  }
  void add(TraceAction action, uint64_t number, size_t bytes, uint64_t stream = 0,
           PoolId pool = {}) {
    TraceEntry entry;
    entry.action = action;
    entry.address = DeviceAddress(kFirstAddress + number * kSegmentBytes);
    entry.bytes = bytes;
    entry.stream = StreamId(stream);
    entry.pool = pool;
    entry.has_pool = true;
    entry.time_us = static_cast<int64_t>(snapshot_.device_traces[0].size());
    snapshot_.device_traces[0].push_back(entry);
  }
  const Snapshot& snapshot() const { return snapshot_; }

 private:
  Snapshot snapshot_;
};

Snapshot streams_trace(size_t count) {
  TraceMaker trace;
  for (uint64_t i = 0; i < count; ++i) trace.allocate(i, i + 1, {});
  return trace.snapshot();
}

Snapshot pools_trace(size_t count) {
  TraceMaker trace;
  for (uint64_t i = 0; i < count; ++i) trace.allocate(i, 0, {0, i + 1});
  return trace.snapshot();
}

// All frees are pending before the first one completes.
Snapshot pending_trace(size_t count) {
  TraceMaker trace;
  for (uint64_t i = 0; i < count; ++i) {
    trace.allocate(i, 0, {});
    trace.add(TraceAction::kFreeRequested, i, kBlockBytes);
  }
  for (uint64_t i = 0; i < count; ++i) trace.add(TraceAction::kFreeCompleted, i, kBlockBytes);
  return trace.snapshot();
}

double replay_us(const Snapshot& snapshot, EngineKind kind) {
  ReplayOptions options;
  options.recorded.engine = EngineKind::kClassic;
  options.allocator.engine = kind;
  options.capacity_bytes = kCapacityBytes;
  const Allocations allocations = find_allocations(snapshot, DeviceIndex(0));
  return time_us([&] { (void)require(replay(snapshot, allocations, options)); });
}

void print_replay(const char* name, size_t count, const Snapshot& snapshot, int rounds) {
  std::vector<double> classic;
  std::vector<double> paged;
  std::vector<double> ratio;
  for (int round = 0; round < rounds; ++round) {
    classic.push_back(replay_us(snapshot, EngineKind::kClassic));
    paged.push_back(replay_us(snapshot, EngineKind::kPaged));
    ratio.push_back(paged.back() / classic.back());
  }
  std::printf("%8zu  %-32s %12.2f %12.2f %8.2f\n", count, name, median(classic), median(paged),
              median(ratio));
  std::fflush(stdout);
}

int run(int rounds) {
  std::printf("%8s  %-32s %12s %12s %8s\n", "count", "", "classic, us", "paged, us", "ratio");
  for (const size_t count : {64U, 1000U, 10'000U}) print_streams(count, rounds);
  for (const size_t count : {1000U, 10'000U}) {
    print_replay("replay: streams", count, streams_trace(count), rounds);
    print_replay("replay: pools", count, pools_trace(count), rounds);
    print_replay("replay: pending frees", count, pending_trace(count), rounds);
  }
  return 0;
}

}  // namespace
}  // namespace ashlar

int main(int argc, char** argv) {
  int rounds = 5;
  if (argc == 3 && std::strcmp(argv[1], "--rounds") == 0) rounds = std::atoi(argv[2]);
  if (argc != 1 && (argc != 3 || rounds < 1)) {
    std::fprintf(stderr, "usage: stream_scaling [--rounds N]\n");
    return 2;
  }
  return ashlar::run(rounds);
}
