// SPDX-License-Identifier: Apache-2.0
//
// Compiles the expressions with RE2 and matches each distinct stack once.
#include "cli/recording/user_groups.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

namespace ashlar {

struct UserGroups::Group {
  std::string name{};
  std::unique_ptr<RE2> expression{};
};

UserGroups::UserGroups() = default;
UserGroups::UserGroups(UserGroups&&) noexcept = default;
UserGroups& UserGroups::operator=(UserGroups&&) noexcept = default;
UserGroups::~UserGroups() = default;

Status UserGroups::add(const std::string& definition) {
  const size_t equals = definition.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Status::invalid_argument(
        fmt::format("group \"{}\" has no name (expected NAME=REGEX)", definition));
  }
  RE2::Options options;
  options.set_log_errors(false);
  auto expression = std::make_unique<RE2>(definition.substr(equals + 1), options);
  if (!expression->ok()) {
    return Status::invalid_argument(
        fmt::format("group \"{}\": {} (expected a regular expression of RE2)",
                    definition.substr(0, equals), expression->error()));
  }
  groups_.push_back({definition.substr(0, equals), std::move(expression)});
  return {};
}

Status UserGroups::add_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status::invalid_argument(path + ": cannot be read");
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    if (Status added = add(line); !added.ok()) {
      return Status::invalid_argument(fmt::format("{}:{}: {}", path, number, added.message()));
    }
  }
  return {};
}

bool UserGroups::is_empty() const { return groups_.empty(); }

std::vector<AllocationGroup> UserGroups::group(const DeviceRecording& recording,
                                               const std::vector<uint32_t>& selected) const {
  std::map<StackId, std::string> names;
  std::map<std::string, AllocationGroup> groups;
  for (const uint32_t id : selected) {
    const Allocation& each = recording.allocations().all[id];
    const auto [place, is_new] = names.try_emplace(each.stack);
    if (is_new) place->second = name_of(recording, each.stack);
    AllocationGroup& group = groups[place->second];
    group.name = place->second;
    group.bytes += each.bytes;
    ++group.count;
  }
  std::vector<AllocationGroup> sorted;
  for (auto& [name, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::string UserGroups::name_of(const DeviceRecording& recording, StackId stack) const {
  std::vector<std::string> frames;
  for (const Frame* frame : recording.recording().frames(stack, StackDetail::kFull)) {
    frames.push_back(fmt::format("{} {}:{}", frame->name, frame->filename, frame->line));
  }
  for (const Group& group : groups_) {
    for (const std::string& frame : frames) {
      if (RE2::PartialMatch(frame, *group.expression)) return group.name;
    }
  }
  return "other";
}

}  // namespace ashlar
