// SPDX-License-Identifier: Apache-2.0
//
// The gate, and what goes through it.
#include "gil.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>

#include "base/mutex.h"

namespace ashlar::python {
namespace {

struct Gate {
  Mutex mutex;
  std::condition_variable changed;
  bool is_open ASHLAR_GUARDED_BY(mutex) = true;
  int visit_count ASHLAR_GUARDED_BY(mutex) = 0;
};

// Without an end: threads that outlive the interpreter may still come by.
Gate& gate() {
  static Gate* const only = std::make_unique<Gate>().release();
  return *only;
}

// For hooks that are running when the interpreter ends.
constexpr auto kPatience = std::chrono::seconds(5);

}  // namespace

GateVisit::GateVisit() {
  Gate& here = gate();
  MutexLock lock(here.mutex);
  is_open_ = here.is_open;
  if (is_open_) ++here.visit_count;
}

GateVisit::~GateVisit() {
  if (!is_open_ || made_at_ != fork_count()) return;
  Gate& here = gate();
  MutexLock lock(here.mutex);
  if (--here.visit_count == 0) here.changed.notify_all();
}

void end_of_interpreter() {
  without_gil([] {
    Gate& here = gate();
    MutexLock lock(here.mutex);
    here.is_open = false;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (here.visit_count > 0 && lock.wait_until(here.changed, end)) {
    }
  });
}

// In its old place, whatever state that is in.
void reopen_gate() { std::construct_at(&gate()); }

void stay_for_ever() noexcept {
  while (true) ::pause();
}

bool has_gil() {
  PyThreadState* const own = PyGILState_GetThisThreadState();
  return own != nullptr && own == py::detail::get_thread_state_unchecked();
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

py::object call_back(const py::object& function, const py::object& argument) {
  PyObject* answer = nullptr;
  try {
    // Where there is no argument, its null ends the list.
    answer = PyObject_CallFunctionObjArgs(function.ptr(), argument.ptr(), nullptr);
  } catch (abi::__forced_unwind&) {
    stay_for_ever();  // here, since objects of Python's would end further up, without the GIL
  }
  if (answer == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(answer);
}

std::shared_ptr<const py::object> keep_object(py::object object) {
  auto kept = std::make_unique<py::object>(std::move(object));
  return {kept.release(), [](const py::object* each) {
            std::unique_ptr<const py::object> last(each);
            if (!with_gil([&last] { last.reset(); })) {
              (void)last.release();  // the interpreter is gone, and its objects with it
            }
          }};
}

}  // namespace ashlar::python
