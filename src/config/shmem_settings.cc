// SPDX-License-Identifier: Apache-2.0
//
// Detects the launcher by the environment variables it sets, and parses their values.
#include "config/shmem_settings.h"

#include <array>
#include <optional>

#include "base/text.h"
#include "base/units.h"
#include "config/numbers.h"

namespace ashlar {
namespace {

constexpr uint64_t kMaxPeCount = 65536;
constexpr size_t kMinHeapBytes = 4096;

// The variables that a launcher sets. The first launcher whose variables are set determines rank
// and size.
struct LauncherVariables {
  std::string_view rank;
  std::string_view world_size;
};
constexpr std::array kLaunchers = {
    LauncherVariables{"ASHLAR_SHMEM_RANK", "ASHLAR_SHMEM_SIZE"},
    LauncherVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    LauncherVariables{"PMI_RANK", "PMI_SIZE"},
    LauncherVariables{"SLURM_PROCID", "SLURM_NTASKS"},
};

Status invalid_value(std::string_view name, std::string_view value, std::string_view expected) {
  return Status::invalid_argument(text(name, " is \"", value, "\" (expected ", expected, ")"));
}

Status parse_rank(const Environment& environment, ShmemSettings& settings) {
  for (const LauncherVariables& each : kLaunchers) {
    const std::optional<std::string_view> rank = environment.value(each.rank);
    const std::optional<std::string_view> size = environment.value(each.world_size);
    if (!rank && !size) continue;
    if (!rank || !size) {
      return Status::invalid_argument(text(rank ? each.rank : each.world_size, " is set, but not ",
                                           rank ? each.world_size : each.rank, ": set both"));
    }
    const std::optional<uint64_t> count = parse_whole_number(*size);
    if (!count || *count < 1 || *count > kMaxPeCount) {
      return invalid_value(each.world_size, *size, text("a whole number from 1 to ", kMaxPeCount));
    }
    const std::optional<uint64_t> own_rank = parse_whole_number(*rank);
    if (!own_rank || *own_rank >= *count) {
      return invalid_value(each.rank, *rank, text("a whole number from 0 to ", *count - 1));
    }
    settings.rank = static_cast<int>(*own_rank);
    settings.world_size = static_cast<int>(*count);
    return {};
  }
  return {};
}

Status parse_heap_bytes(const Environment& environment, ShmemSettings& settings) {
  settings.heap_bytes = 64 * kMiB;
  const std::optional<std::string_view> given = environment.value("SHMEM_SYMMETRIC_SIZE");
  if (!given) return {};
  const Result<size_t> bytes = parse_bytes(*given);
  if (!bytes.ok() || *bytes < kMinHeapBytes) {
    return invalid_value("SHMEM_SYMMETRIC_SIZE", *given,
                         "a number of bytes from 4096 on, with an optional unit, such as 512M");
  }
  settings.heap_bytes = *bytes;
  return {};
}

// With a Redis store, the default transport is UCX, because PEs that use Redis may be on several
// machines. Otherwise the default is none, because PEs that share a folder are rarely on several
// machines.
Status parse_transport(const Environment& environment, ShmemSettings& settings) {
  const bool has_redis =
      settings.store.starts_with("redis://") || settings.store.starts_with("redis+unix://");
  const std::string_view given =
      environment.value("ASHLAR_SHMEM_TRANSPORT").value_or(has_redis ? "ucx" : "none");
  if (given != "ucx" && given != "none") {
    return invalid_value("ASHLAR_SHMEM_TRANSPORT", given, "ucx or none");
  }
  settings.transport =
      given == "ucx" ? ShmemSettings::TransportKind::kUcx : ShmemSettings::TransportKind::kNone;
  return {};
}

Status parse_timeout(const Environment& environment, ShmemSettings& settings) {
  settings.timeout = std::chrono::seconds(60);
  const std::optional<std::string_view> given = environment.value("ASHLAR_SHMEM_TIMEOUT_MS");
  if (!given) return {};
  const std::optional<uint64_t> ms = parse_whole_number(*given);
  if (!ms || *ms > 86'400'000) {
    return invalid_value("ASHLAR_SHMEM_TIMEOUT_MS", *given, "a whole number from 0 to 86400000");
  }
  settings.timeout = std::chrono::milliseconds(*ms);
  return {};
}

}  // namespace

Result<ShmemSettings> shmem_settings_from(const Environment& environment) {
  if (Status unknown = check_unknown_variables(environment); !unknown.ok()) return unknown;
  ShmemSettings settings;
  if (Status error = parse_rank(environment, settings); !error.ok()) return error;
  settings.store = environment.value("ASHLAR_SHMEM_STORE").value_or("");
  settings.job = environment.value("ASHLAR_SHMEM_JOB").value_or(settings.job);
  settings.machine = environment.value("ASHLAR_SHMEM_MACHINE").value_or("");
  if (settings.store.empty() && settings.world_size > 1) {
    return Status::invalid_argument(
        text("there are ", settings.world_size,
             " PEs, but ASHLAR_SHMEM_STORE is not set: set it to a folder that all PEs "
             "can access, or to redis://host:port"));
  }
  if (Status error = parse_heap_bytes(environment, settings); !error.ok()) return error;
  if (Status error = parse_transport(environment, settings); !error.ok()) return error;
  if (Status error = parse_timeout(environment, settings); !error.ok()) return error;
  return settings;
}

Result<ShmemSettings> shmem_settings_of_process() {
  return shmem_settings_from(Environment::of_process());
}

}  // namespace ashlar
