// SPDX-License-Identifier: Apache-2.0
//
// The C API for statistics, history, snapshots, hooks and live observation.
#include "api/c/handles.h"
#include "api/unwrap.h"
#include "ashlar/live.h"
#include "format/snapshot_pickle.h"
#include "format/snapshot_writer.h"

using namespace ashlar;
using namespace ashlar::c_api;

namespace {

// Like `require`, for function pointers, which do not convert to void*.
template <typename Function>
void require_function(Function function, const char* name) {
  if (function == nullptr) unwrap(Status::invalid_argument(std::string(name) + " is null"));
}

std::vector<TraceAction> to_actions(const ashlar_action* actions, size_t count) {
  if (count != 0) require(actions, "skip_actions");
  std::vector<TraceAction> converted;
  for (size_t i = 0; i < count; ++i) {
    if (actions[i] < ASHLAR_ACTION_ALLOC || actions[i] > ASHLAR_ACTION_ANNOTATE) {
      unwrap(Status::invalid_argument(
          "skip_actions: an element is not one of ASHLAR_ACTION_ALLOC to ASHLAR_ACTION_ANNOTATE"));
    }
    converted.push_back(static_cast<TraceAction>(actions[i]));
  }
  return converted;
}

ashlar_stat to_c_stat(const Stat& stat) {
  return {stat.current, stat.peak, stat.increased, stat.decreased};
}

}  // namespace

ashlar_status ashlar_get_stats(const ashlar_allocator* allocator, ashlar_stats* stats) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(stats, "stats");
    const AllocatorStats stats_now = allocator->allocator.stats();
    ashlar_stats values{};
    values.allocation = to_c_stat(stats_now.allocation.all);
    values.allocated_bytes = to_c_stat(stats_now.allocated_bytes.all);
    values.active = to_c_stat(stats_now.active.all);
    values.active_bytes = to_c_stat(stats_now.active_bytes.all);
    values.requested_bytes = to_c_stat(stats_now.requested_bytes.all);
    values.reserved_bytes = to_c_stat(stats_now.reserved_bytes.all);
    values.alloc_retries = stats_now.alloc_retries;
    values.ooms = stats_now.ooms;
    values.device_allocs = stats_now.device_allocs;
    values.device_frees = stats_now.device_frees;
    values.stitches = stats_now.stitches;
    write_struct(values, stats);
  });
}

ashlar_status ashlar_visit_stats(const ashlar_allocator* allocator, ashlar_stat_visitor visitor,
                                 void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(visitor, "visitor");
    for (const auto& [name, value] : allocator->allocator.stats().flatten()) {
      visitor(name.c_str(), value, context);
    }
  });
}

ashlar_status ashlar_reset_peak_stats(ashlar_allocator* allocator) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    allocator->allocator.statistics().reset_peaks();
  });
}

ashlar_status ashlar_reset_total_stats(ashlar_allocator* allocator) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    allocator->allocator.statistics().reset_totals();
  });
}

ashlar_status ashlar_history_start(ashlar_allocator* allocator,
                                   const ashlar_history_options* options) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    const ashlar_history_options given = read_struct(options);
    if (given.stacks < ASHLAR_STACKS_NEVER || given.stacks > ASHLAR_STACKS_ALL) {
      unwrap(Status::invalid_argument(
          "stacks is not one of ASHLAR_STACKS_NEVER to ASHLAR_STACKS_ALL"));
    }
    HistoryOptions wanted;
    if (given.max_entries != 0) wanted.max_entries = given.max_entries;
    wanted.context = static_cast<RecordContext>(given.stacks);
    wanted.clear = given.clear != 0;
    wanted.skip_actions = to_actions(given.skip_actions, given.skip_action_count);
    allocator->allocator.history().start(std::move(wanted));
  });
}

ashlar_status ashlar_history_stop(ashlar_allocator* allocator) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    allocator->allocator.history().stop();
  });
}

ashlar_status ashlar_annotate(ashlar_allocator* allocator, const char* name,
                              const char* stage) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(name, "name");
    require(stage, "stage");
    allocator->allocator.history().annotate({{"name", name}, {"stage", stage}});
  });
}

ashlar_status ashlar_annotate_memory(ashlar_allocator* allocator, void* memory,
                                     const char* text) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(memory, "memory");
    require(text, "text");
    allocator->allocator.history().annotate(DeviceAddress::of(memory), text);
  });
}

ashlar_status ashlar_set_user_metadata(const char* text) noexcept {
  return guarded([&] {
    require(text, "text");
    set_user_metadata(text);
  });
}

ashlar_status ashlar_user_metadata(ashlar_bytes** text) noexcept {
  return guarded([&] {
    require(text, "text");
    *text = make_bytes(user_metadata());
  });
}

ashlar_status ashlar_push_compile_context(const char* name) noexcept {
  return guarded([&] {
    require(name, "name");
    push_compile_context(name);
  });
}

void ashlar_pop_compile_context(void) noexcept {
  (void)guarded([] { pop_compile_context(); });
}

ashlar_status ashlar_visit_stack(ashlar_allocator* allocator, const void* memory,
                                 ashlar_frame_visitor visitor, void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(memory, "memory");
    require_function(visitor, "visitor");
    for (const Frame& frame : stack_of(allocator->engine, DeviceAddress::of(memory))) {
      visitor(frame.name.c_str(), frame.filename.c_str(), frame.line, context);
    }
  });
}

ashlar_status ashlar_snapshot(ashlar_allocator* allocator, ashlar_format format,
                              ashlar_bytes** snapshot) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(snapshot, "snapshot");
    const bool is_json = format == ASHLAR_FORMAT_JSON;
    if (!is_json && format != ASHLAR_FORMAT_PICKLE) {
      unwrap(Status::invalid_argument(
          "format is neither ASHLAR_FORMAT_PICKLE nor ASHLAR_FORMAT_JSON"));
    }
    const Snapshot state = allocator->allocator.snapshot();
    StringSink sink;
    unwrap(is_json ? write_snapshot_json(state, sink) : write_snapshot_pickle(state, sink));
    *snapshot = make_bytes(std::move(sink.text));
  });
}

ashlar_status ashlar_save_snapshot(ashlar_allocator* allocator, const char* path) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(path, "path");
    save_snapshot(allocator->allocator.snapshot(), path);
  });
}

ashlar_status ashlar_add_tracker(ashlar_allocator* allocator, ashlar_tracker tracker,
                                 void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(tracker, "tracker");
    allocator->allocator.hooks().add_tracker([tracker, context](const TraceEntry& entry) {
      ashlar_trace_entry c_entry{};
      c_entry.struct_size = sizeof c_entry;
      c_entry.action = static_cast<ashlar_action>(entry.action);
      c_entry.memory = entry.address.as();
      c_entry.bytes = entry.bytes;
      c_entry.stream = to_stream_handle<ashlar_stream>(entry.stream);
      c_entry.pool = {.capture = entry.pool.capture, .user = entry.pool.user};
      tracker(&c_entry, context);
    });
  });
}

ashlar_status ashlar_add_oom_observer(ashlar_allocator* allocator, ashlar_oom_observer observer,
                                      void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(observer, "observer");
    allocator->allocator.hooks().add_oom_observer([observer, context](const OomNotice& notice) {
      const ashlar_oom_notice c_notice{sizeof(ashlar_oom_notice), notice.wanted_bytes,
                                       notice.limit_bytes, notice.device_free_bytes};
      observer(&c_notice, context);
    });
  });
}

ashlar_status ashlar_add_free_memory_callback(ashlar_allocator* allocator,
                                              ashlar_free_memory_callback callback,
                                              void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(callback, "callback");
    allocator->allocator.hooks().add_free_memory_callback(
        [callback, context] { return callback(context) != 0; });
  });
}

// NOLINTNEXTLINE(readability-identifier-naming): a name of the C API
struct ashlar_live_server {
  explicit ashlar_live_server(const LiveOptions& options) : server(options) {}
  LiveServer server;
};

ashlar_status ashlar_live_server_start(const ashlar_live_server_options* options,
                                       ashlar_live_server** server) noexcept {
  return guarded([&] {
    require(server, "server");
    const ashlar_live_server_options given = read_struct(options);
    LiveOptions wanted;
    if (given.has_port != 0) wanted.port = given.port;
    if (given.token != nullptr) wanted.token = given.token;
    *server = std::make_unique<ashlar_live_server>(wanted).release();
  });
}

ashlar_status ashlar_live_server_url(const ashlar_live_server* server,
                                     ashlar_bytes** url) noexcept {
  return guarded([&] {
    require(server, "server");
    require(url, "url");
    *url = make_bytes(server->server.url());
  });
}

void ashlar_live_server_stop(ashlar_live_server* server) noexcept {
  const std::unique_ptr<ashlar_live_server> owned(server);
}
