// SPDX-License-Identifier: Apache-2.0
//
// An object is a sealed memory file of one page that every rank maps. The page contains the size
// and the number of devices.
#include "symm/backends/sim/sim_multicast.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "symm/core/shared_words.h"

namespace ashlar::symm {

// The contents of the page, shared by ranks that may be in different processes. The creator writes
// `device_count` and `bytes` before it stores `magic`. All other fields are accessed atomically.
struct SimMulticast::SharedState {
  uint32_t magic = 0;
  uint32_t device_count = 0;
  uint64_t bytes = 0;
  uint32_t added_count = 0;
  uint32_t is_lost = 0;  // whether the creator released the object before all devices were added
};

namespace {

constexpr uint32_t kMagic = 0x6d636173;  // "sacm"
constexpr int kObjectSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kPageBytes = 4096;

Status system_error(const char* call) {
  return Status::device_fault(call, errno,
                              text("a simulated multicast object: ", std::strerror(errno)));
}

}  // namespace

SimMulticast::~SimMulticast() {
  MutexLock lock(mutex_);
  for (auto& [object, entry] : objects_) destroy(entry);
}

Result<SimMulticast::Object> SimMulticast::create(const Shape& shape) {
  if (shape.device_count < 1 || shape.bytes == 0) {
    return Status::invalid_argument(text("a multicast object of ", shape.bytes, " bytes for ",
                                         shape.device_count,
                                         " devices: expected at least one of each"));
  }
  Entry entry;
  entry.fd = UniqueFd(::memfd_create("ashlar-multicast", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!entry.fd.valid()) return system_error("memfd_create");
  if (::ftruncate(entry.fd.get(), kPageBytes) != 0) return system_error("ftruncate");
  if (::fcntl(entry.fd.get(), F_ADD_SEALS, kObjectSeals) != 0) return system_error("fcntl");
  entry.shape = shape;
  entry.is_creator = true;
  const Result<Object> object = add_object(std::move(entry));
  if (!object.ok()) return object;
  MutexLock lock(mutex_);
  SharedState& shared = *objects_.at(*object).shared;
  shared.device_count = static_cast<uint32_t>(shape.device_count);
  shared.bytes = shape.bytes;
  SharedWords::store(&shared.magic, kMagic, std::memory_order_release);
  return object;
}

Result<SimMulticast::Object> SimMulticast::add_object(Entry entry) {
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, entry.fd.get(), 0);
  if (page == MAP_FAILED) return system_error("mmap");
  entry.shared = static_cast<SharedState*>(page);
  MutexLock lock(mutex_);
  objects_.emplace(++last_, std::move(entry));
  return last_;
}

Result<SimMulticast::Entry*> SimMulticast::find_locked(Object object) {
  const auto found = objects_.find(object);
  if (found == objects_.end())
    return Status::invalid_argument(text("there is no multicast object ", object));
  return &found->second;
}

Result<UniqueFd> SimMulticast::export_fd(Object object) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  UniqueFd fd(::fcntl((*entry)->fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return system_error("fcntl");
  return fd;
}

Result<SimMulticast::Object> SimMulticast::import_fd(int fd, const Shape& shape) {
  struct stat file_status {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const bool is_page = ::fstat(fd, &file_status) == 0 && file_status.st_size == off_t{kPageBytes};
  if (seals < 0 || (seals & kObjectSeals) != kObjectSeals || !is_page) {
    return Status::format("the descriptor is not a multicast object");
  }
  Entry entry;
  entry.fd = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!entry.fd.valid()) return system_error("fcntl");
  entry.shape = shape;
  const Result<Object> object = add_object(std::move(entry));
  if (!object.ok()) return object;
  Status wrong;
  {
    MutexLock lock(mutex_);
    const SharedState& shared = *objects_.at(*object).shared;
    if (SharedWords::load(&shared.magic, std::memory_order_acquire) != kMagic ||
        shared.device_count != static_cast<uint32_t>(shape.device_count) ||
        shared.bytes != shape.bytes) {
      wrong = Status::format(text("the descriptor is not a multicast object of ", shape.bytes,
                                  " bytes for ", shape.device_count, " devices"));
    } else if (SharedWords::load(&shared.is_lost, std::memory_order_acquire) != 0) {
      wrong = Status::device_fault("import", 0, "the creator has released the multicast object");
    }
  }
  if (wrong.ok()) return object;
  (void)release(*object).ok();
  return wrong;
}

Status SimMulticast::add_device(Object object) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  SharedState& shared = *(*entry)->shared;
  if ((*entry)->is_added)
    return Status::invalid_argument("this device was already added to the multicast object");
  const uint32_t before =
      SharedWords::add(&shared.added_count, uint32_t{1}, std::memory_order_acq_rel);
  if (before >= shared.device_count) {
    SharedWords::add(&shared.added_count, uint32_t{0} - 1, std::memory_order_acq_rel);
    return Status::invalid_argument(
        text("a multicast object for ", shared.device_count, " devices: all were added already"));
  }
  (*entry)->is_added = true;
  return {};
}

Status SimMulticast::bind(Object object, const std::shared_ptr<MappedMemory>& memory) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  SharedState& shared = *(*entry)->shared;
  const uint32_t added = SharedWords::load(&shared.added_count, std::memory_order_acquire);
  if (!(*entry)->is_added || added != shared.device_count) {
    return Status::device_fault(
        "bind", 0,
        text(added, " of ", shared.device_count, " devices were added: hardware would hang"));
  }
  if ((*entry)->is_bound || memory->bytes() != (*entry)->shape.bytes) {
    return Status::invalid_argument(text(memory->bytes(), " bytes for a multicast object of ",
                                         (*entry)->shape.bytes,
                                         (*entry)->is_bound ? ", bound already" : ""));
  }
  (*entry)->is_bound = true;
  (*entry)->bound = memory;
  return {};
}

// Reserves addresses that are not backed by memory, so that accidental accesses fail.
Result<std::byte*> SimMulticast::map(Object object) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  if (!(*entry)->is_bound || (*entry)->mapped_at != nullptr) {
    return Status::invalid_argument("a multicast object must be bound, and mapped only once");
  }
  const Result<DeviceAddress> at = device_.reserve((*entry)->shape.bytes);
  if (!at.ok()) return at.status();
  (*entry)->mapped_at = reinterpret_cast<std::byte*>(at->value());
  return (*entry)->mapped_at;
}

Status SimMulticast::unmap(Object object, std::byte* at) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  if (at == nullptr || (*entry)->mapped_at != at) {
    return Status::invalid_argument("the multicast object is not mapped there");
  }
  (*entry)->mapped_at = nullptr;
  return device_.free_addresses(
      {DeviceAddress(reinterpret_cast<uint64_t>(at)), (*entry)->shape.bytes});
}

Status SimMulticast::unbind(Object object) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  if (!(*entry)->is_bound || (*entry)->mapped_at != nullptr) {
    return Status::invalid_argument(
        "the multicast object is still mapped, or nothing is bound to it");
  }
  if ((*entry)->bound.expired()) {
    return Status::device_fault("unbind", 0, "the bound memory was already freed");
  }
  (*entry)->is_bound = false;
  return {};
}

Status SimMulticast::release(Object object) {
  MutexLock lock(mutex_);
  const Result<Entry*> entry = find_locked(object);
  if (!entry.ok()) return entry.status();
  if ((*entry)->is_bound)
    return Status::invalid_argument("memory is still bound to the multicast object");
  destroy(**entry);
  objects_.erase(object);
  return {};
}

void SimMulticast::destroy(Entry& entry) {
  SharedState& shared = *entry.shared;
  const uint32_t added = SharedWords::load(&shared.added_count, std::memory_order_acquire);
  if (entry.is_creator && added < shared.device_count) {
    SharedWords::store(&shared.is_lost, uint32_t{1}, std::memory_order_release);
  }
  ::munmap(entry.shared, kPageBytes);
}

size_t SimMulticast::live_count() const {
  MutexLock lock(mutex_);
  return objects_.size();
}

}  // namespace ashlar::symm
