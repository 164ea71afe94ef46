// SPDX-License-Identifier: Apache-2.0
//
// Forwards PyTorch's calls to an allocator. Allocation and free call the engine directly.
#include "api/torch/torch_plugin.h"

#include "api/block_allocation.h"
#include "api/torch/torch_allocators.h"
#include "api/torch/torch_error.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "device/relaxed_capture.h"

using namespace ashlar;
using namespace ashlar::c_api;
using ashlar::torch::TorchAllocators;

namespace {

std::optional<std::string> optional_text(const char* text) {
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

PoolId to_pool_id(TorchPoolId pool) { return {pool.first, pool.second}; }

// PyTorch may request segments of a MemPool during a capture without announcing the capture. If the
// stream is capturing, keeps the engine's own device calls out of the capture, and makes the engine
// treat the stream as capturing.
class UnannouncedCapture {
 public:
  UnannouncedCapture(Engine& engine, StreamId stream) : engine_(engine), relaxed_(engine.device()) {
    if (!engine.device().properties().has_capture) return;
    const Result<CaptureState> state = engine.device().capture_state(stream);
    // After an error, assumes that the stream is capturing.
    is_capturing_ = !state.ok() || state->status != CaptureStatus::kNone;
    if (is_capturing_) engine_.capture_began();
  }
  ~UnannouncedCapture() {
    if (is_capturing_) (void)engine_.capture_ended().ok();  // cannot fail: the capture began above
  }
  UnannouncedCapture(const UnannouncedCapture&) = delete;
  UnannouncedCapture& operator=(const UnannouncedCapture&) = delete;

 private:
  Engine& engine_;
  const RelaxedCapture relaxed_;
  bool is_capturing_ = false;
};

// Returns null for 0 bytes. Throws like Allocator::allocate.
void* allocate(size_t bytes, int device, void* stream, const void* caller) {
  if (bytes == 0) return nullptr;
  ashlar_allocator& allocator = TorchAllocators::instance().allocator(device);
  Engine& engine = allocator.engine;
  Block* block = allocate_block(engine, bytes, stream_id(stream), caller);
  register_address(engine, block);
  return block->address.as();
}

// Starts with PyTorch's wording, because programs that retry with a smaller batch search for it.
std::string pytorch_message(const OutOfMemory& failure, int device) {
  const char* vendor = "CUDA";
  (void)guarded([&] {  // fails if opening the device ran out of memory
    const Device& exhausted = TorchAllocators::instance().allocator(device).allocator.device();
    if (exhausted.properties().backend == "hip") vendor = "HIP";
  });
  return text(vendor, " out of memory. Ashlar ", failure.what());
}

}  // namespace

ashlar_status ashlar_torch_configure(const char* backend, const char* options) noexcept {
  return guarded([&] {
    if (options != nullptr) (void)parse_options(options);
    unwrap(TorchAllocators::instance().configure(optional_text(backend), optional_text(options)));
  });
}

ashlar_allocator* ashlar_torch_allocator(int device) noexcept {
  ashlar_allocator* found = nullptr;
  (void)guarded([&] { found = &TorchAllocators::instance().allocator(device); });
  return found;
}

void* ashlar_torch_alloc(size_t bytes, int device, void* stream) {
  try {
    return allocate(bytes, device, stream, __builtin_return_address(0));
  } catch (const OutOfMemory& failure) {
    const std::string message = pytorch_message(failure, device);
    ashlar::torch::throw_as_pytorch(message);
    throw OutOfMemory(Status::out_of_memory(message));
  }
}

void* ashlar_torch_pool_alloc(size_t bytes, int device, void* stream) noexcept {
  void* memory = nullptr;
  const void* caller = __builtin_return_address(0);
  (void)guarded([&] {
    Engine& engine = usable(TorchAllocators::instance().allocator(device).engine);
    const UnannouncedCapture capture(engine, stream_id(stream));
    memory = allocate(bytes, device, stream, caller);
  });
  return memory;
}

// PyTorch calls this from deleters, which cannot fail: the next allocation or trim reports device
// errors. PyTorch guarantees that only allocated memory arrives here.
void ashlar_torch_free(void* memory, size_t, int device, void*) noexcept {
  if (memory == nullptr) return;
  const void* caller = __builtin_return_address(0);
  (void)guarded([&] {
    ashlar_allocator& allocator = TorchAllocators::instance().allocator(device);
    Engine& engine = allocator.engine;
    Block* block = engine.addresses().find(DeviceAddress::of(memory));
    if (block == nullptr) return;
    free_block(engine, block, caller);
  });
}

// Does nothing: a device is opened by its first allocation, so that a process can fork before that.
void ashlar_torch_init(int) noexcept {}

void ashlar_torch_reset() {
  TorchAllocators::instance().for_each([](ashlar_allocator& each) { each.allocator.trim(); });
}

void ashlar_torch_memory_fraction(double fraction, int device) {
  TorchAllocators::instance().allocator(device).allocator.set_memory_fraction(fraction);
}

// Returns `memory` itself if it is not part of a device allocation that this library made.
void* ashlar_torch_base_alloc(void* memory, size_t* bytes) noexcept {
  void* base = memory;
  (void)guarded([&] {
    ashlar_allocator* owner = TorchAllocators::instance().owner_of(memory);
    if (owner == nullptr) return;
    if (bytes != nullptr) *bytes = owner->engine.addresses().find(DeviceAddress::of(memory))->bytes;
    const AddressRange range =
        owner->allocator.sharing().base_allocation(DeviceAddress::of(memory));
    base = range.begin.as();
    if (bytes != nullptr) *bytes = range.bytes;
  });
  return base;
}

// Ignores memory of other libraries, because PyTorch calls this for tensors of any origin.
void ashlar_torch_record_stream(void* memory, void* stream) {
  if (memory == nullptr) return;
  ashlar_allocator* owner = TorchAllocators::instance().owner_of(memory);
  if (owner == nullptr) return;
  owner->allocator.record_stream(DeviceAddress::of(memory), stream_id(stream));
}

// PyTorch calls this for captures only. Allocations from a MemPool are routed by PyTorch itself.
void ashlar_torch_begin_allocate_to_pool(int device, TorchPoolId pool,
                                         std::function<bool(void*)> filter) {
  if (!filter) unwrap(Status::invalid_argument("the route filter is empty"));
  AllocatorPools& pools = TorchAllocators::instance().allocator(device).allocator.pools();
  pools.begin_routing(to_pool_id(pool), [filter = std::move(filter)](StreamId stream) {
    return filter(to_stream_handle(stream));
  });
  pools.notify_capture_begin();
}

void ashlar_torch_end_allocate_to_pool(int device, TorchPoolId pool) {
  AllocatorPools& pools = TorchAllocators::instance().allocator(device).allocator.pools();
  pools.end_routing(to_pool_id(pool));
  pools.notify_capture_end();
}

void ashlar_torch_release_pool(int device, TorchPoolId pool) {
  TorchAllocators::instance().allocator(device).allocator.pools().release(to_pool_id(pool));
}
