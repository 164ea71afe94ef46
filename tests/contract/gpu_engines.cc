// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the engine contract for vendors' back ends: on stand-in drivers, or with
// ASHLAR_TEST_DEVICE=cuda on the real CUDA device. Covers all device calls that engines make.
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/async/async_engine.h"
#include "engine/classic/classic_engine.h"
#include "engine/paged/paged_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

EngineUnderTest on_machine(EngineUnderTest engine, const char* name_suffix,
                           std::unique_ptr<EngineMachine> (*machine)(size_t capacity_bytes)) {
  engine.name += name_suffix;
  engine.machine = machine;
  return engine;
}

EngineUnderTest on_cuda(EngineUnderTest engine) {
  return on_machine(std::move(engine), "OnCuda", cuda_stand_in_machine);
}

// On this driver, the paged engine must not map an extent twice, or it corrupts data.
EngineUnderTest on_lossy_cuda(EngineUnderTest engine) {
  return on_machine(std::move(engine), "OnLossyCuda", lossy_alias_stand_in_machine);
}

EngineUnderTest on_hip(EngineUnderTest engine) {
  return on_machine(std::move(engine), "OnHip", hip_stand_in_machine);
}

EngineUnderTest on_guarded_cuda(EngineUnderTest engine) {
  return on_machine(std::move(engine), "OnGuardedCuda", guarded_stand_in_machine);
}

EngineUnderTest on_real_cuda(EngineUnderTest engine) {
  return on_machine(std::move(engine), "OnRealCuda", real_cuda_machine);
}

EngineUnderTest classic_engine(std::string name, bool expandable) {
  return {std::move(name),
          [expandable](Device& device, AllocatorOptions options) -> std::unique_ptr<Engine> {
            options.expandable_segments = expandable;
            return std::make_unique<classic::ClassicEngine>(device, options);
          },
          /*has_virtual_memory=*/true};
}

EngineUnderTest paged_engine() {
  return {"Paged",
          [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            return std::make_unique<paged::PagedEngine>(device, options);
          },
          /*has_virtual_memory=*/true};
}

EngineUnderTest async_engine() {
  return {.name = "Async",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            return require_ok(AsyncEngine::create(device, options));
          },
          .reports_all_reserved = false};
}

std::vector<EngineUnderTest> all_engines() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  if (wanted != nullptr && std::string_view(wanted) == "cuda") {
    return {on_real_cuda(classic_engine("Classic", false)),
            on_real_cuda(classic_engine("ClassicExpandable", true)), on_real_cuda(paged_engine()),
            on_real_cuda(async_engine())};
  }
  return {on_cuda(classic_engine("Classic", false)),
          on_cuda(paged_engine()),
          on_cuda(async_engine()),
          on_lossy_cuda(paged_engine()),
          on_hip(classic_engine("ClassicExpandable", true)),
          on_hip(paged_engine()),
          on_hip(async_engine()),
          on_guarded_cuda(paged_engine()),
          on_guarded_cuda(async_engine())};
}

auto engines() { return testing::ValuesIn(all_engines()); }

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, EngineMemoryContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineStreamsContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EnginePoolsContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineCaptureContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineLimitsContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineHooksContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineFailuresContract, engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineConcurrencyContract, engines(), engine_name);

}  // namespace ashlar::contract
