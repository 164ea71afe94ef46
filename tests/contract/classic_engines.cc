// SPDX-License-Identifier: Apache-2.0
//
// The engine contract on the classic engine with the options that change its behaviour.
#include <utility>

#include "engine/classic/classic_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

EngineUnderTest classic(std::string name, const std::function<void(AllocatorOptions&)>& set) {
  return {std::move(name),
          [set](Device& device, AllocatorOptions options) -> std::unique_ptr<Engine> {
            set(options);
            return std::make_unique<classic::ClassicEngine>(device, options);
          },
          /*has_virtual_memory=*/true};
}

void usual(AllocatorOptions&) {}

void compatible(AllocatorOptions& options) { options.pytorch_compatible = true; }

void expandable(AllocatorOptions& options) { options.expandable_segments = true; }

void rounded(AllocatorOptions& options) {
  options.max_split_bytes = 32 * kMiB;
  options.large_segment_bytes = 24 * kMiB;
  options.roundup_power2_divisions.fill(4);
}

auto classic_engines() {
  return testing::Values(classic("Classic", usual), classic("ClassicExpandable", expandable),
                         classic("ClassicCompatible", compatible),
                         classic("ClassicRounded", rounded),
                         on_plain_device(classic("Classic", usual)),
                         on_plain_device(classic("ClassicExpandable", expandable)));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Engine, EngineMemoryContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineTrimContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineStreamsContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EnginePoolsContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineCheckpointContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineCaptureContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineLimitsContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineHooksContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineFailuresContract, classic_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Engine, EngineConcurrencyContract, classic_engines(), engine_name);

}  // namespace ashlar::contract
