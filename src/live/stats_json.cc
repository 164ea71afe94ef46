// SPDX-License-Identifier: Apache-2.0
//
// AllocatorStats::flatten and HostStats::flatten have the names.
#include "live/stats_json.h"

#include "format/json_writer.h"

namespace ashlar::live {
namespace {

// What all kinds of allocators have.
template <typename Allocator>
void put_place(JsonWriter& json, const Allocator& allocator) {
  json.key("number");
  json.natural(allocator.number);
  json.key("backend");
  json.string(allocator.backend);
  json.key("device");
  json.natural(allocator.device);
  json.key("device_name");
  json.string(allocator.device_name);
}

template <typename Stats>
void put_stats(JsonWriter& json, const Stats& stats) {
  json.key("stats");
  json.begin_dict();
  for (const auto& [name, value] : stats.flatten()) {
    json.key(name);
    json.integer(value);
  }
  json.end_dict();
}

void put(JsonWriter& json, const ShownAllocator& allocator) {
  json.begin_dict();
  put_place(json, allocator);
  json.key("engine");
  json.string(allocator.engine);
  json.key("options");
  json.string(allocator.options);
  json.key("capacity_bytes");
  json.natural(allocator.capacity_bytes);
  json.key("is_history_on");
  json.flag(allocator.is_history_on);
  put_stats(json, allocator.stats);
  json.end_dict();
}

void put(JsonWriter& json, const ShownHostAllocator& allocator) {
  json.begin_dict();
  put_place(json, allocator);
  put_stats(json, allocator.stats);
  json.end_dict();
}

}  // namespace

std::string stats_json(const ShownProcess& process) {
  StringSink sink;
  JsonWriter json(sink);
  json.begin_dict();
  json.key("version");
  json.natural(1);
  json.key("pid");
  json.integer(process.pid);
  json.key("program");
  json.string(process.program);
  json.key("ashlar");
  json.string(process.version);
  json.key("shown_seconds");
  json.real(process.shown_seconds);
  json.key("trouble");
  json.string(process.trouble);
  json.key("allocators");
  json.begin_list();
  for (const ShownAllocator& each : process.allocators) put(json, each);
  json.end_list();
  json.key("host_allocators");
  json.begin_list();
  for (const ShownHostAllocator& each : process.host_allocators) put(json, each);
  json.end_list();
  json.end_dict();
  // Memory takes whatever is written.
  static_cast<void>(json.finish());
  return std::move(sink.text);
}

}  // namespace ashlar::live
