// SPDX-License-Identifier: Apache-2.0
//
// The measurements of `ashlar bench`: allocation patterns on Ashlar's engines and, for most
// patterns, on mimalloc as the reference. The engines run on a simulated device without backing
// memory, so that only their own cost is measured.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

// One measured pattern. `ns` is the median over several rounds in which the allocators alternate;
// for the pattern "threads" it is the fastest round, in which each thread most likely had a core to
// itself. Samples taken while the core was slowed down are discarded if others exist
// (calibration.h).
struct BenchResult {
  // "pair": allocate and free.
  // "churn": free one of many blocks, allocate another.
  // "churn16k": like "churn", with blocks of up to 16 KiB; mimalloc only.
  // "holes": pairs in the presence of free holes; paged engine only.
  // "threads": pairs on several threads, each with its own stream.
  // "history": pairs that are recorded, without stacks; engines only.
  std::string name;
  std::string allocator;  // "mimalloc", "classic.buffer", "paged.raw", …
  size_t bytes = 0;       // block size; 0: log-uniform from 512 B to 16 MiB (churn16k: 16 KiB)
  size_t live = 0;        // number of live blocks, or of holes
  size_t threads = 1;
  double ns = 0;  // time per pair of allocate and free, on each thread
};

struct BenchOutcome {
  std::vector<BenchResult> results;
  std::string missing_reference;  // why mimalloc was not measured; empty if it was measured
};

struct BenchOptions {
  size_t rounds = 9;          // on a busy machine, up to four times as many rounds run
  size_t operations = 20000;  // operations per round
};

// Receives the completed share of the work, 0 to 1. May be empty.
using BenchProgress = std::function<void(double share)>;

Result<BenchOutcome> run_bench(const BenchOptions& options, const BenchProgress& progress);

}  // namespace ashlar
