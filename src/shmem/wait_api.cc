// SPDX-License-Identifier: Apache-2.0
//
// C functions: waiting for and testing words of this PE's symmetric memory. Each wait repeats the
// corresponding test until it succeeds.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.
#include <atomic>
#include <limits>

#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;
using ashlar::shmem::throw_invalid_argument;

namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// Loads with acquire order, so that writes that another PE made before it wrote the word are
// visible.
template <typename T>
T load(const T* word) {
  return std::atomic_ref<T>(*const_cast<T*>(word)).load(std::memory_order_acquire);
}

template <typename T>
bool satisfies(T found, int cmp, T wanted) {
  switch (cmp) {
    case SHMEM_CMP_EQ: return found == wanted;
    case SHMEM_CMP_NE: return found != wanted;
    case SHMEM_CMP_GT: return found > wanted;
    case SHMEM_CMP_GE: return found >= wanted;
    case SHMEM_CMP_LT: return found < wanted;
    default: return found <= wanted;
  }
}

// Throws unless the words are symmetric and naturally aligned, because other PEs can update only
// such words atomically.
template <typename T>
void check_words(const Runtime& runtime, const T* words, size_t count) {
  if (count > std::numeric_limits<size_t>::max() / sizeof(T)) {
    throw_invalid_argument(count, " words exceed the address space");
  }
  runtime.offset_of(words, count * sizeof(T));
  if (reinterpret_cast<uintptr_t>(words) % sizeof(T) != 0) {
    throw_invalid_argument(words, " is not aligned to the ", sizeof(T), " bytes of a word");
  }
}

// Words with the comparison that each must satisfy. A word whose `status` entry is not 0 is
// excluded; a null `status` excludes none.
template <typename T>
class WaitSet {
 public:
  // One value per word, or one value for all.
  struct Comparand {
    const T* values = nullptr;
    bool is_vector = false;
  };
  WaitSet(Runtime& runtime, const T* words, size_t count, const int* status, int cmp,
          Comparand comparand)
      : words_(words), count_(count), status_(status), cmp_(cmp), comparand_(comparand) {
    if (cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_LE) {
      throw_invalid_argument("comparison ", cmp, ": expected SHMEM_CMP_EQ, NE, GT, GE, LT or LE");
    }
    check_words(runtime, words, count);
  }

  bool is_included(size_t at) const { return status_ == nullptr || status_[at] == 0; }
  bool is_satisfied(size_t at) const {
    return satisfies(load(words_ + at), cmp_, comparand_.values[comparand_.is_vector ? at : 0]);
  }
  bool is_empty() const {
    for (size_t at = 0; at < count_; ++at) {
      if (is_included(at)) return false;
    }
    return true;
  }
  bool test_all() const {
    for (size_t at = 0; at < count_; ++at) {
      if (is_included(at) && !is_satisfied(at)) return false;
    }
    return true;
  }
  // Returns the index of a satisfied word, or kNone. Starts after the index that this thread found
  // last for this type, so that no word starves.
  size_t test_any() const {
    thread_local size_t last = 0;
    for (size_t step = 1; step <= count_; ++step) {
      const size_t at = (last + step) % count_;
      if (is_included(at) && is_satisfied(at)) return last = at;
    }
    return kNone;
  }
  size_t test_some(size_t* indices) const {
    size_t found = 0;
    for (size_t at = 0; at < count_; ++at) {
      if (is_included(at) && is_satisfied(at)) indices[found++] = at;
    }
    return found;
  }

 private:
  const T* words_;
  size_t count_;
  const int* status_;
  int cmp_;
  Comparand comparand_;
};

template <typename T>
T wait_for_one(const T* word, int cmp, T value) {
  Runtime& runtime = Runtime::get();
  const WaitSet<T> one(runtime, word, 1, nullptr, cmp, {&value, false});
  T seen{};
  runtime.wait([&] {
    seen = load(word);
    return satisfies(seen, cmp, value);
  });
  return seen;
}

// Returns the runtime after making progress, because tests must observe writes that the transport
// has already received.
Runtime& runtime_after_progress() {
  Runtime& runtime = Runtime::get();
  runtime.progress();
  return runtime;
}

template <typename T>
void wait_for_all(const WaitSet<T>& words) {
  Runtime::get().wait([&] { return words.test_all(); });
}

template <typename T>
size_t wait_for_any(const WaitSet<T>& words) {
  size_t found = kNone;
  if (words.is_empty()) return found;
  Runtime::get().wait([&] { return (found = words.test_any()) != kNone; });
  return found;
}

template <typename T>
size_t wait_for_some(const WaitSet<T>& words, size_t* indices) {
  size_t found = 0;
  if (words.is_empty()) return found;
  Runtime::get().wait([&] { return (found = words.test_some(indices)) != 0; });
  return found;
}

}  // namespace

// Defines the functions for several words. VALUES declares one comparison value or a vector;
// COMPARAND is the matching WaitSet::Comparand.
#define ASHLAR_SHMEM_DEFINE_SEVERAL(NAME, SUFFIX, T, VALUES, COMPARAND)                           \
  void shmem_##NAME##_wait_until_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp, \
                                             T VALUES) {                                          \
    c_call("shmem_" #NAME "_wait_until_all" #SUFFIX, [&] {                                        \
      wait_for_all(WaitSet<T>(Runtime::get(), ivars, nelems, status, cmp, COMPARAND));            \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_wait_until_all##SUFFIX)                                    \
  size_t shmem_##NAME##_wait_until_any##SUFFIX(T* ivars, size_t nelems, const int* status,        \
                                               int cmp, T VALUES) {                               \
    return c_call("shmem_" #NAME "_wait_until_any" #SUFFIX, [&] {                                 \
      return wait_for_any(WaitSet<T>(Runtime::get(), ivars, nelems, status, cmp, COMPARAND));     \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_wait_until_any##SUFFIX)                                    \
  size_t shmem_##NAME##_wait_until_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,         \
                                                const int* status, int cmp, T VALUES) {           \
    return c_call("shmem_" #NAME "_wait_until_some" #SUFFIX, [&] {                                \
      return wait_for_some(WaitSet<T>(Runtime::get(), ivars, nelems, status, cmp, COMPARAND),     \
                           indices);                                                              \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_wait_until_some##SUFFIX)                                   \
  int shmem_##NAME##_test_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,        \
                                      T VALUES) {                                                 \
    return c_call("shmem_" #NAME "_test_all" #SUFFIX, [&] {                                       \
      return WaitSet<T>(runtime_after_progress(), ivars, nelems, status, cmp, COMPARAND)          \
                     .test_all()                                                                  \
                 ? 1                                                                              \
                 : 0;                                                                             \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_test_all##SUFFIX)                                          \
  size_t shmem_##NAME##_test_any##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,     \
                                         T VALUES) {                                              \
    return c_call("shmem_" #NAME "_test_any" #SUFFIX, [&] {                                       \
      return WaitSet<T>(runtime_after_progress(), ivars, nelems, status, cmp, COMPARAND)          \
          .test_any();                                                                            \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_test_any##SUFFIX)                                          \
  size_t shmem_##NAME##_test_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,               \
                                          const int* status, int cmp, T VALUES) {                 \
    return c_call("shmem_" #NAME "_test_some" #SUFFIX, [&] {                                      \
      return WaitSet<T>(runtime_after_progress(), ivars, nelems, status, cmp, COMPARAND)          \
          .test_some(indices);                                                                    \
    });                                                                                           \
  }                                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_test_some##SUFFIX)

#define ASHLAR_SHMEM_ONE \
  { &cmp_value, false }
#define ASHLAR_SHMEM_VECTOR \
  { cmp_values, true }
#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                   \
  void shmem_##NAME##_wait_until(T* ivar, int cmp, T cmp_value) {                      \
    c_call("shmem_" #NAME "_wait_until", [&] { wait_for_one(ivar, cmp, cmp_value); }); \
  }                                                                                    \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_wait_until)                                     \
  int shmem_##NAME##_test(T* ivar, int cmp, T cmp_value) {                             \
    return pshmem_##NAME##_test_all(ivar, 1, nullptr, cmp, cmp_value);                 \
  }                                                                                    \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_test)                                           \
  ASHLAR_SHMEM_DEFINE_SEVERAL(NAME, , T, cmp_value,                                    \
                              (typename WaitSet<T>::Comparand ASHLAR_SHMEM_ONE))       \
  ASHLAR_SHMEM_DEFINE_SEVERAL(NAME, _vector, T, *cmp_values,                           \
                              (typename WaitSet<T>::Comparand ASHLAR_SHMEM_VECTOR))
ASHLAR_SHMEM_WAIT_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

uint64_t shmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  return c_call("shmem_signal_wait_until", [&] { return wait_for_one(sig_addr, cmp, cmp_value); });
}
ASHLAR_SHMEM_PROFILED(shmem_signal_wait_until)

uint64_t shmem_signal_fetch(const uint64_t* sig_addr) {
  return c_call("shmem_signal_fetch", [&] {
    check_words(runtime_after_progress(), sig_addr, 1);
    return load(sig_addr);
  });
}
ASHLAR_SHMEM_PROFILED(shmem_signal_fetch)

#define ASHLAR_SHMEM_DEFINE(NAME, T)                           \
  void shmem_##NAME##_wait(T* ivar, T cmp_value) {             \
    pshmem_##NAME##_wait_until(ivar, SHMEM_CMP_NE, cmp_value); \
  }                                                            \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_wait)
ASHLAR_SHMEM_SIGNED(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
void shmem_wait(long* ivar, long cmp_value) {
  pshmem_long_wait_until(ivar, SHMEM_CMP_NE, cmp_value);
}
ASHLAR_SHMEM_PROFILED(shmem_wait)
void shmem_wait_until(long* ivar, int cmp, long cmp_value) {
  pshmem_long_wait_until(ivar, cmp, cmp_value);
}
ASHLAR_SHMEM_PROFILED(shmem_wait_until)
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
