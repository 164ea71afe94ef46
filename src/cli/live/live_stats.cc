// SPDX-License-Identifier: Apache-2.0
//
// Validates and copies the response field by field.
#include "cli/live/live_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxAllocators = 10'000;

// Reads fields of one object and records the first field that is missing or has the wrong type.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string& invalid_field)
      : object_(object), invalid_field_(invalid_field) {}

  uint64_t unsigned_integer(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number_integer()) return record_error(name), 0;
    if (value->is_number_unsigned()) return value->get<uint64_t>();
    return static_cast<uint64_t>(std::max<int64_t>(0, value->get<int64_t>()));
  }
  double number(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number()) return record_error(name), 0.0;
    const auto parsed = value->get<double>();
    return std::isfinite(parsed) ? parsed : 0;
  }
  bool boolean(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_boolean()) return record_error(name), false;
    return value->get<bool>();
  }
  std::string string(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_string()) return record_error(name), "";
    return value->get<std::string>();
  }
  const Json& object(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_object()) return *value;
    record_error(name);
    return object_;
  }

 private:
  const Json* find(const char* name) const {
    const auto found = object_.is_object() ? object_.find(name) : object_.end();
    return found == object_.end() ? nullptr : &*found;
  }
  void record_error(const char* name) {
    if (invalid_field_.empty()) invalid_field_ = name;
  }

  const Json& object_;
  std::string& invalid_field_;
};

void parse_device(JsonFields& fields, LiveMemoryStats& parsed) {
  parsed.number = fields.unsigned_integer("number");
  parsed.backend = fields.string("backend");
  parsed.device = fields.unsigned_integer("device");
  parsed.device_name = fields.string("device_name");
}

LiveAllocatorStats parse_allocator(const Json& object, std::string& invalid_field) {
  JsonFields fields(object, invalid_field);
  LiveAllocatorStats parsed;
  parse_device(fields, parsed);
  parsed.engine = fields.string("engine");
  parsed.capacity_bytes = fields.unsigned_integer("capacity_bytes");
  parsed.is_history_on = fields.boolean("is_history_on");
  JsonFields stats(fields.object("stats"), invalid_field);
  parsed.reserved_bytes = stats.unsigned_integer("reserved_bytes.all.current");
  parsed.reserved_peak_bytes = stats.unsigned_integer("reserved_bytes.all.peak");
  parsed.active_bytes = stats.unsigned_integer("active_bytes.all.current");
  parsed.allocated_bytes = stats.unsigned_integer("allocated_bytes.all.current");
  parsed.requested_bytes = stats.unsigned_integer("requested_bytes.all.current");
  parsed.blocks = stats.unsigned_integer("allocation.all.current");
  parsed.allocations = stats.unsigned_integer("allocation.all.allocated");
  parsed.device_calls =
      stats.unsigned_integer("num_device_alloc") + stats.unsigned_integer("num_device_free");
  parsed.retries = stats.unsigned_integer("num_alloc_retries");
  parsed.ooms = stats.unsigned_integer("num_ooms");
  return parsed;
}

LiveHostStats parse_host_allocator(const Json& object, std::string& invalid_field) {
  JsonFields fields(object, invalid_field);
  LiveHostStats parsed;
  parse_device(fields, parsed);
  JsonFields stats(fields.object("stats"), invalid_field);
  parsed.reserved_bytes = stats.unsigned_integer("allocated_bytes.current");
  parsed.reserved_peak_bytes = stats.unsigned_integer("allocated_bytes.peak");
  parsed.active_bytes = stats.unsigned_integer("active_bytes.current");
  const uint64_t pending_bytes =
      std::min(stats.unsigned_integer("pending_bytes.current"), parsed.active_bytes);
  parsed.allocated_bytes = parsed.active_bytes - pending_bytes;
  parsed.allocated_bytes -=
      std::min(stats.unsigned_integer("graph_bytes.current"), parsed.allocated_bytes);
  parsed.requested_bytes = stats.unsigned_integer("requested_bytes.current");
  parsed.blocks = stats.unsigned_integer("active_requests.current");
  parsed.allocations = stats.unsigned_integer("active_requests.allocated");
  parsed.host_calls =
      stats.unsigned_integer("num_host_alloc") + stats.unsigned_integer("num_host_free");
  parsed.retries = stats.unsigned_integer("num_alloc_retries");
  parsed.ooms = stats.unsigned_integer("num_ooms");
  return parsed;
}

Json memory_stats_json(const LiveMemoryStats& stats) {
  return {{"number", stats.number},
          {"backend", stats.backend},
          {"device", stats.device},
          {"device_name", stats.device_name},
          {"reserved_bytes", stats.reserved_bytes},
          {"reserved_peak_bytes", stats.reserved_peak_bytes},
          {"active_bytes", stats.active_bytes},
          {"allocated_bytes", stats.allocated_bytes},
          {"requested_bytes", stats.requested_bytes},
          {"blocks", stats.blocks},
          {"allocations", stats.allocations},
          {"retries", stats.retries},
          {"ooms", stats.ooms}};
}

}  // namespace

uint64_t LiveStats::total(uint64_t LiveAllocatorStats::*quantity) const {
  uint64_t sum = 0;
  for (const LiveAllocatorStats& each : allocators) sum += each.*quantity;
  return sum;
}

Result<LiveStats> parse_live_stats(std::string_view stats_json) {
  const Json response = Json::parse(stats_json, nullptr, false);
  if (!response.is_object()) return Status::format("the process's response is not JSON");
  std::string invalid_field;
  JsonFields fields(response, invalid_field);
  if (const uint64_t version = fields.unsigned_integer("version");
      invalid_field.empty() && version != 2) {
    return Status::format(text("the process uses protocol version ", version,
                               " (expected 2); use the ashlar tool of its version"));
  }
  LiveStats parsed;
  parsed.program = fields.string("program");
  parsed.version = fields.string("ashlar");
  parsed.monitored_seconds = fields.number("monitored_seconds");
  parsed.setup_error = fields.string("setup_error");
  const auto list = response.find("allocators");
  if (list == response.end() || !list->is_array() || list->size() > kMaxAllocators) {
    return Status::format("the response has no valid list \"allocators\"");
  }
  for (const Json& each : *list) parsed.allocators.push_back(parse_allocator(each, invalid_field));
  const auto hosts = response.find("host_allocators");
  if (hosts == response.end() || !hosts->is_array() || hosts->size() > kMaxAllocators) {
    return Status::format("the response has no valid list \"host_allocators\"");
  }
  for (const Json& each : *hosts) {
    parsed.host_allocators.push_back(parse_host_allocator(each, invalid_field));
  }
  if (invalid_field.empty()) return parsed;
  return Status::format(
      text("field \"", invalid_field, "\" of the response is missing or invalid"));
}

Json live_stats_json(const LiveStats& stats, int64_t pid) {
  Json allocators = Json::array();
  for (const LiveAllocatorStats& each : stats.allocators) {
    Json object = memory_stats_json(each);
    object["engine"] = each.engine;
    object["capacity_bytes"] = each.capacity_bytes;
    object["is_history_on"] = each.is_history_on;
    object["device_calls"] = each.device_calls;
    allocators.push_back(std::move(object));
  }
  Json host_allocators = Json::array();
  for (const LiveHostStats& each : stats.host_allocators) {
    Json object = memory_stats_json(each);
    object["host_calls"] = each.host_calls;
    host_allocators.push_back(std::move(object));
  }
  return {{"pid", pid},
          {"program", stats.program},
          {"ashlar", stats.version},
          {"monitored_seconds", stats.monitored_seconds},
          {"setup_error", stats.setup_error},
          {"allocators", std::move(allocators)},
          {"host_allocators", std::move(host_allocators)}};
}

}  // namespace ashlar
