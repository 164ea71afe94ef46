// SPDX-License-Identifier: Apache-2.0
//
// Creates UCX's objects in the order of the example in UCX's documentation: context, worker,
// endpoint, memory, key.
#include "raw_ucx.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ashlar::symm {
namespace {

void expect(ucs_status_t status, const char* call) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "%s: %s\n", call, ucs_status_string(status));
  std::_Exit(1);
}

// Opens a context. Returns null if the transports are not available.
ucp_context_h open_context(const std::string& transports) {
  ucp_config_t* config = nullptr;
  expect(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  expect(ucp_config_modify(config, "TLS", transports.c_str()), "ucp_config_modify");
  ucp_params_t wanted{};
  wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
  wanted.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  ucp_context_h context = nullptr;
  const ucs_status_t opened = ucp_init(&wanted, config, &context);
  ucp_config_release(config);
  return opened == UCS_OK ? context : nullptr;
}

ucp_request_param_t word_param() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
  param.datatype = ucp_dt_make_contig(sizeof(uint64_t));
  return param;
}

ucp_request_param_t word_param(uint64_t& reply) {
  ucp_request_param_t param = word_param();
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  param.reply_buffer = &reply;
  return param;
}

}  // namespace

bool RawUcx::has(const std::string& transports) {
  const ucp_context_h context = open_context(transports);
  if (context == nullptr) return false;
  ucp_cleanup(context);
  return true;
}

RawUcx::RawUcx(const std::string& transports, size_t bytes, const Exchange& exchange)
    : context_(open_context(transports)) {
  if (context_ == nullptr) expect(UCS_ERR_NO_DEVICE, "ucp_init");
  connect(exchange);
  allocate(bytes);
  exchange_keys(exchange);
}

void RawUcx::connect(const Exchange& exchange) {
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  expect(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
  ucp_address_t* local = nullptr;
  size_t address_bytes = 0;
  expect(ucp_worker_get_address(worker_, &local, &address_bytes), "ucp_worker_get_address");
  const char* address = reinterpret_cast<const char*>(local);
  const std::vector<char> others = exchange({address, address + address_bytes});
  ucp_worker_release_address(worker_, local);
  ucp_ep_params_t endpoint_params{};
  endpoint_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  endpoint_params.address = reinterpret_cast<const ucp_address_t*>(others.data());
  expect(ucp_ep_create(worker_, &endpoint_params, &endpoint_), "ucp_ep_create");
}

void RawUcx::allocate(size_t bytes) {
  ucp_mem_map_params_t wanted{};
  wanted.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  wanted.length = bytes;
  wanted.flags = UCP_MEM_MAP_ALLOCATE;
  expect(ucp_mem_map(context_, &wanted, &memory_), "ucp_mem_map");
  ucp_mem_attr_t found{};
  found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  expect(ucp_mem_query(memory_, &found), "ucp_mem_query");
  local_ = {static_cast<std::byte*>(found.address), bytes};
}

void RawUcx::exchange_keys(const Exchange& exchange) {
  void* packed = nullptr;
  size_t packed_bytes = 0;
  expect(ucp_rkey_pack(context_, memory_, &packed, &packed_bytes), "ucp_rkey_pack");
  std::vector<char> sent(sizeof(uint64_t) + packed_bytes);
  const auto address = reinterpret_cast<uint64_t>(local_.data());
  std::memcpy(sent.data(), &address, sizeof(address));
  std::memcpy(sent.data() + sizeof(address), packed, packed_bytes);
  ucp_rkey_buffer_release(packed);
  const std::vector<char> received = exchange(sent);
  std::memcpy(&remote_address_, received.data(), sizeof(remote_address_));
  expect(ucp_ep_rkey_unpack(endpoint_, received.data() + sizeof(remote_address_), &key_),
         "ucp_ep_rkey_unpack");
}

// Ignores errors of closing, because the other rank may already have exited. At this point, no
// operation is in flight.
RawUcx::~RawUcx() {
  ucp_rkey_destroy(key_);
  void* closing = ucp_ep_close_nb(endpoint_, UCP_EP_CLOSE_MODE_FLUSH);
  if (UCS_PTR_IS_PTR(closing)) progress_until_done(closing);
  ucp_mem_unmap(context_, memory_);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

void RawUcx::put(std::span<const std::byte> from) {
  post_put(from);
  flush();
}

void RawUcx::get(std::span<std::byte> into) {
  const ucp_request_param_t plain{};
  wait_for(ucp_get_nbx(endpoint_, into.data(), into.size(), remote_address_, key_, &plain));
}

uint64_t RawUcx::fetch_add(uint64_t amount) {
  uint64_t before = 0;
  const ucp_request_param_t param = word_param(before);
  wait_for(
      ucp_atomic_op_nbx(endpoint_, UCP_ATOMIC_OP_ADD, &amount, 1, remote_address_, key_, &param));
  return before;
}

// UCX reads the new value from the same location to which it writes the result.
uint64_t RawUcx::compare_and_swap(uint64_t expected, uint64_t wanted) {
  const ucp_request_param_t param = word_param(wanted);
  wait_for(ucp_atomic_op_nbx(endpoint_, UCP_ATOMIC_OP_CSWAP, &expected, 1, remote_address_, key_,
                             &param));
  return wanted;
}

void RawUcx::post_put(std::span<const std::byte> from) {
  const ucp_request_param_t plain{};
  track(ucp_put_nbx(endpoint_, from.data(), from.size(), remote_address_, key_, &plain));
}

void RawUcx::post_add(uint64_t amount) {
  posted_amount_ = amount;
  const ucp_request_param_t param = word_param();
  track(ucp_atomic_op_nbx(endpoint_, UCP_ATOMIC_OP_ADD, &posted_amount_, 1, remote_address_, key_,
                          &param));
}

void RawUcx::flush() {
  const ucp_request_param_t plain{};
  wait_for(ucp_ep_flush_nbx(endpoint_, &plain));
  for (void* request : requests_) wait_for(request);
  requests_.clear();
}

void RawUcx::track(void* request) {
  if (request != nullptr) requests_.push_back(request);
}

void RawUcx::wait_for(void* request) {
  if (request == nullptr) return;
  if (UCS_PTR_IS_ERR(request)) expect(UCS_PTR_STATUS(request), "a request");
  expect(progress_until_done(request), "request");
}

ucs_status_t RawUcx::progress_until_done(void* request) {
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
  const ucs_status_t ended = ucp_request_check_status(request);
  ucp_request_free(request);
  return ended;
}

}  // namespace ashlar::symm
