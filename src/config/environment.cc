// SPDX-License-Identifier: Apache-2.0
//
// The table of environment variables and the functions that parse their values. A new variable is
// one row of kVariables and, for the simulated machine, one parse function.
// The file is long because it has the table of all variables.
#include "config/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "config/allocator_options.h"
#include "config/nearest_name.h"
#include "config/numbers.h"

namespace ashlar {
namespace {

Result<AllocatorOptions> options_from_switches(const Environment& environment);
Status parse_devices(const EnvironmentVariable& row, std::string_view value, sim::Options& options);
Status parse_capacity(const EnvironmentVariable& row, std::string_view value,
                      sim::Options& options);
Status parse_seed(const EnvironmentVariable& row, std::string_view value, sim::Options& options);
Status parse_backing(const EnvironmentVariable& row, std::string_view value, sim::Options& options);

constexpr std::string_view kPrefix = "ASHLAR_";
constexpr std::string_view kOwnSettings = "ASHLAR_ALLOC_CONF";
constexpr std::string_view kCudaDriver = "ASHLAR_CUDA_DRIVER";
constexpr std::string_view kHipDriver = "ASHLAR_HIP_DRIVER";
constexpr std::string_view kLive = "ASHLAR_LIVE";
constexpr std::string_view kLiveToken = "ASHLAR_LIVE_TOKEN";
constexpr std::string_view kTorchBackend = "ASHLAR_TORCH_BACKEND";

constexpr EnvironmentVariable allocator_variable(std::string_view name, std::string_view help) {
  return {
      .name = name,
      .scope = VariableScope::kAllocator,
      .sets = "settings of allocators",
      .expected = "options as ashlar config lists them, such as expandable_segments:True",
      .default_text = "",
      .help = help,
      .parse = nullptr,
      .option = {},
  };
}

constexpr EnvironmentVariable driver_variable(std::string_view name, std::string_view sets) {
  return {
      .name = name,
      .scope = VariableScope::kDriver,
      .sets = sets,
      .expected = "a name that the system's loader finds, or a path",
      .default_text = "",
      .help = "For drivers in unusual locations, and for stand-ins in tests.",
      .parse = nullptr,
      .option = {},
  };
}

struct LaunchVariableText {
  std::string_view sets;
  std::string_view expected;
  std::string_view default_text;
  std::string_view help;
};

constexpr EnvironmentVariable launch_variable(std::string_view name,
                                              const LaunchVariableText& texts) {
  return {
      .name = name,
      .scope = VariableScope::kLaunch,
      .sets = texts.sets,
      .expected = texts.expected,
      .default_text = texts.default_text,
      .help = texts.help,
      .parse = nullptr,
      .option = {},
  };
}

constexpr EnvironmentVariable shmem_variable(std::string_view name,
                                             const LaunchVariableText& texts) {
  return {
      .name = name,
      .scope = VariableScope::kShmem,
      .sets = texts.sets,
      .expected = texts.expected,
      .default_text = texts.default_text,
      .help = texts.help,
      .parse = nullptr,
      .option = {},
  };
}

constexpr EnvironmentVariable no_caching_variable(std::string_view name) {
  return {
      .name = name,
      .scope = VariableScope::kAllocatorSwitch,
      .sets = "option caching",
      .expected = "1, 0, True or False",
      .default_text = "0",
      .help =
          "A PyTorch variable: 1 disables caching. Settings that name the option take precedence.",
      .parse = nullptr,
      .option = "caching",
      .when_on = "False",
  };
}

constexpr std::array kVariables = {
    EnvironmentVariable{
        .name = "ASHLAR_SIM_DEVICES",
        .scope = VariableScope::kSimulatedMachine,
        .sets = "devices of the simulated machine",
        .expected = "a whole number from 1 to 64",
        .default_text = "2",
        .help = "Number of accelerators. All can access each other's memory.",
        .parse = parse_devices,
        .option = {},
    },
    EnvironmentVariable{
        .name = "ASHLAR_SIM_CAPACITY",
        .scope = VariableScope::kSimulatedMachine,
        .sets = "memory of each simulated device",
        .expected = "a number of bytes with an optional unit, such as 80GiB",
        .default_text = "141GiB",
        .help = "2 MiB to 64 TiB. Memory that is never written costs the host nothing.",
        .parse = parse_capacity,
        .option = {},
    },
    EnvironmentVariable{
        .name = "ASHLAR_SIM_SEED",
        .scope = VariableScope::kSimulatedMachine,
        .sets = "seed for the order in which streams advance",
        .expected = "a whole number from 0 to 18446744073709551615",
        .default_text = "",
        .help = "Makes runs reproducible. Unset: each stream runs on its own thread.",
        .parse = parse_seed,
        .option = {},
    },
    EnvironmentVariable{
        .name = "ASHLAR_SIM_BACKING",
        .scope = VariableScope::kSimulatedMachine,
        .sets = "backing of device memory",
        .expected = "memory or bookkeeping",
        .default_text = "memory",
        .help = "bookkeeping: addresses have no memory; for accounting only.",
        .parse = parse_backing,
        .option = {},
    },
    driver_variable(kCudaDriver, "library of the CUDA driver"),
    driver_variable(kHipDriver, "library of the HIP driver"),
    allocator_variable(kOwnSettings, "Takes precedence over PyTorch's variables."),
    allocator_variable("PYTORCH_CUDA_ALLOC_CONF",
                       "A PyTorch variable; read if none of the variables above is set."),
    allocator_variable("PYTORCH_HIP_ALLOC_CONF",
                       "A PyTorch variable; read if none of the variables above is set."),
    allocator_variable("PYTORCH_ALLOC_CONF",
                       "A PyTorch variable; read if none of the variables above is set."),
    EnvironmentVariable{
        .name = "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC",
        .scope = VariableScope::kAllocatorSwitch,
        .sets = "option expandable_segments_ipc",
        .expected = "1, 0, True or False",
        .default_text = "0",
        .help = "A PyTorch variable; on by default in PyTorch. Settings that name the option take "
                "precedence.",
        .parse = nullptr,
        .option = "expandable_segments_ipc",
    },
    no_caching_variable("PYTORCH_NO_CUDA_MEMORY_CACHING"),
    no_caching_variable("PYTORCH_NO_HIP_MEMORY_CACHING"),
    EnvironmentVariable{
        .name = kLive,
        .scope = VariableScope::kLiveMonitoring,
        .sets = "live monitoring by ashlar top and ashlar view --live",
        .expected = "off, on, or a port of 127.0.0.1 from 1 to 65535 for Prometheus",
        .default_text = "off",
        .help = "Accessible to processes of the same user; at the port, to clients with "
                "ASHLAR_LIVE_TOKEN.",
        .parse = nullptr,
        .option = {},
    },
    EnvironmentVariable{
        .name = kLiveToken,
        .scope = VariableScope::kLiveMonitoring,
        .sets = "access token for the port of ASHLAR_LIVE",
        .expected = "16 to 128 letters, digits, - and _",
        .default_text = "",
        .help = "Required with a port, because a generated token would be unknown to clients.",
        .parse = nullptr,
        .option = {},
    },
    EnvironmentVariable{
        .name = kTorchBackend,
        .scope = VariableScope::kTorch,
        .sets = "back end of the PyTorch plug-in",
        .expected = "cuda, hip or sim",
        .default_text = "cuda",
        .help = "sim: try the plug-in without a GPU or PyTorch.",
        .parse = nullptr,
        .option = {},
    },
    EnvironmentVariable{
        .name = "ASHLAR_TORCH_LIBRARY",
        .scope = VariableScope::kTorch,
        .sets = "library that the Python package ashlar.torch loads",
        .expected = "the path of libashlar_torch.so",
        .default_text = "",
        .help = "Unset: searches the package's folder, the build folder and the system's library "
                "path.",
        .parse = nullptr,
        .option = {},
    },
    EnvironmentVariable{
        .name = "ASHLAR_TORCH_CACHE",
        .scope = VariableScope::kTorch,
        .sets = "folder for the native allocator that ashlar.torch compiles",
        .expected = "the path of a folder that only the user can write to",
        .default_text = "",
        .help = "Unset: ashlar in XDG_CACHE_HOME, or in ~/.cache.",
        .parse = nullptr,
        .option = {},
    },
    launch_variable("ASHLAR_RANK",
                    {"number of this rank", "a whole number below ASHLAR_WORLD_SIZE", "",
                     "Set by ashlar run. Unset: OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, or "
                     "PMIx."}),
    launch_variable("ASHLAR_WORLD_SIZE",
                    {"number of ranks", "a whole number from 1 to 65536", "",
                     "Unset: OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS, or PMIx."}),
    launch_variable("ASHLAR_STORE",
                    {"rendezvous store of the ranks", "a folder or tcp://host:port", "",
                     "Unset: PMIx. With tcp, rank 0 serves the store unless "
                     "another process does."}),
    launch_variable("ASHLAR_STORE_TOKEN",
                    {"token of a tcp store", "16 to 256 characters without spaces", "",
                     "The same on all ranks. Other users cannot read a process's variables."}),
    launch_variable("ASHLAR_STORE_TOKEN_FILE", {"file with the token of a tcp store",
                                                "the path of a file that only the user can access",
                                                "", "Read if ASHLAR_STORE_TOKEN is unset."}),
    launch_variable("ASHLAR_JOB", {"name of the run", "a name without slashes", "",
                                   "Concurrent runs on one store need different names. Unset: "
                                   "the launcher's name of the job."}),
    shmem_variable("ASHLAR_SHMEM_RANK",
                   {"number of this PE", "a whole number below ASHLAR_SHMEM_SIZE", "0",
                    "Set by ashlar run. Unset: ASHLAR_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK or "
                    "SLURM_PROCID."}),
    shmem_variable("ASHLAR_SHMEM_SIZE",
                   {"number of PEs", "a whole number from 1 to 65536", "1",
                    "Unset: ASHLAR_WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE or SLURM_NTASKS."}),
    shmem_variable("ASHLAR_SHMEM_STORE",
                   {"rendezvous store of the PEs",
                    "a folder, redis://[user:password@]host[:port][/database] or redis+unix://path",
                    "", "Required with more than one PE."}),
    shmem_variable("ASHLAR_SHMEM_JOB", {"name of the run", "a name without slashes", "shmem",
                                        "Concurrent runs on one store need different names."}),
    shmem_variable("ASHLAR_SHMEM_TRANSPORT",
                   {"transport to PEs on other machines", "ucx or none", "",
                    "Unset: ucx with a Redis store. UCX_TLS and UCX_NET_DEVICES select networks."}),
    shmem_variable(
        "ASHLAR_SHMEM_MACHINE",
        {"machine name that this PE reports", "up to 64 characters", "",
         "For tests: PEs with different names communicate as if on different machines."}),
    shmem_variable("ASHLAR_SHMEM_TIMEOUT_MS",
                   {"timeout of shmem_init", "milliseconds; 0 means no timeout", "60000",
                    "No other call has a timeout."}),
    shmem_variable(
        "SHMEM_SYMMETRIC_SIZE",
        {"symmetric heap of each PE", "a number of bytes with an optional unit, such as 512M",
         "64M", "Defined by OpenSHMEM. Memory that is never written costs nothing."}),
    shmem_variable("SHMEM_VERSION", {"whether shmem_init prints the version", "any value", "",
                                     "Defined by OpenSHMEM. PE 0 prints."}),
    shmem_variable("SHMEM_INFO", {"whether shmem_init prints these variables", "any value", "",
                                  "Defined by OpenSHMEM. PE 0 prints."}),
    shmem_variable("SHMEM_DEBUG", {"whether shmem_init prints the PE's memory", "any value", "",
                                   "Defined by OpenSHMEM. Every PE prints to standard error."}),
};

}  // namespace

Result<sim::Options> sim_options_from(const Environment& environment) {
  if (Status status = check_unknown_variables(environment); !status.ok()) return status;
  sim::Options options;
  for (const EnvironmentVariable& row : kVariables) {
    const std::optional<std::string_view> value = environment.value(row.name);
    if (!value || row.scope != VariableScope::kSimulatedMachine) continue;
    if (Status status = row.parse(row, *value, options); !status.ok()) return status;
  }
  return options;
}

Drivers drivers_from(const Environment& environment) {
  Drivers named;
  named.cuda.library = environment.value(kCudaDriver).value_or("");
  named.hip.library = environment.value(kHipDriver).value_or("");
  return named;
}

Result<std::string> torch_backend_from(const Environment& environment) {
  if (Status status = check_unknown_variables(environment); !status.ok()) return status;
  const std::string_view value = environment.value(kTorchBackend).value_or("cuda");
  if (value == "cuda" || value == "hip" || value == "sim") return std::string(value);
  return Status::invalid_argument(
      text(kTorchBackend, ": \"", value, "\" is not a back end (expected cuda, hip or sim)"));
}

Result<std::optional<LiveOptions>> live_options_from(const Environment& environment) {
  const std::string_view value = environment.value(kLive).value_or("off");
  if (value == "off") return std::optional<LiveOptions>();
  LiveOptions options;
  if (value == "on") return std::optional(options);
  const std::optional<uint64_t> port = parse_whole_number(value);
  if (!port || *port < 1 || *port > 65535) {
    return Status::invalid_argument(
        text(kLive, ": \"", value,
             "\" is not understood (expected off, on, or a port from 1 to 65535)"));
  }
  options.port = static_cast<uint16_t>(*port);
  options.token = environment.value(kLiveToken).value_or("");
  if (options.token.empty()) {
    return Status::invalid_argument(text(kLive, " is a port and requires ", kLiveToken,
                                         " (expected 16 to 128 letters, digits, - and _)"));
  }
  return std::optional(std::move(options));
}

Result<AllocatorOptions> allocator_options_from(const Environment& environment) {
  if (Status status = check_unknown_variables(environment); !status.ok()) return status;
  const Result<AllocatorOptions> base = options_from_switches(environment);
  const EnvironmentVariable* row = allocator_variable_in(environment);
  if (!base.ok() || row == nullptr) return base;
  Result<AllocatorOptions> options = parse_allocator_options(*environment.value(row->name), *base);
  if (options.ok()) return options;
  // A PyTorch variable may contain options that only PyTorch has, so the message suggests
  // ASHLAR_ALLOC_CONF.
  const std::string_view advice =
      row->name == kOwnSettings ? "" : "; set ASHLAR_ALLOC_CONF to override it";
  return Status::invalid_argument(text(row->name, ": ", options.status().message(), advice));
}

const EnvironmentVariable* allocator_variable_in(const Environment& environment) {
  const auto found =
      std::find_if(kVariables.begin(), kVariables.end(), [&](const EnvironmentVariable& row) {
        return row.scope == VariableScope::kAllocator && environment.value(row.name).has_value();
      });
  return found == kVariables.end() ? nullptr : &*found;
}

// A kAllocator variable that names the option takes precedence over a switch, even if it sets the
// option to its default.
const EnvironmentVariable* variable_for_option(std::string_view option,
                                               const Environment& environment) {
  const EnvironmentVariable* text_variable = allocator_variable_in(environment);
  if (text_variable != nullptr) {
    const Result<std::vector<OptionAssignment>> given =
        parse_option_text(*environment.value(text_variable->name));
    const auto sets_it = [&](const OptionAssignment& each) { return each.name == option; };
    if (given.ok() && std::any_of(given->begin(), given->end(), sets_it)) return text_variable;
  }
  const auto found =
      std::find_if(kVariables.begin(), kVariables.end(), [&](const EnvironmentVariable& row) {
        return row.scope == VariableScope::kAllocatorSwitch && row.option == option &&
               environment.value(row.name).has_value();
      });
  return found == kVariables.end() ? text_variable : &*found;
}

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

Status check_unknown_variables(const Environment& environment) {
  std::vector<std::string_view> known;
  for (const EnvironmentVariable& row : kVariables) {
    if (row.name.starts_with(kPrefix)) known.push_back(row.name);
  }

  for (const auto& [name, value] : environment.values()) {
    if (!name.starts_with(kPrefix)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::optional<std::string_view> suggestion = nearest_name(name, known);
    if (suggestion)
      return Status::invalid_argument(
          text(name, ": no such variable; did you mean ", *suggestion, "?"));
    std::string list;
    for (std::string_view each : known) list += text(list.empty() ? "" : ", ", each);
    return Status::invalid_argument(text(name, ": no such variable (expected one of ", list,
                                         "); unset it, since ", kPrefix,
                                         "* is Ashlar's own prefix"));
  }
  return Status();
}

Environment::Environment(Values values) : values_(std::move(values)) {
  std::erase_if(values_, [](const auto& variable) { return variable.second.empty(); });
}

Environment Environment::of_process() {
  Values values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const size_t equals = variable.find('=');
    if (equals == std::string_view::npos) continue;
    // If a name occurs several times, the first entry applies, as for getenv(3).
    values.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::optional<std::string_view> Environment::value(std::string_view variable) const {
  const auto found = values_.find(variable);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

namespace {

// Returns an error such as `ASHLAR_SIM_CAPACITY: "12x" is not a size (expected …)`.
Status wrong_value(const EnvironmentVariable& row, std::string_view value, std::string_view problem,
                   std::string_view expected) {
  return Status::invalid_argument(
      text(row.name, ": \"", value, "\" ", problem, " (expected ", expected, ")"));
}

// Returns the default options with the switches applied.
Result<AllocatorOptions> options_from_switches(const Environment& environment) {
  AllocatorOptions options;
  for (const EnvironmentVariable& row : kVariables) {
    const std::optional<std::string_view> value = environment.value(row.name);
    if (!value || row.scope != VariableScope::kAllocatorSwitch) continue;
    const bool is_on = *value == "1" || *value == "True";
    if (!is_on && *value != "0" && *value != "False") {
      return wrong_value(row, *value, "is not a switch", row.expected);
    }
    Result<AllocatorOptions> changed = parse_allocator_options(
        text(row.option, ":", is_on == (row.when_on == "True") ? "True" : "False"), options);
    if (!changed.ok()) return changed;
    options = *std::move(changed);
  }
  return options;
}

Status parse_devices(const EnvironmentVariable& row, std::string_view value,
                     sim::Options& options) {
  const std::optional<uint64_t> count = parse_whole_number(value);
  if (!count || *count < 1 || *count > sim::kMaxDeviceCount) {
    return wrong_value(row, value, "is not a number of devices", row.expected);
  }
  options.device_count = *count;
  return Status();
}

Status parse_capacity(const EnvironmentVariable& row, std::string_view value,
                      sim::Options& options) {
  const Result<size_t> bytes = parse_bytes(value);
  if (!bytes.ok()) return wrong_value(row, value, "is not a size", row.expected);
  const size_t min_bytes = options.granularity_bytes;
  if (*bytes < min_bytes || *bytes > sim::kMaxCapacityBytes) {
    const std::string range =
        text(format_bytes(min_bytes), " to ", format_bytes(sim::kMaxCapacityBytes));
    return wrong_value(row, value, *bytes < min_bytes ? "is too small" : "is too large", range);
  }
  options.capacity_bytes = *bytes;
  return Status();
}

Status parse_seed(const EnvironmentVariable& row, std::string_view value, sim::Options& options) {
  const std::optional<uint64_t> seed = parse_whole_number(value);
  if (!seed) return wrong_value(row, value, "is not a seed", row.expected);
  options.seed = *seed;
  return Status();
}

Status parse_backing(const EnvironmentVariable& row, std::string_view value,
                     sim::Options& options) {
  if (value == "memory") {
    options.backing = sim::Backing::kMemory;
  } else if (value == "bookkeeping") {
    options.backing = sim::Backing::kBookkeeping;
  } else {
    return wrong_value(row, value, "is not a kind of backing", row.expected);
  }
  return Status();
}

}  // namespace
}  // namespace ashlar
