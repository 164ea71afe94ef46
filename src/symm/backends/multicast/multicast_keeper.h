// SPDX-License-Identifier: Apache-2.0
//
// What a rank's multicast becomes when its table goes. Usually it is let go of at once: collectives
// that ended well are over for all ranks. One that ended badly, by a timeout or with its group,
// says nothing about the others: they may still store through the switch into memory that this rank
// frees, whatever it has caught. So from then on what goes is kept here, as it is set up, until all
// ranks have left the group; or, where it has failed and nobody can be asked, until all that live
// must have heard of it: the arena sees to that. Thread safe.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "symm/backends/multicast/multicast.h"

namespace ashlar::symm {

class MulticastKeeper {
 public:
  // A multicast, and the memory that is bound to it, which is to outlive it.
  struct Kept {
    std::shared_ptr<MappedMemory> memory{};  // also its block's, and other tables'
    std::unique_ptr<Multicast> multicast{};
  };

  // Other ranks may not be done with what this one is about to let go of.
  void keep_from_now_on() ASHLAR_EXCLUDES(mutex_);
  // Lets go of it, or keeps it.
  void take(Kept going) ASHLAR_EXCLUDES(mutex_);
  // They are, as far as anybody knows: lets go of all, and of what comes later at once.
  void let_go() ASHLAR_EXCLUDES(mutex_);

 private:
  enum class Rule { kLetGo, kKeep, kOver };

  Mutex mutex_;
  Rule rule_ ASHLAR_GUARDED_BY(mutex_) = Rule::kLetGo;
  std::vector<Kept> kept_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
