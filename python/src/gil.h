// SPDX-License-Identifier: Apache-2.0
//
// Handling of the GIL and of interpreter exit.
//
// Rules of this folder: every library call that may lock or block runs without the GIL
// (`without_gil`, and `drop_without_gil` for destruction); callbacks from the library take it
// (`with_gil`). The library calls back without holding its own locks, so there is no deadlock.
//
// Once the interpreter is exiting, no thread may take the GIL: it would never return.
// `close_gate_at_exit` closes the gate and waits, with a timeout, for threads inside. Threads that
// arrive later are blocked.
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
  // Not in a destructor: during exit, Python ends daemon threads here by unwinding.
  PyEval_RestoreThread(state);
  if (failure) std::rethrow_exception(failure);
  if constexpr (!std::is_void_v<Value>) return *std::move(value);
}

// Delays interpreter exit while it exists, if is_open().
class InterpreterGuard {
 public:
  InterpreterGuard();
  ~InterpreterGuard();
  InterpreterGuard(const InterpreterGuard&) = delete;
  InterpreterGuard& operator=(const InterpreterGuard&) = delete;
  bool is_open() const { return is_open_; }

 private:
  bool is_open_;
  int fork_count_ = fork_count();  // a forked child has a new gate
};

// Closes the gate and waits up to some seconds, without the GIL, for existing guards.
// REQUIRES: the GIL is held.
void close_gate_at_exit();
// After a fork, in the child.
void reset_gate();

// Blocks a thread that Python is ending during exit, where unwinding would leave an inconsistent
// state. The thread keeps its locks.
[[noreturn]] void block_forever() noexcept;

// Whether the calling thread holds the GIL. PyGILState_Check() always returns true once a second
// interpreter exists.
bool has_gil();

// Destroys the target of `value`, a smart pointer, without the GIL, since destruction may lock or
// block. During interpreter exit, leaks it instead.
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

// A shared pointer whose target is destroyed without the GIL, on whichever thread drops the last
// reference. Objects of a parent process are not destroyed in a forked child.
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

// Passes the current exception to sys.unraisablehook, since no caller can handle it.
// KeyboardInterrupt is raised again in Python's main thread.
void report_unraisable() noexcept;

// Runs `work` with the GIL, from any thread; does nothing during interpreter exit. Reports
// exceptions as unraisable. Returns whether `work` completed. Preserves a pending Python exception.
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

// Calls a Python function with one argument or none. Throws what it raises. REQUIRES: called within
// with_gil().
py::object call_python(const py::object& function, const py::object& argument = {});

// Wraps a Python object for storage in the library. It is released with the GIL held, on any
// thread.
std::shared_ptr<const py::object> keep_object(py::object object);

}  // namespace ashlar::python
