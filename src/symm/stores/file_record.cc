// SPDX-License-Identifier: Apache-2.0
//
// A file consists of a header and the value.
#include "symm/stores/file_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "ashlar/store.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "base/wire.h"
#include "symm/stores/open_beneath.h"

namespace ashlar::symm {
namespace {

constexpr std::string_view kFileMagic = "ashstor2";
constexpr size_t kFileHeaderBytes = 8 + 8 + 4;  // magic, lifetime in ns, length of the value
// Suffixes ensure that no part of a key is ".." or collides with the name of a file.
constexpr std::string_view kDirectorySuffix = ".d";
constexpr std::string_view kFileSuffix = ".v";
// The longest path of a record: a key whose parts have one character each.
constexpr size_t kMaxPathBytes = 2 * Store::kMaxKeyBytes + kFileSuffix.size();

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, DirectoryCloser>;

// Returns null on failure.
Directory open_directory(int folder_fd, const std::string& path) {
  UniqueFd fd = open_beneath(folder_fd, path, {O_RDONLY | O_DIRECTORY});
  Directory directory(fd.valid() ? ::fdopendir(fd.get()) : nullptr);
  if (directory != nullptr) (void)fd.release();  // closed with the directory
  return directory;
}

}  // namespace

std::string file_record_path(std::string_view key) {
  std::string path;
  for (char c : key) {
    if (c == '/') path += kDirectorySuffix;
    path += c;
  }
  return path.append(kFileSuffix);
}

std::string file_record_bytes(std::string_view value, uint64_t lifetime_ns) {
  WireWriter record;
  return record.append_raw(kFileMagic).append_number(lifetime_ns).append_text(value).take();
}

// Opens the file with O_NONBLOCK, because opening a FIFO would wait for a writer.
Result<std::optional<FileRecord>> read_file_record(int folder_fd, const std::string& path) {
  const UniqueFd file = open_beneath(folder_fd, path, {O_RDONLY | O_NONBLOCK});
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<FileRecord>();
    return store_file_error("open", path);
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return store_file_error("fstat", path);
  const bool is_valid =
      S_ISREG(found.st_mode) && found.st_size >= off_t{kFileHeaderBytes} &&
      found.st_size <= static_cast<off_t>(kFileHeaderBytes + Store::kMaxValueBytes);
  std::string bytes(is_valid ? static_cast<size_t>(found.st_size) : 0, '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got =
        ::pread(file.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return store_file_error("read", path);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  WireReader reader(bytes);
  const bool has_magic = reader.raw(kFileMagic.size()) == kFileMagic;
  FileRecord record;
  record.lifetime_ns = reader.number<uint64_t>();
  record.modified_ns = modified_ns(found);
  record.value = reader.text(Store::kMaxValueBytes);
  if (!has_magic || !reader.is_done()) {
    return Status::format(text("the store's file ", path, " is malformed: found ", found.st_size,
                               " bytes, expected ", kFileMagic, ", a lifetime and a value"));
  }
  return std::optional<FileRecord>(std::move(record));
}

std::vector<std::string> file_record_paths(int folder_fd) {
  std::vector<std::string> paths;
  std::vector<std::string> folders = {"."};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    const Directory directory = open_directory(folder_fd, folder);
    while (const dirent* entry = directory != nullptr ? ::readdir(directory.get()) : nullptr) {
      const std::string_view name = entry->d_name;
      std::string path = folder == "." ? std::string(name) : text(folder, '/', name);
      if (path.size() > kMaxPathBytes) continue;
      if (name.ends_with(kDirectorySuffix))
        folders.push_back(std::move(path));
      else if (name.ends_with(kFileSuffix))
        paths.push_back(std::move(path));
    }
  }
  return paths;
}

int64_t modified_ns(const struct stat& found) {
  const int64_t most = std::numeric_limits<int64_t>::max() / 1'000'000'000 - 1;
  const int64_t seconds = std::clamp<int64_t>(found.st_mtim.tv_sec, 0, most);
  return seconds * 1'000'000'000 + found.st_mtim.tv_nsec;
}

Status store_file_error(std::string_view call, std::string_view path) {
  const int code = errno;
  const std::string reason =
      code == ELOOP
          ? "it is, or is below, a symbolic link, which the store does not follow: remove it"
          : std::strerror(code);
  return Status::device_fault(call, code, text("the store's file ", path, ": ", reason));
}

}  // namespace ashlar::symm
