// SPDX-License-Identifier: Apache-2.0
//
// `try_make_prefix_store`: a view of another store that prepends a prefix and a slash to every key.
#include "ashlar/store.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override {
    return store_->set(full_key(key), value, time_to_live, deadline);
  }

  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    std::vector<std::string> full_keys;
    for (const std::string& key : keys) full_keys.push_back(full_key(key));
    return store_->try_get(full_keys, deadline);
  }

  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override {
    return store_->add(full_key(key), amount, time_to_live, deadline);
  }

  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return store_->erase(full_key(key), deadline);
  }

 private:
  std::string full_key(std::string_view key) const { return text(prefix_, '/', key); }

  const std::shared_ptr<Store> store_;  // also owned by the caller of try_make_prefix_store
  const std::string prefix_;
};

}  // namespace

Result<std::shared_ptr<Store>> try_make_prefix_store(std::shared_ptr<Store> store,
                                                     std::string prefix) {
  if (store == nullptr) return Status::invalid_argument("try_make_prefix_store: the store is null");
  if (Status good = Store::check_key(prefix); !good.ok()) return good;
  return std::shared_ptr<Store>(std::make_shared<PrefixStore>(std::move(store), std::move(prefix)));
}

}  // namespace ashlar::symm
