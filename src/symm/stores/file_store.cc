// SPDX-License-Identifier: Apache-2.0
//
// A folder: one file for each key, in folders named after the parts before its slashes.
//
// Whoever writes holds the lock of one file, which the kernel lets go of when its holder ends in
// any way; whoever reads needs none, since a file is there whole or not at all (rename). There is
// only one name for what is being written, so that a writer who was killed leaves no more behind
// than the next one overwrites. Contents are not believed: kinds, sizes and heads are checked.
//
// Time is the folder's own: a record counts from when its file was touched, and what time it is now
// the folder says when it is touched. Machines that share it need no clock in common. It is touched
// rarely, since that is a write: between, each process counts on by its own steady clock.
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
constexpr size_t kFileHeadBytes = 8 + 8 + 4;  // and how long it lives in ns, and the value's length
constexpr const char* kLockName = "lock";
constexpr const char* kBeingWritten = "being_written";
constexpr std::string_view kFolderEnd = ".d";  // so that no part of a key is "..", or a file's name
constexpr std::string_view kFileEnd = ".v";
constexpr uint64_t kFileWritesBetweenSweeps = 1024;
constexpr milliseconds kLongestLockRest{2};
// How old the folder's last word on the time may be: to find that nothing is over, and to end a
// record.
constexpr std::chrono::seconds kOldestTime{10};
constexpr milliseconds kOldestTimeOfAnEnd{100};

Status file_fault(std::string_view call, std::string_view path) {
  const int code = errno;
  return Status::device_fault(call, code,
                              text("the store's file ", path, ": ", std::strerror(code)));
}

// Whoever may write here may set it to any time: one that fits is made of it.
int64_t touched_ns(const struct stat& found) {
  const int64_t most = std::numeric_limits<int64_t>::max() / 1'000'000'000 - 1;
  const int64_t seconds = std::clamp<int64_t>(found.st_mtim.tv_sec, 0, most);
  return seconds * 1'000'000'000 + found.st_mtim.tv_nsec;
}

struct Record {
  std::string value;
  uint64_t life_ns = 0;  // 0: it has no end
  int64_t touched_ns = 0;

  bool is_over(int64_t now_ns) const {
    return life_ns != 0 && now_ns >= touched_ns &&
           static_cast<uint64_t>(now_ns - touched_ns) >= life_ns;
  }
};

Status write_all(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return file_fault("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// None: there is no such file. A FIFO or a device under the name must not hold us up.
Result<std::optional<Record>> read_record(int folder_fd, const std::string& path) {
  const UniqueFd file(
      ::openat(folder_fd, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<Record>();
    return file_fault("open", path);
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return file_fault("fstat", path);
  const bool is_sound =
      S_ISREG(found.st_mode) && found.st_size >= off_t{kFileHeadBytes} &&
      found.st_size <= static_cast<off_t>(kFileHeadBytes + Store::kMostValueBytes);
  std::string bytes(is_sound ? static_cast<size_t>(found.st_size) : 0, '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got =
        ::pread(file.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_fault("read", path);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  WireReader reader(bytes);
  const bool has_magic = reader.raw(kFileMagic.size()) == kFileMagic;
  Record record;
  record.life_ns = reader.number<uint64_t>();
  record.touched_ns = touched_ns(found);
  record.value = reader.text(Store::kMostValueBytes);
  if (!has_magic || !reader.is_done()) {
    return Status::format(text("the store's file ", path, " holds no value: ", found.st_size,
                               " bytes, expected ", kFileMagic, ", a life and a value"));
  }
  return std::optional<Record>(std::move(record));
}

// Until its end. Let go of by name and not by closing: a child that was forked off meanwhile has a
// copy of the descriptor, and would keep it locked.
class HeldLock {
 public:
  explicit HeldLock(UniqueFd locked) : file_(std::move(locked)) {}
  HeldLock(HeldLock&&) = default;
  HeldLock& operator=(HeldLock&&) = delete;
  ~HeldLock() {
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
  // Each caller has a descriptor of its own: threads would share the lock of one.
  Result<HeldLock> lock(Deadline deadline) const;
  // What time it is in the folder, which was asked no longer ago than that.
  Result<int64_t> now_ns(std::chrono::nanoseconds most_age) const;
  // The record, if it is there and not over.
  Result<std::optional<Record>> find(const std::string& path) const;
  Status put(const std::string& path, std::string_view value, milliseconds time_to_live);
  Status make_folders(const std::string& path) const;
  Result<bool> remove(const std::string& path) const;
  void sweep_locked() const;

  const UniqueFd folder_;
  const std::string name_;
  std::atomic<uint64_t> write_count_{0};  // orders nothing: it only says when to sweep
  // When the folder was asked, by the steady clock (0: never), and how far it is ahead of that.
  // Released by the first, which comes last: whoever sees that it was asked has that answer or a
  // later one. No lock, which a child of a fork might find taken.
  mutable std::atomic<int64_t> asked_ns_{0};
  mutable std::atomic<int64_t> ahead_ns_{0};
};

// "a/b" is a.d/b.v
std::string path_of(std::string_view key) {
  std::string path;
  for (char c : key) {
    if (c == '/') path += kFolderEnd;
    path += c;
  }
  return path.append(kFileEnd);
}

Status FileStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                      Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  if (Status good = check_value(value); !good.ok()) return good;
  const Result<HeldLock> held = lock(deadline);
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
  const Result<HeldLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  const Result<std::optional<Record>> before = find(path);
  if (!before.ok()) return before.status();
  const Result<int64_t> sum =
      sum_of(key, *before ? std::string_view((*before)->value) : "0", amount);
  if (!sum.ok()) return sum;
  if (Status written = put(path, text(*sum), time_to_live); !written.ok()) return written;
  return sum;
}

Result<bool> FileStore::erase(std::string_view key, Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const std::string path = path_of(key);
  const Result<HeldLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  const Result<std::optional<Record>> before = find(path);
  const bool is_over = before.ok() && !*before;
  Result<bool> removed = remove(path);
  return removed.ok() && is_over ? Result<bool>(false) : removed;
}

Status FileStore::sweep(Deadline deadline) {
  const Result<HeldLock> held = lock(deadline);
  if (!held.ok()) return held.status();
  sweep_locked();
  return {};
}

Result<HeldLock> FileStore::lock(Deadline deadline) const {
  UniqueFd file(
      ::openat(folder_.get(), kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return file_fault("open", kLockName);
  std::chrono::nanoseconds pause = std::chrono::microseconds(20);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_fault("flock", kLockName);
    if (deadline.has_passed()) {
      return Status::timeout(text("another process held the lock of the store ", name_,
                                  " until the deadline: is it stopped?"));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestLockRest);
  }
  return HeldLock(std::move(file));
}

// By whatever clock answers to a touch: on a shared file system it is the server's.
Result<int64_t> FileStore::now_ns(std::chrono::nanoseconds most_age) const {
  const int64_t steady_ns = Deadline::Clock::now().time_since_epoch().count();
  const int64_t asked_ns = asked_ns_.load(std::memory_order_acquire);
  if (asked_ns != 0 && steady_ns - asked_ns < most_age.count()) {
    return steady_ns + ahead_ns_.load(std::memory_order_relaxed);
  }
  struct stat found {};
  if (::futimens(folder_.get(), nullptr) != 0) return file_fault("futimens", name_);
  if (::fstat(folder_.get(), &found) != 0) return file_fault("fstat", name_);
  ahead_ns_.store(touched_ns(found) - steady_ns, std::memory_order_relaxed);
  asked_ns_.store(steady_ns, std::memory_order_release);
  return touched_ns(found);
}

Result<std::optional<Record>> FileStore::find(const std::string& path) const {
  Result<std::optional<Record>> record = read_record(folder_.get(), path);
  if (!record.ok() || !*record || (*record)->life_ns == 0) return record;
  for (const std::chrono::nanoseconds most_age :
       {std::chrono::nanoseconds(kOldestTime), std::chrono::nanoseconds(kOldestTimeOfAnEnd)}) {
    const Result<int64_t> now = now_ns(most_age);
    if (!now.ok()) return now.status();
    if (!(*record)->is_over(*now)) return record;
  }
  return std::optional<Record>();
}

// REQUIRES: the lock is held, here and below.
Status FileStore::put(const std::string& path, std::string_view value, milliseconds time_to_live) {
  const std::optional<std::chrono::nanoseconds> lifetime = lifetime_of(time_to_live);
  const uint64_t life_ns = lifetime ? static_cast<uint64_t>(lifetime->count()) : 0;
  WireWriter record;
  record.raw(kFileMagic).number(life_ns).text(value);
  {
    const UniqueFd file(::openat(folder_.get(), kBeingWritten,
                                 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) return file_fault("open", kBeingWritten);
    if (Status written = write_all(file.get(), record.take(), kBeingWritten); !written.ok()) {
      return written;
    }
    // As the folder is touched to learn what time it is: writing alone may leave it to this
    // machine.
    if (::futimens(file.get(), nullptr) != 0) return file_fault("futimens", kBeingWritten);
  }
  if (Status made = make_folders(path); !made.ok()) return made;
  if (::renameat(folder_.get(), kBeingWritten, folder_.get(), path.c_str()) != 0) {
    return file_fault("rename", path);
  }
  if (write_count_.fetch_add(1, std::memory_order_relaxed) % kFileWritesBetweenSweeps ==
      kFileWritesBetweenSweeps - 1) {
    sweep_locked();
  }
  return {};
}

Status FileStore::make_folders(const std::string& path) const {
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string folder = path.substr(0, at);
    if (::mkdirat(folder_.get(), folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return file_fault("mkdir", folder);
    }
  }
  return {};
}

// With the folders that nothing is left in.
Result<bool> FileStore::remove(const std::string& path) const {
  if (::unlinkat(folder_.get(), path.c_str(), 0) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return file_fault("unlink", path);
  }
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0;
       at = path.rfind('/', at - 1)) {
    const std::string folder = path.substr(0, at);
    if (::unlinkat(folder_.get(), folder.c_str(), AT_REMOVEDIR) != 0) break;
  }
  return true;
}

// What is over goes; what cannot be read is left alone, since it is not ours.
void FileStore::sweep_locked() const {
  namespace fs = std::filesystem;
  const Result<int64_t> now = now_ns(std::chrono::nanoseconds(0));
  if (!now.ok()) return;
  std::vector<std::string> over;
  std::error_code failed;
  fs::recursive_directory_iterator at(name_, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    const std::string path = at->path().lexically_relative(name_).string();
    if (!path.ends_with(kFileEnd)) continue;
    const Result<std::optional<Record>> record = read_record(folder_.get(), path);
    if (record.ok() && record->has_value() && (*record)->is_over(*now)) over.push_back(path);
  }
  for (const std::string& path : over) (void)remove(path).ok();
}

}  // namespace

Result<std::shared_ptr<Store>> open_file_store(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    const int code = errno;
    return Status::device_fault(
        "mkdir", code, text("cannot make the store's folder ", folder, ": ", std::strerror(code)));
  }
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    const int code = errno;
    return Status::device_fault(
        "open", code, text("cannot open the store's folder ", folder, ": ", std::strerror(code)));
  }
  auto store = std::make_shared<FileStore>(std::move(fd), folder);
  if (Status swept = store->sweep(Deadline::after(std::chrono::seconds(10))); !swept.ok()) {
    return swept;
  }
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace ashlar::symm
