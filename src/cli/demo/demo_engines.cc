// SPDX-License-Identifier: Apache-2.0
//
// The program makes the same requests in the same order with every allocator, because the requests
// do not depend on addresses.
#include "cli/demo/demo_engines.h"

#include <array>
#include <memory>

#include "ashlar/allocator.h"
#include "base/random.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kDevice{0};
constexpr size_t kWeightBytes = 12 * kMiB;  // size of a layer's weights
constexpr size_t kBytesPerPixel = 128;      // size of the first layer's output per pixel
constexpr size_t kEvaluatedImages = 48;

struct EngineSettings {
  const char* name;
  const char* title;
  const char* settings;
};

// compat:pytorch reproduces PyTorch's allocator operation by operation.
constexpr EngineSettings kEngines[] = {
    {"PyTorch", "PyTorch, defaults", "engine:classic,compat:pytorch"},
    {"PyTorch, expandable", "PyTorch, expandable_segments:True",
     "engine:classic,compat:pytorch,expandable_segments:True"},
    {"Ashlar, paged", "Ashlar, engine:paged", "engine:paged"},
};

class Training {
 public:
  Training(const TrainingLoad& load, Allocator& allocator, std::array<StreamId, 2> streams)
      : load_(load), allocator_(allocator), random_(load.seed), streams_(streams) {}

  // Allocates the weights, runs all steps, and frees everything.
  Timeline run();

 private:
  // One buffer per layer.
  using Tensors = std::vector<Buffer>;

  void train(size_t pixels);
  void evaluate(size_t pixels);
  size_t output_bytes(size_t pixels, size_t layer) const;
  Buffer allocate(size_t bytes, StreamId stream);
  void free(Buffer& buffer);
  void record_point();

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
  record_point();
  return std::move(timeline_);
}

// Performs a forward pass, which keeps each layer's output, then a backward pass with the gradients
// of outputs and weights.
void Training::train(size_t pixels) {
  Tensors outputs;
  Tensors gradients;
  for (size_t layer = 0; layer < load_.layer_count; ++layer) {
    Buffer workspace = allocate(output_bytes(pixels, layer) / 3, streams_[0]);
    outputs.push_back(allocate(output_bytes(pixels, layer), streams_[0]));
    free(workspace);
    record_point();
  }
  Buffer output_gradient;
  while (!outputs.empty()) {
    Buffer input_gradient = allocate(outputs.back().bytes(), streams_[0]);
    gradients.push_back(allocate(kWeightBytes, streams_[0]));
    free(outputs.back());
    outputs.pop_back();
    free(output_gradient);
    output_gradient = std::move(input_gradient);
    record_point();
  }
  free(output_gradient);
  for (Buffer& each : gradients) free(each);
  record_point();
}

// Performs only a forward pass: each layer's input is freed after use.
void Training::evaluate(size_t pixels) {
  Buffer input;
  for (size_t layer = 0; layer < load_.layer_count; ++layer) {
    Buffer output = allocate(output_bytes(pixels, layer), streams_[1]);
    free(input);
    input = std::move(output);
    record_point();
  }
  free(input);
  record_point();
}

// Returns the size of a layer's output. Deeper layers have smaller outputs.
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

void Training::record_point() {
  const auto reserved = static_cast<size_t>(allocator_.stats().reserved_bytes.all.current);
  timeline_.points.push_back({.live_bytes = live_bytes_, .reserved_bytes = reserved});
}

Result<EngineRun> run_with_engine(const EngineSettings& engine, const TrainingLoad& load) {
  sim::Options options;
  options.device_count = 1;
  options.backing = sim::Backing::kBookkeeping;
  options.seed = load.seed;
  Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options);
  if (!machine.ok()) return machine.status();
  Device& device = (*machine)->device(kDevice);
  std::array<StreamId, 2> streams;
  for (StreamId& stream : streams) {
    Result<StreamId> made = device.create_stream();
    if (!made.ok()) return made.status();
    stream = *made;
  }
  Allocator allocator(device, parse_options(engine.settings));
  EngineRun run = {.name = engine.name, .title = engine.title};
  run.timeline = Training(load, allocator, streams).run();
  run.stats = allocator.stats();
  allocator.trim();
  run.driver = (*machine)->costs(kDevice);
  const Result<DeviceMemoryStats> use = device.memory_stats();
  if (!use.ok()) return use.status();
  run.returned_all_memory = use->free_bytes == use->total_bytes;
  return run;
}

}  // namespace

Result<std::vector<EngineRun>> run_with_engines(const TrainingLoad& load) {
  std::vector<EngineRun> runs;
  for (const EngineSettings& engine : kEngines) {
    Result<EngineRun> run = run_with_engine(engine, load);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace ashlar
