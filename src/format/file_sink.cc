// SPDX-License-Identifier: Apache-2.0
//
// Calls open(2), write(2) and close(2), and reports their errors with the path.
#include "format/file_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr mode_t kCreateMode = 0666;  // the umask clears bits of this mode

Status failure(std::string_view call, const std::string& path) {
  const int code = errno;
  return Status::device_fault(call, code, text(path, ": ", std::strerror(code)));
}

}  // namespace

Result<FileSink> FileSink::open(const std::string& path) {
  if (path == "-") return FileSink("standard output", UniqueFd());
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kCreateMode));
  if (!file.valid()) return failure("open", path);
  return FileSink(path, std::move(file));
}

Status FileSink::write(std::string_view bytes) {
  const int descriptor = file_.valid() ? file_.get() : STDOUT_FILENO;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("write", path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status FileSink::close() {
  if (file_.valid() && ::close(file_.release()) != 0) return failure("close", path_);
  return {};
}

}  // namespace ashlar
