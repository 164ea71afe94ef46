// SPDX-License-Identifier: Apache-2.0
//
// The files of a file store: their paths and their format. File contents are untrusted: the type,
// the size and the header of a file are checked. Thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"

struct stat;

namespace ashlar::symm {

struct FileRecord {
  std::string value{};
  uint64_t lifetime_ns = 0;  // 0 if the record does not expire
  int64_t modified_ns = 0;

  bool has_expired(int64_t now_ns) const {
    return lifetime_ns != 0 && now_ns >= modified_ns &&
           static_cast<uint64_t>(now_ns - modified_ns) >= lifetime_ns;
  }
};

// Returns the path of a key's file, relative to the store's folder: "a.d/b.v" for the key "a/b".
std::string file_record_path(std::string_view key);
// Returns the content of a key's file. `lifetime_ns` is 0 if the record does not expire.
std::string file_record_bytes(std::string_view value, uint64_t lifetime_ns);
// Reads a record from its file, which may be a FIFO or a device: does not block. Returns nothing if
// the file does not exist, and kFormat if the file is malformed.
Result<std::optional<FileRecord>> read_file_record(int folder_fd, const std::string& path);
// Returns the paths of all records in the store's folder, relative to it. Skips directories that
// cannot be read.
std::vector<std::string> file_record_paths(int folder_fd);

// Returns the modification time in nanoseconds, clamped because any user with write access can set
// an arbitrary time.
int64_t modified_ns(const struct stat& found);
// Returns an error for the failed call `call`, with the reason in errno.
Status store_file_error(std::string_view call, std::string_view path);

}  // namespace ashlar::symm
