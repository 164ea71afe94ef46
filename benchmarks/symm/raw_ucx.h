// SPDX-License-Identifier: Apache-2.0
//
// Puts, gets and atomics between two ranks with raw UCX, written as in UCX's documentation.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ashlar::symm {

// One of the two ranks of a pair. Not thread safe. Exits the process if UCX fails.
class RawUcx {
 public:
  // Sends the argument to the other rank, and returns the bytes that the other rank sent.
  using Exchange = std::function<std::vector<char>(const std::vector<char>&)>;

  // Returns whether these transports (UCX_TLS) are available.
  static bool has(const std::string& transports);

  // Connects to the other rank. UCX allocates the memory as the transports require.
  RawUcx(const std::string& transports, size_t bytes, const Exchange& exchange);
  ~RawUcx();
  RawUcx(const RawUcx&) = delete;
  RawUcx& operator=(const RawUcx&) = delete;

  std::span<std::byte> memory() const { return local_; }

  // These operations access the beginning of the other rank's memory and block until completion.
  void put(std::span<const std::byte> from);
  void get(std::span<std::byte> into);
  uint64_t fetch_add(uint64_t amount);
  uint64_t compare_and_swap(uint64_t expected, uint64_t wanted);
  // These operations return immediately; flush() waits for their completion.
  void post_put(std::span<const std::byte> from);
  void post_add(uint64_t amount);
  void flush();
  // Handles requests from the other rank. Over TCP, the other rank's operations complete only if
  // this rank calls progress().
  void progress() { ucp_worker_progress(worker_); }

 private:
  void connect(const Exchange& exchange);
  void allocate(size_t bytes);
  void exchange_keys(const Exchange& exchange);
  // Calls progress until the request is complete.
  ucs_status_t progress_until_done(void* request);
  void wait_for(void* request);
  void track(void* request);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  std::span<std::byte> local_{};  // this rank's memory
  ucp_rkey_h key_ = nullptr;
  uint64_t remote_address_ = 0;    // the address of the other rank's memory
  uint64_t posted_amount_ = 0;     // operand of posted additions, which UCX reads until `flush`
  std::vector<void*> requests_{};  // the requests of posted operations
};

}  // namespace ashlar::symm
