// SPDX-License-Identifier: Apache-2.0
//
// The table of Ashlar's environment variables, and the only code that reads the process's
// environment. The CLI, the public API and tests convert variables to `sim::Options`,
// `AllocatorOptions` and other values with these functions; lower layers receive these values.
//
// Pure functions, except Environment::of_process, which must not run while another thread changes
// the environment.
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
  // Returns the environment of this process.
  static Environment of_process();

  // Returns the value of a variable; nullopt if the variable is not set.
  std::optional<std::string_view> value(std::string_view variable) const;
  // Returns the set variables, in alphabetical order.
  const Values& values() const { return values_; }

 private:
  Values values_;
};

// The part of the system that a variable configures.
enum class VariableScope {
  kSimulatedMachine,
  // The library of a vendor's driver.
  kDriver,
  // All allocator options in one string. Only the first set variable of this scope is read.
  kAllocator,
  // One allocator option, named by `option`, as a switch: 1, 0, True or False. A kAllocator
  // variable that sets the option takes precedence.
  kAllocatorSwitch,
  kLaunch,          // ranks of a job; see launch_settings.h
  kShmem,           // programs of ashlar::shmem; see shmem_settings.h
  kLiveMonitoring,  // see live_options_from
  kTorch,           // the PyTorch plug-in; see torch_backend_from and python/ashlar
};

// One row of the table. Its strings appear in messages, `ashlar info`, `ashlar config` and `ashlar
// --help`.
struct EnvironmentVariable {
  std::string_view name;
  VariableScope scope;
  std::string_view sets;          // "devices of the simulated machine"
  std::string_view expected;      // "a whole number from 1 to 64"; completes "expected …"
  std::string_view default_text;  // a value with the same effect as unset; may be empty
  std::string_view help;          // when to set the variable
  // Sets the option; null unless the scope is kSimulatedMachine. kInvalidArgument: the value is
  // wrong; `options` is unchanged.
  Status (*parse)(const EnvironmentVariable& row, std::string_view value, sim::Options& options);
  // kAllocatorSwitch only: the option that the switch sets, and its value when the switch is on.
  std::string_view option = {};
  std::string_view when_on = "True";
};

std::span<const EnvironmentVariable> environment_variables();

// Returns whether the variable sets allocator options.
inline bool is_for_allocators(const EnvironmentVariable& row) {
  return row.scope == VariableScope::kAllocator || row.scope == VariableScope::kAllocatorSwitch;
}

// Returns kInvalidArgument if a set variable starts with ASHLAR_ but is not in the table.
Status check_unknown_variables(const Environment& environment);

// Returns the options of the simulated machine. kInvalidArgument: a value is wrong, or
// check_unknown_variables fails. The message names the variable, the value and what was expected.
Result<sim::Options> sim_options_from(const Environment& environment);

// The driver libraries that the environment selects.
struct Drivers {
  DriverOptions cuda{};
  DriverOptions hip{};
};
Drivers drivers_from(const Environment& environment);

// Returns the back end that PyTorch's device numbers refer to. Errors are those of
// sim_options_from.
Result<std::string> torch_backend_from(const Environment& environment);

// Returns the options of live monitoring; nullopt if monitoring is off. kInvalidArgument: the value
// is wrong, or a port is set without a token. No message contains the token.
Result<std::optional<LiveOptions>> live_options_from(const Environment& environment);

// Returns the default options of allocators. Errors are those of sim_options_from.
Result<AllocatorOptions> allocator_options_from(const Environment& environment);
// Returns the variable that provides the options text; null if no such variable is set.
const EnvironmentVariable* allocator_variable_in(const Environment& environment);
// Returns the variable that sets the option. If no variable sets it, returns the result of
// allocator_variable_in.
const EnvironmentVariable* variable_for_option(std::string_view option,
                                               const Environment& environment);

}  // namespace ashlar
