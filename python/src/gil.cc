// The gate, and what goes through it.
#include "gil.h"

#include <condition_variable>

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

}  // namespace

GateVisit::GateVisit() {
  Gate& here = gate();
  MutexLock lock(here.mutex);
  is_open_ = here.is_open;
  if (is_open_) ++here.visit_count;
}

GateVisit::~GateVisit() {
  if (!is_open_) return;
  Gate& here = gate();
  MutexLock lock(here.mutex);
  if (--here.visit_count == 0) here.changed.notify_all();
}

void end_of_interpreter() {
  without_gil([] {
    Gate& here = gate();
    MutexLock lock(here.mutex);
    here.is_open = false;
    while (here.visit_count > 0) lock.wait(here.changed);
  });
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
  PyErr_WriteUnraisable(nullptr);
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
