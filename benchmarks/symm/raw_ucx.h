// Put and fetch-and-add of two ranks with UCX alone, as its own documentation does them: what a
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

  RawUcx(const std::string& transports, std::span<std::byte> memory, const Swap& swap);
  ~RawUcx();
  RawUcx(const RawUcx&) = delete;
  RawUcx& operator=(const RawUcx&) = delete;

  // To the beginning of the other's memory; there when it returns.
  void put(std::span<const std::byte> from);
  uint64_t fetch_add(uint64_t amount);
  // Answers the other: without it nothing comes over TCP.
  void progress() { ucp_worker_progress(worker_); }

 private:
  void wait_for(void* request);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  uint64_t place_ = 0;  // of the other's memory
};

}  // namespace ashlar::symm
