// SPDX-License-Identifier: Apache-2.0
//
// Writing to what a user names: a file, or standard output for "-".
#pragma once

#include <memory>
#include <string>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "format/byte_stream.h"

namespace ashlar {

class FileSink final : public ByteSink {
 public:
  // Creates the file, or empties it.
  // kDeviceFault: it cannot be opened.
  static Result<FileSink> open(const std::string& path);

  // kDeviceFault: the system says why.
  Status write(std::string_view bytes) override;
  // To be called at the end: some file systems tell only then.
  Status close();

 private:
  FileSink(std::string path, UniqueFd own) : path_(std::move(path)), own_(std::move(own)) {}

  std::string path_;
  UniqueFd own_;  // without: standard output, which is not ours to close
};

}  // namespace ashlar
