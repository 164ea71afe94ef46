// SPDX-License-Identifier: Apache-2.0
//
// Every back end stays in the one table, chosen or not: choosing another and the first one again
// must work.
#include "symm/backends/backend_registry.h"

#include "base/text.h"

namespace ashlar::symm {

Status Backend::fabric_availability() const {
  return Status::unsupported(text("memory of back end ", name(), " has no fabric handles"));
}

Result<FabricHandle> Backend::export_fabric(const Memory& /*memory*/) {
  return fabric_availability();
}

Result<std::shared_ptr<Memory>> Backend::import_fabric(const FabricHandle& /*handle*/,
                                                       size_t /*bytes*/) {
  return fabric_availability();
}

Backends::Backends() {
  std::unique_ptr<Backend> host = make_host_backend();
  MutexLock lock(mutex_);
  chosen_ = host->name();
  backends_.emplace(chosen_, std::move(host));
}

Status Backends::add(std::unique_ptr<Backend> backend) {
  MutexLock lock(mutex_);
  const std::string name(backend->name());
  if (!backends_.try_emplace(name, std::move(backend)).second) {
    return Status::invalid_argument(text("there is a back end called ", name, " already"));
  }
  return {};
}

Status Backends::choose(std::string_view name) {
  MutexLock lock(mutex_);
  if (!backends_.contains(name)) {
    std::string known;
    for (const auto& each : backends_) known += text(known.empty() ? "" : ", ", each.first);
    return Status::invalid_argument(
        text("no back end of symmetric memory is called ", name, ": there are ", known));
  }
  if (name == chosen_) return {};
  if (is_used_) {
    return Status::invalid_argument(
        text("back end ", chosen_, " is in use, and ", name,
             " cannot take its place: choose before the first allocation"));
  }
  chosen_ = name;
  return {};
}

std::string Backends::chosen() const {
  MutexLock lock(mutex_);
  return chosen_;
}

std::vector<std::string> Backends::names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& each : backends_) names.push_back(each.first);
  return names;
}

Backend& Backends::use() {
  MutexLock lock(mutex_);
  is_used_ = true;
  return *backends_.find(chosen_)->second;
}

}  // namespace ashlar::symm
