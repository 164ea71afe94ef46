// The engines' contract suite on vendors' back ends, over their stand-in drivers: enough engines to
// see every call that engines make of a device.
#include <utility>

#include "engine/async/async_engine.h"
#include "engine/classic/classic_engine.h"
#include "engine/paged/paged_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

EngineUnderTest on_cuda(EngineUnderTest engine) {
  engine.name += "OnCuda";
  engine.machine = cuda_stand_in_machine;
  return engine;
}

EngineUnderTest on_hip(EngineUnderTest engine) {
  engine.name += "OnHip";
  engine.machine = hip_stand_in_machine;
  return engine;
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
            return must(AsyncEngine::create(device, options));
          },
          .tells_all = false};
}

auto engines() {
  return testing::Values(on_cuda(classic_engine("Classic", false)), on_cuda(paged_engine()),
                         on_cuda(async_engine()), on_hip(classic_engine("ClassicExpandable", true)),
                         on_hip(paged_engine()), on_hip(async_engine()));
}

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
