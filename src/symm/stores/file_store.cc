// SPDX-License-Identifier: Apache-2.0
//
// `try_open_file_store`: a directory with one file per key. Each part of a key that ends with a
// slash is a subdirectory.
//
// Writers hold an flock, which the kernel releases when its holder exits or crashes. Readers need
// no lock, because files are replaced atomically (rename). All writers use the same temporary file,
// so a killed writer leaves at most one file, which the next writer overwrites. File contents are
// untrusted: type, size and header are checked.
//
// Lifetimes are measured by the clock of the file system. To read that clock, a process touches the
// directory and reads its modification time; the age of a record is that time minus the
// modification time of the record's file. Machines that share the directory need no common clock.
// Because touching is a write, each process touches the directory rarely and extrapolates the time
// with its steady clock.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

#include "ashlar/store.h"
#include "ashlar/unique_fd.h"
#include "base/wire.h"
#include "symm/stores/store_entry.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kFileMagic = "ashstor2";
constexpr size_t kFileHeaderBytes = 8 + 8 + 4;  // magic, lifetime in ns, length of the value
constexpr const char* kLockName = "lock";
constexpr const char* kTemporaryName = "being_written";
// Suffixes ensure that no part of a key is ".." or collides with the name of a file.
constexpr std::string_view kDirectorySuffix = ".d";
constexpr std::string_view kFileSuffix = ".v";
constexpr uint64_t kFileWritesBetweenSweeps = 1024;
constexpr milliseconds kMaxLockPollInterval{2};
// Maximum ages of a reading of the file system's clock: kMaxClockAge to decide that a record is
// still valid, kMaxClockAgeForExpiry to decide that it has expired.
constexpr std::chrono::seconds kMaxClockAge{10};
constexpr milliseconds kMaxClockAgeForExpiry{100};

Status file_error(std::string_view call, std::string_view path) {
  const int code = errno;
  return Status::device_fault(call, code,
                              text("the store's file ", path, ": ", std::strerror(code)));
}

// Returns the modification time, clamped because any user with write access can set an arbitrary
// time.
int64_t modified_ns(const struct stat& found) {
  const int64_t most = std::numeric_limits<int64_t>::max() / 1'000'000'000 - 1;
  const int64_t seconds = std::clamp<int64_t>(found.st_mtim.tv_sec, 0, most);
  return seconds * 1'000'000'000 + found.st_mtim.tv_nsec;
}

struct Record {
  std::string value;
  uint64_t lifetime_ns = 0;  // 0 if the record does not expire
  int64_t modified_ns = 0;

  bool has_expired(int64_t now_ns) const {
    return lifetime_ns != 0 && now_ns >= modified_ns &&
           static_cast<uint64_t>(now_ns - modified_ns) >= lifetime_ns;
  }
};

Status write_all(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return file_error("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// Reads a record from its file. Returns nothing if the file does not exist. Uses O_NONBLOCK,
// because opening a FIFO or a device must not block.
Result<std::optional<Record>> read_record(int folder_fd, const std::string& path) {
  const UniqueFd file(
      ::openat(folder_fd, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<Record>();
    return file_error("open", path);
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return file_error("fstat", path);
  const bool is_valid =
      S_ISREG(found.st_mode) && found.st_size >= off_t{kFileHeaderBytes} &&
      found.st_size <= static_cast<off_t>(kFileHeaderBytes + Store::kMaxValueBytes);
  std::string bytes(is_valid ? static_cast<size_t>(found.st_size) : 0, '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got =
        ::pread(file.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  WireReader reader(bytes);
  const bool has_magic = reader.raw(kFileMagic.size()) == kFileMagic;
  Record record;
  record.lifetime_ns = reader.number<uint64_t>();
  record.modified_ns = modified_ns(found);
  record.value = reader.text(Store::kMaxValueBytes);
  if (!has_magic || !reader.is_done()) {
    return Status::format(text("the store's file ", path, " is malformed: found ", found.st_size,
                               " bytes, expected ", kFileMagic, ", a lifetime and a value"));
  }
  return std::optional<Record>(std::move(record));
}

// Holds an flock. The destructor unlocks explicitly rather than by closing the descriptor: a child
// forked in the meantime has a copy of the descriptor, which would keep the file locked.
class FileLock {
 public:
  explicit FileLock(UniqueFd locked) : file_(std::move(locked)) {}
  FileLock(FileLock&&) = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (file_.valid()) (void)::flock(file_.get(), LOCK_UN);
  }

 private:
  UniqueFd file_;
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
  // Acquires the lock of the store. Opens a new descriptor per call: threads that share a
  // descriptor also share its flock.
  Result<FileLock> lock(Deadline deadline) const;
  // Returns the time of the file system's clock, extrapolated from a reading that is at most
  // `max_age` old.
  Result<int64_t> now_ns(std::chrono::nanoseconds max_age) const;
  // Returns the record if it exists and has not expired.
  Result<std::optional<Record>> find(const std::string& path) const;

  // REQUIRES, for these functions: the caller holds the lock.
  Status put(const std::string& path, std::string_view value, milliseconds time_to_live);
  Status make_directories(const std::string& path) const;
  Result<bool> remove(const std::string& path) const;
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

// Returns "a.d/b.v" for the key "a/b".
std::string path_of(std::string_view key) {
  std::string path;
  for (char c : key) {
    if (c == '/') path += kDirectorySuffix;
    path += c;
  }
  return path.append(kFileSuffix);
}

Status FileStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                      Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  if (Status good = check_value(value); !good.ok()) return good;
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  return put(path_of(key), value, time_to_live);
}

Result<std::vector<std::optional<std::string>>> FileStore::try_get(
    std::span<const std::string> keys, Deadline /*deadline*/) {
  std::vector<std::optional<std::string>> values;
  for (const std::string& key : keys) {
    if (Status good = check_key(key); !good.ok()) return good;
    Result<std::optional<Record>> record = find(path_of(key));
    if (!record.ok()) return record.status();
    values.push_back(*record ? std::move((*record)->value) : std::optional<std::string>());
  }
  return values;
}

Result<int64_t> FileStore::add(std::string_view key, int64_t amount, milliseconds time_to_live,
                               Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const std::string path = path_of(key);
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  const Result<std::optional<Record>> before = find(path);
  if (!before.ok()) return before.status();
  const Result<int64_t> sum =
      add_to_counter_text(key, *before ? std::string_view((*before)->value) : "0", amount);
  if (!sum.ok()) return sum;
  if (Status written = put(path, text(*sum), time_to_live); !written.ok()) return written;
  return sum;
}

Result<bool> FileStore::erase(std::string_view key, Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const std::string path = path_of(key);
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  const Result<std::optional<Record>> before = find(path);
  const bool had_expired = before.ok() && !*before;
  Result<bool> removed = remove(path);
  return removed.ok() && had_expired ? Result<bool>(false) : removed;
}

Status FileStore::sweep(Deadline deadline) {
  const Result<FileLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  sweep_locked();
  return {};
}

Result<FileLock> FileStore::lock(Deadline deadline) const {
  UniqueFd file(
      ::openat(folder_.get(), kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return file_error("open", kLockName);
  std::chrono::nanoseconds pause = std::chrono::microseconds(20);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_error("flock", kLockName);
    if (deadline.has_passed()) {
      return Status::timeout(text("another process held the lock of the store ", name_,
                                  " until the deadline: check whether it is suspended"));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kMaxLockPollInterval);
  }
  return FileLock(std::move(file));
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
  if (::futimens(folder_.get(), nullptr) != 0) return file_error("futimens", name_);
  if (::fstat(folder_.get(), &found) != 0) return file_error("fstat", name_);
  clock_offset_ns_.store(modified_ns(found) - steady_ns, std::memory_order_relaxed);
  clock_read_ns_.store(steady_ns, std::memory_order_release);
  return modified_ns(found);
}

Result<std::optional<Record>> FileStore::find(const std::string& path) const {
  Result<std::optional<Record>> record = read_record(folder_.get(), path);
  if (!record.ok() || !*record || (*record)->lifetime_ns == 0) return record;
  for (const std::chrono::nanoseconds max_age :
       {std::chrono::nanoseconds(kMaxClockAge), std::chrono::nanoseconds(kMaxClockAgeForExpiry)}) {
    const Result<int64_t> now = now_ns(max_age);
    if (!now.ok()) return now.status();
    if (!(*record)->has_expired(*now)) return record;
  }
  return std::optional<Record>();
}

Status FileStore::put(const std::string& path, std::string_view value, milliseconds time_to_live) {
  const std::optional<std::chrono::nanoseconds> lifetime = lifetime_of(time_to_live);
  const uint64_t lifetime_ns = lifetime ? static_cast<uint64_t>(lifetime->count()) : 0;
  WireWriter record;
  record.append_raw(kFileMagic).append_number(lifetime_ns).append_text(value);
  {
    const UniqueFd file(::openat(folder_.get(), kTemporaryName,
                                 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) return file_error("open", kTemporaryName);
    if (Status written = write_all(file.get(), record.take(), kTemporaryName); !written.ok()) {
      return written;
    }
    // Sets the time from the same clock as `now_ns`: a plain write may use this machine's clock.
    if (::futimens(file.get(), nullptr) != 0) return file_error("futimens", kTemporaryName);
  }
  if (Status made = make_directories(path); !made.ok()) return made;
  if (::renameat(folder_.get(), kTemporaryName, folder_.get(), path.c_str()) != 0) {
    return file_error("rename", path);
  }
  if (write_count_.fetch_add(1, std::memory_order_relaxed) % kFileWritesBetweenSweeps ==
      kFileWritesBetweenSweeps - 1) {
    sweep_locked();
  }
  return {};
}

Status FileStore::make_directories(const std::string& path) const {
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string folder = path.substr(0, at);
    if (::mkdirat(folder_.get(), folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return file_error("mkdir", folder);
    }
  }
  return {};
}

// Removes a record and the directories that become empty.
Result<bool> FileStore::remove(const std::string& path) const {
  if (::unlinkat(folder_.get(), path.c_str(), 0) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return file_error("unlink", path);
  }
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0;
       at = path.rfind('/', at - 1)) {
    const std::string folder = path.substr(0, at);
    if (::unlinkat(folder_.get(), folder.c_str(), AT_REMOVEDIR) != 0) break;
  }
  return true;
}

// Removes expired records. Leaves unreadable files alone, since they may not belong to the store.
// Ignores errors: the next sweep tries again.
void FileStore::sweep_locked() const {
  namespace fs = std::filesystem;
  const Result<int64_t> now = now_ns(std::chrono::nanoseconds(0));
  if (!now.ok()) return;
  std::vector<std::string> expired;
  std::error_code failed;
  fs::recursive_directory_iterator at(name_, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    const std::string path = at->path().lexically_relative(name_).string();
    if (!path.ends_with(kFileSuffix)) continue;
    const Result<std::optional<Record>> record = read_record(folder_.get(), path);
    if (record.ok() && record->has_value() && (*record)->has_expired(*now)) expired.push_back(path);
  }
  for (const std::string& path : expired) (void)remove(path).ok();
}

}  // namespace

Result<std::shared_ptr<Store>> try_open_file_store(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    const int code = errno;
    return Status::device_fault(
        "mkdir", code,
        text("cannot create the store's directory ", folder, ": ", std::strerror(code)));
  }
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    const int code = errno;
    return Status::device_fault(
        "open", code,
        text("cannot open the store's directory ", folder, ": ", std::strerror(code)));
  }
  auto store = std::make_shared<FileStore>(std::move(fd), folder);
  if (Status swept = store->sweep(Deadline::after(std::chrono::seconds(10))); !swept.ok()) {
    return swept;
  }
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace ashlar::symm
