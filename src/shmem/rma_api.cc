// SPDX-License-Identifier: Apache-2.0
//
// C functions: put and get. All typed functions call functions that take the element size.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.
#include <cstring>
#include <vector>

#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"
#include "shmem/strided_rma.h"

using ashlar::shmem::c_call;
using ashlar::shmem::RemoteAddress;
using ashlar::shmem::Runtime;
using ashlar::shmem::throw_invalid_argument;

namespace {

// A block of `count` elements of `bytes` bytes each.
struct Elements {
  size_t count = 0;
  size_t bytes = 1;

  size_t total() const {
    size_t product = 0;
    if (__builtin_mul_overflow(count, bytes, &product)) {
      throw_invalid_argument(count, " elements of ", bytes, " bytes exceed the address space");
    }
    return product;
  }
};

struct Signal {
  uint64_t* address = nullptr;
  uint64_t value = 0;
  int operation = 0;
};

void put(shmem_ctx_t context, void* dest, const void* source, Elements elements, int pe) {
  Runtime& runtime = Runtime::get();
  const size_t bytes = elements.total();
  runtime.put(runtime.resolve(context, dest, bytes, pe), source, bytes);
}

void get(shmem_ctx_t context, void* dest, const void* source, Elements elements, int pe) {
  Runtime& runtime = Runtime::get();
  const size_t bytes = elements.total();
  runtime.get(dest, runtime.resolve(context, source, bytes, pe), bytes);
}

void put_signal(shmem_ctx_t context, void* dest, const void* source, Elements elements,
                const Signal& signal, int pe) {
  Runtime& runtime = Runtime::get();
  const RemoteAddress signal_word = runtime.resolve(context, signal.address, sizeof(uint64_t), pe);
  if (signal.operation != SHMEM_SIGNAL_SET && signal.operation != SHMEM_SIGNAL_ADD) {
    throw_invalid_argument("sig_op ", signal.operation,
                           ": expected SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD");
  }
  put(context, dest, source, elements, pe);
  runtime.fence();
  if (signal.operation == SHMEM_SIGNAL_ADD) {
    runtime.post(signal_word, {.operand = signal.value});
  } else {
    runtime.fetch(signal_word, {.kind = ashlar::symm::AtomicKind::kSwap, .operand = signal.value});
  }
}

}  // namespace

#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                  \
  void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, T* dest, T value, int pe) {              \
    c_call("shmem_" #NAME "_p", [&] { put(ctx, dest, &value, {1, sizeof(T)}, pe); }); \
  }                                                                                   \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME##_p)                                         \
  T shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const T* source, int pe) {                  \
    return c_call("shmem_" #NAME "_g", [&] {                                          \
      T value;                                                                        \
      get(ctx, &value, source, {1, sizeof(T)}, pe);                                   \
      return value;                                                                   \
    });                                                                               \
  }                                                                                   \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME##_g)                                         \
  void shmem_##NAME##_p(T* dest, T value, int pe) {                                   \
    pshmem_ctx_##NAME##_p(SHMEM_CTX_DEFAULT, dest, value, pe);                        \
  }                                                                                   \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_p)                                             \
  T shmem_##NAME##_g(const T* source, int pe) {                                       \
    return pshmem_ctx_##NAME##_g(SHMEM_CTX_DEFAULT, source, pe);                      \
  }                                                                                   \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_g)
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

// FUNCTION is put or get; BYTES is the element size.
#define ASHLAR_SHMEM_DEFINE_BLOCKS(NAME, T, FUNCTION, BYTES)                                      \
  void shmem_ctx_##NAME(shmem_ctx_t ctx, T* dest, const T* source, size_t nelems, int pe) {       \
    c_call("shmem_" #NAME, [&] { FUNCTION(ctx, dest, source, {nelems, BYTES}, pe); });            \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME)                                                         \
  void shmem_##NAME(T* dest, const T* source, size_t nelems, int pe) {                            \
    pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest, source, nelems, pe);                               \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME)                                                             \
  void shmem_ctx_##NAME##_nbi(shmem_ctx_t ctx, T* dest, const T* source, size_t nelems, int pe) { \
    pshmem_ctx_##NAME(ctx, dest, source, nelems, pe);                                             \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME##_nbi)                                                   \
  void shmem_##NAME##_nbi(T* dest, const T* source, size_t nelems, int pe) {                      \
    pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest, source, nelems, pe);                               \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_nbi)
// FUNCTION is strided_put or strided_get.
#define ASHLAR_SHMEM_DEFINE_STRIDES(NAME, T, FUNCTION, BYTES)                                    \
  void shmem_ctx_##NAME(shmem_ctx_t ctx, T* dest, const T* source, ptrdiff_t tst, ptrdiff_t sst, \
                        size_t nelems, int pe) {                                                 \
    c_call("shmem_" #NAME, [&] {                                                                 \
      ashlar::shmem::FUNCTION({Runtime::get(), ctx, pe}, {dest, tst}, {source, sst}, nelems,     \
                              BYTES);                                                            \
    });                                                                                          \
  }                                                                                              \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME)                                                        \
  void shmem_##NAME(T* dest, const T* source, ptrdiff_t tst, ptrdiff_t sst, size_t nelems,       \
                    int pe) {                                                                    \
    pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest, source, tst, sst, nelems, pe);                    \
  }                                                                                              \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME)
#define ASHLAR_SHMEM_DEFINE_SIGNALS(NAME, T, BYTES)                                               \
  void shmem_ctx_##NAME(shmem_ctx_t ctx, T* dest, const T* source, size_t nelems,                 \
                        uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {                \
    c_call("shmem_" #NAME, [&] {                                                                  \
      put_signal(ctx, dest, source, {nelems, BYTES}, {sig_addr, signal, sig_op}, pe);             \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME)                                                         \
  void shmem_##NAME(T* dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, \
                    int sig_op, int pe) {                                                         \
    pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest, source, nelems, sig_addr, signal, sig_op, pe);     \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME)                                                             \
  void shmem_ctx_##NAME##_nbi(shmem_ctx_t ctx, T* dest, const T* source, size_t nelems,           \
                              uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {          \
    pshmem_ctx_##NAME(ctx, dest, source, nelems, sig_addr, signal, sig_op, pe);                   \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME##_nbi)                                                   \
  void shmem_##NAME##_nbi(T* dest, const T* source, size_t nelems, uint64_t* sig_addr,            \
                          uint64_t signal, int sig_op, int pe) {                                  \
    pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest, source, nelems, sig_addr, signal, sig_op, pe);     \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_nbi)

#define ASHLAR_SHMEM_DEFINE(NAME, T)                                  \
  ASHLAR_SHMEM_DEFINE_BLOCKS(NAME##_put, T, put, sizeof(T))           \
  ASHLAR_SHMEM_DEFINE_BLOCKS(NAME##_get, T, get, sizeof(T))           \
  ASHLAR_SHMEM_DEFINE_STRIDES(NAME##_iput, T, strided_put, sizeof(T)) \
  ASHLAR_SHMEM_DEFINE_STRIDES(NAME##_iget, T, strided_get, sizeof(T)) \
  ASHLAR_SHMEM_DEFINE_SIGNALS(NAME##_put_signal, T, sizeof(T))
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE(BITS, BYTES)                            \
  ASHLAR_SHMEM_DEFINE_BLOCKS(put##BITS, void, put, BYTES)           \
  ASHLAR_SHMEM_DEFINE_BLOCKS(get##BITS, void, get, BYTES)           \
  ASHLAR_SHMEM_DEFINE_STRIDES(iput##BITS, void, strided_put, BYTES) \
  ASHLAR_SHMEM_DEFINE_STRIDES(iget##BITS, void, strided_get, BYTES) \
  ASHLAR_SHMEM_DEFINE_SIGNALS(put##BITS##_signal, void, BYTES)
ASHLAR_SHMEM_SIZES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
ASHLAR_SHMEM_DEFINE_BLOCKS(putmem, void, put, 1)
ASHLAR_SHMEM_DEFINE_BLOCKS(getmem, void, get, 1)
ASHLAR_SHMEM_DEFINE_SIGNALS(putmem_signal, void, 1)
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
