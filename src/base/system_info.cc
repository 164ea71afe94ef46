// SPDX-License-Identifier: Apache-2.0
//
// Reads until the end of the file, because files in /proc report a size of 0.
#include "base/system_info.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ashlar/unique_fd.h"
#include "base/text.h"

namespace ashlar {

Result<std::string> read_system_file(const char* path) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::string bytes;
  std::array<char, 65536> buffer{};
  ssize_t got = file.valid() ? 1 : -1;
  while (got > 0 && bytes.size() < kMaxBytes) {
    got = ::read(file.get(), buffer.data(), buffer.size());
    if (got > 0) bytes.append(buffer.data(), static_cast<size_t>(got));
  }
  if (got >= 0) return bytes;
  return Status::device_fault("read", errno,
                              text(path, ": cannot be read: ", std::strerror(errno)));
}

}  // namespace ashlar
