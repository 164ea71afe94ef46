// SPDX-License-Identifier: Apache-2.0
//
// `try_open_file_store`: a directory with one file per key. Each part of a key that ends with a
// slash is a subdirectory. file_record.cc reads the files.
//
// Writers hold a lock (file_lock.h). Readers need no lock, because files are replaced atomically
// (rename). All writers use the same temporary file, so a killed writer leaves at most one file,
// which the next writer removes.
//
// By default, only this user can create files in the directory. Nevertheless no call follows a
// symbolic link below the directory, and file contents are untrusted.
//
// Lifetimes are measured by the clock of the file system. To read that clock, a process touches the
// directory and reads its modification time; the age of a record is that time minus the
// modification time of the record's file. Machines that share the directory need no common clock.
// Because touching is a write, each process touches the directory rarely and extrapolates the time
// with its steady clock.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "ashlar/store.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "symm/stores/file_lock.h"
#include "symm/stores/file_record.h"
#include "symm/stores/open_beneath.h"
#include "symm/stores/store_entry.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;

constexpr const char* kTemporaryName = "being_written";
constexpr uint64_t kFileWritesBetweenSweeps = 1024;
constexpr mode_t kOwnerReadsAndWrites = S_IRUSR | S_IWUSR;
// Maximum ages of a reading of the file system's clock: kMaxClockAge to decide that a record is
// still valid, kMaxClockAgeForExpiry to decide that it has expired.
constexpr std::chrono::seconds kMaxClockAge{10};
constexpr milliseconds kMaxClockAgeForExpiry{100};

Status write_all(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return store_file_error("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// The directory that contains a file, and the name of the file in it, for calls that create, rename
// or remove the file. These calls do not follow a link in their last component.
class ParentDirectory {
 public:
  // Opens the directory of `path`, which is relative to the store's folder `folder_fd`. On
  // failure, the object is invalid, and errno contains the reason.
  ParentDirectory(int folder_fd, const std::string& path) : fd_(folder_fd) {
    const size_t slash = path.rfind('/');
    name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (slash == std::string::npos) return;
    opened_ = open_beneath(folder_fd, path.substr(0, slash), {O_PATH | O_DIRECTORY});
    fd_ = opened_.get();
  }

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const char* name() const { return name_.c_str(); }

 private:
  int fd_;           // the store's folder, or opened_
  UniqueFd opened_;  // invalid if the directory is the store's folder
  std::string name_;
};

class FileStore final : public Store {
 public:
  FileStore(UniqueFd folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}

  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override;
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override;
  Result<bool> erase(std::string_view key, Deadline deadline) override;
  Status sweep(Deadline deadline);

 private:
  Result<FileLock> lock(Deadline deadline) const {
    return FileLock::acquire(folder_.get(), name_, deadline);
  }
  // Returns the time of the file system's clock, extrapolated from a reading that is at most
  // `max_age` old.
  Result<int64_t> now_ns(std::chrono::nanoseconds max_age) const;
  // Returns the record if it exists and has not expired.
  Result<std::optional<FileRecord>> find(const std::string& path) const;

  // REQUIRES, for these functions: the caller holds the lock.
  Status put_locked(const std::string& path, std::string_view value, milliseconds time_to_live);
  Status write_temporary_file_locked(std::string_view bytes) const;
  Status make_directories_locked(const std::string& path) const;
  Result<bool> remove_locked(const std::string& path) const;
  bool unlink_locked(const std::string& path, int flags) const;
  void sweep_locked() const;

  const UniqueFd folder_;
  const std::string name_;
  std::atomic<uint64_t> write_count_{0};  // relaxed: only decides when to sweep
  // The last reading of the file system's clock: when it was taken, by the steady clock (0: never),
  // and its offset from the steady clock. The offset is stored first and published by a release
  // store of the time. Atomics rather than a mutex, which a forked child might inherit locked.
  mutable std::atomic<int64_t> clock_read_ns_{0};
  mutable std::atomic<int64_t> clock_offset_ns_{0};
};

Status FileStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                      Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  if (Status good = check_value(value); !good.ok()) return good;
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  return put_locked(file_record_path(key), value, time_to_live);
}

Result<std::vector<std::optional<std::string>>> FileStore::try_get(
    std::span<const std::string> keys, Deadline /*deadline*/) {
  std::vector<std::optional<std::string>> values;
  for (const std::string& key : keys) {
    if (Status good = check_key(key); !good.ok()) return good;
    Result<std::optional<FileRecord>> record = find(file_record_path(key));
    if (!record.ok()) return record.status();
    values.push_back(*record ? std::move((*record)->value) : std::optional<std::string>());
  }
  return values;
}

Result<int64_t> FileStore::add(std::string_view key, int64_t amount, milliseconds time_to_live,
                               Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const std::string path = file_record_path(key);
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  const Result<std::optional<FileRecord>> before = find(path);
  if (!before.ok()) return before.status();
  const Result<int64_t> sum =
      add_to_counter_text(key, *before ? std::string_view((*before)->value) : "0", amount);
  if (!sum.ok()) return sum;
  if (Status written = put_locked(path, text(*sum), time_to_live); !written.ok()) return written;
  return sum;
}

Result<bool> FileStore::erase(std::string_view key, Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const std::string path = file_record_path(key);
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  const Result<std::optional<FileRecord>> before = find(path);
  const bool had_expired = before.ok() && !*before;
  Result<bool> removed = remove_locked(path);
  return removed.ok() && had_expired ? Result<bool>(false) : removed;
}

Status FileStore::sweep(Deadline deadline) {
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  sweep_locked();
  return {};
}

// If the last reading is too old, reads the clock by touching the directory. On a shared file
// system, the server's clock sets the modification time.
Result<int64_t> FileStore::now_ns(std::chrono::nanoseconds max_age) const {
  const int64_t steady_ns = Deadline::Clock::now().time_since_epoch().count();
  const int64_t read_ns = clock_read_ns_.load(std::memory_order_acquire);
  if (read_ns != 0 && steady_ns - read_ns < max_age.count()) {
    return steady_ns + clock_offset_ns_.load(std::memory_order_relaxed);
  }
  struct stat found {};
  if (::futimens(folder_.get(), nullptr) != 0) return store_file_error("futimens", name_);
  if (::fstat(folder_.get(), &found) != 0) return store_file_error("fstat", name_);
  clock_offset_ns_.store(modified_ns(found) - steady_ns, std::memory_order_relaxed);
  clock_read_ns_.store(steady_ns, std::memory_order_release);
  return modified_ns(found);
}

Result<std::optional<FileRecord>> FileStore::find(const std::string& path) const {
  Result<std::optional<FileRecord>> record = read_file_record(folder_.get(), path);
  if (!record.ok() || !*record || (*record)->lifetime_ns == 0) return record;
  for (const std::chrono::nanoseconds max_age :
       {std::chrono::nanoseconds(kMaxClockAge), std::chrono::nanoseconds(kMaxClockAgeForExpiry)}) {
    const Result<int64_t> now = now_ns(max_age);
    if (!now.ok()) return now.status();
    if (!(*record)->has_expired(*now)) return record;
  }
  return std::optional<FileRecord>();
}

Status FileStore::put_locked(const std::string& path, std::string_view value,
                             milliseconds time_to_live) {
  const std::optional<std::chrono::nanoseconds> lifetime = lifetime_of(time_to_live);
  const uint64_t lifetime_ns = lifetime ? static_cast<uint64_t>(lifetime->count()) : 0;
  const std::string record = file_record_bytes(value, lifetime_ns);
  if (Status written = write_temporary_file_locked(record); !written.ok()) return written;
  if (Status made = make_directories_locked(path); !made.ok()) return made;
  const ParentDirectory parent(folder_.get(), path);
  if (!parent.valid()) return store_file_error("open", path);
  if (::renameat(folder_.get(), kTemporaryName, parent.fd(), parent.name()) != 0) {
    return store_file_error("rename", path);
  }
  if (write_count_.fetch_add(1, std::memory_order_relaxed) % kFileWritesBetweenSweeps ==
      kFileWritesBetweenSweeps - 1) {
    sweep_locked();
  }
  return {};
}

// Always creates a new file: an existing one may be a FIFO or a hard link to another file.
Status FileStore::write_temporary_file_locked(std::string_view bytes) const {
  const OpenMode mode{O_WRONLY | O_CREAT | O_EXCL, kOwnerReadsAndWrites};
  UniqueFd file = open_beneath(folder_.get(), kTemporaryName, mode);
  if (!file.valid() && errno == EEXIST) {
    if (::unlinkat(folder_.get(), kTemporaryName, 0) != 0) {
      return store_file_error("unlink", kTemporaryName);
    }
    file = open_beneath(folder_.get(), kTemporaryName, mode);
  }
  if (!file.valid()) return store_file_error("open", kTemporaryName);
  if (Status written = write_all(file.get(), bytes, kTemporaryName); !written.ok()) return written;
  // Sets the time from the same clock as `now_ns`: a plain write may use this machine's clock.
  if (::futimens(file.get(), nullptr) != 0) return store_file_error("futimens", kTemporaryName);
  return {};
}

Status FileStore::make_directories_locked(const std::string& path) const {
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string folder = path.substr(0, at);
    const ParentDirectory parent(folder_.get(), folder);
    if (!parent.valid()) return store_file_error("open", folder);
    if (::mkdirat(parent.fd(), parent.name(), S_IRWXU) != 0 && errno != EEXIST) {
      return store_file_error("mkdir", folder);
    }
  }
  return {};
}

// Removes a record and the directories that become empty. Returns whether the record existed.
Result<bool> FileStore::remove_locked(const std::string& path) const {
  if (!unlink_locked(path, 0)) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return store_file_error("unlink", path);
  }
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0;
       at = path.rfind('/', at - 1)) {
    if (!unlink_locked(path.substr(0, at), AT_REMOVEDIR)) break;
  }
  return true;
}

// Calls unlinkat(2) with `flags`. Returns false on failure, with the reason in errno.
bool FileStore::unlink_locked(const std::string& path, int flags) const {
  const ParentDirectory parent(folder_.get(), path);
  return parent.valid() && ::unlinkat(parent.fd(), parent.name(), flags) == 0;
}

// Removes expired records. Leaves unreadable files alone, since they may not belong to the store.
// Ignores errors: the next sweep tries again.
void FileStore::sweep_locked() const {
  const Result<int64_t> now = now_ns(std::chrono::nanoseconds(0));
  if (!now.ok()) return;
  for (const std::string& path : file_record_paths(folder_.get())) {
    const Result<std::optional<FileRecord>> record = read_file_record(folder_.get(), path);
    const bool has_expired = record.ok() && record->has_value() && (*record)->has_expired(*now);
    if (has_expired) (void)remove_locked(path).ok();
  }
}

Status folder_error(std::string_view call, const std::string& folder, std::string_view what) {
  const int code = errno;
  return Status::device_fault(
      call, code, text("cannot ", what, " the store's folder ", folder, ": ", std::strerror(code)));
}

// Returns an error if another user could replace the store's files.
Status check_privacy(int folder_fd, const std::string& folder) {
  struct stat found {};
  if (::fstat(folder_fd, &found) != 0) return folder_error("fstat", folder, "query");
  if (found.st_uid != ::geteuid()) {
    return Status::invalid_argument(
        text("the store's folder ", folder, " belongs to user ", found.st_uid,
             ", but this process runs as user ", ::geteuid(),
             ": use a folder of your own, or set FileStoreOptions::allow_shared_folder"));
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Status::invalid_argument(text("other users can write to the store's folder ", folder,
                                         ": run 'chmod go-w ", folder,
                                         "', or set FileStoreOptions::allow_shared_folder"));
  }
  return {};
}

// Opens the folder and creates it if necessary. Links in the components before the last one are
// followed, because a system administrator may have created them.
Result<UniqueFd> open_folder(std::string folder, const FileStoreOptions& options) {
  // With a slash at the end, open(2) would follow a link despite O_NOFOLLOW.
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return folder_error("mkdir", folder, "create");
  }
  UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid()) {
    Status error = folder_error("open", folder, "open");
    struct stat found {};
    if (::lstat(folder.c_str(), &found) == 0 && S_ISLNK(found.st_mode)) {
      return Status::invalid_argument(
          text("the store's folder ", folder,
               " is a symbolic link, which another user may have created: pass the path of the "
               "folder itself"));
    }
    return error;
  }
  if (options.allow_shared_folder) return opened;
  if (Status good = check_privacy(opened.get(), folder); !good.ok()) return good;
  return opened;
}

}  // namespace

// Skips the sweep while another process holds the lock: a later sweep removes the same records, and
// a process that is suspended must not delay this call.
Result<std::shared_ptr<Store>> try_open_file_store(const std::string& folder,
                                                   const FileStoreOptions& options) {
  Result<UniqueFd> opened = open_folder(folder, options);
  if (!opened.ok()) return opened.status();
  auto store = std::make_shared<FileStore>(*std::move(opened), folder);
  Status swept = store->sweep(Deadline::after(milliseconds(0)));
  if (!swept.ok() && swept.kind() != StatusKind::kTimeout) return swept;
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace ashlar::symm
