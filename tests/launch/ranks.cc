// SPDX-License-Identifier: Apache-2.0
//
// A program that joins the job of its launcher without configuration, and adds numbers of all
// ranks. Rank 0 prints "4 ranks: 10". Every rank exits with 1 on an error.
#include <cstdio>
#include <exception>

#include "ashlar/symmetric.h"

using namespace ashlar;

int main() {
  constexpr std::chrono::seconds kTimeout{60};
  try {
    symm::Heap heap;
    symm::Group group = symm::Group::join_from_environment(
        heap, {.measure_thresholds = false, .timeout = kTimeout});
    const symm::SymmetricBuffer buffer = heap.allocate(sizeof(int));
    const symm::Handle handle = group.rendezvous(buffer, kTimeout);
    buffer.as<int>()[0] = group.rank() + 1;
    handle.all_reduce(buffer.as<int>(), symm::ReduceOp::kSum, {.timeout = kTimeout});
    if (group.rank() == 0) std::printf("%d ranks: %d\n", group.world_size(), buffer.as<int>()[0]);
    group.leave(kTimeout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks: %s\n", error.what());
    return 1;
  }
}
