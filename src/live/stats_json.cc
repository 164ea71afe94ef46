// SPDX-License-Identifier: Apache-2.0
//
// Writes the JSON. The names of statistics come from AllocatorStats::flatten and
// HostStats::flatten.
#include "live/exporters.h"

#include "format/json_writer.h"

namespace ashlar::live {
namespace {

// Writes the fields that all kinds of allocators have.
template <typename Allocator>
void write_identity(JsonWriter& json, const Allocator& allocator) {
  json.key("number");
  json.unsigned_integer(allocator.number);
  json.key("backend");
  json.string(allocator.backend);
  json.key("device");
  json.unsigned_integer(allocator.device);
  json.key("device_name");
  json.string(allocator.device_name);
}

template <typename Stats>
void write_stats(JsonWriter& json, const Stats& stats) {
  json.key("stats");
  json.begin_dict();
  for (const auto& [name, value] : stats.flatten()) {
    json.key(name);
    json.integer(value);
  }
  json.end_dict();
}

void write_allocator(JsonWriter& json, const AllocatorStatus& allocator) {
  json.begin_dict();
  write_identity(json, allocator);
  json.key("engine");
  json.string(allocator.engine);
  json.key("options");
  json.string(allocator.options);
  json.key("capacity_bytes");
  json.unsigned_integer(allocator.capacity_bytes);
  json.key("is_history_on");
  json.boolean(allocator.is_history_on);
  write_stats(json, allocator.stats);
  json.end_dict();
}

void write_allocator(JsonWriter& json, const HostAllocatorStatus& allocator) {
  json.begin_dict();
  write_identity(json, allocator);
  write_stats(json, allocator.stats);
  json.end_dict();
}

}  // namespace

std::string format_stats_json(const ProcessStatus& process) {
  StringSink sink;
  JsonWriter json(sink);
  json.begin_dict();
  json.key("version");
  json.unsigned_integer(2);
  json.key("pid");
  json.integer(process.pid);
  json.key("program");
  json.string(process.program);
  json.key("ashlar");
  json.string(process.version);
  json.key("monitored_seconds");
  json.floating_point(process.monitored_seconds);
  json.key("setup_error");
  json.string(process.problem);
  json.key("allocators");
  json.begin_list();
  for (const AllocatorStatus& each : process.allocators) write_allocator(json, each);
  json.end_list();
  json.key("host_allocators");
  json.begin_list();
  for (const HostAllocatorStatus& each : process.host_allocators) write_allocator(json, each);
  json.end_list();
  json.end_dict();
  // Writing to memory cannot fail.
  static_cast<void>(json.finish());
  return std::move(sink.text);
}

}  // namespace ashlar::live
