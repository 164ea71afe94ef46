// SPDX-License-Identifier: Apache-2.0
//
// Tries the suffixes of the recorded path, longest first. Never lists the contents of a folder.
#include "files/source_folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr size_t kMaxPathBytes = 4096;

constexpr std::array<std::string_view, 18> kSourceSuffixes = {
    ".py",  ".pyx", ".pyi", ".pxd", ".pxi", ".c",   ".cc",  ".cpp", ".cxx",
    ".c++", ".cu",  ".cuh", ".h",   ".hh",  ".hpp", ".hxx", ".hip", ".inl",
};

bool is_source_name(std::string_view path) {
  return std::any_of(kSourceSuffixes.begin(), kSourceSuffixes.end(),
                     [path](std::string_view suffix) { return path.ends_with(suffix); });
}

// Splits a path at its separators, without "." and a Windows drive. Returns nothing if the path
// contains "..".
std::optional<std::vector<std::string_view>> components_of(std::string_view path) {
  const bool is_windows = path.find('\\') != std::string_view::npos && !path.starts_with('/');
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const size_t end = std::min(path.find_first_of(is_windows ? "/\\" : "/"), path.size());
    const std::string_view each = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (each == "..") return std::nullopt;
    const bool is_drive = components.empty() && each.size() == 2 && each[1] == ':';
    if (!each.empty() && each != "." && !is_drive) components.push_back(each);
  }
  return components;
}

// Appends the components from `first` on to the folder.
std::string join(std::string folder, const std::vector<std::string_view>& components,
                 size_t first) {
  for (size_t i = first; i < components.size(); ++i) {
    if (!folder.ends_with('/')) folder += '/';
    folder += components[i];
  }
  return folder;
}

// Resolves the symbolic links of a path. Returns nothing unless the result is a source file in the
// folder.
std::optional<std::string> resolve_in(const std::string& canonical_folder,
                                      const std::string& path) {
  std::error_code error;
  std::string found = std::filesystem::canonical(path, error).string();
  const std::string prefix = canonical_folder == "/" ? "/" : canonical_folder + "/";
  const bool is_file = !error && found.starts_with(prefix) && is_source_name(found) &&
                       std::filesystem::is_regular_file(found, error);
  return is_file ? std::optional(std::move(found)) : std::nullopt;
}

// Opens a file whose path was resolved. Follows no symbolic link, because a part of the path may
// have been replaced by one since.
UniqueFd open_resolved(const std::string& path) {
  const std::filesystem::path whole(path);
  UniqueFd folder(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const std::filesystem::path& name : whole.parent_path().relative_path()) {
    if (!folder.valid()) return {};
    folder = UniqueFd(
        ::openat(folder.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (!folder.valid()) return {};
  // Not blocking, in case the file was replaced by a pipe.
  return UniqueFd(::openat(folder.get(), whole.filename().c_str(),
                           O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

// Reads the file `resolved`. Error messages contain `path` instead.
Result<std::string> read_file(const std::string& resolved, const std::string& path) {
  const UniqueFd file = open_resolved(resolved);
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0) {
    return Status::invalid_argument(text(path, " cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(found.st_mode)) return Status::invalid_argument(path + " is not a regular file");
  std::string bytes(kMaxSourceBytes + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.get(), &bytes[size], bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Status::invalid_argument(text(path, " cannot be read: ", std::strerror(errno)));
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxSourceBytes) {
    return Status::invalid_argument(
        text(path, " is larger than ", format_bytes(kMaxSourceBytes), ", the limit for source"));
  }
  bytes.resize(size);
  if (bytes.find('\0') != std::string::npos) return Status::invalid_argument(path + " is not text");
  return bytes;
}

std::vector<std::string> lines_of(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    std::string_view line = take_line(bytes);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

// Returns the name that a line of Python defines as a function or a class; empty for other lines.
std::string_view defined_name(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  for (const std::string_view keyword : {"async def ", "def ", "class "}) {
    if (!line.starts_with(keyword)) continue;
    line.remove_prefix(keyword.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return line.substr(0, line.find_first_of("(:[ "));
  }
  return {};
}

// Returns the name under which source code defines a recorded function; empty for modules, lambdas
// and other functions without a name. Dynamo compiles the code after a graph break in f() at line 3
// as a function "torch_dynamo_resume_in_f_at_3"; these names nest.
std::string_view name_in_source(std::string_view function) {
  constexpr std::string_view kResumed = "torch_dynamo_resume_in_";
  while (function.starts_with(kResumed)) {
    function.remove_prefix(kResumed.size());
    function = function.substr(0, function.rfind("_at_"));
  }
  function = function.substr(function.rfind('.') + 1);  // npos + 1 == 0
  return function.starts_with('<') ? std::string_view() : function;
}

// Returns why the text cannot be that of the recorded file; an empty string if it can.
std::string mismatch(const SourceText& source, const std::vector<RecordedLine>& expected) {
  std::map<std::string_view, int64_t> first_lines;  // of functions and classes
  const bool is_python = source.path.ends_with(".py");
  for (size_t i = 0; is_python && i < source.lines.size(); ++i) {
    first_lines.try_emplace(defined_name(source.lines[i]), static_cast<int64_t>(i) + 1);
  }
  for (const RecordedLine& each : expected) {
    if (each.line > static_cast<int64_t>(source.lines.size())) {
      return text(source.path, " is another version: it has ", source.lines.size(),
                  " lines, and line ", each.line, " was recorded");
    }
    const std::string_view function = name_in_source(each.function);
    if (!is_python || function.empty()) continue;
    const auto defined = first_lines.find(function);
    if (defined == first_lines.end() || defined->second > each.line) {
      return text(source.path, " is another version: line ", each.line, " was recorded in ",
                  function, "(), but is not in that function");
    }
  }
  return {};
}

// Whether the file's folder has the recorded name, or the recorded path has no folder. The name of
// the file alone, such as "utils.py", does not identify it.
bool has_recorded_folder(const std::string& resolved,
                         const std::vector<std::string_view>& recorded) {
  if (recorded.size() < 2) return true;
  return std::filesystem::path(resolved).parent_path().filename() == *(recorded.end() - 2);
}

// Whether a recorded function confirms the file: it is Python, so that mismatch() has compared the
// definitions of functions, and a recorded function has a name.
bool has_recorded_function(const SourceText& source, const std::vector<RecordedLine>& expected) {
  return source.path.ends_with(".py") &&
         std::any_of(expected.begin(), expected.end(), [](const RecordedLine& each) {
           return !name_in_source(each.function).empty();
         });
}

}  // namespace

Status SourceFolders::add(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::canonical(folder, error);
  if (error || !std::filesystem::is_directory(found, error)) {
    return Status::invalid_argument(
        text(folder, ": ", error ? error.message() : "not a folder", " (expected a folder)"));
  }
  folders_.push_back({.name = folder, .canonical = found.string()});
  return {};
}

Result<SourceText> SourceFolders::read(std::string_view path,
                                       const std::vector<RecordedLine>& expected) const {
  const auto components = components_of(path);
  const bool can_look = !folders_.empty() && path.size() <= kMaxPathBytes && components &&
                        path.find('\0') == std::string_view::npos && is_source_name(path);
  std::string problem = "not found";
  if (!can_look) return Status::invalid_argument(problem);
  for (size_t first = 0; first < components->size(); ++first) {
    for (const Folder& folder : folders_) {
      std::string found = join(folder.name, *components, first);
      const std::optional<std::string> resolved = resolve_in(folder.canonical, found);
      if (!resolved) continue;
      const Result<std::string> bytes = read_file(*resolved, found);
      if (!bytes.ok()) {
        problem = bytes.status().message();
        continue;
      }
      SourceText source{.path = std::move(found), .lines = lines_of(*bytes)};
      std::string difference = mismatch(source, expected);
      if (difference.empty() && first + 1 == components->size() &&
          !has_recorded_folder(*resolved, *components) &&
          !has_recorded_function(source, expected)) {
        difference = text(source.path, " may be another file: its folder is not ",
                          *(components->end() - 2), ", and no recorded function confirms it");
      }
      if (difference.empty()) return source;
      problem = std::move(difference);
    }
  }
  return Status::invalid_argument(problem);
}

}  // namespace ashlar
