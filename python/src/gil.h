// Python's lock (the GIL), and the end of the interpreter.
//
// Rules of this folder: every call of the library that can take a lock or time runs without the GIL
// (`without_gil`, and `drop_without_gil` where something ends); what the library calls back takes
// it
// (`with_gil`). The library calls back with none of its own locks held, so the two never wait for
// each other.
//
// Once the interpreter has begun to end, nobody may ask for the GIL: such a thread never comes
// back. `end_of_interpreter` closes the gate, and waits for those who went through it before.
#pragma once

#include <pybind11/pybind11.h>

#include <cxxabi.h>

#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

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
};

// No more visits; waits, without the GIL, for those that there are. REQUIRES: the GIL is held.
void end_of_interpreter();

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
  if (PyGILState_Check() == 0) {
    value = T();
    return;
  }
  PyThreadState* state = PyEval_SaveThread();
  value = T();
  PyEval_RestoreThread(state);
}

// What Python's objects share among themselves and with others: it ends without the GIL, whoever
// lets go of it last, and wherever.
template <typename T, typename... Arguments>
std::shared_ptr<T> make_shared_without_gil(Arguments&&... arguments) {
  return {std::make_unique<T>(std::forward<Arguments>(arguments)...).release(),
          [](T* last) { drop_without_gil(std::unique_ptr<T>(last)); }};
}

// The exception that is being handled has nobody to go to: Python's own hook for such is told.
void report_unraisable() noexcept;

// Runs `work` with the GIL, from any thread; not at all once the interpreter ends. What it throws
// is reported and forgotten: who calls us back cannot handle it. Says whether it ran to its end.
template <typename Work>
bool with_gil(Work work) noexcept {
  const GateVisit visit;
  if (!visit.is_open()) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  bool is_done = false;
  try {
    work();
    is_done = true;
  } catch (...) {
    report_unraisable();
  }
  PyGILState_Release(state);
  return is_done;
}

// A Python object that the library keeps, to call it or to keep it alive: it is let go of with the
// GIL, whoever drops it. Shared by the copies of the function that holds it.
std::shared_ptr<const py::object> keep_object(py::object object);

}  // namespace ashlar::python
