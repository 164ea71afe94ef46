// SPDX-License-Identifier: Apache-2.0
//
// Groups of allocations that the user defines by regular expressions on stack frames. Matching
// takes linear time and bounded memory (RE2), because stacks may come from untrusted files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/training/grouping.h"
#include "ashlar/status.h"

namespace ashlar {

class UserGroups {
 public:
  UserGroups();
  UserGroups(UserGroups&&) noexcept;
  UserGroups& operator=(UserGroups&&) noexcept;
  ~UserGroups();

  // Adds a definition "NAME=REGEX". kInvalidArgument: it has no name, no '=', or an invalid
  // expression.
  Status add(const std::string& definition);
  // Adds the definitions in a file, one per line. Empty lines and lines that begin with '#' are
  // ignored. kInvalidArgument: as for add(), or the file cannot be read; the message names it.
  Status add_file(const std::string& path);
  bool is_empty() const;

  // Returns the groups of the selected allocations, largest first. An allocation belongs to the
  // first group whose expression matches any frame of its stack, written "function file:line";
  // otherwise to "other".
  std::vector<AllocationGroup> group(const DeviceRecording& recording,
                                     const std::vector<uint32_t>& selected) const;

 private:
  struct Group;

  std::string name_of(const DeviceRecording& recording, StackId stack) const;

  std::vector<Group> groups_;
};

}  // namespace ashlar
