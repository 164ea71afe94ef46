// SPDX-License-Identifier: Apache-2.0
//
// The C API of symmetric memory: checks arguments, converts options, and calls the C++ classes. The
// file is long because it has one function for each operation.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/c/callback_store.h"
#include "api/c/handles.h"
#include "ashlar/c/symm.h"
#include "ashlar/launch.h"
#include "ashlar/symmetric.h"
#include "ashlar/tcp_store.h"

using namespace ashlar;
using namespace ashlar::c_api;

// NOLINTBEGIN(readability-identifier-naming): names of the C API.

struct ashlar_symm_store {
  std::shared_ptr<symm::Store> store;               // shared with groups
  std::shared_ptr<CallbackStore> callback_store{};  // the same object, or null
};
struct ashlar_symm_heap {
  symm::Heap heap;
};
struct ashlar_symm_buffer {
  symm::SymmetricBuffer buffer;
};
struct ashlar_symm_group {
  symm::Group group;
};
struct ashlar_symm_handle {
  symm::Handle handle;
};

// NOLINTEND(readability-identifier-naming)

namespace {

using symm::Timeout;

// Creates an object and transfers its ownership to the caller.
template <typename Object, typename... Arguments>
Object* make_object(Arguments&&... arguments) {
  return std::unique_ptr<Object>(new Object{std::forward<Arguments>(arguments)...}).release();
}

const symm::Handle& checked(const ashlar_symm_handle* handle) {
  require(handle, "handle");
  return handle->handle;
}

Deadline deadline_of(int64_t timeout_ms) { return Deadline::of_timeout(Timeout(timeout_ms)); }

std::optional<StreamId> stream_of(const ashlar_stream* stream) {
  if (stream == nullptr) return std::nullopt;
  return stream_id(*stream);
}

symm::Reduction reduction_of(ashlar_symm_type type, ashlar_symm_op op) {
  if (type < ASHLAR_SYMM_F32 || type > ASHLAR_SYMM_U64) {
    throw InvalidArgument(Status::invalid_argument("type is not an ASHLAR_SYMM_ element type"));
  }
  if (op < ASHLAR_SYMM_SUM || op > ASHLAR_SYMM_XOR) {
    throw InvalidArgument(Status::invalid_argument("op is not an ASHLAR_SYMM_ operation"));
  }
  return {static_cast<symm::ElementType>(type), static_cast<symm::ReduceOp>(op)};
}
static_assert(static_cast<int>(symm::ElementType::kU64) == ASHLAR_SYMM_U64);
static_assert(static_cast<int>(symm::ElementType::kBf16) == ASHLAR_SYMM_BF16);
static_assert(static_cast<int>(symm::ElementType::kI8) == ASHLAR_SYMM_I8);
static_assert(static_cast<int>(symm::ReduceOp::kXor) == ASHLAR_SYMM_XOR);
static_assert(static_cast<int>(symm::ReduceOp::kProd) == ASHLAR_SYMM_PROD);

symm::HeapOptions heap_options(const ashlar_symm_heap_options* given) {
  const ashlar_symm_heap_options read = read_struct(given);
  symm::HeapOptions options;
  if (read.device != nullptr) options.device = &device_of(read.device);
  if (read.pad_bytes != 0) options.pad_bytes = read.pad_bytes;
  if (read.heartbeat_ms != 0) options.heartbeat = Timeout(read.heartbeat_ms);
  if (read.lease_ms != 0) options.lease = Timeout(read.lease_ms);
  return options;
}

symm::GroupOptions group_options(const ashlar_symm_group_options* given) {
  const ashlar_symm_group_options read = read_struct(given);
  symm::GroupOptions options;
  options.rank = read.rank;
  if (read.world_size != 0) options.world_size = read.world_size;
  if (read.name != nullptr) options.name = read.name;
  if (read.job != nullptr) options.job = read.job;
  if (read.channel_count != 0) options.channel_count = read.channel_count;
  options.measure_thresholds = read.skip_measurement == 0;
  options.timeout = Timeout(read.timeout_ms);
  if (read.one_shot_bytes != 0) options.one_shot_bytes = read.one_shot_bytes;
  options.may_share_device = read.may_share_device != 0;
  return options;
}

symm::CollectiveOptions collective_options(const ashlar_symm_collective_options* given) {
  const ashlar_symm_collective_options read = read_struct(given);
  symm::CollectiveOptions options;
  options.offset_bytes = read.offset_bytes;
  options.out = read.out;
  options.timeout = Timeout(read.timeout_ms);
  options.stream = stream_of(read.stream);
  return options;
}

// Calls an operation of a handle with the channel, the timeout and the stream of the options.
template <typename Operation>
ashlar_status signal(const ashlar_symm_handle* handle, const ashlar_symm_signal_options* given,
                     const Operation& operation) {
  return guarded([&] {
    const ashlar_symm_signal_options options = read_struct(given);
    operation(checked(handle), options.channel, Timeout(options.timeout_ms),
              stream_of(options.stream));
  });
}

std::span<const std::byte> bytes_at(const void* memory, size_t bytes, const char* name) {
  if (bytes > 0) require(memory, name);
  return {static_cast<const std::byte*>(memory), bytes};
}

}  // namespace

ashlar_status ashlar_symm_store_open_folder(const char* folder,
                                            ashlar_symm_store** store) noexcept {
  return guarded([&] {
    require(folder, "folder");
    require(store, "store");
    *store = make_object<ashlar_symm_store>(symm::open_file_store(folder));
  });
}

ashlar_status ashlar_symm_store_open_tcp(const char* host, uint16_t port, const char* token,
                                         int64_t timeout_ms, ashlar_symm_store** store) noexcept {
  return guarded([&] {
    require(host, "host");
    require(token, "token");
    require(store, "store");
    *store = make_object<ashlar_symm_store>(symm::open_tcp_store(
        {.host = host, .port = port, .token = token}, deadline_of(timeout_ms)));
  });
}

ashlar_status ashlar_symm_store_host_tcp(const char* host, uint16_t* port, const char* token,
                                         ashlar_symm_store** store) noexcept {
  return guarded([&] {
    require(host, "host");
    require(port, "port");
    require(token, "token");
    require(store, "store");
    symm::HostedStore hosted = symm::host_tcp_store({.host = host, .port = *port, .token = token});
    *store = make_object<ashlar_symm_store>(std::move(hosted.store));
    *port = hosted.port;
  });
}

ashlar_status ashlar_symm_store_create(const ashlar_symm_store_functions* functions,
                                       ashlar_symm_store** store) noexcept {
  return guarded([&] {
    require(functions, "functions");
    require(store, "store");
    const ashlar_symm_store_functions read = read_struct(functions);
    if (read.set == nullptr || read.try_get == nullptr || read.add == nullptr ||
        read.erase == nullptr) {
      throw InvalidArgument(Status::invalid_argument("a function of the store is null"));
    }
    auto made = std::make_shared<CallbackStore>(read);
    *store = make_object<ashlar_symm_store>(made, made);
  });
}

void ashlar_symm_store_close(ashlar_symm_store* store) noexcept {
  if (store != nullptr && store->callback_store != nullptr) store->callback_store->close();
}

void ashlar_symm_store_destroy(ashlar_symm_store* store) noexcept {
  std::unique_ptr<ashlar_symm_store> owned(store);
}

ashlar_status ashlar_symm_heap_create(const ashlar_symm_heap_options* options,
                                      ashlar_symm_heap** heap) noexcept {
  return guarded([&] {
    require(heap, "heap");
    *heap = make_object<ashlar_symm_heap>(symm::Heap(heap_options(options)));
  });
}

void ashlar_symm_heap_destroy(ashlar_symm_heap* heap) noexcept {
  std::unique_ptr<ashlar_symm_heap> owned(heap);
}

ashlar_status ashlar_symm_buffer_allocate(ashlar_symm_heap* heap, size_t bytes,
                                          ashlar_symm_buffer** buffer) noexcept {
  return guarded([&] {
    require(heap, "heap");
    require(buffer, "buffer");
    *buffer = make_object<ashlar_symm_buffer>(heap->heap.allocate(bytes));
  });
}

void* ashlar_symm_buffer_data(const ashlar_symm_buffer* buffer) noexcept {
  return buffer == nullptr ? nullptr : buffer->buffer.data();
}

void ashlar_symm_buffer_destroy(ashlar_symm_buffer* buffer) noexcept {
  std::unique_ptr<ashlar_symm_buffer> owned(buffer);
}

ashlar_status ashlar_symm_group_join(ashlar_symm_heap* heap, ashlar_symm_store* store,
                                     const ashlar_symm_group_options* options,
                                     ashlar_symm_group** group) noexcept {
  return guarded([&] {
    require(heap, "heap");
    require(store, "store");
    require(group, "group");
    *group = make_object<ashlar_symm_group>(
        symm::Group::join(heap->heap, store->store, group_options(options)));
  });
}

ashlar_status ashlar_symm_group_join_from_environment(ashlar_symm_heap* heap,
                                                      const ashlar_symm_group_options* options,
                                                      ashlar_symm_group** group) noexcept {
  return guarded([&] {
    require(heap, "heap");
    require(group, "group");
    *group = make_object<ashlar_symm_group>(
        symm::Group::join_from_environment(heap->heap, group_options(options)));
  });
}

ashlar_status ashlar_symm_group_sub_group(const ashlar_symm_group* group, const char* name,
                                          const int32_t* ranks, size_t rank_count,
                                          int64_t timeout_ms,
                                          ashlar_symm_group** sub_group) noexcept {
  return guarded([&] {
    require(group, "group");
    require(name, "name");
    require(ranks, "ranks");
    require(sub_group, "sub_group");
    symm::SubGroupOptions options;
    options.name = name;
    options.ranks.assign(ranks, ranks + rank_count);
    options.timeout = Timeout(timeout_ms);
    options.measure_thresholds = false;
    *sub_group = make_object<ashlar_symm_group>(group->group.sub_group(options));
  });
}

int32_t ashlar_symm_group_rank(const ashlar_symm_group* group) noexcept {
  return group == nullptr ? -1 : group->group.rank();
}

int32_t ashlar_symm_group_world_size(const ashlar_symm_group* group) noexcept {
  return group == nullptr ? -1 : group->group.world_size();
}

ashlar_status ashlar_symm_group_failure(const ashlar_symm_group* group) noexcept {
  return guarded([&] {
    require(group, "group");
    throw_if_error(group->group.failure());
  });
}

ashlar_status ashlar_symm_group_rendezvous(ashlar_symm_group* group, const void* address,
                                           int64_t timeout_ms,
                                           ashlar_symm_handle** handle) noexcept {
  return guarded([&] {
    require(group, "group");
    require(address, "address");
    require(handle, "handle");
    *handle =
        make_object<ashlar_symm_handle>(group->group.rendezvous(address, Timeout(timeout_ms)));
  });
}

ashlar_status ashlar_symm_group_finish(ashlar_symm_group* group, ashlar_stream stream) noexcept {
  return guarded([&] {
    require(group, "group");
    group->group.finish(stream_id(stream));
  });
}

ashlar_status ashlar_symm_group_leave(ashlar_symm_group* group, int64_t timeout_ms) noexcept {
  return guarded([&] {
    require(group, "group");
    group->group.leave(Timeout(timeout_ms));
  });
}

void ashlar_symm_group_destroy(ashlar_symm_group* group) noexcept {
  std::unique_ptr<ashlar_symm_group> owned(group);
}

void ashlar_symm_handle_destroy(ashlar_symm_handle* handle) noexcept {
  std::unique_ptr<ashlar_symm_handle> owned(handle);
}

ashlar_status ashlar_symm_view(const ashlar_symm_handle* handle, int32_t rank,
                               void** memory) noexcept {
  return guarded([&] {
    require(memory, "memory");
    *memory = checked(handle).view<std::byte>(rank, 0).data();
  });
}

ashlar_status ashlar_symm_signal_pad(const ashlar_symm_handle* handle, int32_t rank, void** pad,
                                     size_t* bytes) noexcept {
  return guarded([&] {
    require(pad, "pad");
    require(bytes, "bytes");
    const std::span<std::byte> words = checked(handle).signal_pad<std::byte>(rank);
    *pad = words.data();
    *bytes = words.size();
  });
}

ashlar_status ashlar_symm_put(const ashlar_symm_handle* handle, int32_t to, const void* from,
                              size_t bytes, int64_t offset) noexcept {
  return guarded([&] { checked(handle).put(to, bytes_at(from, bytes, "from"), offset); });
}

ashlar_status ashlar_symm_get(const ashlar_symm_handle* handle, int32_t from, void* to,
                              size_t bytes, int64_t offset) noexcept {
  return guarded([&] {
    if (bytes > 0) require(to, "to");
    checked(handle).get(from, {static_cast<std::byte*>(to), bytes}, offset);
  });
}

ashlar_status ashlar_symm_post(const ashlar_symm_handle* handle, int32_t to, const void* from,
                               size_t bytes, int64_t offset) noexcept {
  return guarded([&] { checked(handle).post(to, bytes_at(from, bytes, "from"), offset); });
}

ashlar_status ashlar_symm_fence(const ashlar_symm_handle* handle) noexcept {
  return guarded([&] { checked(handle).fence(); });
}

ashlar_status ashlar_symm_quiet(const ashlar_symm_handle* handle) noexcept {
  return guarded([&] { checked(handle).quiet(); });
}

ashlar_status ashlar_symm_barrier(const ashlar_symm_handle* handle,
                                  const ashlar_symm_signal_options* options) noexcept {
  return signal(handle, options,
                [](const symm::Handle& memory, int channel, Timeout timeout, auto stream) {
                  memory.barrier(channel, timeout, stream);
                });
}

ashlar_status ashlar_symm_put_signal(const ashlar_symm_handle* handle, int32_t to,
                                     const ashlar_symm_signal_options* options) noexcept {
  return signal(handle, options,
                [to](const symm::Handle& memory, int channel, Timeout timeout, auto stream) {
                  memory.put_signal(to, channel, timeout, stream);
                });
}

ashlar_status ashlar_symm_wait_signal(const ashlar_symm_handle* handle, int32_t from,
                                      const ashlar_symm_signal_options* options) noexcept {
  return signal(handle, options,
                [from](const symm::Handle& memory, int channel, Timeout timeout, auto stream) {
                  memory.wait_signal(from, channel, timeout, stream);
                });
}

ashlar_status ashlar_symm_add_signal(const ashlar_symm_handle* handle, int32_t to, uint64_t amount,
                                     const ashlar_symm_signal_options* options) noexcept {
  return signal(handle, options,
                [to, amount](const symm::Handle& memory, int channel, Timeout /*timeout*/,
                             auto stream) { memory.add_signal(to, amount, channel, stream); });
}

ashlar_status ashlar_symm_wait_for_value(const ashlar_symm_handle* handle, int32_t from,
                                         uint64_t value,
                                         const ashlar_symm_signal_options* options) noexcept {
  return signal(
      handle, options,
      [from, value](const symm::Handle& memory, int channel, Timeout timeout, auto stream) {
        memory.wait_for_value(from, value, channel, timeout, stream);
      });
}

ashlar_status ashlar_symm_counter_value(const ashlar_symm_handle* handle, int32_t from,
                                        int32_t channel, uint64_t* value) noexcept {
  return guarded([&] {
    require(value, "value");
    *value = checked(handle).counter_value(from, channel);
  });
}

ashlar_status ashlar_symm_all_reduce(const ashlar_symm_handle* handle, int64_t count,
                                     ashlar_symm_type type, ashlar_symm_op op,
                                     const ashlar_symm_collective_options* options) noexcept {
  return guarded([&] {
    checked(handle).all_reduce(count, reduction_of(type, op), collective_options(options));
  });
}

ashlar_status ashlar_symm_reduce(const ashlar_symm_handle* handle, int64_t count, int32_t root,
                                 ashlar_symm_type type, ashlar_symm_op op,
                                 const ashlar_symm_collective_options* options) noexcept {
  return guarded([&] {
    checked(handle).reduce(count, root, reduction_of(type, op), collective_options(options));
  });
}

ashlar_status ashlar_symm_reduce_scatter(const ashlar_symm_handle* handle, int64_t count,
                                         ashlar_symm_type type, ashlar_symm_op op,
                                         const ashlar_symm_collective_options* options) noexcept {
  return guarded([&] {
    checked(handle).reduce_scatter(count, reduction_of(type, op), collective_options(options));
  });
}

ashlar_status ashlar_symm_all_gather(const ashlar_symm_handle* handle, const void* in,
                                     int64_t bytes,
                                     const ashlar_symm_collective_options* options) noexcept {
  return guarded([&] {
    if (bytes > 0) require(in, "in");
    checked(handle).all_gather(in, bytes, collective_options(options));
  });
}

ashlar_status ashlar_symm_broadcast(const ashlar_symm_handle* handle, int64_t bytes, int32_t root,
                                    const ashlar_symm_collective_options* options) noexcept {
  return guarded([&] { checked(handle).broadcast(bytes, root, collective_options(options)); });
}

ashlar_status ashlar_symm_all_to_all(const ashlar_symm_handle* handle, int64_t bytes,
                                     const ashlar_symm_collective_options* options) noexcept {
  return guarded([&] { checked(handle).all_to_all(bytes, collective_options(options)); });
}
