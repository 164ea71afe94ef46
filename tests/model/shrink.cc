// Cutting a list of operations down to the few that matter.
#include "run.h"

namespace ashlar::model {
namespace {

// Up to the one that disagrees, each block named by the operation that allocated it.
std::vector<Operation> with_targets(const Setting& setting, std::vector<Operation> operations) {
  Run run(setting);
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].target = run.target_of(operations[i]);
    run.step(operations[i]);
    run.check_sums();
    if (!run.disagreement().empty()) operations.resize(i + 1);
  }
  return operations;
}

// Leaves out ever smaller stretches that do not matter.
std::vector<Operation> without_stretches(const Trial& trial, std::vector<Operation> operations) {
  for (size_t chunk = operations.size() / 2; chunk > 0; chunk /= 2) {
    for (size_t at = 0; at + chunk <= operations.size();) {
      std::vector<Operation> candidate = operations;
      const auto begin = candidate.begin() + static_cast<ptrdiff_t>(at);
      candidate.erase(begin, begin + static_cast<ptrdiff_t>(chunk));
      const std::optional<Disagreement> found = trial.run(candidate);
      if (found) candidate.resize(found->step + 1);
      if (found) operations = std::move(candidate);
      if (!found) at += chunk;
    }
  }
  return operations;
}

}  // namespace

std::vector<Operation> shrink(const Setting& setting, std::vector<Operation> operations) {
  const Trial trial{
      [&](std::vector<Operation> all) { return with_targets(setting, std::move(all)); },
      [&](const std::vector<Operation>& some) { return run(setting, some, 1); }};
  return shrink(trial, std::move(operations));
}

std::vector<Operation> shrink(const Trial& trial, std::vector<Operation> operations) {
  operations = trial.name_targets(std::move(operations));
  for (size_t before = SIZE_MAX; operations.size() < before;) {
    before = operations.size();
    operations = without_stretches(trial, std::move(operations));
  }
  return operations;
}

}  // namespace ashlar::model
