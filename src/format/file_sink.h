// SPDX-License-Identifier: Apache-2.0
//
// Writes to a file, or to standard output for "-". Not thread safe.
#pragma once

#include <memory>
#include <string>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "format/byte_stream.h"

namespace ashlar {

class FileSink final : public ByteSink {
 public:
  // Creates the file or truncates it.
  // kDeviceFault: the file cannot be opened.
  static Result<FileSink> open(const std::string& path);

  // kDeviceFault: the system call failed.
  Status write(std::string_view bytes) override;
  // Closes the file. Must be called at the end, because some file systems report write errors only
  // on close.
  Status close();

 private:
  FileSink(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;  // invalid: standard output, which stays open
};

}  // namespace ashlar
