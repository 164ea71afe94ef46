// SPDX-License-Identifier: Apache-2.0
//
// The environment variables Ashlar listens to: one table with a row for each, and the only place
// that reads the process's environment. The CLI, the public facades and tests turn it into
// `sim::Options` and `AllocatorOptions` here and hand those down; nothing below ever asks the
// environment itself.
//
// Pure functions over values, but for Environment::of_process, which must not run while another
// thread changes the environment.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/devices.h"
#include "ashlar/live.h"
#include "ashlar/options.h"
#include "ashlar/sim.h"
#include "ashlar/status.h"

namespace ashlar {

// Variables and their values. A variable with an empty value counts as unset.
class Environment {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  Environment() = default;
  explicit Environment(Values values);
  // What this process was given.
  static Environment of_process();

  std::optional<std::string_view> value(std::string_view variable) const;
  // In alphabetical order; without the unset ones.
  const Values& values() const { return values_; }

 private:
  Values values_;
};

// What a variable shapes.
enum class VariableScope {
  kSimulatedMachine,
  // The library of a vendor's driver, instead of the system's.
  kDriver,
  // All settings of an allocator in one text. Of these rows the first one that is set counts, and
  // the others are not even read.
  kAllocator,
  // One option of an allocator, named by `option`, as a switch: 1, 0, True or False. A text of
  // settings that names the option counts before it.
  kAllocatorSwitch,
  kShmem,  // programs of ashlar::shmem: shmem_settings.h
  kLive,   // whether the process shows its allocators: live_options_from
  kTorch,  // the plug-in for PyTorch: torch_backend_from, and what python/ashlar reads itself
};

// One row of the table. The texts are for people: they stand in messages, `ashlar info`,
// `ashlar config` and `ashlar --help`.
struct EnvironmentVariable {
  std::string_view name;
  VariableScope scope;
  std::string_view sets;          // "devices of the simulated machine"
  std::string_view expected;      // "a whole number from 1 to 64"; completes "expected …"
  std::string_view default_text;  // a value with the same effect as none; empty: there is none
  std::string_view help;          // why one would set it
  // Sets its option; null for all scopes but kSimulatedMachine.
  // kInvalidArgument: the value is wrong; then `options` is untouched.
  Status (*parse)(const EnvironmentVariable& row, std::string_view value, sim::Options& options);
  std::string_view option = {};       // of kAllocatorSwitch: the option it sets
  std::string_view when_on = "True";  // and to what, when the switch is on
};

std::span<const EnvironmentVariable> environment_variables();

// Whether it says something about options of allocators.
inline bool is_for_allocators(const EnvironmentVariable& row) {
  return row.scope == VariableScope::kAllocator || row.scope == VariableScope::kAllocatorSwitch;
}

// kInvalidArgument: there is a variable whose name starts with ASHLAR_ that is not in the table.
Status refuse_unknown_variables(const Environment& environment);

// The simulated machine that the environment asks for.
// kInvalidArgument: a value is wrong, or there is a variable whose name starts with ASHLAR_ that is
// not in the table. The message names the variable, the value, and what was expected.
Result<sim::Options> sim_options_from(const Environment& environment);

// The vendors' drivers that the environment names.
struct Drivers {
  DriverOptions cuda{};
  DriverOptions hip{};
};
Drivers drivers_from(const Environment& environment);

// The back end whose devices PyTorch's device numbers stand for. Fails as sim_options_from does.
Result<std::string> torch_backend_from(const Environment& environment);

// How the process shows its allocators to others; none: not at all.
// kInvalidArgument: the value is wrong, or a port comes without a token, which stands in no
// message.
Result<std::optional<LiveOptions>> live_options_from(const Environment& environment);

// The settings that the environment gives to allocators that are not told otherwise. Fails as
// sim_options_from does; variables of other scopes may be wrong.
Result<AllocatorOptions> allocator_options_from(const Environment& environment);
// The row of the variable with their text; null: none is set.
const EnvironmentVariable* allocator_variable_in(const Environment& environment);
// The row of the variable that an option's value comes from; null: from none.
const EnvironmentVariable* variable_behind(std::string_view option, const Environment& environment);

}  // namespace ashlar
