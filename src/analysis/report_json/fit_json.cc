// SPDX-License-Identifier: Apache-2.0
//
// Converts proposals. Settings are named as `ashlar tune` names them.
#include "analysis/report_json/fit_json.h"

#include <nlohmann/json.hpp>

#include "analysis/report_json/tune_json.h"
#include "analysis/report_json/what_if_json.h"
#include "base/text.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

std::string conf_of(const DeviceRecording& run, const Setting& setting) {
  return format_setting(setting, recorded_allocator_of(run.options()));
}

Json fit_edit_json(const FitEdit& edit) {
  Json callers = Json::array();
  if (edit.function) {
    for (const Frame& each : edit.function->callers) {
      callers.push_back({{"file", each.filename}, {"line", each.line}, {"function", each.name}});
    }
  }
  return {{"edit", edit.edit.text},
          {"function", edit.function ? Json(edit.function->name) : Json()},
          {"change", change_text(edit)},
          {"callers", std::move(callers)}};
}

Json proposal_json(const DeviceRecording& run, const FitProposal& proposal,
                   const FitArguments& arguments, bool fits) {
  Json edits = Json::array();
  for (const FitEdit& each : proposal.edits) edits.push_back(fit_edit_json(each));
  size_t recomputed = 0;
  size_t offloaded = 0;
  for (const EditOutcome& each : proposal.prediction.edits) {
    recomputed += each.effect.recomputed_bytes_per_iteration;
    offloaded += each.effect.offloaded_bytes_per_iteration;
  }
  Json json = {{"edits", std::move(edits)}, {"setting", Json()}, {"setting_change", Json()}};
  if (proposal.setting) {
    json["setting"] = conf_of(run, *proposal.setting);
    json["setting_change"] = setting_change_text(run, *proposal.setting);
  }
  const Json prediction = what_if_json(run, proposal.prediction);
  json["recomputed_bytes_per_iteration"] = recomputed;
  json["offloaded_bytes_per_iteration"] = offloaded;
  for (const char* key : {"before", "after", "warnings"}) json[key] = prediction[key];
  json["verify"] = fits ? Json(verifying_command(run, proposal, arguments)) : Json();
  return json;
}

}  // namespace

std::string change_text(const FitEdit& edit) {
  if (edit.edit.kind == EditKind::kSetToNone) return "zero_grad(set_to_none=True)";
  const std::string& selector = edit.edit.selector.text;
  const std::string name = edit.function ? edit.function->name : "";
  const std::string function =
      selector.ends_with(":" + name) || name.empty() ? selector : text(name, " (", selector, ")");
  if (edit.edit.kind == EditKind::kOffload) {
    return text("call ", function,
                " in \"with torch.autograd.graph.save_on_cpu(pin_memory=True):\"");
  }
  return text("call ", function,
              " through torch.utils.checkpoint.checkpoint(..., use_reentrant=False)");
}

std::string setting_change_text(const DeviceRecording& run, const Setting& setting) {
  if (can_set(setting, recorded_allocator_of(run.options()))) return shell_assignment(setting, run);
  const std::string conf =
      setting.conf.empty() ? "" : text(", with ASHLAR_ALLOC_CONF=\"", setting.conf, "\"");
  return text("Ashlar's ", engine_name(setting.options), " engine", conf, ". ", paged_usage(run));
}

std::vector<std::string> verifying_command(const DeviceRecording& run, const FitProposal& proposal,
                                           const FitArguments& arguments) {
  std::vector<std::string> command = {"ashlar", "whatif", run.name()};
  for (const FitEdit& each : proposal.edits) {
    command.emplace_back(option_of(each.edit.kind));
    if (has_value(each.edit.kind)) command.push_back(each.edit.selector.text);
  }
  if (proposal.setting) {
    command.insert(command.end(), {"--conf", conf_of(run, *proposal.setting)});
  }
  command.insert(command.end(), {"--capacity", arguments.limit});
  for (const std::string& each : arguments.sources) {
    command.insert(command.end(), {"--source", each});
  }
  if (arguments.device) command.insert(command.end(), {"--device", text(*arguments.device)});
  return command;
}

Json fit_json(const DeviceRecording& run, const FitResult& result, const FitArguments& arguments) {
  Json proposals = Json::array();
  for (const FitProposal& each : result.proposals) {
    proposals.push_back(proposal_json(run, each, arguments, true));
  }
  Json json = {{"file", run.name()},
               {"device", run.device().value()},
               {"limit_bytes", result.limit_bytes},
               {"fits_as_recorded", result.fits_as_recorded},
               {"proposals", std::move(proposals)},
               {"closest", Json()},
               {"candidates", result.candidate_count},
               {"edits_tried", result.tried_edit_count},
               {"replays", result.replay_count},
               {"is_complete", result.is_complete}};
  if (result.closest) json["closest"] = proposal_json(run, *result.closest, arguments, false);
  return json;
}

}  // namespace ashlar
