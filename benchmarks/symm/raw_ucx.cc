// In the order of UCX's own example: context, worker, endpoint, memory, key.
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

}  // namespace

RawUcx::RawUcx(const std::string& transports, std::span<std::byte> memory, const Swap& swap) {
  ucp_config_t* config = nullptr;
  expect(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  expect(ucp_config_modify(config, "TLS", transports.c_str()), "ucp_config_modify");
  ucp_params_t wanted{};
  wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
  wanted.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  expect(ucp_init(&wanted, config, &context_), "ucp_init");
  ucp_config_release(config);

  ucp_worker_params_t of_worker{};
  of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  of_worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  expect(ucp_worker_create(context_, &of_worker, &worker_), "ucp_worker_create");

  ucp_address_t* own = nullptr;
  size_t own_bytes = 0;
  expect(ucp_worker_get_address(worker_, &own, &own_bytes), "ucp_worker_get_address");
  const char* address = reinterpret_cast<const char*>(own);
  const std::vector<char> others = swap({address, address + own_bytes});
  ucp_worker_release_address(worker_, own);
  ucp_ep_params_t of_endpoint{};
  of_endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  of_endpoint.address = reinterpret_cast<const ucp_address_t*>(others.data());
  expect(ucp_ep_create(worker_, &of_endpoint, &endpoint_), "ucp_ep_create");

  ucp_mem_map_params_t of_memory{};
  of_memory.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  of_memory.address = memory.data();
  of_memory.length = memory.size();
  expect(ucp_mem_map(context_, &of_memory, &memory_), "ucp_mem_map");
  void* packed = nullptr;
  size_t packed_bytes = 0;
  expect(ucp_rkey_pack(context_, memory_, &packed, &packed_bytes), "ucp_rkey_pack");
  std::vector<char> told(sizeof(uint64_t) + packed_bytes);
  const auto place = reinterpret_cast<uint64_t>(memory.data());
  std::memcpy(told.data(), &place, sizeof(place));
  std::memcpy(told.data() + sizeof(place), packed, packed_bytes);
  ucp_rkey_buffer_release(packed);
  const std::vector<char> heard = swap(told);
  std::memcpy(&place_, heard.data(), sizeof(place_));
  expect(ucp_ep_rkey_unpack(endpoint_, heard.data() + sizeof(place_), &key_), "ucp_ep_rkey_unpack");
}

RawUcx::~RawUcx() {
  ucp_rkey_destroy(key_);
  wait_for(ucp_ep_close_nb(endpoint_, UCP_EP_CLOSE_MODE_FLUSH));
  ucp_mem_unmap(context_, memory_);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

void RawUcx::put(std::span<const std::byte> from) {
  const ucp_request_param_t plain{};
  wait_for(ucp_put_nbx(endpoint_, from.data(), from.size(), place_, key_, &plain));
  wait_for(ucp_ep_flush_nbx(endpoint_, &plain));
}

uint64_t RawUcx::fetch_add(uint64_t amount) {
  uint64_t before = 0;
  ucp_request_param_t with_answer{};
  with_answer.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  with_answer.datatype = ucp_dt_make_contig(sizeof(amount));
  with_answer.reply_buffer = &before;
  wait_for(ucp_atomic_op_nbx(endpoint_, UCP_ATOMIC_OP_ADD, &amount, 1, place_, key_, &with_answer));
  return before;
}

void RawUcx::wait_for(void* request) {
  if (request == nullptr) return;
  if (UCS_PTR_IS_ERR(request)) expect(UCS_PTR_STATUS(request), "a request");
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
  expect(ucp_request_check_status(request), "a request's end");
  ucp_request_free(request);
}

}  // namespace ashlar::symm
