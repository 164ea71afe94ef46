// SPDX-License-Identifier: Apache-2.0
//
// A random program that mixes replays of graphs with other calls of symmetric memory, and compares
// every result with a model of all ranks' memory. Runs on simulated and real devices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mp/harness/device_rank.h"

namespace ashlar::symm {

struct GraphProgramOptions {
  uint64_t seed = 1;
  uint64_t replay_count = 0;
  // Whether graphs are launched in capturing streams, and so become parts of other graphs.
  bool has_nested_graphs = true;
  // Called before one in four rounds, drawn separately on each rank. May make a later device call
  // of this rank fail once. Empty: no faults.
  std::function<void()> inject_fault{};
};

// Returns the options for a test run, or those that ASHLAR_STRESS_SEED and
// ASHLAR_STRESS_OPERATIONS, the number of replays, request.
GraphProgramOptions graph_program_options();

// Collective. Returns an error description, or an empty string on success.
std::string run_graph_program(DeviceRank& own, const GraphProgramOptions& options);

// Captures `work`, which submits work to the stream, as a graph.
GraphId capture_graph(Device& device, StreamId stream, const std::function<void()>& work);

}  // namespace ashlar::symm
