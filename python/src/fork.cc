// SPDX-License-Identifier: Apache-2.0
//
// What each part of the module does in a child.
#include "fork.h"

#include <pthread.h>

#include "api/unwrap.h"
#include "devices.h"
#include "frames.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// Changed by the only thread that a child has at first.
int& count() {
  static int of_this_process = 0;
  return of_this_process;
}

// Before anything of Python's runs there, which may let go of what the parent made.
void begin_anew() {
  ++count();
  reopen_gate();
  forget_process_machine();
  forget_python_frames();
}

}  // namespace

int fork_count() { return count(); }

void require_made_here(int made_at) {
  if (made_at == fork_count()) return;
  unwrap(Status::invalid_argument(
      "it was made before this process was forked, and is the parent's (expected one that the "
      "child made)"));
}

void prepare_for_forks() { (void)::pthread_atfork(nullptr, nullptr, begin_anew); }

}  // namespace ashlar::python
