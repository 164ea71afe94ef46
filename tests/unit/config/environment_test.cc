// SPDX-License-Identifier: Apache-2.0
//
// Tests of the environment variables and their error messages. All tests but one use `Environment`
// values instead of the process's environment.
#include "config/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <set>

#include "base/units.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Result<sim::Options> options_from(Environment::Values values) {
  return sim_options_from(Environment(std::move(values)));
}

Result<sim::Options> options_with(const std::string& name, const std::string& value) {
  return options_from({{name, value}});
}

// Sets one variable to an invalid value. Returns the message of the expected kInvalidArgument.
std::string error_for(const std::string& name, const std::string& value) {
  const Result<sim::Options> options = options_with(name, value);
  EXPECT_FALSE(options.ok()) << name << "=" << value;
  EXPECT_EQ(options.status().kind(), StatusKind::kInvalidArgument);
  return options.status().message();
}

void expect_same_options(const sim::Options& found, const sim::Options& wanted) {
  EXPECT_EQ(found.device_count, wanted.device_count);
  EXPECT_EQ(found.capacity_bytes, wanted.capacity_bytes);
  EXPECT_EQ(found.granularity_bytes, wanted.granularity_bytes);
  EXPECT_EQ(found.backing, wanted.backing);
  EXPECT_EQ(found.seed, wanted.seed);
}

TEST(EnvironmentTest, UsesDefaultsWhenUnset) {
  const Result<sim::Options> options = sim_options_from(Environment());
  ASSERT_TRUE(options.ok());
  expect_same_options(*options, sim::Options());
}

TEST(EnvironmentTest, EachVariableSetsItsOption) {
  const Result<sim::Options> options = options_from({
      {"ASHLAR_SIM_DEVICES", "8"},
      {"ASHLAR_SIM_CAPACITY", "80GiB"},
      {"ASHLAR_SIM_SEED", "42"},
      {"ASHLAR_SIM_BACKING", "bookkeeping"},
  });
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->device_count, 8U);
  EXPECT_EQ(options->capacity_bytes, 80 * kGiB);
  EXPECT_EQ(options->seed, 42U);
  EXPECT_EQ(options->backing, sim::Backing::kBookkeeping);
}

TEST(EnvironmentTest, SelectsDriverLibraries) {
  const Drivers named = drivers_from(Environment(
      {{"ASHLAR_CUDA_DRIVER", "/opt/libcuda.so"}, {"ASHLAR_HIP_DRIVER", "libhip.so.9"}}));
  EXPECT_EQ(named.cuda.library, "/opt/libcuda.so");
  EXPECT_EQ(named.hip.library, "libhip.so.9");
  EXPECT_EQ(drivers_from(Environment()).cuda.library, "");
  EXPECT_TRUE(options_with("ASHLAR_CUDA_DRIVER", "/opt/libcuda.so").ok());
}

TEST(EnvironmentTest, DefaultTextEqualsUnset) {
  for (const EnvironmentVariable& row : environment_variables()) {
    if (row.default_text.empty()) continue;
    const Result<sim::Options> options =
        options_with(std::string(row.name), std::string(row.default_text));
    ASSERT_TRUE(options.ok()) << options.status().to_string();
    expect_same_options(*options, sim::Options());
  }
}

TEST(EnvironmentTest, RowsHaveTexts) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& row : environment_variables()) {
    // Every variable belongs to Ashlar, PyTorch or OpenSHMEM.
    EXPECT_TRUE(row.name.starts_with("ASHLAR_") || row.name.find("TORCH_") != row.name.npos ||
                row.name.starts_with("SHMEM_"));
    EXPECT_EQ(row.parse != nullptr, row.scope == VariableScope::kSimulatedMachine) << row.name;
    EXPECT_EQ(row.option.empty(), row.scope != VariableScope::kAllocatorSwitch) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    EXPECT_FALSE(row.sets.empty());
    EXPECT_FALSE(row.expected.empty());
    EXPECT_FALSE(row.help.empty());
  }
}

TEST(EnvironmentTest, AcceptsThreeTorchBackEnds) {
  const auto backend_with = [](const std::string& name, const std::string& value) {
    return torch_backend_from(Environment(Environment::Values{{name, value}}));
  };
  EXPECT_EQ(*torch_backend_from(Environment()), "cuda");
  for (const char* name : {"cuda", "hip", "sim"}) {
    EXPECT_EQ(*backend_with("ASHLAR_TORCH_BACKEND", name), name);
  }
  EXPECT_EQ(backend_with("ASHLAR_TORCH_BACKEND", "xpu").status().message(),
            "ASHLAR_TORCH_BACKEND: \"xpu\" is not a back end (expected cuda, hip or sim)");
  EXPECT_FALSE(backend_with("ASHLAR_TORCH", "sim").ok());
}

TEST(EnvironmentTest, EmptyValueCountsAsUnset) {
  const Result<sim::Options> options =
      options_from({{"ASHLAR_SIM_DEVICES", ""}, {"ASHLAR_NO_SUCH_THING", ""}});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  expect_same_options(*options, sim::Options());
}

TEST(EnvironmentTest, RejectsMalformedCapacity) {
  EXPECT_EQ(error_for("ASHLAR_SIM_CAPACITY", "12x"),
            "ASHLAR_SIM_CAPACITY: \"12x\" is not a size (expected a number of bytes with an "
            "optional unit, such as 80GiB)");
}

TEST(EnvironmentTest, RejectsCapacityOutOfRange) {
  EXPECT_THAT(error_for("ASHLAR_SIM_CAPACITY", "1KiB"),
              AllOf(HasSubstr("\"1KiB\" is too small"), HasSubstr("2.00 MiB to 64.00 TiB")));
  EXPECT_THAT(error_for("ASHLAR_SIM_CAPACITY", "65TiB"),
              AllOf(HasSubstr("\"65TiB\" is too large"), HasSubstr("2.00 MiB to 64.00 TiB")));
  EXPECT_THAT(error_for("ASHLAR_SIM_CAPACITY", "0"), HasSubstr("too small"));
}

TEST(EnvironmentTest, AcceptsCapacityBounds) {
  EXPECT_EQ(options_with("ASHLAR_SIM_CAPACITY", "2MiB")->capacity_bytes, 2 * kMiB);
  EXPECT_EQ(options_with("ASHLAR_SIM_CAPACITY", "64TiB")->capacity_bytes, size_t{1} << 46);
}

TEST(EnvironmentTest, AcceptsDeviceCountsFrom1To64) {
  EXPECT_EQ(options_with("ASHLAR_SIM_DEVICES", "1")->device_count, 1U);
  EXPECT_EQ(options_with("ASHLAR_SIM_DEVICES", "64")->device_count, 64U);
  for (const char* wrong :
       {"0", "65", "-1", "+1", "two", "8 ", " 8", "1e1", "8.0", "0x8", "99999999999999999999999"}) {
    EXPECT_EQ(error_for("ASHLAR_SIM_DEVICES", wrong),
              std::string("ASHLAR_SIM_DEVICES: \"") + wrong +
                  "\" is not a number of devices (expected a whole number from 1 to 64)");
  }
}

TEST(EnvironmentTest, AcceptsAny64BitSeed) {
  EXPECT_EQ(options_with("ASHLAR_SIM_SEED", "0")->seed, 0U);
  EXPECT_EQ(options_with("ASHLAR_SIM_SEED", "18446744073709551615")->seed, UINT64_MAX);
  EXPECT_THAT(error_for("ASHLAR_SIM_SEED", "18446744073709551616"),
              HasSubstr("is not a seed (expected a whole number from 0"));
  EXPECT_THAT(error_for("ASHLAR_SIM_SEED", "lucky"), HasSubstr("\"lucky\" is not a seed"));
}

TEST(EnvironmentTest, AcceptsTwoBackings) {
  EXPECT_EQ(options_with("ASHLAR_SIM_BACKING", "memory")->backing, sim::Backing::kMemory);
  EXPECT_EQ(error_for("ASHLAR_SIM_BACKING", "Memory"),
            "ASHLAR_SIM_BACKING: \"Memory\" is not a kind of backing (expected memory or "
            "bookkeeping)");
}

TEST(EnvironmentTest, SuggestsTheNearestVariable) {
  EXPECT_EQ(error_for("ASHLAR_SIM_DEVCES", "8"),
            "ASHLAR_SIM_DEVCES: no such variable; did you mean ASHLAR_SIM_DEVICES?");
  EXPECT_THAT(error_for("ASHLAR_SIM_CAPACTIY", "8"), HasSubstr("ASHLAR_SIM_CAPACITY?"));
  EXPECT_THAT(error_for("ASHLAR_SIM_SEEDS", "8"), HasSubstr("ASHLAR_SIM_SEED?"));
}

TEST(EnvironmentTest, RejectsUnknownAshlarVariables) {
  EXPECT_THAT(
      error_for("ASHLAR_COLOUR_OF_THE_VIEWER", "red"),
      AllOf(HasSubstr("ASHLAR_COLOUR_OF_THE_VIEWER: no such variable"),
            HasSubstr("ASHLAR_SIM_DEVICES, ASHLAR_SIM_CAPACITY"), Not(HasSubstr("PYTORCH_"))));
}

TEST(EnvironmentTest, IgnoresForeignVariables) {
  const Result<sim::Options> options =
      options_from({{"PATH", "/usr/bin"}, {"ASHLARSIM", "x"}, {"MY_ASHLAR_SIM_DEVICES", "x"}});
  EXPECT_TRUE(options.ok()) << options.status().to_string();
}

// --- allocator options

// The variables with allocator options, in order of precedence.
const std::array<std::string, 4> kAllocatorVariables = {
    "ASHLAR_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};

Result<AllocatorOptions> allocator_options_with(const std::string& name, const std::string& value) {
  return allocator_options_from(Environment(Environment::Values{{name, value}}));
}

TEST(AllocatorVariablesTest, UsesDefaultsWhenUnset) {
  const Result<AllocatorOptions> options = allocator_options_from(Environment());
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(*options, AllocatorOptions());
  EXPECT_EQ(allocator_variable_in(Environment()), nullptr);
}

TEST(AllocatorVariablesTest, ReadsOnlyTheFirstSetVariable) {
  Environment::Values values;
  for (size_t i = kAllocatorVariables.size(); i-- > 0;) {
    values[kAllocatorVariables[i]] = "max_split_size_mb:" + std::to_string(20 + i);
    const Environment environment(values);
    const Result<AllocatorOptions> options = allocator_options_from(environment);
    ASSERT_TRUE(options.ok()) << options.status().to_string();
    EXPECT_EQ(options->max_split_bytes, (20 + i) * kMiB);
    ASSERT_NE(allocator_variable_in(environment), nullptr);
    EXPECT_EQ(allocator_variable_in(environment)->name, kAllocatorVariables[i]);
    values[kAllocatorVariables[i]] = "nonsense";
  }
}

TEST(AllocatorVariablesTest, EmptyValueIsSkipped) {
  const Environment environment(
      {{"ASHLAR_ALLOC_CONF", ""}, {"PYTORCH_ALLOC_CONF", "expandable_segments:True"}});
  EXPECT_TRUE(allocator_options_from(environment)->expandable_segments);
}

TEST(AllocatorVariablesTest, ErrorNamesVariableAndOption) {
  const Result<AllocatorOptions> ours =
      allocator_options_with("ASHLAR_ALLOC_CONF", "max_split_size_mb:12x");
  EXPECT_EQ(ours.status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(ours.status().message(),
            "ASHLAR_ALLOC_CONF: max_split_size_mb: \"12x\" is not a number (expected 20–1048576 or "
            "unlimited)");
  const Result<AllocatorOptions> theirs =
      allocator_options_with("PYTORCH_ALLOC_CONF", "backend:cudaMalloc");
  EXPECT_EQ(theirs.status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(theirs.status().message(),
            "PYTORCH_ALLOC_CONF: backend: \"cudaMalloc\" is not a kind of allocator (expected "
            "native, cudaMallocAsync or hipMallocAsync); set ASHLAR_ALLOC_CONF to override it");
}

TEST(AllocatorVariablesTest, SettingsOverridePyTorchSwitches) {
  constexpr const char* kSwitch = "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC";
  for (const char* on : {"1", "True"}) {
    EXPECT_TRUE(allocator_options_with(kSwitch, on)->shareable_expandable_segments) << on;
  }
  for (const char* off : {"0", "False"}) {
    EXPECT_FALSE(allocator_options_with(kSwitch, off)->shareable_expandable_segments) << off;
  }
  const Environment with_settings(
      {{kSwitch, "1"}, {"PYTORCH_ALLOC_CONF", "expandable_segments:True"}});
  EXPECT_TRUE(allocator_options_from(with_settings)->shareable_expandable_segments);
  EXPECT_TRUE(allocator_options_from(with_settings)->expandable_segments);
  EXPECT_EQ(variable_for_option("expandable_segments_ipc", with_settings)->name, kSwitch);
  EXPECT_EQ(variable_for_option("expandable_segments", with_settings)->name, "PYTORCH_ALLOC_CONF");
  const Environment against(
      {{kSwitch, "1"}, {"ASHLAR_ALLOC_CONF", "expandable_segments_ipc:False"}});
  EXPECT_FALSE(allocator_options_from(against)->shareable_expandable_segments);
  EXPECT_EQ(variable_for_option("expandable_segments_ipc", against)->name, "ASHLAR_ALLOC_CONF");
  EXPECT_EQ(allocator_options_with(kSwitch, "yes").status().message(),
            "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC: \"yes\" is not a switch (expected 1, 0, True or "
            "False)");
}

TEST(AllocatorVariablesTest, NoCachingDisablesCaching) {
  for (const char* name : {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING"}) {
    EXPECT_FALSE(allocator_options_with(name, "1")->caching);
    EXPECT_TRUE(allocator_options_with(name, "0")->caching);
  }
}

TEST(AllocatorVariablesTest, SimulatedMachineIgnoresAllocatorVariables) {
  EXPECT_TRUE(options_from({{"ASHLAR_ALLOC_CONF", "nonsense"}, {"PYTORCH_ALLOC_CONF", "x"}}).ok());
}

TEST(AllocatorVariablesTest, IgnoresSimulatorVariables) {
  const Environment environment(Environment::Values{{"ASHLAR_SIM_DEVICES", "none"}});
  EXPECT_EQ(allocator_variable_in(environment), nullptr);
  EXPECT_TRUE(allocator_options_from(environment).ok());
}

TEST(AllocatorVariablesTest, RejectsMistypedVariable) {
  const Result<AllocatorOptions> options =
      allocator_options_with("ASHLAR_ALOC_CONF", "expandable_segments:True");
  EXPECT_EQ(options.status().message(),
            "ASHLAR_ALOC_CONF: no such variable; did you mean ASHLAR_ALLOC_CONF?");
}

TEST(EnvironmentTest, ReadsTheProcessEnvironment) {
  ASSERT_EQ(setenv("ASHLAR_SIM_DEVICES", "3", 1), 0);
  ASSERT_EQ(setenv("ENVIRONMENT_TEST_EQUALS", "a=b", 1), 0);
  const Environment environment = Environment::of_process();
  ASSERT_EQ(unsetenv("ASHLAR_SIM_DEVICES"), 0);
  ASSERT_EQ(unsetenv("ENVIRONMENT_TEST_EQUALS"), 0);

  EXPECT_EQ(environment.value("ASHLAR_SIM_DEVICES"), "3");
  EXPECT_EQ(environment.value("ENVIRONMENT_TEST_EQUALS"), "a=b");
  EXPECT_EQ(environment.value("ENVIRONMENT_TEST_NOT_THERE"), std::nullopt);
}

TEST(EnvironmentTest, LiveMonitoringIsOffByDefault) {
  const auto shown = [](Environment::Values values) {
    return live_options_from(Environment(std::move(values)));
  };
  EXPECT_FALSE(shown({})->has_value());
  EXPECT_FALSE(shown({{"ASHLAR_LIVE", "off"}})->has_value());
  ASSERT_TRUE(shown({{"ASHLAR_LIVE", "on"}})->has_value());
  EXPECT_FALSE((*shown({{"ASHLAR_LIVE", "on"}}))->port);
  const Result<std::optional<LiveOptions>> port =
      shown({{"ASHLAR_LIVE", "9464"}, {"ASHLAR_LIVE_TOKEN", "0123456789abcdef"}});
  ASSERT_TRUE(port.ok() && port->has_value());
  EXPECT_EQ((*port)->port, 9464);
  EXPECT_EQ((*port)->token, "0123456789abcdef");
  for (const char* wrong : {"yes", "0", "65536", "-1", "127.0.0.1:9464", "9464x"}) {
    const auto refused = shown({{"ASHLAR_LIVE", wrong}, {"ASHLAR_LIVE_TOKEN", "0123456789abcdef"}});
    EXPECT_EQ(refused.status().kind(), StatusKind::kInvalidArgument) << wrong;
    EXPECT_THAT(refused.status().message(),
                AllOf(HasSubstr(wrong), HasSubstr("expected off, on, or a port")))
        << wrong;
  }
  EXPECT_THAT(shown({{"ASHLAR_LIVE", "9464"}}).status().message(),
              HasSubstr("requires ASHLAR_LIVE_TOKEN"));
}

}  // namespace
}  // namespace ashlar
