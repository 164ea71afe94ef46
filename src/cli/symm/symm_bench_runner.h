// SPDX-License-Identifier: Apache-2.0
//
// The measurements of `ashlar symm-bench`. Each rank is a process, and a temporary folder serves as
// the store.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

enum class SymmBenchTransport { kSharedMemory, kUcx };

struct SymmBenchOptions {
  int ranks = 2;
  int rounds = 9;  // the result is the median of the rounds
  // kUcx: each rank runs on its own simulated machine.
  SymmBenchTransport transport = SymmBenchTransport::kSharedMemory;
  std::string ucx_transports = "tcp,self";  // a list as in UCX_TLS
  std::string ucx_devices = "lo";           // as in UCX_NET_DEVICES; empty: UCX reads the variable
};

struct SymmBenchResult {
  std::string name{};  // "barrier", "put", "get", "memcpy", "all-reduce"
  size_t bytes = 0;
  double us = 0;  // microseconds per operation, on rank 0's clock
};

struct SymmBenchOutcome {
  std::vector<SymmBenchResult> results{};
  std::string thresholds{};  // result of Group::thresholds()
};

// Forks one process per rank. REQUIRES: no other threads.
Result<SymmBenchOutcome> run_symm_bench(const SymmBenchOptions& options);

}  // namespace ashlar
