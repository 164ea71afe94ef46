// SPDX-License-Identifier: Apache-2.0
//
// Detects the launcher by the environment variables it sets, and parses their values.
#include "config/shmem_settings.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "base/text.h"
#include "base/units.h"
#include "config/launch_settings.h"
#include "config/numbers.h"

namespace ashlar {
namespace {

constexpr size_t kMinHeapBytes = 4096;

constexpr LauncherVariables kShmemVariables{"ASHLAR_SHMEM_RANK", "ASHLAR_SHMEM_SIZE"};

Status invalid_value(std::string_view name, std::string_view value, std::string_view expected) {
  return Status::invalid_argument(text(name, " is \"", value, "\" (expected ", expected, ")"));
}

// Returns the value of SHMEM_<name> or, if that is not set, of SMA_<name>, the deprecated form.
std::optional<std::string_view> standard_value(const Environment& environment,
                                               std::string_view name) {
  const std::optional<std::string_view> value = environment.value(text("SHMEM_", name));
  return value ? value : environment.value(text("SMA_", name));
}

Status parse_rank(const Environment& environment, ShmemSettings& settings) {
  const Result<std::optional<LaunchedRank>> rank =
      launched_rank_from(environment, std::span(&kShmemVariables, 1));
  if (!rank.ok()) return rank.status();
  if (*rank) {
    settings.rank = (*rank)->rank;
    settings.world_size = (*rank)->world_size;
  } else if (environment.value("PMIX_RANK")) {
    return Status::invalid_argument(
        "PMIX_RANK is set, but the launcher gives the number of PEs only through PMIx, which is "
        "not supported: set ASHLAR_SHMEM_RANK and ASHLAR_SHMEM_SIZE, or use ashlar run");
  }
  return {};
}

// Parses a size such as 3.1M, and rounds it up to whole bytes.
Result<size_t> parse_fractional_bytes(std::string_view given) {
  const std::string_view number = given.substr(0, given.find_first_not_of("0123456789."));
  const Result<size_t> unit = parse_bytes(text('1', given.substr(number.size())));
  if (!unit.ok()) return unit;
  double count = 0;
  const std::from_chars_result read =
      std::from_chars(number.data(), number.data() + number.size(), count);
  const double bytes = std::ceil(count * static_cast<double>(*unit));
  if (read.ec != std::errc() || read.ptr != number.data() + number.size() || !(bytes < 0x1p63)) {
    return Status::format(text('"', given, "\" is not a size"));
  }
  return static_cast<size_t>(bytes);
}

Status parse_heap_bytes(const Environment& environment, ShmemSettings& settings) {
  settings.heap_bytes = 64 * kMiB;
  const std::optional<std::string_view> given = standard_value(environment, "SYMMETRIC_SIZE");
  if (!given) return {};
  const Result<size_t> bytes = parse_fractional_bytes(*given);
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
  settings.prints_version = standard_value(environment, "VERSION").has_value();
  settings.prints_info = standard_value(environment, "INFO").has_value();
  settings.prints_debug = standard_value(environment, "DEBUG").has_value();
  return settings;
}

std::string shmem_variables_text() {
  std::string lines;
  for (const EnvironmentVariable& each : environment_variables()) {
    if (each.scope != VariableScope::kShmem) continue;
    lines += text(each.name, ": ", each.sets, "; ", each.expected,
                  each.default_text.empty() ? "" : text("; default ", each.default_text), '\n');
  }
  return lines;
}

Result<ShmemSettings> shmem_settings_of_process() {
  return shmem_settings_from(Environment::of_process());
}

}  // namespace ashlar
