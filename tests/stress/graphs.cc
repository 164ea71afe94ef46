// SPDX-License-Identifier: Apache-2.0
//
// Captures and replays graphs. A whole capture is one operation of its thread. Other threads run
// during the capture and must not invalidate it.
#include "graphs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/units.h"
#include "pool_selection.h"

namespace ashlar::stress {
namespace {

constexpr size_t kMaxGraphs = 3;

size_t draw_bytes(Random& random) {
  return static_cast<size_t>(std::exp2(9 + 12.5 * random.fraction()));
}

bool overlap(AddressRange a, AddressRange b) { return a.begin < b.end() && b.begin < a.end(); }

}  // namespace

void Graphs::step() {
  const uint64_t point = random_.below(100);
  if (graphs_.size() < kMaxGraphs && point < 15) return capture();
  if (site_ && point < 40) return use_outside_captures();
  if (graphs_.empty()) return;
  if (point < 80) return replay();
  if (point < 93) return check_random_result();
  free_all();
}

bool Graphs::create_site() {
  CaptureSite site;
  site.device = random_.below(kDeviceCount);
  site.pool = PoolId{environment_.next_pool(), 0};
  Device& device = environment_.device(site.device);
  const Result<StreamId> main = device.create_stream();
  if (!main.ok()) return false;
  const Result<StreamId> side = device.create_stream();
  if (!side.ok()) {
    expect_ok_or_fault(device.destroy_stream(*main));
    return false;
  }
  site.main = {&device, *main};
  site.side = {&device, *side};
  site_ = site;
  return true;
}

// --- captures

void Graphs::capture() {
  if (!site_ && !create_site()) return;
  paged::PagedEngine& engine = environment_.engine(site_->device);
  expect_ok_or_fault(engine.begin_routing(
      site_->pool, [main = site_->main.stream, side = site_->side.stream](StreamId stream) {
        return stream == main || stream == side;
      }));
  engine.capture_began();
  const CaptureMode mode =
      random_.below(2) == 0 ? CaptureMode::kThreadLocal : CaptureMode::kRelaxed;
  const Status began = site_->main.device->begin_capture(site_->main.stream, mode);
  expect_ok_or_fault(began);
  if (began.ok()) {
    Graph graph;
    work_in_capture(graph);
    end_capture(std::move(graph));
  }
  expect_ok_or_fault(engine.capture_ended());
  expect_ok_or_fault(engine.end_routing(site_->pool));
}

void Graphs::work_in_capture(Graph& graph) {
  for (uint64_t left = 3 + random_.below(8); left > 0; --left) {
    const Result<LiveBlock> held =
        environment_.allocate(site_->device, {draw_bytes(random_), site_->main.stream});
    if (held.ok()) graph.results.add(*held);
    if (random_.below(4) == 0) fork(graph);
    while (!graph.results.empty() && random_.below(2) == 0) {
      environment_.free(graph.results.take_any(random_));
    }
  }
  for (const LiveBlock& held : graph.results) environment_.check(held);
  // Also frees a block that was allocated before the capture. The block is not checked first,
  // because the check would become part of the graph.
  if (!outside_blocks_.empty()) {
    expect_ok_or_fault(
        environment_.engine(site_->device).free(outside_blocks_.take_any(random_).block));
  }
}

// Checks a block on the side stream and frees it. Until the main stream waits for the side stream,
// the block must not be reused.
void Graphs::fork(Graph& graph) {
  if (graph.results.empty()) return;
  paged::PagedEngine& engine = environment_.engine(site_->device);
  const LiveBlock used = graph.results.take_any(random_);
  Environment::order_with_retries(site_->main, site_->side);
  environment_.check_on(used, site_->side);
  expect_ok_or_fault(engine.record_stream(used.block, site_->side));
  expect_ok_or_fault(engine.free(used.block));
  const Result<LiveBlock> beside =
      environment_.allocate(site_->device, {used.stamp.bytes, site_->main.stream});
  if (beside.ok()) {
    graph.results.add(*beside);
    EXPECT_FALSE(
        overlap({used.stamp.at, used.stamp.bytes}, {beside->stamp.at, beside->stamp.bytes}))
        << "a block serves two streams of a capture";
  }
  Environment::order_with_retries(site_->side, site_->main);
}

void Graphs::end_capture(Graph graph) {
  const Result<GraphId> ended = site_->main.device->end_capture(site_->main.stream);
  EXPECT_TRUE(ended.ok()) << "the capture was broken: " << ended.status().to_string();
  if (!ended.ok()) return;
  graph.id = *ended;
  graphs_.push_back(std::move(graph));
}

// --- replays

// Replays a graph on the main stream or on another stream. On the main stream, the replay sometimes
// first waits for a stream that may be paused.
void Graphs::replay() {
  const size_t which = random_.below(graphs_.size());
  const DeviceStream other{site_->main.device, environment_.any_stream(site_->device, random_)};
  const bool is_elsewhere = random_.below(3) == 0;
  if (is_elsewhere) Environment::order_with_retries(site_->main, other);
  if (!is_elsewhere && random_.below(2) == 0) Environment::order(other, site_->main);
  const DeviceStream& on = is_elsewhere ? other : site_->main;
  const Status launched = on.device->launch_graph(graphs_[which].id, on.stream);
  expect_ok_or_fault(launched);
  if (is_elsewhere) Environment::order_with_retries(other, site_->main);
  if (!launched.ok()) return;
  graphs_[which].has_valid_results = true;
  for (size_t i = which + 1; i < graphs_.size(); ++i) graphs_[i].has_valid_results = false;
  check_results();
}

void Graphs::check_results() {
  for (Graph& graph : graphs_) {
    if (!graph.has_valid_results) continue;
    for (const LiveBlock& held : graph.results) environment_.check(held);
  }
}

// Checks a result on another stream. The next replay, which may overwrite the result, waits for the
// check.
void Graphs::check_random_result() {
  Graph& graph = graphs_[random_.below(graphs_.size())];
  if (!graph.has_valid_results || graph.results.empty()) return;
  const std::optional<DeviceStream> user =
      environment_.check_on_random_stream(graph.results.any(random_), random_);
  if (user) Environment::order_with_retries(*user, site_->main);
}

// Allocates or frees on the main stream outside a capture. Other streams may borrow that memory,
// except while the main stream captures.
void Graphs::use_outside_captures() {
  if (outside_blocks_.size() >= 4) return environment_.free(outside_blocks_.take_any(random_));
  const Result<LiveBlock> held =
      environment_.allocate(site_->device, {draw_bytes(random_), site_->main.stream});
  if (held.ok()) outside_blocks_.add(*held);
}

// Frees and destroys everything. Queued launches and the work of destroyed streams still run.
void Graphs::free_all() {
  if (!site_) return;
  check_results();
  while (!outside_blocks_.empty()) environment_.free(outside_blocks_.take_any(random_));
  paged::PagedEngine& engine = environment_.engine(site_->device);
  for (Graph& graph : std::exchange(graphs_, {})) {
    while (!graph.results.empty()) {
      expect_ok_or_fault(engine.free(graph.results.take_any(random_).block));
    }
    expect_ok_or_fault(site_->main.device->destroy_graph(graph.id));
  }
  release_pool_fully(engine, site_->pool);
  expect_ok_or_fault(site_->main.device->destroy_stream(site_->main.stream));
  expect_ok_or_fault(site_->side.device->destroy_stream(site_->side.stream));
  site_.reset();
}

size_t Graphs::live_count(size_t device) const {
  size_t count = outside_blocks_.count_on(device);
  for (const Graph& graph : graphs_) count += graph.results.count_on(device);
  return count;
}

}  // namespace ashlar::stress
