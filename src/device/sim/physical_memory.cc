// SPDX-License-Identifier: Apache-2.0
//
// Creates, seals and releases ranges of memfd files.
#include "device/sim/physical_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/align.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::sim {
namespace {

// The length of a device file. The file is much longer than the capacity, because offsets only
// increase. It is sparse: only touched pages use memory.
constexpr uint64_t kFileBytes = uint64_t{1} << 62;

// Returns the length of a device file in this process: kFileBytes, or less if RLIMIT_FSIZE is
// lower, because a larger file would raise SIGXFSZ.
uint64_t max_device_file_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kFileBytes;
  constexpr uint64_t kLargestPage = 64 * kKiB;
  return std::min<uint64_t>(kFileBytes, limit.rlim_cur / kLargestPage * kLargestPage);
}

Status system_fault(std::string_view call, std::string_view what) {
  const int code = errno;
  const bool too_many_files = code == EMFILE || code == ENFILE;
  return Status::device_fault(
      call, code,
      text(what, ": ", std::strerror(code),
           too_many_files ? " (exportable extents use one each: raise ulimit -n)" : ""));
}

// Creates a file that is sealed against resizing, so that an importer cannot truncate memory that
// the exporter uses.
Result<UniqueFd> make_file(uint64_t bytes) {
  if (bytes > max_device_file_bytes()) {
    return Status::device_fault("ftruncate", EFBIG,
                                text("no file of ", bytes, " B is allowed: raise ulimit -f"));
  }
  UniqueFd file(::memfd_create("ashlar-sim", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return system_fault("memfd_create", "cannot make device memory");
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return system_fault("ftruncate", "cannot size device memory");
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_fault("fcntl", "cannot seal device memory");
  }
  return file;
}

// Returns the size of a file that is sealed like the files of make_file, and rejects all other
// files: an unsealed file could be truncated later, and accesses to it would raise SIGBUS.
Result<uint64_t> size_of_device_file(int fd) {
  struct stat file_info {};
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  constexpr int kForbidden = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const int mode = ::fcntl(fd, F_GETFL);
  const bool has_expected_seals = seals >= 0 && (seals & (kNeeded | kForbidden)) == kNeeded;
  if (!has_expected_seals || mode < 0 || (mode & O_ACCMODE) != O_RDWR ||
      ::fstat(fd, &file_info) != 0) {
    return Status::invalid_argument(
        text("file descriptor ", fd, " is not memory of a simulated device"));
  }
  return static_cast<uint64_t>(file_info.st_size);
}

}  // namespace

Extent::~Extent() {
  if (owner_ != nullptr) owner_->release_extent(*this);
}

Result<std::unique_ptr<PhysicalMemory>> PhysicalMemory::create(const Options& options) {
  UniqueFd file;
  const uint64_t file_bytes = max_device_file_bytes();
  if (options.backing == Backing::kMemory) {
    Result<UniqueFd> created = make_file(file_bytes);
    if (!created.ok()) return created.status();
    file = *std::move(created);
  }
  return std::unique_ptr<PhysicalMemory>(
      new PhysicalMemory(options.capacity_bytes, std::move(file), file_bytes));
}

Result<std::shared_ptr<Extent>> PhysicalMemory::create_extent(size_t bytes,
                                                              const CreateOptions& export_options) {
  std::shared_ptr<Extent> extent(new Extent);
  if (!try_charge(bytes)) {
    return Status::out_of_memory(text(format_bytes(bytes), " wanted, ",
                                      format_bytes(capacity_bytes_ - used_bytes()), " of ",
                                      format_bytes(capacity_bytes_), " free"));
  }
  // From here on, destroying the extent returns the capacity.
  extent->owner_ = this;
  extent->bytes_ = bytes;
  extent->export_options_ = export_options;
  if (Status assigned = assign_file_range(*extent); !assigned.ok()) return assigned;
  return extent;
}

// Assigns a separate file to an exportable extent, and the next range of the device's file to any
// other extent.
Status PhysicalMemory::assign_file_range(Extent& extent) {
  if (extent.export_options_.can_export_fd || extent.export_options_.can_export_fabric) {
    Result<UniqueFd> file = make_file(extent.bytes_);
    if (!file.ok()) return file.status();
    extent.own_fd_ = *std::move(file);
    extent.fd_ = extent.own_fd_.get();
    return {};
  }
  if (!file_.valid()) return {};
  uint64_t offset = next_offset_.load(std::memory_order_relaxed);
  do {
    if (extent.bytes_ > file_bytes_ - offset) {
      return Status::out_of_memory(
          "the simulated device's file has no offsets left: create a new machine, or "
          "raise ulimit -f");
    }
  } while (!next_offset_.compare_exchange_weak(offset, offset + extent.bytes_,
                                               std::memory_order_relaxed));
  extent.fd_ = file_.get();
  extent.offset_ = offset;
  return {};
}

Result<std::shared_ptr<Extent>> PhysicalMemory::import_extent(int fd, size_t bytes) {
  Result<uint64_t> file_bytes = size_of_device_file(fd);
  if (!file_bytes.ok()) return file_bytes.status();
  if (*file_bytes != bytes) {
    return Status::invalid_argument(
        text("the extent has ", *file_bytes, " B, ", bytes, " B were expected"));
  }
  Result<std::shared_ptr<Extent>> extent = import_range(fd, 0, bytes);
  if (extent.ok()) (*extent)->export_options_.can_export_fd = true;  // so it can be exported again
  return extent;
}

Result<std::shared_ptr<Extent>> PhysicalMemory::import_range(int fd, uint64_t offset,
                                                             size_t bytes) {
  Result<uint64_t> file_bytes = size_of_device_file(fd);
  if (!file_bytes.ok()) return file_bytes.status();
  constexpr uint64_t kLargestPage = 64 * kKiB;
  if (bytes == 0 || !is_aligned(bytes | offset, kLargestPage)) {
    return Status::invalid_argument(
        text(bytes, " B at offset ", offset, " are not whole pages of 64 KiB"));
  }
  if (offset > *file_bytes || bytes > *file_bytes - offset) {
    return Status::invalid_argument(
        text("the device's memory ends before ", bytes, " B at offset ", offset));
  }
  std::shared_ptr<Extent> extent(new Extent);
  extent->own_fd_.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!extent->own_fd_.valid()) return system_fault("fcntl", "cannot keep the descriptor");
  extent->fd_ = extent->own_fd_.get();
  extent->offset_ = offset;
  extent->bytes_ = bytes;
  return extent;
}

bool PhysicalMemory::try_charge(size_t bytes) {
  size_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > capacity_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void PhysicalMemory::release_extent(const Extent& extent) {
  used_bytes_.fetch_sub(extent.bytes(), std::memory_order_relaxed);
  if (extent.own_fd_.valid() || extent.fd_ < 0) return;
  // A failure is ignored: if the hole cannot be punched, its pages stay allocated but are never
  // read again.
  (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(extent.offset_), static_cast<off_t>(extent.bytes_));
}

void ExportTable::add(const std::shared_ptr<Extent>& extent) {
  struct stat file_info {};
  if (::fstat(extent->fd(), &file_info) != 0) return;
  MutexLock lock(mutex_);
  if (extents_.size() >= sweep_threshold_) {
    std::erase_if(extents_, [](const auto& entry) { return entry.second.expired(); });
    sweep_threshold_ = 2 * extents_.size() + 64;
  }
  extents_[{file_info.st_dev, file_info.st_ino}] = extent;
}

std::shared_ptr<Extent> ExportTable::find(int fd) {
  struct stat file_info {};
  if (::fstat(fd, &file_info) != 0) return nullptr;
  MutexLock lock(mutex_);
  const auto found = extents_.find({file_info.st_dev, file_info.st_ino});
  return found == extents_.end() ? nullptr : found->second.lock();
}

}  // namespace ashlar::sim
