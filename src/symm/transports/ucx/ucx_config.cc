// SPDX-License-Identifier: Apache-2.0
//
// Changes the settings that differ from UCX's defaults.
#include "symm/transports/ucx/ucx_config.h"

#include "base/text.h"

namespace ashlar::symm {

Result<UcxConfig> read_ucx_config(const UcxOptions& options) {
  ucp_config_t* read = nullptr;
  const ucs_status_t status = ::ucp_config_read(nullptr, nullptr, &read);
  if (status != UCS_OK) {
    return ucx_fault("ucp_config_read", status, "invalid UCX_... settings in the environment");
  }
  UcxConfig config(read);
  struct Setting {
    const char* name;
    std::string value;
  };
  // Zero-copy sends over TCP abort the process in UCX 1.13 if the peer dies during the send
  // (uct_iface.h: "comp->count > 0"). Zero-copy is therefore disabled, at no cost: messages are
  // copied anyway.
  for (const Setting& each :
       {Setting{"TLS", options.transports}, Setting{"NET_DEVICES", options.devices},
        Setting{"ZCOPY_THRESH", "inf"}}) {
    if (each.value.empty()) continue;
    if (::ucp_config_modify(config.get(), each.name, each.value.c_str()) != UCS_OK) {
      return Status::invalid_argument(text("UCX rejects '", each.value, "' as ", each.name));
    }
  }
  return config;
}

Status ucx_fault(std::string_view call, ucs_status_t status, const std::string& what) {
  return Status::device_fault(call, status, text(what, ": ", ::ucs_status_string(status)));
}

}  // namespace ashlar::symm
