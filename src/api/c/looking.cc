// SPDX-License-Identifier: Apache-2.0
//
// What C programs see of an allocator: statistics, history, snapshots; and the hooks.
#include "api/c/handles.h"
#include "api/unwrap.h"
#include "format/snapshot_pickle.h"
#include "format/snapshot_writer.h"

using namespace ashlar;
using namespace ashlar::c_api;

namespace {

// Callbacks of C may be null, which a pointer to data may be, too, but is no function.
template <typename Function>
void require_function(Function function, const char* name) {
  if (function == nullptr) unwrap(Status::invalid_argument(std::string(name) + " is null"));
}

ashlar_stat values_of(const Stat& stat) {
  return {stat.current, stat.peak, stat.risen, stat.fallen};
}

}  // namespace

// --- statistics ----------------------------------------------------------------------------------

ashlar_status ashlar_get_stats(const ashlar_allocator* allocator, ashlar_stats* stats) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(stats, "stats");
    const AllocatorStats found = allocator->allocator.stats();
    ashlar_stats values{};
    values.allocation = values_of(found.allocation.all);
    values.allocated_bytes = values_of(found.allocated_bytes.all);
    values.active = values_of(found.active.all);
    values.active_bytes = values_of(found.active_bytes.all);
    values.requested_bytes = values_of(found.requested_bytes.all);
    values.reserved_bytes = values_of(found.reserved_bytes.all);
    values.alloc_retries = found.alloc_retries;
    values.ooms = found.ooms;
    values.device_allocs = found.device_allocs;
    values.device_frees = found.device_frees;
    values.stitches = found.stitches;
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
    allocator->allocator.reset_peak_stats();
  });
}

ashlar_status ashlar_reset_total_stats(ashlar_allocator* allocator) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    allocator->allocator.reset_total_stats();
  });
}

// --- history and snapshots -----------------------------------------------------------------------

ashlar_status ashlar_history_start(ashlar_allocator* allocator,
                                   const ashlar_history_options* options) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    const ashlar_history_options given = read_struct(options);
    if (given.stacks < ASHLAR_STACKS_NEVER || given.stacks > ASHLAR_STACKS_ALL) {
      unwrap(
          Status::invalid_argument("stacks is none of ASHLAR_STACKS_NEVER to ASHLAR_STACKS_ALL"));
    }
    HistoryOptions wanted;
    if (given.max_entries != 0) wanted.max_entries = given.max_entries;
    wanted.context = static_cast<RecordContext>(given.stacks);
    wanted.clear = given.clear != 0;
    allocator->allocator.start_history(std::move(wanted));
  });
}

ashlar_status ashlar_history_stop(ashlar_allocator* allocator) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    allocator->allocator.stop_history();
  });
}

ashlar_status ashlar_annotate(ashlar_allocator* allocator, const char* name,
                              const char* stage) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(name, "name");
    require(stage, "stage");
    allocator->allocator.annotate({{"name", name}, {"stage", stage}});
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
    const Snapshot taken = allocator->allocator.snapshot();
    StringSink sink;
    unwrap(is_json ? write_snapshot_json(taken, sink) : write_snapshot_pickle(taken, sink));
    *snapshot = give_bytes(std::move(sink.text));
  });
}

ashlar_status ashlar_save_snapshot(ashlar_allocator* allocator, const char* path) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(path, "path");
    save_snapshot(allocator->allocator.snapshot(), path);
  });
}

// --- hooks ---------------------------------------------------------------------------------------

ashlar_status ashlar_add_tracker(ashlar_allocator* allocator, ashlar_tracker tracker,
                                 void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(tracker, "tracker");
    allocator->allocator.add_tracker([tracker, context](const TraceEntry& entry) {
      ashlar_trace_entry told{};
      told.struct_size = sizeof told;
      told.action = static_cast<ashlar_action>(entry.action);
      told.memory = memory_at(entry.address);
      told.bytes = entry.bytes;
      told.stream = stream_handle(entry.stream);
      told.pool = {.capture = entry.pool.capture, .user = entry.pool.user};
      tracker(&told, context);
    });
  });
}

ashlar_status ashlar_add_oom_observer(ashlar_allocator* allocator, ashlar_oom_observer observer,
                                      void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(observer, "observer");
    allocator->allocator.add_oom_observer([observer, context](const OomNotice& notice) {
      const ashlar_oom_notice told{sizeof(ashlar_oom_notice), notice.wanted_bytes,
                                   notice.limit_bytes, notice.device_free_bytes};
      observer(&told, context);
    });
  });
}

ashlar_status ashlar_add_free_memory_callback(ashlar_allocator* allocator,
                                              ashlar_free_memory_callback callback,
                                              void* context) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require_function(callback, "callback");
    allocator->allocator.add_free_memory_callback(
        [callback, context] { return callback(context) != 0; });
  });
}
