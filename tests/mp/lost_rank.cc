// SPDX-License-Identifier: Apache-2.0
//
// The blow comes from a thread of the victim's own.
#include "mp/lost_rank.h"

#include <unistd.h>

#include <thread>
#include <vector>

namespace ashlar::symm {

std::string lose_rank_in(const GroupCall& act, const Loss& loss, SymmetricRank& own) {
  std::thread blow;
  if (own.handle.rank() == loss.victim) {
    blow = std::thread([&loss] {
      std::this_thread::sleep_for(milliseconds(100));
      ::kill(::getpid(), loss.signal);
    });
  }
  while (own.handle.rank() == loss.latecomer && own.group.failure().ok()) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::string said = "got through";
  try {
    act(own);
  } catch (const PeerError& lost) {
    said = lost.what();
  }
  const std::vector<std::function<void()>> later = {[&] { own.handle.put_signal(0, 0, kPatience); },
                                                    [&] { own.handle.fence(); },
                                                    [&] { own.handle.quiet(); }};
  for (const auto& call : later) {
    const std::string again = thrown_by(call);
    if (again != said) said += " [then: " + again + "]";
  }
  if (blow.joinable()) blow.join();
  return said;
}

}  // namespace ashlar::symm
