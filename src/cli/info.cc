// SPDX-License-Identifier: Apache-2.0
//
// `ashlar info`: lists back ends (with the reason if one is unavailable), devices and their
// capabilities, as tables or as one JSON object.
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
#include "cli/help/environment_help.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"
#include "device/registry.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct InfoArguments {
  bool json = false;
};

CommandFunction prepare_info(CLI::App& parser);
ExitCode run_info(const InfoArguments& arguments, const Session& session);
Json info_as_json(const Registry& registry);
std::string info_as_text(const Registry& registry, const Environment& environment);

}  // namespace

const Subcommand kInfo = {
    .name = "info",
    .summary = "List back ends, devices and their capabilities",
    .prepare = prepare_info,
};

namespace {

CommandFunction prepare_info(CLI::App& parser) {
  auto arguments = std::make_shared<InfoArguments>();
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_info(*arguments, session); };
}

ExitCode run_info(const InfoArguments& arguments, const Session& session) {
  const Drivers drivers = drivers_from(session.environment);
  const Result<Registry> registry =
      Registry::create({.sim = session.sim_options, .cuda = drivers.cuda, .hip = drivers.hip});
  if (!registry.ok()) {
    session.console.print_message(registry.status().to_string());
    return exit_code_for(registry.status());
  }
  if (arguments.json) {
    session.console.print(format_json(info_as_json(*registry)));
  } else {
    session.console.print(info_as_text(*registry, session.environment));
  }
  return ExitCode::kSuccess;
}

// Formats a UUID as 8-4-4-4-12 hexadecimal digits, which is nvidia-smi's format without "GPU-".
std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
  std::string digits = fmt::format("{:02x}", fmt::join(uuid, ""));
  for (size_t place : {20U, 16U, 12U, 8U}) digits.insert(place, 1, '-');
  return digits;
}

// Returns nullopt if the device does not report its free memory.
std::optional<size_t> free_bytes_of(Device& device) {
  const Result<DeviceMemoryStats> use = device.memory_stats();
  if (!use.ok()) return std::nullopt;
  return use->free_bytes;
}

// Converts the properties of a device. Except for free_bytes, the keys are the field names of
// DeviceProperties.
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
      {"has_stream_ordered_pool", properties.has_stream_ordered_pool},
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
  return {{"devices", devices}, {"backends", backends}, {"version", kToolVersion}};
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
               free_bytes ? format_bytes(*free_bytes) : "unknown", uuid_text(properties.uuid)});
  }
  return table.to_text();
}

std::string join_or(const std::vector<std::string>& parts, std::string_view fallback) {
  return parts.empty() ? std::string(fallback) : fmt::format("{}", fmt::join(parts, ", "));
}

std::string virtual_memory_text(const DeviceProperties& properties) {
  if (!properties.has_virtual_memory) {
    return "none; engine paged uses whole segments";
  }
  std::vector<std::string> parts = {"extents of " + format_bytes(properties.granularity_bytes)};
  if (properties.max_mappings > 0) {
    parts.push_back(fmt::format("at most {} mappings", group_digits(properties.max_mappings)));
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
  table.add({"plain memory",
             fmt::format("aligned to {}", format_bytes(properties.allocation_alignment_bytes))});
  table.add({"sharing", sharing_text(properties)});
  table.add({"stream-ordered pool", properties.has_stream_ordered_pool ? "yes" : "no"});
  table.add({"graph capture", properties.has_capture ? "yes" : "no"});
  table.add({"stream priorities", fmt::format("0 to {}", properties.greatest_priority)});
  return table.to_text();
}

// Abbreviates a list of names: "sim:0", "sim:0 and sim:1", "sim:0 to sim:7".
std::string range_text(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return names.front() + (names.size() == 2 ? " and " : " to ") + names.back();
}

// Describes the capabilities of all devices. Adjacent devices with the same capabilities are
// described together.
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
    text += fmt::format("\n{}\n{}", bold("Capabilities of " + range_text(names)), capabilities);
  }
  return text;
}

std::string info_as_text(const Registry& registry, const Environment& environment) {
  const std::vector<Device*> devices = registry.devices();
  return fmt::format("Ashlar {}\n\n{}\n{}\n{}\n{}{}\n{}\n{}", kToolVersion, bold("Back ends"),
                     backends_as_text(registry), bold("Devices"), devices_as_text(devices),
                     all_capabilities_as_text(devices),
                     bold("Environment variables of the simulated machine"),
                     machine_variables_text(environment));
}

}  // namespace
}  // namespace ashlar
