// SPDX-License-Identifier: Apache-2.0
//
// From PyTorch's functions to an allocator's. Allocating and freeing go straight to the engine.
#include "api/torch/torch_plugin.h"

#include "api/block_calls.h"
#include "api/torch/torch_devices.h"
#include "api/torch/torch_error.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "device/relaxed_capture.h"

using namespace ashlar;
using namespace ashlar::c_api;
using ashlar::torch::TorchDevices;

namespace {

std::optional<std::string> given(const char* text) {
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

PoolId pool_of(TorchPoolId pool) { return {pool.first, pool.second}; }

// PyTorch asks for segments of a MemPool while it captures, too, and tells nobody of that: what the
// engine does for it must be no part of the capture, and the engine must take no part in it.
class UntoldCapture {
 public:
  UntoldCapture(Engine& engine, StreamId stream) : engine_(engine), relaxed_(engine.device()) {
    if (!engine.device().properties().has_capture) return;
    const Result<CaptureState> state = engine.device().capture_state(stream);
    is_capturing_ = !state.ok() || state->status != CaptureStatus::kNone;  // or nobody can tell
    if (is_capturing_) engine_.capture_began();
  }
  ~UntoldCapture() {
    if (is_capturing_) (void)engine_.capture_ended().ok();  // it began above
  }
  UntoldCapture(const UntoldCapture&) = delete;
  UntoldCapture& operator=(const UntoldCapture&) = delete;

 private:
  Engine& engine_;
  const RelaxedCapture relaxed_;
  bool is_capturing_ = false;
};

// 0 B give null. Throws.
void* allocate(size_t bytes, int device, void* stream, const void* caller) {
  if (bytes == 0) return nullptr;
  ashlar_allocator& allocator = TorchDevices::of_process().allocator(device);
  Engine& engine = allocator.engine;
  Block* block = allocate_block(engine, bytes, stream_id(stream), caller);
  enter_address(engine, block);
  return memory_at(block->address);
}

// Programs that try again with less look for PyTorch's first words, where they do not know its
// type.
std::string as_pytorch_says(const OutOfMemory& failure, int device) {
  const char* vendor = "CUDA";
  (void)guarded([&] {  // there may be no device: opening it ran out of memory
    const Device& full = TorchDevices::of_process().allocator(device).allocator.device();
    if (full.properties().backend == "hip") vendor = "HIP";
  });
  return text(vendor, " out of memory. Ashlar ", failure.what());
}

}  // namespace

ashlar_status ashlar_torch_configure(const char* backend, const char* options) noexcept {
  return guarded([&] {
    if (options != nullptr) (void)parse_options(options);
    unwrap(TorchDevices::of_process().configure(given(backend), given(options)));
  });
}

ashlar_allocator* ashlar_torch_allocator(int device) noexcept {
  ashlar_allocator* found = nullptr;
  (void)guarded([&] { found = &TorchDevices::of_process().allocator(device); });
  return found;
}

void* ashlar_torch_alloc(size_t bytes, int device, void* stream) {
  try {
    return allocate(bytes, device, stream, __builtin_return_address(0));
  } catch (const OutOfMemory& failure) {
    const std::string told = as_pytorch_says(failure, device);
    ashlar::torch::throw_as_pytorch(told);
    throw OutOfMemory(Status::out_of_memory(told));
  }
}

void* ashlar_torch_pool_alloc(size_t bytes, int device, void* stream) noexcept {
  void* memory = nullptr;
  const void* caller = __builtin_return_address(0);
  (void)guarded([&] {
    const UntoldCapture capture(TorchDevices::of_process().allocator(device).engine,
                                stream_id(stream));
    memory = allocate(bytes, device, stream, caller);
  });
  return memory;
}

// PyTorch calls it from deleters, which cannot fail: what the device says is told by the next
// allocation. PyTorch itself sees to it that only what was allocated comes here.
void ashlar_torch_free(void* memory, size_t, int device, void*) noexcept {
  if (memory == nullptr) return;
  const void* caller = __builtin_return_address(0);
  (void)guarded([&] {
    ashlar_allocator& allocator = TorchDevices::of_process().allocator(device);
    Engine& engine = allocator.engine;
    Block* block = engine.addresses().find(address_of(memory));
    if (block == nullptr) return;
    free_block(engine, block, caller);
  });
}

// --- hooks ---------------------------------------------------------------------------------------

// Devices are opened when something is allocated on them: a process that forks before must not
// have opened any.
void ashlar_torch_init(int) noexcept {}

void ashlar_torch_reset() {
  TorchDevices::of_process().for_each([](ashlar_allocator& each) { each.allocator.trim(); });
}

void ashlar_torch_memory_fraction(double fraction, int device) {
  TorchDevices::of_process().allocator(device).allocator.set_memory_fraction(fraction);
}

// Where the block is part of nothing that the device knows as one, it is the answer itself.
void* ashlar_torch_base_alloc(void* memory, size_t* bytes) noexcept {
  void* base = memory;
  (void)guarded([&] {
    ashlar_allocator* owner = TorchDevices::of_process().owner_of(memory);
    if (owner == nullptr) return;
    if (bytes != nullptr) *bytes = owner->engine.addresses().find(address_of(memory))->bytes;
    const AddressRange range = owner->allocator.base_allocation(address_of(memory));
    base = memory_at(range.begin);
    if (bytes != nullptr) *bytes = range.bytes;
  });
  return base;
}

// PyTorch asks for any tensor, whoever made its memory: another library's is no business of ours.
void ashlar_torch_record_stream(void* memory, void* stream) {
  if (memory == nullptr) return;
  ashlar_allocator* owner = TorchDevices::of_process().owner_of(memory);
  if (owner == nullptr) return;
  owner->allocator.record_stream(address_of(memory), stream_id(stream));
}

// PyTorch begins a pool for a capture; that of a MemPool is PyTorch's own, and not told here.
void ashlar_torch_begin_allocate_to_pool(int device, TorchPoolId pool,
                                         std::function<bool(void*)> filter) {
  if (!filter) unwrap(Status::invalid_argument("there is no filter to route by"));
  Allocator& allocator = TorchDevices::of_process().allocator(device).allocator;
  allocator.begin_routing(pool_of(pool), [filter = std::move(filter)](StreamId stream) {
    return filter(stream_handle(stream));
  });
  allocator.capture_began();
}

void ashlar_torch_end_allocate_to_pool(int device, TorchPoolId pool) {
  Allocator& allocator = TorchDevices::of_process().allocator(device).allocator;
  allocator.end_routing(pool_of(pool));
  allocator.capture_ended();
}

void ashlar_torch_release_pool(int device, TorchPoolId pool) {
  TorchDevices::of_process().allocator(device).allocator.release_pool(pool_of(pool));
}
