// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the engine contract for the classic engine, with the options that change its
// behaviour.
#include <utility>

#include "engine/classic/classic_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

EngineUnderTest classic(std::string name,
                        const std::function<void(AllocatorOptions&)>& set_options) {
  return {std::move(name),
          [set_options](Device& device, AllocatorOptions options) -> std::unique_ptr<Engine> {
            set_options(options);
            return std::make_unique<classic::ClassicEngine>(device, options);
          },
          /*has_virtual_memory=*/true};
}

void keep_defaults(AllocatorOptions&) {}

void set_compatible(AllocatorOptions& options) { options.pytorch_compatible = true; }

void set_expandable(AllocatorOptions& options) { options.expandable_segments = true; }

void set_rounding(AllocatorOptions& options) {
  options.max_split_bytes = 32 * kMiB;
  options.large_segment_bytes = 24 * kMiB;
  options.roundup_power2_divisions.fill(4);
}

auto classic_engines() {
  return testing::Values(
      classic("Classic", keep_defaults), classic("ClassicExpandable", set_expandable),
      classic("ClassicCompatible", set_compatible), classic("ClassicRounded", set_rounding),
      on_plain_device(classic("Classic", keep_defaults)),
      on_plain_device(classic("ClassicExpandable", set_expandable)));
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
