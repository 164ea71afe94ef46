// SPDX-License-Identifier: Apache-2.0
//
// Implements the fixtures for the memory store, the file store, TCP and Redis.
#include "unit/symm/stores/store_fixtures.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <ostream>

#include "ashlar/tcp_store.h"
#include "unit/symm/stores/redis/redis_server.h"
#if defined(ASHLAR_HAS_REDIS)
#include "ashlar/redis_store.h"
#endif

namespace ashlar::symm {
namespace {

class MemoryStoreFixture final : public StoreFixture {
 public:
  std::shared_ptr<Store> open() override { return store_; }

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

class FileStoreFixture final : public StoreFixture {
 public:
  std::shared_ptr<Store> open() override { return *try_open_file_store(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

class TcpStoreFixture final : public StoreFixture {
 public:
  std::shared_ptr<Store> open() override {
    return *try_open_tcp_store({.port = server_->port(), .token = token_}, long_deadline());
  }

 private:
  const std::string token_ = *try_new_store_token();
  const std::shared_ptr<TcpStoreServer> server_ = *try_start_tcp_store_server({.token = token_});
};

#if defined(ASHLAR_HAS_REDIS)
class RedisStoreFixture final : public StoreFixture {
 public:
  std::shared_ptr<Store> open() override {
    RedisOptions options;
    options.unix_socket = server_.socket_path();
    return *try_open_redis_store(options, long_deadline());
  }

 private:
  RedisServer server_;
};
#endif

}  // namespace

TemporaryFolder::TemporaryFolder(Medium medium) {
  const std::filesystem::path memory = "/dev/shm";
  const bool is_in_memory = medium == Medium::kMemory && ::access(memory.c_str(), W_OK | X_OK) == 0;
  const std::filesystem::path parent =
      is_in_memory ? memory : std::filesystem::temp_directory_path();
  path_ = (parent / "ashlar_store_XXXXXX").string();
  EXPECT_NE(::mkdtemp(path_.data()), nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<StoreFixture> make_file_store_fixture() {
  return std::make_unique<FileStoreFixture>();
}

std::vector<StoreKind> all_store_kinds() {
  std::vector<StoreKind> kinds;
  kinds.push_back({"Memory", false, [] { return std::make_unique<MemoryStoreFixture>(); }});
  kinds.push_back({"File", true, [] { return std::make_unique<FileStoreFixture>(); }});
  kinds.push_back({"Tcp", true, [] { return std::make_unique<TcpStoreFixture>(); }});
#if defined(ASHLAR_HAS_REDIS)
  kinds.push_back({"Redis", true, []() -> std::unique_ptr<StoreFixture> {
                     if (!RedisServer::is_installed()) return nullptr;
                     return std::make_unique<RedisStoreFixture>();
                   }});
#endif
  return kinds;
}

std::vector<StoreKind> kinds_for_processes() {
  std::vector<StoreKind> kinds = all_store_kinds();
  std::erase_if(kinds, [](const StoreKind& kind) { return !kind.is_for_processes; });
  return kinds;
}

void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace ashlar::symm
