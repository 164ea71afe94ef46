// SPDX-License-Identifier: Apache-2.0
//
// Puts, gets and atomics of two ranks with UCX alone, as its own documentation does them: what a
// program without Ashlar would write.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ashlar::symm {

// One side. Thread compatible. Ends the process where UCX fails: it is a benchmark.
class RawUcx {
 public:
  // Sends bytes to the other rank, and returns what that one sent.
  using Swap = std::function<std::vector<char>(const std::vector<char>&)>;

  // Whether UCX finds what these name (UCX_TLS) here.
  static bool has(const std::string& transports);

  // With memory that UCX allocates, as suits the transports.
  RawUcx(const std::string& transports, size_t bytes, const Swap& swap);
  ~RawUcx();
  RawUcx(const RawUcx&) = delete;
  RawUcx& operator=(const RawUcx&) = delete;

  std::span<std::byte> memory() const { return own_; }

  // At the beginning of the other's memory, here and below; done when it returns.
  void put(std::span<const std::byte> from);
  void get(std::span<std::byte> into);
  uint64_t fetch_add(uint64_t amount);
  uint64_t compare_and_swap(uint64_t expected, uint64_t wanted);
  // Done once `flush` has returned.
  void post_put(std::span<const std::byte> from);
  void post_add(uint64_t amount);
  void flush();
  // Answers the other: without it nothing comes over TCP.
  void progress() { ucp_worker_progress(worker_); }

 private:
  void connect(const Swap& swap);
  void allocate(size_t bytes);
  void trade_keys(const Swap& swap);
  // Calls UCX until it is over.
  ucs_status_t drive(void* request);
  void wait_for(void* request);
  void keep(void* request);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  std::span<std::byte> own_{};  // what is there
  ucp_rkey_h key_ = nullptr;
  uint64_t place_ = 0;             // of the other's memory
  uint64_t posted_amount_ = 0;     // UCX reads it until the flush
  std::vector<void*> requests_{};  // of what was posted
};

}  // namespace ashlar::symm
