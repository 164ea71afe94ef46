// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar bench` measures, and of whom: the same patterns of allocating and freeing on our
// engines (on a simulated device that keeps books only, so that their own cost is what is seen) and
// on mimalloc, the reference for what a memory allocator can cost at all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

// One figure: the median over several rounds, in which the allocators took turns; for threads the
// fastest round, since each of them must have had a processor to itself from beginning to end. Only
// rounds at the processor's full speed count (yardstick.h), as far as there are such.
struct BenchResult {
  std::string name;       // "pair": allocate and free; "churn": free one of many, allocate another;
                          // "churn16k": the same up to 16 KiB; "holes": pairs beside free holes;
                          // "threads": pairs on several threads, each with a stream of its own;
                          // "history": pairs that are recorded, without stacks
  std::string allocator;  // "mimalloc", "classic.buffer", "paged.raw", …
  size_t bytes = 0;       // of each block; 0: 512 B to 16 MiB, log-uniform
  size_t live = 0;        // blocks held all the while, or holes
  size_t threads = 1;
  double ns = 0;  // per allocate and free, as each thread sees it
};

struct BenchOutcome {
  std::vector<BenchResult> results;
  std::string missing;  // why there is no reference; empty if there is one
};

struct BenchEffort {
  size_t rounds = 9;          // and up to four times as many, where others slow it down
  size_t operations = 20000;  // per round
};

Result<BenchOutcome> run_bench(const BenchEffort& effort);

}  // namespace ashlar
