// SPDX-License-Identifier: Apache-2.0
//
// Formats the memory use of an engine and of the processes on its device.
#include "engine/oom_report.h"

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

size_t cached_bytes(const UsageStats& pool) {
  const int64_t bytes = pool.reserved_bytes.all.current - pool.active_bytes.current;
  return static_cast<size_t>(std::max<int64_t>(bytes, 0));
}

std::string describe_usage(const OomUsage& usage) {
  const size_t unallocated =
      usage.reserved_bytes - std::min(usage.reserved_bytes, usage.allocated_bytes);
  const size_t cached_in_private_pools = std::min(usage.cached_in_private_pools_bytes, unallocated);
  std::string sentence = text(format_bytes(usage.allocated_bytes), " is allocated; ",
                              format_bytes(unallocated), " is reserved but not allocated");
  if (cached_in_private_pools > 0) {
    sentence +=
        text(", of which ", format_bytes(cached_in_private_pools), " is cached by private pools");
  }
  return sentence + ".";
}

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
