// SPDX-License-Identifier: Apache-2.0
//
// The `host` back end: memfd memory, shared by passing its descriptor.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/align.h"
#include "base/text.h"
#include "symm/backends/backend.h"

namespace ashlar::symm {
namespace {

// With these seals, the size cannot change, and no further seals can be added.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status memory_error(std::string_view call, size_t bytes) {
  const int code = errno;
  std::string message = text("symmetric memory of ", bytes, " bytes: ", std::strerror(code));
  if (code == ENOMEM || code == ENOSPC || code == EFBIG) {
    return Status::out_of_memory(std::move(message));
  }
  return Status::device_fault(call, code, std::move(message));
}

// Returns the limit beyond which growing a file, including a memfd, raises SIGXFSZ.
uint64_t max_file_bytes() {
  rlimit files{};
  return ::getrlimit(RLIMIT_FSIZE, &files) == 0 ? files.rlim_cur : RLIM_INFINITY;
}

class HostMemory final : public MappedMemory {
 public:
  // `fd` is invalid for imported memory, which is never exported again.
  HostMemory(std::byte* base, size_t bytes, UniqueFd fd)
      : MappedMemory(base, bytes), fd_(std::move(fd)) {}
  ~HostMemory() override { ::munmap(base(), bytes()); }

  int fd() const { return fd_.get(); }

 private:
  const UniqueFd fd_;
};

Result<std::shared_ptr<MappedMemory>> map(int fd, size_t bytes, UniqueFd owned) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return memory_error("mmap", bytes);
  return std::shared_ptr<MappedMemory>(
      std::make_shared<HostMemory>(static_cast<std::byte*>(base), bytes, std::move(owned)));
}

class HostBackend final : public Backend {
 public:
  std::string_view name() const override { return "host"; }
  DeviceUuid device() const override { return {}; }

  // Ignores `zero_bytes`, because new memfd pages are zero.
  Result<std::shared_ptr<MappedMemory>> allocate(size_t bytes, size_t /*zero_bytes*/) override {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::optional<uint64_t> rounded = try_align_up(std::max<uint64_t>(bytes, 1), page);
    if (!rounded || *rounded > static_cast<uint64_t>(INT64_MAX)) {
      return Status::out_of_memory(
          text("symmetric memory of ", bytes, " bytes: more than the address space"));
    }
    if (*rounded > max_file_bytes()) {
      errno = EFBIG;
      return memory_error("ftruncate", bytes);
    }
    UniqueFd fd(::memfd_create("ashlar-symm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.valid()) return memory_error("memfd_create", bytes);
    if (::ftruncate(fd.get(), static_cast<off_t>(*rounded)) != 0) {
      return memory_error("ftruncate", bytes);
    }
    if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return memory_error("fcntl", bytes);
    const int number = fd.get();
    return map(number, *rounded, std::move(fd));
  }

  Result<UniqueFd> export_fd(const MappedMemory& memory) override {
    const auto& own = static_cast<const HostMemory&>(memory);
    UniqueFd fd(::fcntl(own.fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return memory_error("fcntl", memory.bytes());
    return fd;
  }

  Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd fd, size_t bytes) override {
    struct stat found {};
    if (::fstat(fd.get(), &found) != 0) return memory_error("fstat", bytes);
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals || static_cast<size_t>(found.st_size) != bytes) {
      return Status::format(
          text("the received descriptor is not symmetric memory of ", bytes, " bytes"));
    }
    return map(fd.get(), bytes, UniqueFd());
  }
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() { return std::make_unique<HostBackend>(); }

}  // namespace ashlar::symm
