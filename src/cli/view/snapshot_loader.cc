// SPDX-License-Identifier: Apache-2.0
//
// A thread reads the files while the main thread waits for it or for a signal.
#include "cli/view/snapshot_loader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "analysis/recording.h"
#include "base/guarded_thread.h"
#include "base/text.h"
#include "files/input.h"
#include "files/read_snapshot.h"

namespace ashlar {
namespace {

// Makes an event descriptor readable at the end of its scope.
class Notification {
 public:
  explicit Notification(int event_fd) : event_fd_(event_fd) {}
  ~Notification() {
    const uint64_t one = 1;
    (void)!::write(event_fd_, &one, sizeof(one));
  }
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

 private:
  const int event_fd_;
};

}  // namespace

Status SnapshotLoader::run(const std::vector<std::string>& files, const StopSignals& signals) {
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  if (!done.valid())
    return Status::device_fault("eventfd", errno, "cannot create an event descriptor");
  Status status;
  Result<GuardedThread> reader = GuardedThread::start([&] {
    const Notification at_end(done.get());
    status = load(files);
  });
  if (!reader.ok()) return reader.status();
  // The reader may be in the middle of a long computation. Nothing needs to be cleaned up, so the
  // process ends without waiting for it.
  if (signals.wait_for_either(done.get())) std::_Exit(StopSignals::exit_code());
  reader->join();
  if (status.ok()) handler_.finish_loading();
  return status;
}

Status SnapshotLoader::load(const std::vector<std::string>& files) {
  if (live_ != nullptr) {
    if (Status status = load_live(); !status.ok()) return status;
  }
  for (const std::string& file : files) {
    if (Status status = load_file(file); !status.ok()) return status;
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
    return true;
  };
  handler_.set_progress("reading " + name, 0);
  Result<Snapshot> snapshot = read_snapshot(file, options);
  if (!snapshot.ok()) return snapshot.status();
  handler_.set_progress("preparing " + name, 1);
  try {
    return view_.add(Recording::create(name, *std::move(snapshot))).status();
  } catch (const std::bad_alloc&) {
    return out_of_memory_error(file);
  }
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
