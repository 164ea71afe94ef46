// SPDX-License-Identifier: Apache-2.0
//
// Calls libpmix through function pointers. The types are those of pmix.h, which is stable since
// version 2 of the library's interface.
#include "symm/launch/pmix_client.h"

#if defined(ASHLAR_HAS_PMIX)
#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#endif

namespace ashlar::symm {

#if defined(ASHLAR_HAS_PMIX)
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

struct PmixLibrary {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// The library stays loaded, because its threads may outlive a connection.
Result<PmixLibrary> load_library() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status::unsupported(
        text(kLibrary, " cannot be loaded (", ::dlerror(), "): install it, or set ASHLAR_STORE"));
  }
  PmixLibrary functions;
  if (find_function(library, "PMIx_Init", functions.init) &&
      find_function(library, "PMIx_Finalize", functions.finalize) &&
      find_function(library, "PMIx_Get", functions.get) &&
      find_function(library, "PMIx_Put", functions.put) &&
      find_function(library, "PMIx_Commit", functions.commit) &&
      find_function(library, "PMIx_Fence", functions.fence) &&
      find_function(library, "PMIx_Error_string", functions.error_string)) {
    return functions;
  }
  return Status::unsupported(text(kLibrary, " lacks a function: set ASHLAR_STORE"));
}

struct ValueDeleter {
  void operator()(pmix_value_t* value) const {
    if (value->type == PMIX_STRING) std::free(value->data.string);
    std::free(value);
  }
};
using Value = std::unique_ptr<pmix_value_t, ValueDeleter>;

class LoadedPmixClient final : public PmixClient {
 public:
  LoadedPmixClient(const PmixLibrary& library, const pmix_proc_t& own)
      : library_(library), own_(own) {}
  ~LoadedPmixClient() override { library_.finalize(nullptr, 0); }

  int rank() const override { return static_cast<int>(own_.rank); }
  Result<int> world_size() override { return job_number(PMIX_JOB_SIZE); }
  Result<int> local_size() override { return job_number(PMIX_LOCAL_SIZE); }

  Status publish(const std::string& key, const std::string& value) override {
    std::string copy = value;
    pmix_value_t typed{};
    typed.type = PMIX_STRING;
    typed.data.string = copy.data();
    pmix_status_t code = library_.put(PMIX_GLOBAL, key.c_str(), &typed);
    if (code == PMIX_SUCCESS) code = library_.commit();
    return code == PMIX_SUCCESS ? Status() : error("PMIx_Put", key, code);
  }

  // A get without a fence fails with PMIX_ERR_NOT_FOUND under Open MPI 4.1 if the other rank has
  // not published its value yet, although PMIx specifies that it waits.
  Status fence(Deadline deadline) override {
    std::array<pmix_info_t, 2> options{};
    set_key(options[0], PMIX_COLLECT_DATA);
    options[0].value.type = PMIX_BOOL;
    options[0].value.data.flag = true;
    set_key(options[1], PMIX_TIMEOUT);
    options[1].value.type = PMIX_INT;
    options[1].value.data.integer = std::max(1, (deadline.poll_timeout_ms() + 999) / 1000);
    const pmix_status_t code =
        library_.fence(nullptr, 0, options.data(), deadline.is_never() ? 1 : options.size());
    if (code == PMIX_SUCCESS) return {};
    if (code == PMIX_ERR_TIMEOUT) {
      return Status::timeout("some ranks of the job did not join before the deadline");
    }
    return Status::device_fault("PMIx_Fence", code,
                                text("PMIx_Fence failed: ", library_.error_string(code)));
  }

  Result<std::string> get(int rank, const std::string& key) override {
    const Result<Value> value = get_value(static_cast<pmix_rank_t>(rank), key);
    if (!value.ok()) return value.status();
    if ((*value)->type == PMIX_STRING && (*value)->data.string != nullptr) {
      return std::string((*value)->data.string);
    }
    return Status::format(text("PMIx has a value of an unexpected type for ", key));
  }

 private:
  Status error(const char* call, const std::string& key, pmix_status_t code) const {
    return Status::device_fault(call, code,
                                text(call, " failed for ", key, ": ", library_.error_string(code)));
  }

  static void set_key(pmix_info_t& info, const char* key) {
    std::strncpy(info.key, key, sizeof(info.key) - 1);
  }

  Result<Value> get_value(pmix_rank_t rank, const std::string& key) const {
    pmix_proc_t from = own_;
    from.rank = rank;
    pmix_value_t* value = nullptr;
    const pmix_status_t code = library_.get(&from, key.c_str(), nullptr, 0, &value);
    if (code == PMIX_SUCCESS && value != nullptr) return Value(value);
    return error("PMIx_Get", key, code);
  }

  Result<int> job_number(const char* key) const {
    const Result<Value> value = get_value(PMIX_RANK_WILDCARD, key);
    if (!value.ok()) return value.status();
    if ((*value)->type != PMIX_UINT32 || (*value)->data.uint32 < 1 ||
        (*value)->data.uint32 > 65536) {
      return Status::format(text("PMIx has an unexpected value for ", key));
    }
    return static_cast<int>((*value)->data.uint32);
  }

  const PmixLibrary library_;
  const pmix_proc_t own_;
};

}  // namespace

Result<std::unique_ptr<PmixClient>> PmixClient::connect() {
  const Result<PmixLibrary> library = load_library();
  if (!library.ok()) return library.status();
  pmix_proc_t own{};
  const pmix_status_t code = library->init(&own, nullptr, 0);
  if (code != PMIX_SUCCESS) {
    return Status::device_fault("PMIx_Init", code,
                                text("cannot connect to the launcher's PMIx server: ",
                                     library->error_string(code), "; set ASHLAR_STORE"));
  }
  return std::unique_ptr<PmixClient>(std::make_unique<LoadedPmixClient>(*library, own));
}

#else

Result<std::unique_ptr<PmixClient>> PmixClient::connect() {
  return Status::unsupported(
      "this build has no support of PMIx: install libpmix-dev and rebuild, or set ASHLAR_STORE");
}

#endif

}  // namespace ashlar::symm
