// SPDX-License-Identifier: Apache-2.0
//
// The C API for allocators, except allocation itself: creation, options, limits, pools, plug-ins.
#include <thread>

#include "api/c/handles.h"
#include "api/unwrap.h"
#include "ashlar/version.h"
#include "base/text.h"
#include "config/allocator_options.h"
#include "engine/plugin/plugin_source.h"

using namespace ashlar;
using namespace ashlar::c_api;

namespace {

// Calls `function` with the allocator. Fails if the allocator is null.
template <typename Function>
ashlar_status with_allocator(ashlar_allocator* allocator, const Function& function) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    function(allocator->allocator);
  });
}

ashlar_pool to_c_pool(PoolId pool) { return {.capture = pool.capture, .user = pool.user}; }

}  // namespace

uint32_t ashlar_c_version() noexcept { return ASHLAR_C_VERSION; }
const char* ashlar_version() noexcept { return ASHLAR_VERSION_STRING; }

const char* ashlar_bytes_data(const ashlar_bytes* bytes) noexcept {
  return bytes == nullptr ? "" : bytes->text.c_str();
}
size_t ashlar_bytes_size(const ashlar_bytes* bytes) noexcept {
  return bytes == nullptr ? 0 : bytes->text.size();
}
void ashlar_bytes_destroy(ashlar_bytes* bytes) noexcept {
  const std::unique_ptr<ashlar_bytes> owned(bytes);
}

ashlar_status ashlar_allocator_create(ashlar_device* device, const char* options,
                                      ashlar_allocator** allocator) noexcept {
  return guarded([&] {
    require(device, "device");
    require(allocator, "allocator");
    const AllocatorOptions parsed =
        options == nullptr ? options_from_environment() : parse_options(options);
    *allocator = std::make_unique<ashlar_allocator>(device_of(device), parsed).release();
  });
}

void ashlar_allocator_destroy(ashlar_allocator* allocator) noexcept {
  const std::unique_ptr<ashlar_allocator> owned(allocator);
}

ashlar_status ashlar_check_options(const char* options) noexcept {
  return guarded([&] {
    require(options, "options");
    (void)parse_options(options);
  });
}

ashlar_status ashlar_allocator_options(const ashlar_allocator* allocator,
                                       ashlar_bytes** options) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(options, "options");
    *options = make_bytes(format_options(AllocatorAccess::impl(allocator->allocator).options));
  });
}

// The strings of the option table are literals, so they are null-terminated.
ashlar_status ashlar_visit_options(ashlar_option_visitor visitor, void* context) noexcept {
  return guarded([&] {
    if (visitor == nullptr) unwrap(Status::invalid_argument("visitor is null"));
    for (const OptionRow& row : allocator_option_table()) {
      ashlar_option option{};
      option.struct_size = sizeof option;
      option.name = row.name.data();
      option.type = row.type.data();
      option.unit = row.unit.empty() ? "" : row.unit.data();
      option.default_text = row.default_text.data();
      option.range = row.range.data();
      option.help = row.help.data();
      visitor(&option, context);
    }
  });
}

ashlar_status ashlar_trim(ashlar_allocator* allocator) noexcept {
  return with_allocator(allocator, [](Allocator& target) { target.trim(); });
}

ashlar_status ashlar_trim_to(ashlar_allocator* allocator, size_t reserved_bytes, int32_t wait,
                             size_t* released_bytes) noexcept {
  return with_allocator(allocator, [&](Allocator& target) {
    const size_t released =
        target.trim_to(reserved_bytes, {wait != 0 ? TrimWait::kForWork : TrimWait::kNever});
    if (released_bytes != nullptr) *released_bytes = released;
  });
}

ashlar_status ashlar_set_memory_fraction(ashlar_allocator* allocator, double fraction) noexcept {
  return with_allocator(allocator,
                        [&](Allocator& target) { target.set_memory_fraction(fraction); });
}

ashlar_status ashlar_memory_fraction(const ashlar_allocator* allocator, double* fraction) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(fraction, "fraction");
    *fraction = allocator->allocator.memory_fraction();
  });
}

ashlar_status ashlar_plugin_load(ashlar_device* device, const char* library,
                                 const char* alloc_symbol, const char* free_symbol,
                                 ashlar_plugin** plugin) noexcept {
  return guarded([&] {
    require(device, "device");
    require(library, "library");
    require(alloc_symbol, "alloc_symbol");
    require(free_symbol, "free_symbol");
    require(plugin, "plugin");
    auto loaded = unwrap(Plugin::load({library, alloc_symbol, free_symbol, {}}));
    auto source = unwrap(PluginSource::create(std::move(loaded), device_of(device)));
    *plugin = std::make_unique<ashlar_plugin>(ashlar_plugin{std::move(source)}).release();
  });
}

ashlar_status ashlar_plugin_wrap(ashlar_device* device, ashlar_plugin_alloc alloc,
                                 ashlar_plugin_free free, const struct ashlar_plugin_hooks* hooks,
                                 ashlar_plugin** plugin) noexcept {
  return guarded([&] {
    require(device, "device");
    require(plugin, "plugin");
    auto wrapped = unwrap(Plugin::wrap({.alloc = alloc, .free = free, .hooks = hooks}));
    auto source = unwrap(PluginSource::create(std::move(wrapped), device_of(device)));
    *plugin = std::make_unique<ashlar_plugin>(ashlar_plugin{std::move(source)}).release();
  });
}

void ashlar_plugin_destroy(ashlar_plugin* plugin) noexcept {
  const std::unique_ptr<ashlar_plugin> owned(plugin);
}

ashlar_status ashlar_pool_create(ashlar_allocator* allocator, const ashlar_pool_options* options,
                                 ashlar_pool* pool) noexcept {
  return with_allocator(allocator, [&](Allocator& target) {
    require(pool, "pool");
    const ashlar_pool_options given = read_struct(options);
    if (given.reserved != 0) {
      unwrap(Status::invalid_argument(
          text("ashlar_pool_options.reserved is ", given.reserved, " (expected 0)")));
    }
    PoolOptions wanted;
    if (given.source != nullptr) wanted.source = given.source->source;
    wanted.use_on_oom = given.use_on_oom != 0;
    wanted.no_split = given.no_split != 0;
    wanted.never_remap = given.never_remap != 0;
    if (given.tag != nullptr) wanted.tag = given.tag;
    *pool = to_c_pool(target.pools().create(std::move(wanted)));
  });
}

ashlar_status ashlar_capture_pool_create(ashlar_allocator* allocator, ashlar_pool* pool) noexcept {
  return with_allocator(allocator, [&](Allocator& target) {
    require(pool, "pool");
    *pool = to_c_pool(target.pools().create_for_capture());
  });
}

ashlar_status ashlar_pool_retain(ashlar_allocator* allocator, ashlar_pool pool) noexcept {
  return with_allocator(allocator,
                        [&](Allocator& target) { target.pools().retain(pool_id(pool)); });
}

ashlar_status ashlar_pool_release(ashlar_allocator* allocator, ashlar_pool pool) noexcept {
  return with_allocator(allocator,
                        [&](Allocator& target) { target.pools().release(pool_id(pool)); });
}

ashlar_status ashlar_pool_use_count(const ashlar_allocator* allocator, ashlar_pool pool,
                                    int32_t* count) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(count, "count");
    *count = allocator->allocator.pools().use_count(pool_id(pool));
  });
}

ashlar_status ashlar_pool_trim(ashlar_allocator* allocator, ashlar_pool pool) noexcept {
  return with_allocator(allocator, [&](Allocator& target) { target.pools().trim(pool_id(pool)); });
}

ashlar_status ashlar_pool_begin(ashlar_allocator* allocator, ashlar_pool pool,
                                ashlar_route_filter filter, void* context) noexcept {
  return with_allocator(allocator, [&](Allocator& target) {
    RouteFilter route;
    if (filter != nullptr) {
      route = [filter, context](StreamId stream) {
        return filter(to_stream_handle<ashlar_stream>(stream), context) != 0;
      };
    } else {
      route = [thread = std::this_thread::get_id()](StreamId) {
        return std::this_thread::get_id() == thread;
      };
    }
    target.pools().begin_routing(pool_id(pool), std::move(route));
  });
}

ashlar_status ashlar_pool_end(ashlar_allocator* allocator, ashlar_pool pool) noexcept {
  return with_allocator(allocator,
                        [&](Allocator& target) { target.pools().end_routing(pool_id(pool)); });
}

ashlar_status ashlar_capture_began(ashlar_allocator* allocator) noexcept {
  return with_allocator(allocator,
                        [](Allocator& target) { target.pools().notify_capture_begin(); });
}

ashlar_status ashlar_capture_ended(ashlar_allocator* allocator) noexcept {
  return with_allocator(allocator, [](Allocator& target) { target.pools().notify_capture_end(); });
}

ashlar_status ashlar_pause(ashlar_allocator* allocator, const char* tag,
                           int32_t keep_contents) noexcept {
  return with_allocator(allocator, [&](Allocator& target) {
    require(tag, "tag");
    target.pools().pause(tag,
                         {.backup = keep_contents != 0 ? PauseBackup::kHost : PauseBackup::kNone});
  });
}

ashlar_status ashlar_resume(ashlar_allocator* allocator, const char* tag) noexcept {
  return with_allocator(allocator, [&](Allocator& target) {
    require(tag, "tag");
    target.pools().resume(tag);
  });
}
