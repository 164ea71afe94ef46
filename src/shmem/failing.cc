// SPDX-License-Identifier: Apache-2.0
//
// The one place of this library that prints and ends the process.
#include "shmem/failing.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "shmem/world.h"

namespace ashlar::shmem {

void fail(const std::string& sentence) noexcept {
  World* world = World::current();
  if (world == nullptr || !world->is_here()) {
    std::fprintf(stderr, "shmem: %s\n", sentence.c_str());
    end_all(1);
  }
  // Whoever ends because another ended it has nothing to say.
  if (const std::optional<int> status = world->exit_status(); status) {
    std::fflush(nullptr);
    std::_Exit(*status);
  }
  std::fprintf(stderr, "shmem: PE %d: %s\n", world->rank(), sentence.c_str());
  end_all(1);
}

// Without the destructors of the program: other threads of it may be anywhere. A child that a PE
// has forked off ends alone.
void end_all(int status) noexcept {
  World* world = World::current();
  if (world != nullptr && world->is_here()) world->set_exit_status(status);
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace ashlar::shmem
