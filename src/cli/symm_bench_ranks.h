// SPDX-License-Identifier: Apache-2.0
//
// The measuring behind `ashlar symm-bench`: ranks as processes that meet in a folder.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

enum class SymmBenchWay { kSharedMemory, kUcx };

struct SymmBenchEffort {
  int ranks = 2;
  int rounds = 9;                                  // of which the median counts
  SymmBenchWay way = SymmBenchWay::kSharedMemory;  // kUcx: each as if on a machine of its own
  std::string ucx_transports = "tcp,self";         // as in UCX_TLS
};

struct SymmBenchResult {
  std::string name{};  // "barrier", "put", "get", "memcpy", "all-reduce"
  size_t bytes = 0;
  double us = 0;  // for one, by the clock of rank 0
};

struct SymmBenchOutcome {
  std::vector<SymmBenchResult> results{};
  std::string thresholds{};
};

// Forks: to be called while there are no threads.
Result<SymmBenchOutcome> run_symm_bench(const SymmBenchEffort& effort);

}  // namespace ashlar
