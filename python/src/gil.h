// SPDX-License-Identifier: Apache-2.0
//
// Releases and takes the GIL, and makes both operations safe during interpreter exit.
//
// Rules of this folder: every library call that may lock or block runs without the GIL
// (`without_gil`, and `drop_without_gil` for destruction); callbacks from the library take it
// (`with_gil`). The library holds none of its locks during callbacks, so callbacks cannot deadlock.
//
// Once the interpreter is exiting, no thread may take the GIL: the call would never return. A gate
// prevents such calls during callbacks and destruction: the thread creates an InterpreterGuard
// before it takes the GIL. `close_gate_at_exit` closes the gate and waits, with a timeout, for
// existing guards. Later guards are not open, and their threads do not take the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <cxxabi.h>

#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "fork.h"

namespace ashlar::python {

namespace py = pybind11;

// Runs `work`, which must not use Python, without the GIL. Returns its result or rethrows its
// exception. REQUIRES: the GIL is held.
template <typename Work>
std::invoke_result_t<Work> without_gil(Work work) {
  using Value = std::invoke_result_t<Work>;
  std::exception_ptr failure;
  std::optional<std::conditional_t<std::is_void_v<Value>, bool, Value>> value;
  PyThreadState* state = PyEval_SaveThread();
  try {
    if constexpr (std::is_void_v<Value>) {
      work();
    } else {
      value.emplace(work());
    }
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    failure = std::current_exception();
  }
  // This call must not be in a destructor: during exit, Python ends daemon threads here by
  // unwinding the stack, and unwinding out of a destructor calls std::terminate.
  PyEval_RestoreThread(state);
  if (failure) std::rethrow_exception(failure);
  if constexpr (!std::is_void_v<Value>) return *std::move(value);
}

// Passes the gate if the gate is open. Interpreter exit then waits, with a timeout, until the guard
// is destroyed.
class InterpreterGuard {
 public:
  InterpreterGuard();
  ~InterpreterGuard();
  InterpreterGuard(const InterpreterGuard&) = delete;
  InterpreterGuard& operator=(const InterpreterGuard&) = delete;
  bool is_open() const { return is_open_; }

 private:
  bool is_open_;
  int fork_count_ = fork_count();  // value at construction; a forked child has a new gate
};

// Closes the gate. Releases the GIL and waits up to 5 s for existing guards. REQUIRES: the GIL is
// held.
void close_gate_at_exit();
// Called in the child after a fork. Opens a new gate without guards.
void reset_gate();

// Blocks the calling thread forever. Used for threads that Python ends during exit at a point where
// unwinding would leave an inconsistent state. The thread keeps its locks.
[[noreturn]] void block_forever() noexcept;

// Returns whether the calling thread holds the GIL. PyGILState_Check() cannot be used: it always
// returns true once a second interpreter exists.
bool has_gil();

// Destroys the object that the smart pointer `value` owns, without the GIL, because destruction may
// lock or block. During interpreter exit, leaks the object instead.
template <typename T>
void drop_without_gil(T value) noexcept {
  if (value == nullptr) return;
  const InterpreterGuard guard;
  if (!guard.is_open()) {
    (void)std::make_unique<T>(std::move(value)).release();
    return;
  }
  if (!has_gil()) {
    value = T();
    return;
  }
  PyThreadState* state = PyEval_SaveThread();
  value = T();
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    block_forever();
  }
}

// Returns a shared pointer. The thread that drops the last reference destroys the object without
// the GIL. Objects of a parent process are not destroyed in a forked child.
template <typename T>
std::shared_ptr<T> share_without_gil(std::unique_ptr<T> value) {
  return {value.release(), [created_after_forks = fork_count()](T* last) {
            if (created_after_forks == fork_count()) drop_without_gil(std::unique_ptr<T>(last));
          }};
}
template <typename T, typename... Arguments>
std::shared_ptr<T> make_shared_without_gil(Arguments&&... arguments) {
  return share_without_gil(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

// Passes the current C++ exception to sys.unraisablehook, because no caller can handle it. For a
// KeyboardInterrupt, simulates another SIGINT instead, which Python handles on its main thread.
void report_unraisable() noexcept;

// Runs `work` with the GIL, on any thread. During interpreter exit, does nothing. Reports
// exceptions with report_unraisable, and preserves a pending Python exception. Returns whether
// `work` completed.
template <typename Work>
bool with_gil(Work work) noexcept {
  const InterpreterGuard guard;
  if (!guard.is_open()) return false;
  bool is_done = false;
  try {
    const PyGILState_STATE state = PyGILState_Ensure();
    {
      const py::error_scope pending_exception;
      try {
        work();
        is_done = true;
      } catch (abi::__forced_unwind&) {
        block_forever();
      } catch (...) {
        report_unraisable();
      }
    }
    PyGILState_Release(state);
  } catch (abi::__forced_unwind&) {
    block_forever();
  }
  return is_done;
}

// Calls a Python function with one argument or none. If it raises, throws py::error_already_set.
// REQUIRES: called within with_gil().
py::object call_python(const py::object& function, const py::object& argument = {});

// Wraps a Python object for storage in the library. Any thread may drop the last reference, which
// takes the GIL to release the object.
std::shared_ptr<const py::object> keep_object(py::object object);

}  // namespace ashlar::python
