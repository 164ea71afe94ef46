// SPDX-License-Identifier: Apache-2.0
//
// Formats one section per proposal.
#include "cli/recording/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cli/recording/recorded_run.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

// Quotes a word of a command for the shell, if it needs quotes.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& each : words) text += (text.empty() ? "" : " ") + shell_word(each);
  return text;
}

std::string price_of(const WhatIfResult& prediction) {
  size_t recomputed = 0;
  size_t offloaded = 0;
  for (const EditOutcome& each : prediction.edits) {
    recomputed += each.effect.recomputed_bytes_per_iteration;
    offloaded += each.effect.offloaded_bytes_per_iteration;
  }
  std::string price;
  if (recomputed > 0) price = fmt::format("recomputes {} per iteration", format_bytes(recomputed));
  if (offloaded > 0) {
    price += fmt::format("{}moves {} to the host and back per iteration", price.empty() ? "" : ", ",
                         format_bytes(offloaded));
  }
  return price.empty() ? "nothing" : price;
}

std::string peaks_of(const WhatIfPeaks& peaks) {
  return fmt::format("{} reserved, {} requested", format_bytes(peaks.reserved.bytes),
                     format_bytes(peaks.requested.bytes));
}

void add_changes(const DeviceRecording& run, const FitProposal& proposal, Table& table) {
  const char* label = "change";
  const auto add = [&](const std::string& line) {
    table.add({label, line});
    label = "";
  };
  if (proposal.setting) add(printable(setting_change_text(run, *proposal.setting)));
  for (const FitEdit& each : proposal.edits) {
    add(printable(change_text(each)));
    if (!each.function) continue;
    for (const Frame& caller : each.function->callers) {
      add("  called by " + stack_lines({&caller}, 1).front());
    }
  }
}

std::string proposal_text(const DeviceRecording& run, const FitProposal& proposal) {
  Table table({{}, {}});
  add_changes(run, proposal, table);
  table.add({"costs", price_of(proposal.prediction)});
  table.add({"peaks", peaks_of(proposal.prediction.after)});
  return table.to_text();
}

std::string nothing_fits_text(const DeviceRecording& run, const FitResult& result) {
  const FitProposal& closest = *result.closest;
  const size_t needed = closest.prediction.after.requested.bytes;
  std::string text = paragraph(fmt::format(
      "Nothing fits {}: no setting, no engine and no edit of {} that the recording identifies.",
      format_bytes(result.limit_bytes),
      count_text(result.candidate_count, "function", "functions")));
  if (closest.edits.empty()) {
    text += paragraph(fmt::format("No edit comes much closer. The run requests {}, {} too much.",
                                  format_bytes(needed),
                                  format_bytes(needed - std::min(needed, result.limit_bytes))));
    return text;
  }
  const std::string gap =
      needed > result.limit_bytes
          ? fmt::format("{} too much", format_bytes(needed - result.limit_bytes))
          : "which does not fit only because of fragmentation";
  return text + "\n" + bold("Closest") + "\n" + proposal_text(run, closest) +
         paragraph(fmt::format("The run then requests {}, {}.", format_bytes(needed), gap));
}

}  // namespace

std::string fit_as_text(const DeviceRecording& run, const FitResult& result,
                        const FitArguments& arguments) {
  std::string text = title_of(run) + "\n";
  if (result.fits_as_recorded) {
    return text + paragraph(fmt::format("The recorded run fits {}; no change is needed.",
                                        format_bytes(result.limit_bytes)));
  }
  if (result.closest) text += nothing_fits_text(run, result);
  for (size_t i = 0; i < result.proposals.size(); ++i) {
    const FitProposal& each = result.proposals[i];
    if (i == 0) {
      text += fmt::format("To fit {} instead of {}\n", format_bytes(result.limit_bytes),
                          peaks_of(each.prediction.before));
    }
    text += "\n" + bold(fmt::format("Proposal {}", i + 1)) + "\n" + proposal_text(run, each) +
            "  verify  " + printable(command_text(verifying_command(run, each, arguments))) + "\n";
  }
  const std::vector<FitProposal>& all = result.proposals;
  const WhatIfResult& shown = all.empty() ? result.closest->prediction : all.front().prediction;
  std::vector<std::string> notes = shown.warnings;
  if (!result.is_complete) {
    notes.emplace_back(
        "the search stopped early, because the recording is long; there may be "
        "cheaper edits");
  }
  const bool has_functions = std::any_of(all.begin(), all.end(), [](const FitProposal& each) {
    return std::any_of(each.edits.begin(), each.edits.end(),
                       [](const FitEdit& edit) { return edit.function.has_value(); });
  });
  if (has_functions && arguments.sources.empty()) {
    notes.emplace_back(
        "without --source, functions are identified by their recorded lines; check "
        "that these lines are one function");
  }
  if (!notes.empty()) text += "\n";
  for (const std::string& each : notes) text += paragraph("Note: " + each + ".");
  return text;
}

}  // namespace ashlar
