// SPDX-License-Identifier: Apache-2.0
//
// Python's lock (the GIL), and the end of the interpreter.
//
// Rules of this folder: every call of the library that can take a lock or time runs without the GIL
// (`without_gil`, and `drop_without_gil` where something ends); what the library calls back takes
// it (`with_gil`). The library calls back with none of its own locks held, so the two never wait
// for each other.
//
// Once the interpreter has begun to end, nobody may ask for the GIL: such a thread never comes
// back. `end_of_interpreter` closes the gate, and waits for those who went through it before, but
// not for ever: who comes too late is made to stay where it is.
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

// Runs `work`, which touches nothing of Python's, without the GIL, and hands on what it returns or
// throws. REQUIRES: the GIL is held.
template <typename Work>
std::invoke_result_t<Work> without_gil(Work work) {
  using Answer = std::invoke_result_t<Work>;
  std::exception_ptr failure;
  std::optional<std::conditional_t<std::is_void_v<Answer>, bool, Answer>> answer;
  PyThreadState* state = PyEval_SaveThread();
  try {
    if constexpr (std::is_void_v<Answer>) {
      work();
    } else {
      answer.emplace(work());
    }
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    failure = std::current_exception();
  }
  // Not in a destructor: a daemon thread that comes back too late ends here, by unwinding.
  PyEval_RestoreThread(state);
  if (failure) std::rethrow_exception(failure);
  if constexpr (!std::is_void_v<Answer>) return *std::move(answer);
}

// As long as it lives and is open, the interpreter does not end.
class GateVisit {
 public:
  GateVisit();
  ~GateVisit();
  GateVisit(const GateVisit&) = delete;
  GateVisit& operator=(const GateVisit&) = delete;
  bool is_open() const { return is_open_; }

 private:
  bool is_open_;
  int made_at_ = fork_count();  // the gate of a child knows nothing of its parent's visits
};

// No more visits; waits, without the GIL, for those that there are, for some seconds at most.
// REQUIRES: the GIL is held.
void end_of_interpreter();
// In the child of a fork: nobody is inside.
void reopen_gate();

// For a thread that Python ends, since the interpreter is gone, in the middle of something that
// must not be left half done. Any lock that it has, it keeps.
[[noreturn]] void stay_for_ever() noexcept;

// Whether this thread has the GIL, which may be anybody's thread. Python's own check says yes to
// all once there is a second interpreter.
bool has_gil();

// Ends what `value`, a smart pointer, points to, without the GIL, since that may take locks and
// time. Once the interpreter ends, it never does.
template <typename T>
void drop_without_gil(T value) noexcept {
  if (value == nullptr) return;
  const GateVisit visit;
  if (!visit.is_open()) {
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
    stay_for_ever();
  }
}

// What Python's objects share among themselves and with others: it ends without the GIL, whoever
// lets go of it last, and wherever; but not in the child of a fork, if it is the parent's.
template <typename T>
std::shared_ptr<T> share_without_gil(std::unique_ptr<T> value) {
  return {value.release(), [made_at = fork_count()](T* last) {
            if (made_at == fork_count()) drop_without_gil(std::unique_ptr<T>(last));
          }};
}
template <typename T, typename... Arguments>
std::shared_ptr<T> make_shared_without_gil(Arguments&&... arguments) {
  return share_without_gil(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

// The exception that is being handled has nobody to go to: Python's own hook for such is told. But
// Ctrl-C is raised again where Python's main thread is next.
void report_unraisable() noexcept;

// Runs `work` with the GIL, from any thread; not at all once the interpreter ends. What it throws
// is reported and forgotten: who calls us back cannot handle it. Says whether it ran to its end.
// An exception that is on its way, since this is about something that it lets go of, stays so.
template <typename Work>
bool with_gil(Work work) noexcept {
  const GateVisit visit;
  if (!visit.is_open()) return false;
  bool is_done = false;
  try {
    const PyGILState_STATE state = PyGILState_Ensure();
    {
      const py::error_scope on_its_way;
      try {
        work();
        is_done = true;
      } catch (abi::__forced_unwind&) {
        stay_for_ever();
      } catch (...) {
        report_unraisable();
      }
    }
    PyGILState_Release(state);
  } catch (abi::__forced_unwind&) {
    stay_for_ever();
  }
  return is_done;
}

// Calls a function of Python's with one argument, or with none. Throws what it raises. REQUIRES:
// the GIL is held, by with_gil.
py::object call_back(const py::object& function, const py::object& argument = {});

// A Python object that the library keeps, to call it or to keep it alive: it is let go of with the
// GIL, whoever drops it. Shared by the copies of the function that holds it.
std::shared_ptr<const py::object> keep_object(py::object object);

}  // namespace ashlar::python
