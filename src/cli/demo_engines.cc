// SPDX-License-Identifier: Apache-2.0
//
// The program makes the same requests in the same order under every setting: it never asks where
// its blocks lie.
#include "cli/demo_engines.h"

#include <array>
#include <memory>

#include "ashlar/allocator.h"
#include "base/random.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kOnly{0};
constexpr size_t kWeightBytes = 12 * kMiB;  // of a layer
constexpr size_t kBytesPerPixel = 128;      // of what the first layer puts out
constexpr size_t kEvaluatedImages = 48;

struct Contestant {
  const char* name;
  const char* title;
  const char* settings;
};

// PyTorch's are PyTorch's to the last act.
constexpr Contestant kContestants[] = {
    {"PyTorch", "PyTorch, defaults", "engine:classic,compat:pytorch"},
    {"PyTorch, expandable", "PyTorch, expandable_segments:True",
     "engine:classic,compat:pytorch,expandable_segments:True"},
    {"Ashlar, paged", "Ashlar, engine:paged", "engine:paged"},
};

class Training {
 public:
  Training(const TrainingLoad& load, Allocator& allocator, std::array<StreamId, 2> streams)
      : load_(load), allocator_(allocator), random_(load.seed), streams_(streams) {}

  // The network is made, all steps are taken, and everything is freed.
  Timeline run();

 private:
  // One for each layer.
  using Tensors = std::vector<Buffer>;

  void train(size_t pixels);
  void evaluate(size_t pixels);
  size_t output_bytes(size_t pixels, size_t layer) const;
  Buffer allocate(size_t bytes, StreamId stream);
  void free(Buffer& buffer);
  void note();

  const TrainingLoad& load_;
  Allocator& allocator_;
  Random random_;
  const std::array<StreamId, 2> streams_;  // for training and for evaluation
  size_t live_bytes_ = 0;
  Timeline timeline_;
};

Timeline Training::run() {
  Tensors weights;
  for (size_t i = 0; i < load_.layer_count; ++i) {
    weights.push_back(allocate(kWeightBytes, streams_[0]));
  }
  for (size_t step = 0; step < load_.step_count; ++step) {
    const size_t side = 128 + random_.below(256);
    const size_t image_count = 4 + random_.below(12);
    train(side * side * image_count);
    if (step % 4 == 3) evaluate(side * side * kEvaluatedImages);
  }
  for (Buffer& each : weights) free(each);
  note();
  return std::move(timeline_);
}

// Forward, keeping what each layer puts out, and back again, with a gradient on the way and one for
// each layer's weights.
void Training::train(size_t pixels) {
  Tensors outputs;
  Tensors gradients;
  for (size_t layer = 0; layer < load_.layer_count; ++layer) {
    Buffer workspace = allocate(output_bytes(pixels, layer) / 3, streams_[0]);
    outputs.push_back(allocate(output_bytes(pixels, layer), streams_[0]));
    free(workspace);
    note();
  }
  Buffer arriving;
  while (!outputs.empty()) {
    Buffer leaving = allocate(outputs.back().bytes(), streams_[0]);
    gradients.push_back(allocate(kWeightBytes, streams_[0]));
    free(outputs.back());
    outputs.pop_back();
    free(arriving);
    arriving = std::move(leaving);
    note();
  }
  free(arriving);
  for (Buffer& each : gradients) free(each);
  note();
}

// Forward only: what a layer has read is not needed any more.
void Training::evaluate(size_t pixels) {
  Buffer read;
  for (size_t layer = 0; layer < load_.layer_count; ++layer) {
    Buffer written = allocate(output_bytes(pixels, layer), streams_[1]);
    free(read);
    read = std::move(written);
    note();
  }
  free(read);
  note();
}

// Further in, layers put out less and less.
size_t Training::output_bytes(size_t pixels, size_t layer) const {
  return pixels * kBytesPerPixel * 4 / (layer + 4);
}

Buffer Training::allocate(size_t bytes, StreamId stream) {
  Buffer buffer = allocator_.allocate(bytes, stream);
  live_bytes_ += bytes;
  return buffer;
}

void Training::free(Buffer& buffer) {
  live_bytes_ -= buffer.bytes();
  buffer.reset();
}

void Training::note() {
  const auto reserved = static_cast<size_t>(allocator_.stats().reserved_bytes.all.current);
  timeline_.points.push_back({.live_bytes = live_bytes_, .reserved_bytes = reserved});
}

Result<EngineRun> run_under(const Contestant& contestant, const TrainingLoad& load) {
  sim::Options options;
  options.device_count = 1;
  options.backing = sim::Backing::kBookkeeping;
  options.seed = load.seed;
  Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options);
  if (!machine.ok()) return machine.status();
  Device& device = (*machine)->device(kOnly);
  std::array<StreamId, 2> streams;
  for (StreamId& stream : streams) {
    Result<StreamId> made = device.create_stream();
    if (!made.ok()) return made.status();
    stream = *made;
  }
  Allocator allocator(device, parse_options(contestant.settings));
  EngineRun run = {.name = contestant.name, .title = contestant.title};
  run.timeline = Training(load, allocator, streams).run();
  run.stats = allocator.stats();
  allocator.trim();
  run.driver = (*machine)->costs(kOnly);
  const Result<MemoryStats> use = device.memory_stats();
  if (!use.ok()) return use.status();
  run.gave_all_back = use->free_bytes == use->total_bytes;
  return run;
}

}  // namespace

Result<std::vector<EngineRun>> run_under_engines(const TrainingLoad& load) {
  std::vector<EngineRun> runs;
  for (const Contestant& contestant : kContestants) {
    Result<EngineRun> run = run_under(contestant, load);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace ashlar
