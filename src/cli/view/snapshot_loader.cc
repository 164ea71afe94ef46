// SPDX-License-Identifier: Apache-2.0
//
// A thread reads the files while the main thread waits for it or for a signal.
#include "cli/view/snapshot_loader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "analysis/recording.h"
#include "base/text.h"
#include "base/thread.h"
#include "files/input.h"
#include "files/read_snapshot.h"

namespace ashlar {

Result<bool> SnapshotLoader::run(const std::vector<std::string>& files,
                                 const StopSignals& signals) {
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  if (!done.valid())
    return Status::device_fault("eventfd", errno, "cannot create an event descriptor");
  Status status;
  Result<std::thread> reader = start_thread([&] {
    status = load(files);
    const uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof(one));
  });
  if (!reader.ok()) return reader.status();
  const bool is_stopped = signals.wait_for_either(done.get());
  if (is_stopped) stop();
  reader->join();
  if (is_stopped) return false;
  if (!status.ok()) return status;
  handler_.finish_loading();
  return true;
}

Status SnapshotLoader::load(const std::vector<std::string>& files) {
  if (live_ != nullptr) {
    if (Status status = load_live(); !status.ok()) return status;
  }
  for (const std::string& file : files) {
    if (Status status = load_file(file); !status.ok()) return status;
    if (!is_running()) break;
  }
  return {};
}

Status SnapshotLoader::load_live() {
  handler_.set_progress("taking a snapshot of the process", 0);
  const auto recordings = live_->take_snapshots();
  if (!recordings.ok()) return recordings.status();
  for (const std::shared_ptr<const Recording>& each : *recordings) {
    if (Status added = view_.add(each).status(); !added.ok()) return added;
  }
  return {};
}

Status SnapshotLoader::load_file(const std::string& file) {
  const std::string name = file_name(file);
  ReadOptions options;
  options.input.on_progress = [&](double share) {
    handler_.set_progress("reading " + name, share);
    return is_running();
  };
  handler_.set_progress("reading " + name, 0);
  Result<Snapshot> snapshot = read_snapshot(file, options);
  if (!snapshot.ok()) return snapshot.status();
  handler_.set_progress("preparing " + name, 1);
  return view_.add(Recording::create(name, *std::move(snapshot))).status();
}

bool SnapshotLoader::is_running() const {
  MutexLock lock(mutex_);
  return is_running_;
}

void SnapshotLoader::stop() {
  MutexLock lock(mutex_);
  is_running_ = false;
}

std::string file_name(const std::string& path) {
  if (path == "-") return "standard input";
  const std::string name = std::filesystem::path(path).filename().string();
  return name.empty() ? path : name;
}

Result<std::string> read_viewer_page(const std::string& path) {
  InputOptions options;
  options.max_bytes = uint64_t{64} << 20;
  Result<std::unique_ptr<ByteSource>> source = open_input(path, options);
  if (!source.ok()) return Status::format(text(path, ": ", source.status().message()));
  std::string page;
  std::array<char, 65536> buffer{};
  while (true) {
    const Result<size_t> got = (*source)->read(buffer);
    if (!got.ok()) return Status::format(text(path, ": ", got.status().message()));
    if (*got == 0) return page;
    page.append(buffer.data(), *got);
  }
}

}  // namespace ashlar
