// SPDX-License-Identifier: Apache-2.0
//
// Resets the module's process-wide state in a forked child.
#include "fork.h"

#include <pthread.h>

#include "api/unwrap.h"
#include "devices.h"
#include "frames.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// Returns the variable that fork_count() reads. The variable needs no lock, because only the fork
// handler changes it, while the child has a single thread.
int& mutable_fork_count() {
  static int of_this_process = 0;
  return of_this_process;
}

// The fork handler. It runs before any Python code in the child, because that code may release
// objects of the parent.
void reset_in_child() {
  ++mutable_fork_count();
  reset_gate();
  reset_process_machine();
  reset_python_frames();
}

}  // namespace

int fork_count() { return mutable_fork_count(); }

void require_same_process(int created_after_forks) {
  if (created_after_forks == fork_count()) return;
  unwrap(Status::invalid_argument(
      "the object belongs to the parent process; create a new one after the fork"));
}

void install_fork_handlers() { (void)::pthread_atfork(nullptr, nullptr, reset_in_child); }

}  // namespace ashlar::python
