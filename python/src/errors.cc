// One class of Python's for each of C++.
#include "errors.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

#include "ashlar/errors.h"

namespace ashlar::python {
namespace {

namespace py = pybind11;

// The words alone: which kind it is, the class says.
void raise(const char* name, const Status& status) {
  try {
    const py::object kind = py::module_::import("ashlar.errors").attr(name);
    std::string message = status.message();
    if (!status.call().empty()) {
      message += " (" + status.call() + ", code " + std::to_string(status.code()) + ")";
    }
    const py::object failure = kind(message);
    failure.attr("kind") = std::string(ashlar::name(status.kind()));
    failure.attr("call") = status.call();
    failure.attr("code") = status.code();
    PyErr_SetObject(kind.ptr(), failure.ptr());
  } catch (py::error_already_set& failure) {
    failure.restore();
  }
}

void translate(std::exception_ptr thrown) {
  if (!thrown) return;
  try {
    std::rethrow_exception(thrown);
  } catch (const OutOfMemory& failure) {
    raise("OutOfMemoryError", failure.status());
  } catch (const UsageError& failure) {
    raise("UsageError", failure.status());
  } catch (const DeviceError& failure) {
    raise("DeviceError", failure.status());
  } catch (const FormatError& failure) {
    raise("FormatError", failure.status());
  } catch (const TimeoutError& failure) {
    raise("TimeoutError", failure.status());
  } catch (const PeerError& failure) {
    raise("PeerError", failure.status());
  } catch (const Error& failure) {
    raise("Error", failure.status());
  }
}

}  // namespace

void translate_errors() { py::register_exception_translator(translate); }

}  // namespace ashlar::python
