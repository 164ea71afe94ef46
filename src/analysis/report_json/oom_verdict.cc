// SPDX-License-Identifier: Apache-2.0
//
// Formats the verdict from the reason and the replayed settings, and groups the memory in use.
#include "analysis/report_json/oom_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analysis/report_json/tune_json.h"
#include "analysis/training/training_analysis.h"
#include "base/units.h"

namespace ashlar {
namespace {

size_t request_bytes(const OomReport& report) {
  return report.requested_bytes.value_or(report.rounded_bytes);
}

std::string limit_text(const OomReport& report) {
  return (report.limit.is_inferred() ? "about " : "") + format_bytes(report.limit.at_least_bytes);
}

bool exceeds_limit(const OomReport& report) {
  return request_bytes(report) > report.largest_limit_bytes();
}

// Assumed minimum memory of a GPU. If an inferred device limit is smaller, the rest of the GPU's
// memory was in use outside of the allocator.
constexpr size_t kSmallestGpuBytes = size_t{2} << 30;

std::string request_too_large_text(const OomReport& report) {
  const bool is_recorded_device = report.limit.is_device_limit && report.limit.is_inferred();
  const char* advice = "Check the shape that was requested.";
  if (is_recorded_device) {
    advice = report.limit.at_least_bytes < kSmallestGpuBytes
                 ? "Other processes hold the GPU's memory, or this process outside of the "
                   "allocator: see nvidia-smi."
                 : "Check the shape that was requested, and whether other processes hold the GPU's "
                   "memory.";
  }
  return fmt::format("The request alone exceeds the limit: {} was requested, the limit is {}. {}",
                     format_bytes(request_bytes(report)), limit_text(report), advice);
}

std::string in_use_text(const OomReport& report) {
  if (exceeds_limit(report)) return request_too_large_text(report);
  const std::string request = format_bytes(request_bytes(report));
  const std::string in_use = fmt::format("{} was in use, and {} more was requested.",
                                         format_bytes(report.live_requested_bytes), request);
  if (report.excess_bytes() == 0) {
    return fmt::format("Full, not fragmented: the limit is {}. {}", limit_text(report), in_use);
  }
  return fmt::format("Full, not fragmented: the run needs at least {}, limit {}. {}{}",
                     format_bytes(report.needed_bytes), limit_text(report),
                     report.live_requested_bytes + request_bytes(report) < report.needed_bytes
                         ? "When it first failed, "
                         : "",
                     in_use);
}

// Formats the free bytes in the cache and, if they are fewer than the request needs, the bytes that
// could still be obtained.
std::string free_text(const OomReport& report, size_t free_bytes) {
  std::string text = format_bytes(free_bytes) + " is free in the cache";
  if (free_bytes < report.rounded_bytes) {
    text += fmt::format(" and {} {}", format_bytes(report.obtainable_bytes()),
                        report.limit.is_device_limit ? "on the device" : "below the limit");
  }
  return text;
}

std::string fragmented_text(const OomReport& report) {
  return fmt::format(
      "Fragmentation, not {}: {}, but the largest free block is {}, and the request needs {} in "
      "one "
      "piece.",
      report.limit.is_device_limit ? "a full GPU" : "a lack of memory",
      free_text(report, report.state.usable_free_bytes),
      format_bytes(report.state.largest_usable_hole_bytes), format_bytes(report.rounded_bytes));
}

std::string other_arenas_text(const OomReport& report) {
  return fmt::format(
      "Free memory in the wrong place: {}, but only {} of it can serve the stream, pool and size "
      "of "
      "the request, which needs {}.",
      free_text(report, report.state.free_bytes), format_bytes(report.state.usable_free_bytes),
      format_bytes(report.rounded_bytes));
}

std::string rounding_text(const OomReport& report) {
  const std::string request = format_bytes(report.rounded_bytes);
  if (report.state.largest_usable_hole_bytes >= report.rounded_bytes) {
    return fmt::format(
        "Free memory that may not be split: a free block of {} is large enough for the request of "
        "{}, but max_split_size_mb reserves it for requests of about its size.",
        format_bytes(report.state.largest_usable_hole_bytes), request);
  }
  if (report.obtainable_bytes() >= report.rounded_bytes) {
    return fmt::format(
        "Full because of rounding: {} could still be obtained, but for the request of {}, the "
        "allocator obtains a segment of {}.",
        format_bytes(report.obtainable_bytes()), request, format_bytes(report.segment_bytes));
  }
  const size_t used = report.state.reserved_bytes - report.state.free_bytes;
  return fmt::format(
      "Full because of rounding: blocks use {}, {} more than was requested; {} is free, and the "
      "request needs {}.",
      format_bytes(used), format_bytes(used - std::min(used, report.live_requested_bytes)),
      format_bytes(report.state.free_bytes), format_bytes(report.segment_bytes));
}

std::string unexplained_text(const OomReport& report) {
  return fmt::format(
      "Not explained by the recording: the request needs {}, the largest free block is {}, and {} "
      "could still be obtained. The history may be incomplete.",
      format_bytes(report.rounded_bytes), format_bytes(report.state.largest_usable_hole_bytes),
      format_bytes(report.obtainable_bytes()));
}

// Returns how memory of the category can be reduced; empty if there is no general advice.
const char* reduction_of(Category category) {
  switch (category) {
    case Category::kParameters:
      return "parameters: a lower precision, or sharding over several GPUs (FSDP)";
    case Category::kGradients:
      return "gradients: call zero_grad() before the forward pass, or shard them (FSDP)";
    case Category::kOptimizerState:
      return "optimizer state: an optimizer with less state or 8-bit state, or sharding (ZeRO, "
             "FSDP)";
    case Category::kActivations:
      return "activations: a smaller batch, mixed precision, or torch.utils.checkpoint";
    case Category::kInputs: return "inputs: a smaller batch, or move them to the GPU later";
    case Category::kForwardTemporaries:
    case Category::kBackwardTemporaries: return "temporaries: a smaller batch, or mixed precision";
    case Category::kOptimizerTemporaries:
      return "optimizer temporaries: foreach=False or fused=True";
    case Category::kKept:
      return "kept results: detach() them and move them to the CPU; see `ashlar leaks`";
    case Category::kWorkspaces:
    case Category::kUnknown: return "";
  }
  return "";
}

std::string reason_text(const OomReport& report) {
  switch (report.reason) {
    case OomReason::kInUse: return in_use_text(report);
    case OomReason::kFragmented: return fragmented_text(report);
    case OomReason::kOtherArenas: return other_arenas_text(report);
    case OomReason::kRounding: return rounding_text(report);
    case OomReason::kUnexplained: return unexplained_text(report);
  }
  return {};
}

// Returns by how much the request or the memory in use must shrink, and how to shrink it; empty if
// the recorded state had room for the request.
std::string reduction_text(const DeviceRecording& run, const OomReport& report) {
  if (exceeds_limit(report)) {
    return fmt::format("Request at least {} less.",
                       format_bytes(request_bytes(report) - report.largest_limit_bytes()));
  }
  const std::string missing = format_bytes(missing_bytes(report));
  if (report.reason == OomReason::kUnexplained || missing_bytes(report) == 0) return {};
  std::string text = report.excess_bytes() > 0
                         ? fmt::format("Use at least {} less", missing)
                         : fmt::format("The request would have fit with {} less reserved", missing);
  // Changes to source lines can save at most the memory in use.
  if (missing_bytes(report) > report.live_requested_bytes) return text + ".";
  text += report.excess_bytes() > 0 ? " at the lines that hold the most."
                                    : "; see the lines that hold the most.";
  const CategoryBytes bytes = categories_at_failure(run, report);
  const char* reduction = "";  // of the largest category for which there is advice
  size_t most = 0;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    const char* candidate = reduction_of(static_cast<Category>(i));
    if (bytes[i] <= most || *candidate == '\0') continue;
    most = bytes[i];
    reduction = candidate;
  }
  return *reduction == '\0' ? text : fmt::format("{} To reduce {}.", text, reduction);
}

std::string withheld_text(const DeviceRecording& run, const OomReport& report) {
  if (report.limit.varies) {
    return "Settings cannot be compared: the memory limit changed during the run.";
  }
  if (!report.is_reproduced) {
    return run.timeline().initial.reserved_bytes > 0
               ? "Settings cannot be compared: the beginning of the history is missing, and a "
                 "replay of the rest does not fail at this request."
               : "Settings cannot be compared: a replay with the recorded settings does not fail "
                 "at this request.";
  }
  if (report.has_other_excess()) {
    return fmt::format(
        "Settings cannot be compared: another request failed that needs {} in total, more than the "
        "limit.",
        format_bytes(report.other_needed_bytes));
  }
  return fmt::format(
      "Settings cannot be compared: a replay cannot start from the {} that were reserved when the "
      "history began.",
      format_bytes(run.timeline().initial.reserved_bytes));
}

void add_paged(const DeviceRecording& run, const OomReport& report,
               std::vector<std::string>& remedies) {
  const TuneResult& settings = report.settings;
  if (settings.allocator_kind != RecordedAllocator::kPytorch) return;
  if (!settings.paged) {
    const bool is_compared =
        std::any_of(settings.trials.begin(), settings.trials.end(), [](const Trial& trial) {
          return trial.setting.options.engine == EngineKind::kPaged && trial.is_comparable;
        });
    if (is_compared) remedies.push_back("Ashlar's paged engine also runs out of memory.");
    return;
  }
  remedies.push_back(fmt::format(
      "Ashlar's paged engine completes{} with {} reserved. {}", settings.best ? ", too," : "",
      format_bytes(settings.trials[*settings.paged].peak_reserved_bytes), paged_usage(run)));
}

}  // namespace

std::vector<OomHolder> holders_at_failure(const DeviceRecording& run, const OomReport& report,
                                          StackDetail detail) {
  const std::vector<uint32_t>& numbers = run.recording().stack_numbers(detail);
  const Categories& categories = training_of(run).categories;
  std::map<uint32_t, OomHolder> by_stack;
  std::map<uint32_t, CategoryBytes> bytes;
  for (const uint32_t id : report.live) {
    const Allocation& allocation = run.allocations().all[id];
    const uint32_t stack = stack_number(numbers, allocation);
    OomHolder& holder = by_stack[stack];
    holder.stack = stack;
    holder.bytes += allocation.bytes;
    ++holder.count;
    bytes[stack][static_cast<size_t>(categories.of(id))] += allocation.bytes;
  }
  std::vector<OomHolder> holders;
  for (auto& [stack, holder] : by_stack) {
    const CategoryBytes& each = bytes[stack];
    holder.category = static_cast<Category>(
        static_cast<size_t>(std::max_element(each.begin(), each.end()) - each.begin()));
    holders.push_back(holder);
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const OomHolder& a, const OomHolder& b) { return a.bytes > b.bytes; });
  return holders;
}

CategoryBytes categories_at_failure(const DeviceRecording& run, const OomReport& report) {
  const Categories& categories = training_of(run).categories;
  CategoryBytes bytes{};
  for (const uint32_t id : report.live) {
    bytes[static_cast<size_t>(categories.of(id))] += run.allocations().all[id].bytes;
  }
  return bytes;
}

size_t missing_bytes(const OomReport& report) {
  if (report.excess_bytes() > 0) return report.excess_bytes();
  const size_t obtainable = report.obtainable_bytes();
  return report.segment_bytes - std::min(report.segment_bytes, obtainable);
}

const char* key_of(OomReason reason) {
  switch (reason) {
    case OomReason::kInUse: return "in_use";
    case OomReason::kFragmented: return "fragmented";
    case OomReason::kOtherArenas: return "other_arenas";
    case OomReason::kRounding: return "rounding";
    case OomReason::kUnexplained: return "unexplained";
  }
  return "";
}

std::string verdict_text(const OomReport& report) {
  const std::string text = reason_text(report);
  return report.limit.varies
             ? text +
                   " The memory limit changed during the run; these figures are those at the "
                   "first failure."
             : text;
}

std::vector<std::string> remedies(const DeviceRecording& run, const OomReport& report) {
  if (report.excess_bytes() > 0) {
    return {"No setting and no engine helps. " + reduction_text(run, report)};
  }
  const std::string reduction = reduction_text(run, report);
  const TuneResult& settings = report.settings;
  std::vector<std::string> lines;
  if (!report.can_compare()) {
    lines.push_back(withheld_text(run, report));
    if (!reduction.empty()) lines.push_back(reduction);
    return lines;
  }
  if (settings.best) {
    const Trial& best = settings.trials[*settings.best];
    lines.push_back(fmt::format("{} completes with {} reserved, according to a replay.",
                                shell_assignment(best.setting, run),
                                format_bytes(best.peak_reserved_bytes)));
  } else {
    lines.push_back(
        fmt::format("None of {} completes, although the requests in use at the same time sum up "
                    "to {} only.",
                    settings.allocator_kind == RecordedAllocator::kPytorch ? "PyTorch's settings"
                                                                           : "the settings",
                    format_bytes(report.needed_bytes)));
  }
  add_paged(run, report, lines);
  if (!settings.best && !reduction.empty()) lines.push_back(reduction);
  return lines;
}

}  // namespace ashlar
