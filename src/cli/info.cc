// SPDX-License-Identifier: Apache-2.0
//
// `ashlar info`: which back ends this build has and why one cannot be used here, which devices
// there are, and what they can do. For people as tables, for scripts as one JSON object.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/json_answer.h"
#include "cli/subcommand.h"
#include "cli/table.h"
#include "cli/variables.h"
#include "cli/version.h"
#include "device/registry.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
  bool json = false;
};

Run prepare_info(CLI::App& parser);
ExitCode run_info(const InfoOptions& options, const Session& session);
Json info_as_json(const Registry& registry);
std::string info_as_text(const Registry& registry, const Environment& environment);

}  // namespace

const Subcommand kInfo = {
    .name = "info",
    .summary = "List back ends and devices, what they can do, and why one is missing",
    .prepare = prepare_info,
};

namespace {

Run prepare_info(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto options = std::make_shared<InfoOptions>();
  add_json_flag(parser, options->json);
  return [options](const Session& session) { return run_info(*options, session); };
}

ExitCode run_info(const InfoOptions& options, const Session& session) {
  const Drivers drivers = drivers_from(session.environment);
  const Result<Registry> registry =
      Registry::create({.sim = session.sim_options, .cuda = drivers.cuda, .hip = drivers.hip});
  if (!registry.ok()) {
    session.console.complain(registry.status().to_string());
    return exit_code_for(registry.status());
  }
  if (options.json) {
    session.console.print(json_answer(info_as_json(*registry)));
  } else {
    session.console.print(info_as_text(*registry, session.environment));
  }
  return ExitCode::kDone;
}

// 8-4-4-4-12 hexadecimal digits, as nvidia-smi writes them after "GPU-".
std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
  std::string digits = fmt::format("{:02x}", fmt::join(uuid, ""));
  for (size_t place : {20U, 16U, 12U, 8U}) digits.insert(place, 1, '-');
  return digits;
}

// Empty where the device does not tell.
std::optional<size_t> free_bytes_of(Device& device) {
  const Result<MemoryStats> use = device.memory_stats();
  if (!use.ok()) return std::nullopt;
  return use->free_bytes;
}

// The names are those of DeviceProperties.
Json device_as_json(Device& device) {
  const DeviceProperties& properties = device.properties();
  const std::optional<size_t> free_bytes = free_bytes_of(device);
  return Json{
      {"backend", properties.backend},
      {"index", properties.index.value()},
      {"name", properties.name},
      {"uuid", uuid_text(properties.uuid)},
      {"pci_id", properties.pci_id.empty() ? Json() : Json(properties.pci_id)},
      {"capacity_bytes", properties.capacity_bytes},
      {"free_bytes", free_bytes ? Json(*free_bytes) : Json()},
      {"allocation_alignment_bytes", properties.allocation_alignment_bytes},
      {"has_virtual_memory", properties.has_virtual_memory},
      {"granularity_bytes", properties.granularity_bytes},
      {"can_alias", properties.can_alias},
      {"alias_probe", properties.alias_probe},
      {"max_mappings", properties.max_mappings},
      {"can_export_fd", properties.can_export_fd},
      {"can_export_fabric", properties.can_export_fabric},
      {"can_export_imported", properties.can_export_imported},
      {"can_share_allocations", properties.can_share_allocations},
      {"has_stream_pool", properties.has_stream_pool},
      {"has_capture", properties.has_capture},
      {"checks_stream_ids", properties.checks_stream_ids},
      {"greatest_priority", properties.greatest_priority},
  };
}

Json info_as_json(const Registry& registry) {
  Json devices = Json::array();
  for (Device* device : registry.devices()) devices.push_back(device_as_json(*device));
  Json backends = Json::array();
  for (const Backend& backend : registry.backends()) {
    const Status& availability = backend.availability();
    backends.push_back({{"name", backend.name()},
                        {"available", availability.ok()},
                        {"reason", availability.ok() ? Json() : Json(availability.message())}});
  }
  return {{"devices", devices}, {"backends", backends}, {"version", kVersion}};
}

std::string backends_as_text(const Registry& registry) {
  Table table({{}, {}, {}});
  for (const Backend& backend : registry.backends()) {
    const size_t count = backend.devices().size();
    table.add({std::string(backend.name()), backend.is_available() ? "available" : "missing",
               backend.is_available() ? fmt::format("{} device{}", count, count == 1 ? "" : "s")
                                      : backend.availability().message()});
  }
  return table.to_text();
}

std::string device_text(const DeviceProperties& properties) {
  return fmt::format("{}:{}", properties.backend, properties.index.value());
}

std::string devices_as_text(const std::vector<Device*>& devices) {
  Table table(
      {{"device"}, {"name"}, {"capacity", Align::kRight}, {"free", Align::kRight}, {"uuid"}});
  for (Device* device : devices) {
    const DeviceProperties& properties = device->properties();
    const std::optional<size_t> free_bytes = free_bytes_of(*device);
    table.add({device_text(properties), properties.name, format_bytes(properties.capacity_bytes),
               free_bytes ? format_bytes(*free_bytes) : "not told", uuid_text(properties.uuid)});
  }
  return table.to_text();
}

std::string join_or(const std::vector<std::string>& parts, std::string_view otherwise) {
  return parts.empty() ? std::string(otherwise) : fmt::format("{}", fmt::join(parts, ", "));
}

std::string virtual_memory_text(const DeviceProperties& properties) {
  if (!properties.has_virtual_memory) {
    return "none: addresses and memory come together, and engine paged uses whole segments";
  }
  std::vector<std::string> parts = {"extents of " + format_bytes(properties.granularity_bytes)};
  if (properties.max_mappings > 0) {
    parts.push_back(fmt::format("{} mappings at most", group_digits(properties.max_mappings)));
  }
  return join_or(parts, "");
}

std::string aliases_text(const DeviceProperties& properties) {
  if (properties.can_alias) return properties.alias_probe;
  return properties.alias_probe + "; engine paged uses whole segments";
}

std::string sharing_text(const DeviceProperties& properties) {
  std::vector<std::string> parts;
  if (properties.can_export_fd) parts.push_back("extents as file descriptors");
  if (properties.can_export_fabric) parts.push_back("extents as fabric handles");
  if (properties.can_share_allocations) parts.push_back("plain allocations");
  return join_or(parts, "none");
}

std::string capabilities_as_text(const DeviceProperties& properties) {
  Table table({{}, {}});
  table.add({"virtual memory", virtual_memory_text(properties)});
  table.add({"aliases", aliases_text(properties)});
  table.add({"plain memory", fmt::format("addresses are multiples of {}",
                                         format_bytes(properties.allocation_alignment_bytes))});
  table.add({"between processes", sharing_text(properties)});
  table.add({"stream-ordered pool", properties.has_stream_pool ? "yes" : "no"});
  table.add({"graph capture", properties.has_capture ? "yes" : "no"});
  table.add({"stream priorities", fmt::format("0 to {}", properties.greatest_priority)});
  return table.to_text();
}

// "sim:0", "sim:0 and sim:1", "sim:0 to sim:7".
std::string range_text(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return names.front() + (names.size() == 2 ? " and " : " to ") + names.back();
}

// Devices that can do the same are described once.
std::string all_capabilities_as_text(const std::vector<Device*>& devices) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (Device* device : devices) {
    std::string capabilities = capabilities_as_text(device->properties());
    if (groups.empty() || groups.back().first != capabilities) {
      groups.emplace_back(std::move(capabilities), std::vector<std::string>());
    }
    groups.back().second.push_back(device_text(device->properties()));
  }
  std::string text;
  for (const auto& [capabilities, names] : groups) {
    text += fmt::format("\nWhat {} can do\n{}", range_text(names), capabilities);
  }
  return text;
}

std::string info_as_text(const Registry& registry, const Environment& environment) {
  const std::vector<Device*> devices = registry.devices();
  return fmt::format(
      "Ashlar {}\n\nBack ends\n{}\nDevices\n{}{}\n"
      "Variables that shape the simulated machine\n{}",
      kVersion, backends_as_text(registry), devices_as_text(devices),
      all_capabilities_as_text(devices), machine_variables_in(environment));
}

}  // namespace
}  // namespace ashlar
