// SPDX-License-Identifier: Apache-2.0
//
// A part of another store.
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
    return store_->set(whole(key), value, time_to_live, deadline);
  }

  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    std::vector<std::string> whole_keys;
    for (const std::string& key : keys) whole_keys.push_back(whole(key));
    return store_->try_get(whole_keys, deadline);
  }

  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override {
    return store_->add(whole(key), amount, time_to_live, deadline);
  }

  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return store_->erase(whole(key), deadline);
  }

 private:
  std::string whole(std::string_view key) const { return text(prefix_, '/', key); }

  const std::shared_ptr<Store> store_;  // the second owner is whoever made the prefix
  const std::string prefix_;
};

}  // namespace

Result<std::shared_ptr<Store>> make_prefix_store(std::shared_ptr<Store> store, std::string prefix) {
  if (store == nullptr) return Status::invalid_argument("a part of no store: expected one");
  if (Status good = Store::check_key(prefix); !good.ok()) return good;
  return std::shared_ptr<Store>(std::make_shared<PrefixStore>(std::move(store), std::move(prefix)));
}

}  // namespace ashlar::symm
