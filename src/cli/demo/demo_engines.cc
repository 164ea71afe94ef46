// SPDX-License-Identifier: Apache-2.0
//
// The program makes the same requests in the same order with every allocator, because the requests
// do not depend on addresses. Time is modelled, because the paged engine spends a share of the
// elapsed time on saving memory: on a busy host, measured times would change the result.
#include "cli/demo/demo_engines.h"

#include <array>
#include <memory>

#include "api/unwrap.h"
#include "ashlar/clock.h"
#include "ashlar/options.h"
#include "base/random.h"
#include "base/units.h"
#include "engine/factory/make_engine.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kDevice{0};
constexpr size_t kWeightBytes = 12 * kMiB;  // size of a layer's weights
constexpr size_t kBytesPerPixel = 128;      // size of the first layer's output per pixel
constexpr size_t kEvaluatedImages = 48;
constexpr int64_t kLayerNs = 1'000'000;  // the time that a layer takes on the GPU

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

struct Tensor {
  Block* block = nullptr;
  size_t bytes = 0;
};

class Training {
 public:
  Training(const TrainingLoad& load, Engine& engine, ManualClock& clock,
           std::array<StreamId, 2> streams)
      : load_(load), engine_(engine), clock_(clock), random_(load.seed), streams_(streams) {}

  // Allocates the weights, runs all steps, and frees everything.
  Timeline run();

 private:
  // One tensor per layer.
  using Tensors = std::vector<Tensor>;

  void train(size_t pixels);
  void evaluate(size_t pixels);
  size_t output_bytes(size_t pixels, size_t layer) const;
  Tensor allocate(size_t bytes, StreamId stream);
  void free(Tensor& tensor);
  void finish_layer();

  const TrainingLoad& load_;
  Engine& engine_;
  ManualClock& clock_;
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
  for (Tensor& each : weights) free(each);
  finish_layer();
  return std::move(timeline_);
}

// Performs a forward pass, which keeps each layer's output, then a backward pass with the gradients
// of outputs and weights.
void Training::train(size_t pixels) {
  Tensors outputs;
  Tensors gradients;
  for (size_t layer = 0; layer < load_.layer_count; ++layer) {
    Tensor workspace = allocate(output_bytes(pixels, layer) / 3, streams_[0]);
    outputs.push_back(allocate(output_bytes(pixels, layer), streams_[0]));
    free(workspace);
    finish_layer();
  }
  Tensor output_gradient;
  while (!outputs.empty()) {
    Tensor input_gradient = allocate(outputs.back().bytes, streams_[0]);
    gradients.push_back(allocate(kWeightBytes, streams_[0]));
    free(outputs.back());
    outputs.pop_back();
    free(output_gradient);
    output_gradient = input_gradient;
    finish_layer();
  }
  free(output_gradient);
  for (Tensor& each : gradients) free(each);
  finish_layer();
}

// Performs only a forward pass: each layer's input is freed after use.
void Training::evaluate(size_t pixels) {
  Tensor input;
  for (size_t layer = 0; layer < load_.layer_count; ++layer) {
    Tensor output = allocate(output_bytes(pixels, layer), streams_[1]);
    free(input);
    input = output;
    finish_layer();
  }
  free(input);
  finish_layer();
}

// Returns the size of a layer's output. Deeper layers have smaller outputs.
size_t Training::output_bytes(size_t pixels, size_t layer) const {
  return pixels * kBytesPerPixel * 4 / (layer + 4);
}

Tensor Training::allocate(size_t bytes, StreamId stream) {
  Block* block = unwrap(engine_.allocate({bytes, stream}));
  live_bytes_ += bytes;
  return {block, bytes};
}

void Training::free(Tensor& tensor) {
  if (tensor.block == nullptr) return;
  unwrap(engine_.free(tensor.block));
  live_bytes_ -= tensor.bytes;
  tensor = {};
}

void Training::finish_layer() {
  clock_.advance_ns(kLayerNs);
  const auto reserved = static_cast<size_t>(engine_.stats().reserved_bytes.all.current);
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
  ManualClock clock;
  Result<std::unique_ptr<Engine>> allocator =
      make_engine(device, parse_options(engine.settings), &clock);
  if (!allocator.ok()) return allocator.status();
  EngineRun run = {.name = engine.name, .title = engine.title};
  run.timeline = Training(load, **allocator, clock, streams).run();
  run.stats = (*allocator)->stats();
  unwrap((*allocator)->trim());
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
