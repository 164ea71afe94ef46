// SPDX-License-Identifier: Apache-2.0
//
// The C API for allocation. Allocation and free call the engine directly: on the fast path, this
// layer needs no exception, string, lock or heap allocation.
#include "api/block_allocation.h"
#include "api/c/handles.h"

using namespace ashlar;
using namespace ashlar::c_api;

namespace {

constexpr const char* kNoAllocator = "allocator is null";
constexpr const char* kNoBlock = "block is null, or was freed";

// Returns kInvalidArgument if the device checks stream ids and has no such stream.
Status check_stream(Engine& engine, StreamId stream) {
  Device& device = engine.device();
  if (stream == kDefaultStream || !device.properties().checks_stream_ids) return {};
  const Status queried = device.capture_state(stream).status();
  return queried.is(StatusKind::kInvalidArgument) ? queried : Status();
}

Result<Block*> allocate(Engine& engine, size_t bytes, StreamId stream, const void* caller) {
  Block* block = allocate_fast(engine, bytes, stream);
  if (block != nullptr) [[likely]]
    return block;
  const StackId stack = capture_allocation_stack(engine, caller);
  if (Status checked = check_stream(engine, stream); !checked.ok()) return checked;
  return engine.allocate({bytes, stream, stack});
}

// Returns false for the handle of a freed block, unless the block was allocated again.
bool is_live(const ashlar_block* block) {
  return block != nullptr && block_of(block)->is_allocated();
}

}  // namespace

ashlar_status ashlar_allocate(ashlar_allocator* allocator, size_t bytes, ashlar_stream stream,
                              void** memory) noexcept {
  if (allocator == nullptr) return fail_invalid_argument(kNoAllocator);
  if (memory == nullptr) return fail_invalid_argument("memory is null");
  if (bytes == 0) {
    *memory = nullptr;
    return ASHLAR_OK;
  }
  Engine& engine = allocator->engine;
  try {
    const Result<Block*> block =
        allocate(engine, bytes, stream_id(stream), __builtin_return_address(0));
    if (!block.ok()) return fail(block.status());
    register_address(engine, *block);
    *memory = (*block)->address.as();
    return ASHLAR_OK;
  } catch (...) {
    return fail_with_current_exception();
  }
}

ashlar_status ashlar_free(ashlar_allocator* allocator, void* memory) noexcept {
  if (allocator == nullptr) return fail_invalid_argument(kNoAllocator);
  if (memory == nullptr) return ASHLAR_OK;
  Engine& engine = allocator->engine;
  try {
    const StackId stack = capture_free_stack(engine, __builtin_return_address(0));
    Block* block = engine.addresses().find(DeviceAddress::of(memory));
    if (block == nullptr) return fail(not_an_allocation_error(DeviceAddress::of(memory)));
    return code_of(engine.free(block, stack));
  } catch (...) {
    return fail_with_current_exception();
  }
}

ashlar_status ashlar_allocate_block(ashlar_allocator* allocator, size_t bytes, ashlar_stream stream,
                                    ashlar_block** block) noexcept {
  if (allocator == nullptr) return fail_invalid_argument(kNoAllocator);
  if (block == nullptr) return fail_invalid_argument("block is null");
  Engine& engine = allocator->engine;
  try {
    const Result<Block*> allocated =
        allocate(engine, bytes, stream_id(stream), __builtin_return_address(0));
    if (!allocated.ok()) return fail(allocated.status());
    // An earlier ashlar_allocate may have left an entry for this block. The caller frees the block
    // by its handle, not by its address, so the entry is removed.
    engine.addresses().remove(*allocated);
    *block = handle_of(*allocated);
    return ASHLAR_OK;
  } catch (...) {
    return fail_with_current_exception();
  }
}

ashlar_status ashlar_free_block(ashlar_allocator* allocator, ashlar_block* block) noexcept {
  if (allocator == nullptr) return fail_invalid_argument(kNoAllocator);
  if (!is_live(block)) return fail_invalid_argument(kNoBlock);
  Engine& engine = allocator->engine;
  try {
    return code_of(engine.free_if_owned(block_of(block),
                                        capture_free_stack(engine, __builtin_return_address(0))));
  } catch (...) {
    return fail_with_current_exception();
  }
}

ashlar_status ashlar_record_block_stream(ashlar_allocator* allocator, ashlar_block* block,
                                         ashlar_stream stream) noexcept {
  if (allocator == nullptr) return fail_invalid_argument(kNoAllocator);
  if (!is_live(block)) return fail_invalid_argument(kNoBlock);
  try {
    Engine& engine = usable(allocator->engine);
    if (!engine.owns(block_of(block))) return fail(foreign_block_error(*block_of(block)));
    return code_of(engine.record_stream(block_of(block), {&engine.device(), stream_id(stream)}));
  } catch (...) {
    return fail_with_current_exception();
  }
}

void* ashlar_block_address(const ashlar_block* block) noexcept {
  return block == nullptr ? nullptr : block_of(block)->address.as();
}

size_t ashlar_block_bytes(const ashlar_block* block) noexcept {
  return block == nullptr ? 0 : block_of(block)->requested_bytes;
}

ashlar_status ashlar_record_stream(ashlar_allocator* allocator, void* memory,
                                   ashlar_stream stream) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    allocator->allocator.record_stream(DeviceAddress::of(memory), stream_id(stream));
  });
}

ashlar_status ashlar_record_stream_of(ashlar_allocator* allocator, void* memory,
                                      ashlar_device* device, ashlar_stream stream) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    require(device, "device");
    allocator->allocator.record_stream(DeviceAddress::of(memory), device_of(device),
                                       stream_id(stream));
  });
}

ashlar_status ashlar_base_allocation(ashlar_allocator* allocator, void* memory, void** base,
                                     size_t* bytes) noexcept {
  return guarded([&] {
    require(allocator, "allocator");
    const AddressRange range =
        allocator->allocator.sharing().base_allocation(DeviceAddress::of(memory));
    if (base != nullptr) *base = range.begin.as();
    if (bytes != nullptr) *bytes = range.bytes;
  });
}
