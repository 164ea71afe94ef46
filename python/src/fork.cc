// SPDX-License-Identifier: Apache-2.0
//
// Resets the parts of the module in a forked child.
#include "fork.h"

#include <pthread.h>

#include "api/unwrap.h"
#include "devices.h"
#include "frames.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// Changed only by the child's first thread.
int& count() {
  static int of_this_process = 0;
  return of_this_process;
}

// Runs before Python code in the child, which may release objects of the parent.
void begin_anew() {
  ++count();
  reset_gate();
  reset_process_machine();
  forget_python_frames();
}

}  // namespace

int fork_count() { return count(); }

void require_same_process(int created_after_forks) {
  if (created_after_forks == fork_count()) return;
  unwrap(Status::invalid_argument(
      "the object belongs to the parent process; create a new one after the fork"));
}

void prepare_for_forks() { (void)::pthread_atfork(nullptr, nullptr, begin_anew); }

}  // namespace ashlar::python
