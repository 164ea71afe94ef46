// SPDX-License-Identifier: Apache-2.0
//
// A thread of the victim sends the signal to its own process.
#include "mp/harness/rank_failure.h"

#include <unistd.h>

#include <thread>
#include <vector>

namespace ashlar::symm {

std::string run_with_rank_failure(const GroupCall& operation, const RankFailure& rank_failure,
                                  SymmetricRank& own) {
  std::thread fault;
  if (own.handle.rank() == rank_failure.victim) {
    fault = std::thread([&rank_failure] {
      std::this_thread::sleep_for(milliseconds(100));
      ::kill(::getpid(), rank_failure.signal);
    });
  }
  while (own.handle.rank() == rank_failure.late_rank && own.group.failure().ok()) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::string message = "succeeded";
  try {
    operation(own);
  } catch (const PeerError& lost) {
    message = lost.what();
  }
  const std::vector<std::function<void()>> later = {
      [&] { own.handle.put_signal(0, 0, kTestTimeout); }, [&] { own.handle.fence(); },
      [&] { own.handle.quiet(); }};
  for (const auto& call : later) {
    const std::string again = error_message(call);
    if (again != message) message += " [then: " + again + "]";
  }
  if (fault.joinable()) fault.join();
  return message;
}

}  // namespace ashlar::symm
