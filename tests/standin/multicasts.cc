// SPDX-License-Identifier: Apache-2.0
//
// Keeps the state of each object in the shared page, and enforces the rules for multicast objects.
#include "standin/multicasts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "standin/core.h"
#include "standin/handle_lookup.h"

namespace ashlar::standin {

struct MulticastTable::Shared {
  uint32_t magic;
  uint32_t lock;
  uint64_t bytes;
  uint32_t device_count;
  uint32_t added_count;
  uint32_t exportable_as_fd;
  uint32_t exportable_as_fabric;
  uint32_t is_lost;  // the creator released the object before all devices were added
  struct Device {
    Uuid uuid;
    int32_t pid;  // 0 if the device has bound no memory
    int32_t fd;
  } added[16];

  Device* find(const Uuid& uuid) {
    Device* const end = added + added_count;
    Device* const found =
        std::find_if(added + 0, end, [&](const Device& each) { return each.uuid == uuid; });
    return found == end ? nullptr : found;
  }
};

namespace {

constexpr uint32_t kMagic = 0x6d747361;  // "astm"
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kPageBytes = 4096;

// The contents of a fabric handle: a file descriptor of a process of the same user.
struct RemoteFd {
  uint32_t magic;
  int32_t pid;
  int32_t fd;
};

// Holds a spin lock in memory that processes share.
class SharedLock {
 public:
  explicit SharedLock(uint32_t& word) : word_(word) {
    uint32_t free = 0;
    while (!word_.compare_exchange_weak(free, 1, std::memory_order_acquire)) {
      free = 0;
      ::sched_yield();
    }
  }
  ~SharedLock() { word_.store(0, std::memory_order_release); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  std::atomic_ref<uint32_t> word_;
};

UniqueFd open_remote_fd(int pid, int fd) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

bool is_object(int fd) {
  struct stat about {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals && ::fstat(fd, &about) == 0 &&
         about.st_size == off_t{kPageBytes};
}

}  // namespace

MulticastTable::~MulticastTable() { forget_all(); }

void MulticastTable::forget_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [object, entry] : objects_) destroy_entry(entry);
  objects_.clear();
}

void MulticastTable::destroy_entry(ObjectEntry& entry) {
  if (entry.is_creator) {
    const SharedLock locked(entry.shared->lock);
    if (entry.shared->added_count < entry.shared->device_count) entry.shared->is_lost = 1;
  }
  unmap_copies(entry);
  ::munmap(entry.shared, kPageBytes);
}

Code MulticastTable::add_entry(ObjectEntry entry, uint64_t& object) {
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, entry.fd.get(), 0);
  if (page == MAP_FAILED) return kUnknown;
  entry.shared = static_cast<Shared*>(page);
  const std::lock_guard lock(mutex_);
  object = ++last_id_;
  objects_.emplace(object, std::move(entry));
  return kDone;
}

Code MulticastTable::create(const ObjectOptions& options, uint64_t& object) {
  if (options.device_count == 0 || options.device_count > std::size(Shared{}.added)) {
    return kInvalidValue;
  }
  ObjectEntry entry;
  entry.fd = UniqueFd(::memfd_create("standin-multicast", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(entry.fd.get(), kPageBytes) != 0) return kUnknown;
  if (::fcntl(entry.fd.get(), F_ADD_SEALS, kSeals) != 0) return kUnknown;
  entry.is_creator = true;
  if (const Code kept = add_entry(std::move(entry), object); kept != kDone) return kept;
  const std::lock_guard lock(mutex_);
  Shared& shared = *objects_.at(object).shared;
  const SharedLock locked(shared.lock);
  shared.magic = kMagic;
  shared.bytes = options.bytes;
  shared.device_count = static_cast<uint32_t>(options.device_count);
  shared.exportable_as_fd = options.fd ? 1 : 0;
  shared.exportable_as_fabric = options.fabric ? 1 : 0;
  return kDone;
}

Code MulticastTable::export_fd(uint64_t object, int& fd) {
  const std::lock_guard lock(mutex_);
  const ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  if (entry.shared->exportable_as_fd == 0) return kInvalidValue;
  fd = ::fcntl(entry.fd.get(), F_DUPFD, 0);  // child processes inherit it, as with a driver
  return fd < 0 ? kUnknown : kDone;
}

Code MulticastTable::export_fabric(uint64_t object, void* handle) {
  const std::lock_guard lock(mutex_);
  const ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  if (entry.shared->exportable_as_fabric == 0) return kInvalidValue;
  const RemoteFd far{kMagic, ::getpid(), entry.fd.get()};
  std::memset(handle, 0, sizeof(FabricHandle));
  std::memcpy(handle, &far, sizeof far);
  return kDone;
}

std::optional<Code> MulticastTable::import_fd(int fd, uint64_t& object) {
  if (!is_object(fd)) return std::nullopt;
  ObjectEntry entry;
  entry.fd = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (const Code kept = add_entry(std::move(entry), object); kept != kDone) return kept;
  const std::lock_guard lock(mutex_);
  ObjectEntry& kept = objects_.at(object);
  bool is_good = false;
  {
    const SharedLock locked(kept.shared->lock);
    is_good = kept.shared->magic == kMagic && kept.shared->is_lost == 0;
  }
  if (is_good) return kDone;
  destroy_entry(kept);
  objects_.erase(object);
  return kInvalidValue;
}

std::optional<Code> MulticastTable::import_fabric(const void* handle, uint64_t& object) {
  RemoteFd far{};
  std::memcpy(&far, handle, sizeof far);
  if (far.magic != kMagic) return std::nullopt;
  const UniqueFd fd = open_remote_fd(far.pid, far.fd);
  if (!fd.valid()) return kInvalidValue;
  const std::optional<Code> imported = import_fd(fd.get(), object);
  return imported ? imported : std::optional(kInvalidValue);
}

Code MulticastTable::add(uint64_t object, const Uuid& device) {
  const std::lock_guard lock(mutex_);
  Shared& shared = *find_or_abort(objects_, "multicast object", object).shared;
  const SharedLock locked(shared.lock);
  if (shared.find(device) != nullptr || shared.added_count == shared.device_count) {
    return kInvalidValue;
  }
  shared.added[shared.added_count++] = {device, 0, -1};
  return kDone;
}

Code MulticastTable::bind(uint64_t object, const BoundExtent& memory, UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  Shared& shared = *entry.shared;
  const SharedLock locked(shared.lock);
  if (shared.added_count != shared.device_count) return kNotPermitted;
  Shared::Device* const device = shared.find(memory.device);
  if (device == nullptr || entry.bound || memory.bytes != shared.bytes) return kInvalidValue;
  device->pid = ::getpid();
  device->fd = fd.get();
  entry.bound = memory;
  entry.bound_fd = std::move(fd);
  return kDone;
}

std::optional<MulticastTable::BoundExtent> MulticastTable::bound_extent(uint64_t object,
                                                                        const Uuid& device) {
  const std::lock_guard lock(mutex_);
  const ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  return entry.bound && entry.bound->device == device ? entry.bound : std::nullopt;
}

Code MulticastTable::unbind(uint64_t object, const Uuid& device, size_t bytes) {
  const std::lock_guard lock(mutex_);
  ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  if (!entry.bound || entry.bound->device != device || entry.bound->bytes != bytes) {
    return kInvalidValue;
  }
  {
    const SharedLock locked(entry.shared->lock);
    entry.shared->find(device)->pid = 0;
  }
  entry.bound.reset();
  entry.bound_fd.reset();
  unmap_copies(entry);
  return kDone;
}

std::vector<std::byte*> MulticastTable::copies_at(DeviceAddress at) {
  const std::lock_guard lock(mutex_);
  for (auto& [object, entry] : objects_) {
    if (!entry.mapped || !entry.mapped->contains(at)) continue;
    Shared& shared = *entry.shared;
    const SharedLock locked(shared.lock);
    for (uint32_t i = static_cast<uint32_t>(entry.copies.size()); i < shared.device_count; ++i) {
      if (shared.added[i].pid == 0) return {};
      const UniqueFd fd = open_remote_fd(shared.added[i].pid, shared.added[i].fd);
      void* memory = ::mmap(nullptr, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
      if (memory == MAP_FAILED) return {};
      entry.copies.push_back(static_cast<std::byte*>(memory));
    }
    std::vector<std::byte*> copies = entry.copies;
    for (std::byte*& each : copies) each += at - entry.mapped->begin;
    return copies;
  }
  return {};
}

void MulticastTable::unmap_copies(ObjectEntry& entry) {
  for (std::byte* each : entry.copies) ::munmap(each, entry.shared->bytes);
  entry.copies.clear();
}

Code MulticastTable::map(uint64_t object, AddressRange range) {
  const std::lock_guard lock(mutex_);
  ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  const SharedLock locked(entry.shared->lock);
  if (entry.shared->added_count != entry.shared->device_count) return kNotPermitted;
  if (entry.mapped || range.bytes != entry.shared->bytes) return kInvalidValue;
  entry.mapped = range;
  return kDone;
}

bool MulticastTable::is_mapped(AddressRange range) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(objects_, [&](const auto& each) {
    return each.second.mapped && each.second.mapped->begin == range.begin &&
           each.second.mapped->bytes == range.bytes;
  });
}

Code MulticastTable::unmap(AddressRange range) {
  const std::lock_guard lock(mutex_);
  for (auto& [object, entry] : objects_) {
    if (!entry.mapped || entry.mapped->begin != range.begin) continue;
    entry.mapped.reset();
    return kDone;
  }
  return kInvalidValue;
}

Code MulticastTable::release(uint64_t object) {
  const std::lock_guard lock(mutex_);
  ObjectEntry& entry = find_or_abort(objects_, "multicast object", object);
  if (entry.bound || entry.mapped) return kNotPermitted;
  destroy_entry(entry);
  objects_.erase(object);
  return kDone;
}

bool MulticastTable::has(uint64_t object) {
  const std::lock_guard lock(mutex_);
  return objects_.contains(object);
}

size_t MulticastTable::count() {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

}  // namespace ashlar::standin
