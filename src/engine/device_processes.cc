// SPDX-License-Identifier: Apache-2.0
//
// Formats the device's process list for out-of-memory messages.
#include "engine/device_processes.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "device/last_error.h"

namespace ashlar {
namespace {

constexpr size_t kMaxListedProcesses = 4;

std::string format_others(const std::vector<ProcessMemoryUsage>& others) {
  const size_t named = std::min(others.size(), kMaxListedProcesses);
  std::string list;
  for (size_t i = 0; i < named; ++i) {
    list += text(i == 0 ? "" : ", ", "process ", others[i].pid, " has ",
                 format_bytes(others[i].used_bytes));
  }
  if (named == others.size()) return list;
  size_t rest_bytes = 0;
  for (size_t i = named; i < others.size(); ++i) rest_bytes += others[i].used_bytes;
  return text(list, ", ", others.size() - named, " more have ", format_bytes(rest_bytes));
}

}  // namespace

std::string describe_device_processes(Device& device, size_t reserved_bytes) {
  SavedLastErrors before;
  const Result<std::vector<ProcessMemoryUsage>> listed = device.processes();
  if (!listed.ok()) {
    before.restore();  // keep the out-of-memory error as the device's last error
    return {};
  }
  std::optional<size_t> own_bytes;
  std::vector<ProcessMemoryUsage> others;
  for (const ProcessMemoryUsage& each : *listed) {
    if (each.pid == ::getpid()) own_bytes = each.used_bytes;
    if (each.pid != ::getpid() && each.used_bytes > 0) others.push_back(each);
  }
  if (!own_bytes) return {};  // one of `others` may be this process under another pid
  std::string message;
  if (*own_bytes > reserved_bytes) {
    message =
        text(" In total, this process uses ", format_bytes(*own_bytes), " of the device's memory.");
  }
  if (others.empty()) return message;
  std::sort(others.begin(), others.end(),
            [](const ProcessMemoryUsage& a, const ProcessMemoryUsage& b) {
              return a.used_bytes != b.used_bytes ? a.used_bytes > b.used_bytes : a.pid < b.pid;
            });
  return text(message, " Other processes use the device as well: ", format_others(others), ".");
}

}  // namespace ashlar
