// SPDX-License-Identifier: Apache-2.0
//
// Implements the gate that keeps threads from taking the GIL during exit.
#include "gil.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>

#include "base/mutex.h"

namespace ashlar::python {
namespace {

struct InterpreterGate {
  Mutex mutex;
  std::condition_variable changed;
  bool is_open ASHLAR_GUARDED_BY(mutex) = true;
  int guard_count ASHLAR_GUARDED_BY(mutex) = 0;
};

// Returns the gate, which is never destroyed, because threads may outlive the interpreter.
InterpreterGate& interpreter_gate() {
  static InterpreterGate* const gate = std::make_unique<InterpreterGate>().release();
  return *gate;
}

// How long interpreter exit waits for existing guards, such as the guards of running hooks.
constexpr auto kExitTimeout = std::chrono::seconds(5);

}  // namespace

InterpreterGuard::InterpreterGuard() {
  InterpreterGate& gate = interpreter_gate();
  MutexLock lock(gate.mutex);
  is_open_ = gate.is_open;
  if (is_open_) ++gate.guard_count;
}

InterpreterGuard::~InterpreterGuard() {
  if (!is_open_ || fork_count_ != fork_count()) return;
  InterpreterGate& gate = interpreter_gate();
  MutexLock lock(gate.mutex);
  if (--gate.guard_count == 0) gate.changed.notify_all();
}

void close_gate_at_exit() {
  without_gil([] {
    InterpreterGate& gate = interpreter_gate();
    MutexLock lock(gate.mutex);
    gate.is_open = false;
    const auto end = std::chrono::steady_clock::now() + kExitTimeout;
    while (gate.guard_count > 0 && lock.wait_until(gate.changed, end)) {
    }
  });
}

// Overwrites the gate without destroying it, because its mutex may be locked by a thread that the
// child does not have.
void reset_gate() { std::construct_at(&interpreter_gate()); }

void block_forever() noexcept {
  while (true) ::pause();
}

bool has_gil() {
  PyThreadState* const state = PyGILState_GetThisThreadState();
  return state != nullptr && state == py::detail::get_thread_state_unchecked();
}

void report_unraisable() noexcept {
  try {
    throw;
  } catch (py::error_already_set& failure) {
    failure.restore();
  } catch (const std::exception& failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown failure in a callback");
  }
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
    PyErr_Clear();
    PyErr_SetInterrupt();
    return;
  }
  PyErr_WriteUnraisable(nullptr);
}

py::object call_python(const py::object& function, const py::object& argument) {
  PyObject* value = nullptr;
  try {
    // If there is no argument, its null pointer ends the argument list.
    value = PyObject_CallFunctionObjArgs(function.ptr(), argument.ptr(), nullptr);
  } catch (abi::__forced_unwind&) {
    block_forever();  // unwinding further would destroy Python objects without the GIL
  }
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

std::shared_ptr<const py::object> keep_object(py::object object) {
  auto kept = std::make_unique<py::object>(std::move(object));
  return {kept.release(), [](const py::object* each) {
            std::unique_ptr<const py::object> last(each);
            if (!with_gil([&last] { last.reset(); })) {
              (void)last.release();  // the interpreter is exiting; leak the object
            }
          }};
}

}  // namespace ashlar::python
