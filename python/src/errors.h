// SPDX-License-Identifier: Apache-2.0
//
// Failures of the library as the exceptions of python/ashlar/errors.py.
#pragma once

#include <string>
#include <utility>

#include "ashlar/errors.h"

namespace ashlar::python {

// A file that cannot be opened, read or written: FileError in Python.
class FileFailure : public Error {
 public:
  // error_number: the system's (errno).
  FileFailure(Status status, int error_number, std::string path)
      : Error(std::move(status)), error_number_(error_number), path_(std::move(path)) {}
  int error_number() const { return error_number_; }
  const std::string& path() const { return path_; }

 private:
  int error_number_;
  std::string path_;
};

// From here on, what the library throws arrives in Python under its own name.
void translate_errors();

}  // namespace ashlar::python
