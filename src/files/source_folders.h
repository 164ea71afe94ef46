// SPDX-License-Identifier: Apache-2.0
//
// Reads the source files that a recording names, from folders that the user names.
//
// Recordings are untrusted. Without restrictions, a recording that names ~/.ssh/id_rsa as source
// code would put the contents of that file into a report, which the user may share. Therefore a
// file is read only if it is in one of the folders, after symbolic links are resolved, if its name
// has the suffix of a source file, and if it is a regular text file of at most kMaxSourceBytes.
// Without folders, nothing is read. The folder "/" permits all recorded absolute paths.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

inline constexpr size_t kMaxSourceBytes = size_t{8} << 20;

// A line of a file that a recording names, with the function that contains it.
struct RecordedLine {
  std::string_view function{};
  int64_t line = 0;  // from 1
};

struct SourceText {
  std::string path{};  // begins with the folder as the user named it
  std::vector<std::string> lines{};
};

class SourceFolders {
 public:
  // kInvalidArgument: `folder` is not a directory that can be opened.
  Status add(const std::string& folder);
  bool is_empty() const { return folders_.empty(); }

  // Finds the file that was recorded as `path`: looks up the suffixes of the path in the folders,
  // the longest first, because the project may have moved. Windows paths may have either separator.
  // Skips files that are not the recorded version: those with fewer lines than recorded, and Python
  // files that do not define the function of a recorded line, or only below that line. If only the
  // file name agrees, the file's folder must have the recorded name, or the file must define a
  // recorded Python function.
  // kInvalidArgument: there is no such file; the message says why in one sentence.
  Result<SourceText> read(std::string_view path, const std::vector<RecordedLine>& expected) const;

 private:
  struct Folder {
    std::string name{};       // as given
    std::string canonical{};  // without symbolic links
  };
  std::vector<Folder> folders_{};
};

}  // namespace ashlar
