// SPDX-License-Identifier: Apache-2.0
//
// Maps each C++ exception to a Python exception.
#include "errors.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

#include "ashlar/errors.h"
#include "texts.h"

namespace ashlar::python {
namespace {

namespace py = pybind11;

// Creates an exception of the class `name` of ashlar.errors. The message omits the status kind,
// which is the attribute `kind`.
py::object make_exception(const char* name, const Status& status) {
  const py::object kind = py::module_::import("ashlar.errors").attr(name);
  std::string message = status.message();
  if (!status.failed_call().empty()) {
    message += " (" + status.failed_call() + ", code " + std::to_string(status.code()) + ")";
  }
  py::object failure = kind(decode_utf8(message));
  failure.attr("kind") = std::string(ashlar::name(status.kind()));
  failure.attr("call") = decode_utf8(status.failed_call());
  failure.attr("code") = status.code();
  return failure;
}

py::object make_exception(const FileFailure& given) {
  py::object failure = make_exception("FileError", given.status());
  const std::string& path = given.path();
  failure.attr("errno") = given.error_number();
  failure.attr("filename") = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
  return failure;
}

// Raises the exception that `make_exception` creates, or the error that occurred while creating it.
template <typename... Arguments>
void raise(const Arguments&... arguments) {
  try {
    const py::object failure = make_exception(arguments...);
    PyErr_SetObject(py::type::of(failure).ptr(), failure.ptr());
  } catch (py::error_already_set& instead) {
    instead.restore();
  }
}

void translate(std::exception_ptr thrown) {
  if (!thrown) return;
  try {
    std::rethrow_exception(thrown);
  } catch (const OutOfMemory& failure) {
    raise("OutOfMemoryError", failure.status());
  } catch (const FileFailure& failure) {
    raise(failure);
  } catch (const InvalidArgument& failure) {
    raise("InvalidArgument", failure.status());
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
