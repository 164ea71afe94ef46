// SPDX-License-Identifier: Apache-2.0
//
// Translates C++ exceptions to the Python exceptions in python/ashlar/errors.py.
#pragma once

#include <string>
#include <utility>

#include "ashlar/errors.h"

namespace ashlar::python {

// The error that a file cannot be opened, read or written. It becomes FileError in Python.
class FileFailure : public Error {
 public:
  // `error_number` is the value of errno after the failed call.
  FileFailure(Status status, int error_number, std::string path)
      : Error(std::move(status)), error_number_(error_number), path_(std::move(path)) {}
  int error_number() const { return error_number_; }
  const std::string& path() const { return path_; }

 private:
  int error_number_;
  std::string path_;
};

// Registers the exception translator with pybind11.
void translate_errors();

}  // namespace ashlar::python
