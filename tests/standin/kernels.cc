// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the stand-in for libcuda.so.1: the functions in src/symm/backends/cuda/kernels
// compiled for the host, run in streams of simulated devices, one thread at a time. As on hardware,
// an illegal access loses the device.
#include <sched.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "device/cuda/cuda_driver.h"
#include "device/sim/sim_device.h"
#include "standin/current_device.h"
#include "symm/backends/cuda/kernels/barrier.h"
#include "symm/backends/cuda/kernels/copy.h"
#include "symm/backends/cuda/kernels/experts.h"
#include "symm/backends/cuda/kernels/multimem.h"
#include "symm/backends/cuda/kernels/reduce.h"
#include "symm/backends/cuda/kernels/signal.h"

namespace ashlar::standin {
namespace {

using namespace symm::kernels;

constexpr Code kInvalidImage = 200;
constexpr Code kNotFound = 500;

// --- available kernels

struct HostKernel {
  std::string_view name;
  size_t argument_bytes;
  void (*run)(const void* argument);
};

template <typename Argument, void (*kRun)(const Argument&)>
constexpr HostKernel host_kernel(std::string_view name) {
  return {name, sizeof(Argument),
          [](const void* argument) { kRun(*static_cast<const Argument*>(argument)); }};
}

template <typename Stored>
constexpr HostKernel reduction(std::string_view name) {
  return host_kernel<ReduceArguments, run_reduce<Stored>>(name);
}

template <typename Stored>
constexpr HostKernel sum_through_multicast(std::string_view name) {
  return host_kernel<MultimemArguments, run_multimem_sum<Stored>>(name);
}

constexpr std::array kKernels{
    host_kernel<SignalArguments, run_signal>(kSignalName),
    host_kernel<BarrierArguments, run_barrier>(kBarrierName),
    host_kernel<CopyArguments, run_copy>(kCopyName),
    host_kernel<StoreArguments, run_store>(kStoreName),
    host_kernel<PieceArguments, run_copy_pieces>(kCopyPiecesName),
    host_kernel<ExpertArguments, run_plan_slices>(kPlanSlicesName),
    host_kernel<ExpertArguments, run_copy_slices>(kCopySlicesName),
    host_kernel<ReduceArguments, run_reduce_bits>(kReduceBitsName),
    reduction<float>("ashlar_symm_reduce_f32"),
    reduction<symm::F16>("ashlar_symm_reduce_f16"),
    reduction<symm::Bf16>("ashlar_symm_reduce_bf16"),
    reduction<double>("ashlar_symm_reduce_f64"),
    reduction<int8_t>("ashlar_symm_reduce_i8"),
    reduction<int16_t>("ashlar_symm_reduce_i16"),
    reduction<int32_t>("ashlar_symm_reduce_i32"),
    reduction<int64_t>("ashlar_symm_reduce_i64"),
    reduction<uint8_t>("ashlar_symm_reduce_u8"),
    reduction<uint16_t>("ashlar_symm_reduce_u16"),
    reduction<uint32_t>("ashlar_symm_reduce_u32"),
    reduction<uint64_t>("ashlar_symm_reduce_u64"),
    host_kernel<MultimemArguments, run_multimem_store>(kMultimemStoreName),
    sum_through_multicast<float>("ashlar_symm_multimem_sum_f32"),
    sum_through_multicast<symm::F16>("ashlar_symm_multimem_sum_f16"),
    sum_through_multicast<symm::Bf16>("ashlar_symm_multimem_sum_bf16"),
    sum_through_multicast<double>("ashlar_symm_multimem_sum_f64"),
    sum_through_multicast<uint32_t>("ashlar_symm_multimem_sum_u32"),
    sum_through_multicast<uint64_t>("ashlar_symm_multimem_sum_u64"),
};

// --- execution

// An exception that ends a kernel.
struct KernelEnded {
  Status status;
};

class SimExecutor final : public HostExecutor {
 public:
  explicit SimExecutor(sim::SimDevice& device) : device_(device), began_(Clock::now()) {}

  void* translate(uint64_t address, uint64_t bytes) override {
    const auto known = translations_.find(address);
    if (known != translations_.end() && known->second.bytes >= bytes) return known->second.memory;
    const Result<void*> memory = device_.view({DeviceAddress(address), bytes}, Access::kReadWrite);
    if (!memory.ok()) throw KernelEnded{memory.status()};
    translations_[address] = {*memory, bytes};
    return *memory;
  }
  uint32_t copy_count(uint64_t address) override {
    return static_cast<uint32_t>(copies_at(address).size());
  }
  void* translate_copy(uint64_t address, uint64_t /*bytes*/, uint32_t copy) override {
    return copies_at(address)[copy];
  }
  void back_off(uint32_t turn) override {
    if (device_.interceptor().is_lost()) throw KernelEnded{device_.interceptor().lost_status()};
    if (turn < 20) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(turn < 200 ? 50 : 500));
    }
  }
  uint64_t now_ns() const override {
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_);
    return static_cast<uint64_t>(began_.time_since_epoch().count() + since.count());
  }

 private:
  // Returns the cached result for the last address, because kernels access it repeatedly.
  const std::vector<std::byte*>& copies_at(uint64_t address) {
    if (address == copies_address_) return copies_;
    copies_ = Core::get().multicasts().copies_at(DeviceAddress(address));
    if (copies_.empty()) {
      throw KernelEnded{Status::device_lost("multimem", kLost, "no multicast is mapped there")};
    }
    copies_address_ = address;
    return copies_;
  }

  using Clock = std::chrono::steady_clock;
  struct Translation {
    void* memory;
    uint64_t bytes;
  };

  sim::SimDevice& device_;
  const Clock::time_point began_;
  std::unordered_map<uint64_t, Translation> translations_;
  uint64_t copies_address_ = 0;
  std::vector<std::byte*> copies_;
};

struct LaunchShape {
  uint32_t block_count;
  uint32_t thread_count;
};

Status run(sim::SimDevice& device, const HostKernel& kernel, LaunchShape shape,
           const void* argument) {
  SimExecutor executor(device);
  executor.began_ns = executor.now_ns();
  executor.block_count = shape.block_count;
  executor.thread_count = shape.thread_count;
  current_executor() = &executor;
  Status ended;
  try {
    for (uint32_t block = 0; block < shape.block_count; ++block) {
      executor.block_index = block;
      for (uint32_t thread = 0; thread < shape.thread_count; ++thread) {
        executor.thread_index = thread;
        kernel.run(argument);
      }
    }
  } catch (const KernelEnded& early) {
    ended = early.status;
  }
  current_executor() = nullptr;
  return ended;
}

bool is_image(const void* image) {
  constexpr uint32_t kFatBinary = 0xBA55ED50;
  uint32_t begin = 0;
  std::memcpy(&begin, image, sizeof begin);
  return begin == kFatBinary ||
         std::string_view(static_cast<const char*>(image)).find(".version") !=
             std::string_view::npos;
}

}  // namespace

ASHLAR_STANDIN int cuModuleLoadData(cuda::Module* loaded, const void* image) {
  return on_current_device([&](size_t) {
    if (!is_image(image)) return kInvalidImage;
    *loaded = reinterpret_cast<cuda::Module>(const_cast<void*>(image));
    return kDone;
  });
}

ASHLAR_STANDIN int cuModuleUnload(cuda::Module) {
  return on_current_device([](size_t) { return kDone; });
}

// Finds a kernel by name. PTX must contain the name as text; a fat binary cannot be searched,
// because it is compressed.
ASHLAR_STANDIN int cuModuleGetFunction(cuda::Kernel* kernel, cuda::Module image, const char* name) {
  return on_current_device([&](size_t) {
    const auto* text = reinterpret_cast<const char*>(image);
    const bool is_text = text[0] == '/' || text[0] == '.';
    if (is_text && std::strstr(text, name) == nullptr) return kNotFound;
    for (const HostKernel& each : kKernels) {
      if (each.name != name) continue;
      *kernel = reinterpret_cast<cuda::Kernel>(const_cast<HostKernel*>(&each));
      return kDone;
    }
    return kNotFound;
  });
}

ASHLAR_STANDIN int cuFuncLoad(cuda::Kernel) {
  return on_current_device([](size_t) { return kDone; });
}

ASHLAR_STANDIN int cuLaunchKernel(cuda::Kernel handle, unsigned block_count, unsigned, unsigned,
                                  unsigned thread_count, unsigned, unsigned, unsigned,
                                  abi::Stream stream, void** arguments, void**) {
  const auto& kernel = *reinterpret_cast<const HostKernel*>(handle);
  if (kernel.name.starts_with("ashlar_symm_multimem_")) Core::get().count_multimem_launch();
  // Copies the argument during the launch, like a driver. uint64_t provides the alignment.
  auto argument = std::make_shared<std::vector<uint64_t>>((kernel.argument_bytes + 7) / 8);
  std::memcpy(argument->data(), arguments[0], kernel.argument_bytes);
  return on_stream(stream, [&](Device& on, StreamId id) {
    auto& device = static_cast<sim::SimDevice&>(on);
    return device.launch(id, [&device, &kernel, argument, block_count, thread_count] {
      return run(device, kernel, {block_count, thread_count}, argument->data());
    });
  });
}

}  // namespace ashlar::standin
