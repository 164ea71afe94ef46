// SPDX-License-Identifier: Apache-2.0
//
// Implements the store by calling the program's functions, unless the store has been closed.
#include "api/c/callback_store.h"

#include "base/text.h"

namespace ashlar::c_api {
namespace {

using std::chrono::milliseconds;

// Returns the milliseconds until the deadline, rounded up; -1 if there is no limit.
int64_t timeout_ms(Deadline deadline) {
  if (deadline.is_never()) return -1;
  return std::chrono::ceil<milliseconds>(deadline.left()).count();
}

Status to_status(ashlar_status code, const char* operation, std::string_view key) {
  if (code == ASHLAR_OK) return {};
  std::string message =
      text("the program's store: ", operation, " of key ", key, " failed with status ", code);
  switch (code) {
    case ASHLAR_TIMEOUT: return Status::timeout(std::move(message));
    case ASHLAR_FORMAT: return Status::format(std::move(message));
    case ASHLAR_INVALID_ARGUMENT: return Status::invalid_argument(std::move(message));
    default: return Status::device_fault(operation, code, std::move(message));
  }
}

using Values = std::vector<std::optional<std::string>>;

// An index out of range is ignored, because the functions are not trusted to be correct.
void receive_value(void* receiver, size_t index, const void* value, size_t bytes) {
  Values& values = *static_cast<Values*>(receiver);
  if (index < values.size()) values[index].emplace(static_cast<const char*>(value), bytes);
}

}  // namespace

// Counts a call in progress, for `close`.
class CallbackStore::Call {
 public:
  explicit Call(CallbackStore& store) : store_(store) {
    MutexLock lock(store_.mutex_);
    is_open_ = !store_.is_closed_;
    if (is_open_) ++store_.call_count_;
  }
  ~Call() {
    if (!is_open_) return;
    MutexLock lock(store_.mutex_);
    --store_.call_count_;
    store_.call_ended_.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool is_open() const { return is_open_; }

 private:
  CallbackStore& store_;
  bool is_open_ = false;
};

template <typename Function>
Status CallbackStore::call(const char* operation, std::string_view key, const Function& function) {
  const Call counted(*this);
  if (!counted.is_open())
    return Status::device_fault(operation, 0, "the program has closed its store");
  return to_status(function(), operation, key);
}

Status CallbackStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                          Deadline deadline) {
  return call("set", key, [&] {
    return functions_.set(functions_.context, std::string(key).c_str(), value.data(), value.size(),
                          time_to_live.count(), timeout_ms(deadline));
  });
}

Result<Values> CallbackStore::try_get(std::span<const std::string> keys, Deadline deadline) {
  Values values(keys.size());
  std::vector<const char*> names;
  for (const std::string& key : keys) names.push_back(key.c_str());
  Status got = call("try_get", keys.empty() ? std::string_view() : keys.front(), [&] {
    return functions_.try_get(functions_.context, names.data(), names.size(), timeout_ms(deadline),
                              receive_value, &values);
  });
  if (!got.ok()) return got;
  return values;
}

Result<int64_t> CallbackStore::add(std::string_view key, int64_t amount, milliseconds time_to_live,
                                   Deadline deadline) {
  int64_t value = 0;
  Status added = call("add", key, [&] {
    return functions_.add(functions_.context, std::string(key).c_str(), amount,
                          time_to_live.count(), timeout_ms(deadline), &value);
  });
  if (!added.ok()) return added;
  return value;
}

Result<bool> CallbackStore::erase(std::string_view key, Deadline deadline) {
  int32_t existed = 0;
  Status erased = call("erase", key, [&] {
    return functions_.erase(functions_.context, std::string(key).c_str(), timeout_ms(deadline),
                            &existed);
  });
  if (!erased.ok()) return erased;
  return existed != 0;
}

void CallbackStore::close() {
  MutexLock lock(mutex_);
  is_closed_ = true;
  while (call_count_ > 0) lock.wait(call_ended_);
}

}  // namespace ashlar::c_api
