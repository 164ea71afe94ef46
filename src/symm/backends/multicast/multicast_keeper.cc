// SPDX-License-Identifier: Apache-2.0
//
// Nothing is let go of under the lock: that is the driver's work.
#include "symm/backends/multicast/multicast_keeper.h"

#include <utility>

namespace ashlar::symm {

void MulticastKeeper::keep_from_now_on() {
  MutexLock lock(mutex_);
  if (rule_ == Rule::kLetGo) rule_ = Rule::kKeep;
}

void MulticastKeeper::take(Kept going) {
  MutexLock lock(mutex_);
  if (rule_ == Rule::kKeep) kept_.push_back(std::move(going));
}

void MulticastKeeper::let_go() {
  std::vector<Kept> going;  // after the lock
  MutexLock lock(mutex_);
  rule_ = Rule::kOver;
  going.swap(kept_);
}

}  // namespace ashlar::symm
