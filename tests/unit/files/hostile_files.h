// SPDX-License-Identifier: Apache-2.0
//
// Files of at most 10 KB that refer to long values many times, request huge sizes, or have many
// entries, streams, pending frees or segments. Without limits, reading or analyzing them would need
// gigabytes of memory or minutes of time.
#pragma once

#include <string>
#include <vector>

namespace ashlar {

struct HostileFile {
  std::string name{};
  std::string bytes{};
  bool is_rejected = true;  // false: large enough to be slow, but within the limits of readers
};

std::vector<HostileFile> hostile_files();

}  // namespace ashlar
