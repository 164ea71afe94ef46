// SPDX-License-Identifier: Apache-2.0
//
// Simulates two machines by network namespaces with a virtual cable between them, and separate host
// names and /dev/shm. The simulation needs root; without root, tests are skipped.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <string>

namespace ashlar::symm {

// Two sets of namespaces whose networks reach only each other. `side` is the machine, 0 or 1.
class TwoMachines {
 public:
  TwoMachines();
  ~TwoMachines();
  TwoMachines(const TwoMachines&) = delete;
  TwoMachines& operator=(const TwoMachines&) = delete;

  bool is_available() const { return is_available_; }
  static std::string cable(int side) { return side == 0 ? "cable0" : "cable1"; }
  static std::string address(int side) { return "10.91.7." + std::to_string(side + 1); }
  // Returns the path of the side's network namespace.
  std::string network(int side) const { return "/run/netns/" + name(side); }
  // Takes the cable down. Returns false on error.
  bool cut() const;
  // Moves this thread, and the threads that it starts afterwards, to a machine. Throws on error.
  void enter(int side) const;

 private:
  bool enter_namespaces(int side) const;
  bool can_be_entered() const;
  std::string name(int side) const {
    return "ashlar-" + std::to_string(owner_) + "-" + std::to_string(side);
  }

  const pid_t owner_ = ::getpid();
  bool is_available_ = false;
};

#define ASHLAR_NEED(machines)                                                         \
  if (!(machines).is_available()) {                                                   \
    GTEST_SKIP() << "NOT TESTED: ranks on two machines. Creating namespaces failed: " \
                    "needs root, and ip of iproute2";                                 \
  }

}  // namespace ashlar::symm
