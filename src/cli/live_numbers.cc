// SPDX-License-Identifier: Apache-2.0
//
// Field by field, each with its kind.
#include "cli/live_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostAllocators = 10'000;

// Reads fields of one object, and remembers the first that is missing or of another kind.
class Fields {
 public:
  Fields(const Json& object, std::string& wrong) : object_(object), wrong_(wrong) {}

  uint64_t natural(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number_integer()) return complain(name), 0;
    if (value->is_number_unsigned()) return value->get<uint64_t>();
    return static_cast<uint64_t>(std::max<int64_t>(0, value->get<int64_t>()));
  }
  double real(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number()) return complain(name), 0.0;
    const double number = value->get<double>();
    return std::isfinite(number) ? number : 0;
  }
  bool flag(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_boolean()) return complain(name), false;
    return value->get<bool>();
  }
  std::string string(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_string()) return complain(name), "";
    return value->get<std::string>();
  }
  const Json& object(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_object()) return *value;
    complain(name);
    return object_;
  }

 private:
  const Json* find(const char* name) const {
    const auto found = object_.is_object() ? object_.find(name) : object_.end();
    return found == object_.end() ? nullptr : &*found;
  }
  void complain(const char* name) {
    if (wrong_.empty()) wrong_ = name;
  }

  const Json& object_;
  std::string& wrong_;
};

void read_place(Fields& fields, MemoryNumbers& read) {
  read.number = fields.natural("number");
  read.backend = fields.string("backend");
  read.device = fields.natural("device");
  read.device_name = fields.string("device_name");
}

AllocatorNumbers read_allocator(const Json& object, std::string& wrong) {
  Fields fields(object, wrong);
  AllocatorNumbers read;
  read_place(fields, read);
  read.engine = fields.string("engine");
  read.capacity_bytes = fields.natural("capacity_bytes");
  read.is_history_on = fields.flag("is_history_on");
  Fields stats(fields.object("stats"), wrong);
  read.reserved_bytes = stats.natural("reserved_bytes.all.current");
  read.reserved_peak_bytes = stats.natural("reserved_bytes.all.peak");
  read.active_bytes = stats.natural("active_bytes.all.current");
  read.allocated_bytes = stats.natural("allocated_bytes.all.current");
  read.requested_bytes = stats.natural("requested_bytes.all.current");
  read.blocks = stats.natural("allocation.all.current");
  read.allocations = stats.natural("allocation.all.allocated");
  read.device_calls = stats.natural("num_device_alloc") + stats.natural("num_device_free");
  read.retries = stats.natural("num_alloc_retries");
  read.ooms = stats.natural("num_ooms");
  return read;
}

HostNumbers read_host_allocator(const Json& object, std::string& wrong) {
  Fields fields(object, wrong);
  HostNumbers read;
  read_place(fields, read);
  Fields stats(fields.object("stats"), wrong);
  read.reserved_bytes = stats.natural("allocated_bytes.current");
  read.reserved_peak_bytes = stats.natural("allocated_bytes.peak");
  read.active_bytes = stats.natural("active_bytes.current");
  const uint64_t waiting_bytes =
      std::min(stats.natural("pending_bytes.current"), read.active_bytes);
  read.allocated_bytes = read.active_bytes - waiting_bytes;
  read.allocated_bytes -= std::min(stats.natural("graph_bytes.current"), read.allocated_bytes);
  read.requested_bytes = stats.natural("requested_bytes.current");
  read.blocks = stats.natural("active_requests.current");
  read.allocations = stats.natural("active_requests.allocated");
  read.host_calls = stats.natural("num_host_alloc") + stats.natural("num_host_free");
  read.retries = stats.natural("num_alloc_retries");
  read.ooms = stats.natural("num_ooms");
  return read;
}

Json json_of(const MemoryNumbers& of) {
  return {{"number", of.number},
          {"backend", of.backend},
          {"device", of.device},
          {"device_name", of.device_name},
          {"reserved_bytes", of.reserved_bytes},
          {"reserved_peak_bytes", of.reserved_peak_bytes},
          {"active_bytes", of.active_bytes},
          {"allocated_bytes", of.allocated_bytes},
          {"requested_bytes", of.requested_bytes},
          {"blocks", of.blocks},
          {"allocations", of.allocations},
          {"retries", of.retries},
          {"ooms", of.ooms}};
}

}  // namespace

uint64_t LiveNumbers::total(uint64_t AllocatorNumbers::*quantity) const {
  uint64_t sum = 0;
  for (const AllocatorNumbers& each : allocators) sum += each.*quantity;
  return sum;
}

Result<LiveNumbers> read_live_numbers(std::string_view stats_json) {
  const Json parsed = Json::parse(stats_json, nullptr, false);
  if (!parsed.is_object())
    return Status::format("the process answers with something else than JSON");
  std::string wrong;
  Fields fields(parsed, wrong);
  if (const uint64_t version = fields.natural("version"); wrong.empty() && version != 1) {
    return Status::format(text("the process speaks version ", version,
                               " (expected 1): use its own version of ashlar"));
  }
  LiveNumbers read;
  read.program = fields.string("program");
  read.version = fields.string("ashlar");
  read.shown_seconds = fields.real("shown_seconds");
  read.trouble = fields.string("trouble");
  const auto list = parsed.find("allocators");
  if (list == parsed.end() || !list->is_array() || list->size() > kMostAllocators) {
    return Status::format("the process names no list of allocators");
  }
  for (const Json& each : *list) read.allocators.push_back(read_allocator(each, wrong));
  // Programs that were built before it was told tell nothing of it.
  if (const auto hosts = parsed.find("host_allocators"); hosts != parsed.end()) {
    if (!hosts->is_array() || hosts->size() > kMostAllocators) {
      return Status::format("what the process names as host_allocators is no list of them");
    }
    for (const Json& each : *hosts) {
      read.host_allocators.push_back(read_host_allocator(each, wrong));
    }
  }
  if (wrong.empty()) return read;
  return Status::format(text("in what the process tells, \"", wrong, "\" is missing or wrong"));
}

Json live_numbers_json(const LiveNumbers& numbers, int64_t pid) {
  Json allocators = Json::array();
  for (const AllocatorNumbers& each : numbers.allocators) {
    Json object = json_of(each);
    object["engine"] = each.engine;
    object["capacity_bytes"] = each.capacity_bytes;
    object["is_history_on"] = each.is_history_on;
    object["device_calls"] = each.device_calls;
    allocators.push_back(std::move(object));
  }
  Json host_allocators = Json::array();
  for (const HostNumbers& each : numbers.host_allocators) {
    Json object = json_of(each);
    object["host_calls"] = each.host_calls;
    host_allocators.push_back(std::move(object));
  }
  return {{"pid", pid},
          {"program", numbers.program},
          {"ashlar", numbers.version},
          {"shown_seconds", numbers.shown_seconds},
          {"trouble", numbers.trouble},
          {"allocators", std::move(allocators)},
          {"host_allocators", std::move(host_allocators)}};
}

}  // namespace ashlar
