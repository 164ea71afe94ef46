// SPDX-License-Identifier: Apache-2.0
//
// Implements the machines with the ip command, setns and unshare.
#include "mp/harness/two_machines.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdlib>
#include <stdexcept>

#include "ashlar/unique_fd.h"
#include "mp/child_process.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

bool run(const std::string& arguments) {
  return std::system(("{ ip " + arguments + "; } >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TwoMachines::TwoMachines() {
  is_available_ = run("netns add " + name(0)) && run("netns add " + name(1)) &&
                  run("link add " + cable(0) + " netns " + name(0) + " type veth peer name " +
                      cable(1) + " netns " + name(1));
  for (int side = 0; is_available_ && side < 2; ++side) {
    const std::string inside = "-n " + name(side);
    is_available_ = run(inside + " addr add " + address(side) + "/24 dev " + cable(side)) &&
                    run(inside + " link set lo up") &&
                    run(inside + " link set " + cable(side) + " up");
  }
  // Waits until the link is up, which takes a moment, because UCX ignores links that are down.
  const Deadline end = long_deadline();
  for (int side = 0; is_available_ && side < 2; ++side) {
    const std::string link_query = "-n " + name(side) + " link show dev " + cable(side);
    while (!run(link_query + " | grep -q 'state UP'")) {
      if (end.has_passed()) is_available_ = false;
      if (!is_available_) break;
      ::usleep(10'000);
    }
  }
  // Containers may permit network namespaces but not host names and mounts.
  is_available_ = is_available_ && can_be_entered();
}

TwoMachines::~TwoMachines() {
  for (int side = 0; side < 2; ++side) run("netns del " + name(side));
}

bool TwoMachines::cut() const { return run("-n " + name(0) + " link set " + cable(0) + " down"); }

void TwoMachines::enter(int side) const {
  if (!enter_namespaces(side)) throw std::runtime_error("cannot enter " + name(side));
}

bool TwoMachines::enter_namespaces(int side) const {
  const UniqueFd space(::open(network(side).c_str(), O_RDONLY | O_CLOEXEC));
  const std::string host = "machine" + std::to_string(side);
  // Mounts /sys again: UCX finds devices there, and /sys shows the network namespace in which it
  // was mounted.
  return space.get() >= 0 && ::setns(space.get(), CLONE_NEWNET) == 0 &&
         ::unshare(CLONE_NEWUTS | CLONE_NEWNS) == 0 &&
         ::sethostname(host.data(), host.size()) == 0 &&
         ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

bool TwoMachines::can_be_entered() const {
  ChildProcess child([this](int) { return enter_namespaces(0) ? 0 : 1; });
  return child.wait() == 0;
}

}  // namespace ashlar::symm
