// SPDX-License-Identifier: Apache-2.0
//
// A thread reads; the main thread waits for it, or for a signal.
#include "cli/view_loading.h"

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

Result<bool> Loading::run(const std::vector<std::string>& files, const StopSignals& signals) {
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  if (!done.valid()) return Status::device_fault("eventfd", errno, "nobody could tell the end");
  Status loaded;
  Result<std::thread> reader = start_thread([&] {
    loaded = load(files);
    const uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof(one));
  });
  if (!reader.ok()) return reader.status();
  const bool is_stopped = signals.wait_for_either(done.get());
  if (is_stopped) stop();
  reader->join();
  if (is_stopped) return false;
  if (!loaded.ok()) return loaded;
  handler_.finish_loading();
  return true;
}

Status Loading::load(const std::vector<std::string>& files) {
  if (live_ != nullptr) {
    if (Status loaded = load_live(); !loaded.ok()) return loaded;
  }
  for (const std::string& file : files) {
    if (Status loaded = load_one(file); !loaded.ok()) return loaded;
    if (!keep_going()) break;
  }
  return {};
}

Status Loading::load_live() {
  handler_.set_progress("taking a snapshot of the process", 0);
  const auto taken = live_->take_snapshots();
  if (!taken.ok()) return taken.status();
  for (const std::shared_ptr<const Recording>& each : *taken) {
    if (Status added = shown_.add(each).status(); !added.ok()) return added;
  }
  return {};
}

Status Loading::load_one(const std::string& file) {
  const std::string name = name_of_file(file);
  ReadOptions options;
  options.input.on_progress = [&](double share) {
    handler_.set_progress("reading " + name, share);
    return keep_going();
  };
  handler_.set_progress("reading " + name, 0);
  Result<Snapshot> snapshot = read_snapshot(file, options);
  if (!snapshot.ok()) return snapshot.status();
  handler_.set_progress("preparing " + name, 1);
  return shown_.add(Recording::create(name, *std::move(snapshot))).status();
}

bool Loading::keep_going() const {
  MutexLock lock(mutex_);
  return keep_going_;
}

void Loading::stop() {
  MutexLock lock(mutex_);
  keep_going_ = false;
}

std::string name_of_file(const std::string& path) {
  if (path == "-") return "standard input";
  const std::string name = std::filesystem::path(path).filename().string();
  return name.empty() ? path : name;
}

Result<std::string> read_page(const std::string& path) {
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
