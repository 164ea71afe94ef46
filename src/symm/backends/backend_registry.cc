// SPDX-License-Identifier: Apache-2.0
//
// Back ends stay registered when another back end is selected, so that the selection can be
// reverted.
#include "symm/backends/backend_registry.h"

#include "base/text.h"

namespace ashlar::symm {

Status Backend::fabric_availability() const {
  return Status::unsupported(text("memory of back end ", name(), " has no fabric handles"));
}

Result<FabricHandle> Backend::export_fabric(const MappedMemory& /*memory*/) {
  return fabric_availability();
}

Result<std::shared_ptr<MappedMemory>> Backend::import_fabric(const FabricHandle& /*handle*/,
                                                             size_t /*bytes*/) {
  return fabric_availability();
}

BackendRegistry::BackendRegistry() {
  std::unique_ptr<Backend> host = make_host_backend();
  MutexLock lock(mutex_);
  selected_ = host->name();
  backends_.emplace(selected_, std::move(host));
}

Status BackendRegistry::add(std::unique_ptr<Backend> backend) {
  MutexLock lock(mutex_);
  const std::string name(backend->name());
  if (!backends_.try_emplace(name, std::move(backend)).second) {
    return Status::invalid_argument(text("a back end named ", name, " is already registered"));
  }
  return {};
}

Status BackendRegistry::select(std::string_view name) {
  MutexLock lock(mutex_);
  if (!backends_.contains(name)) {
    std::string known;
    for (const auto& each : backends_) known += text(known.empty() ? "" : ", ", each.first);
    return Status::invalid_argument(
        text("unknown back end of symmetric memory: ", name, " (available: ", known, ")"));
  }
  if (name == selected_) return {};
  if (is_used_) {
    return Status::invalid_argument(text("cannot select back end ", name, ": ", selected_,
                                         " is in use; select before the first allocation"));
  }
  selected_ = name;
  return {};
}

std::string BackendRegistry::selected_name() const {
  MutexLock lock(mutex_);
  return selected_;
}

std::vector<std::string> BackendRegistry::names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& each : backends_) names.push_back(each.first);
  return names;
}

Backend& BackendRegistry::activate() {
  MutexLock lock(mutex_);
  is_used_ = true;
  return *backends_.find(selected_)->second;
}

}  // namespace ashlar::symm
