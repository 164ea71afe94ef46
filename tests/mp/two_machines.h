// SPDX-License-Identifier: Apache-2.0
//
// "Two machines" on one: network namespaces with a cable between them, and host names and /dev/shm
// of their own. Making them needs the system's permission; where it is not given, tests are
// skipped.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <string>

namespace ashlar::symm {

// Two namespaces that see each other, and nothing else.
class TwoMachines {
 public:
  TwoMachines();
  ~TwoMachines();
  TwoMachines(const TwoMachines&) = delete;
  TwoMachines& operator=(const TwoMachines&) = delete;

  bool is_made() const { return is_made_; }
  static std::string cable(int side) { return side == 0 ? "cable0" : "cable1"; }
  static std::string address(int side) { return "10.91.7." + std::to_string(side + 1); }
  // Where the system keeps the side's network.
  std::string network(int side) const { return "/run/netns/" + name(side); }
  bool cut() const;
  // This thread, and those it starts from now on. Throws if it cannot.
  void enter(int side) const;

 private:
  bool try_to_enter(int side) const;
  bool can_be_entered() const;
  std::string name(int side) const {
    return "ashlar-" + std::to_string(owner_) + "-" + std::to_string(side);
  }

  const pid_t owner_ = ::getpid();
  bool is_made_ = false;
};

#define ASHLAR_NEED(machines)                                                             \
  if (!(machines).is_made()) {                                                            \
    GTEST_SKIP() << "NOT TESTED: ranks on two machines. Namespaces cannot be made here: " \
                    "needs root, and ip of iproute2";                                     \
  }

}  // namespace ashlar::symm
