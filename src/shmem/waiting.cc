// SPDX-License-Identifier: Apache-2.0
//
// Waiting for own words, and looking at them. Several words: what counts of them, and which of
// those are as they should be, is one look; waiting is looking until it says so.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// the names and the shape of macros are OpenSHMEM's.
#include <atomic>
#include <limits>

#include "ashlar/shmem/shmem.h"
#include "shmem/failing.h"
#include "shmem/world.h"

using ashlar::shmem::guarded;
using ashlar::shmem::refuse;
using ashlar::shmem::World;

namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// What is written before a word by another PE is seen by whoever has seen the word.
template <typename T>
T load(const T* word) {
  return std::atomic_ref<T>(*const_cast<T*>(word)).load(std::memory_order_acquire);
}

template <typename T>
bool holds(T found, int cmp, T wanted) {
  switch (cmp) {
    case SHMEM_CMP_EQ: return found == wanted;
    case SHMEM_CMP_NE: return found != wanted;
    case SHMEM_CMP_GT: return found > wanted;
    case SHMEM_CMP_GE: return found >= wanted;
    case SHMEM_CMP_LT: return found < wanted;
    default: return found <= wanted;
  }
}

// Others could not change it, or not in one step.
template <typename T>
void check_words(const World& world, const T* words, size_t count) {
  if (count > std::numeric_limits<size_t>::max() / sizeof(T)) {
    refuse(count, " words are more than there is memory");
  }
  world.offset_of(words, count * sizeof(T));
  if (reinterpret_cast<uintptr_t>(words) % sizeof(T) != 0) {
    refuse(words, " is not aligned to the ", sizeof(T), " bytes of a word");
  }
}

// `count` words, each compared with its own value, or all with the first.
template <typename T>
class Words {
 public:
  struct Wanted {
    const T* values = nullptr;
    bool is_vector = false;
  };
  Words(World& world, const T* words, size_t count, const int* status, int cmp, Wanted wanted)
      : words_(words), count_(count), status_(status), cmp_(cmp), wanted_(wanted) {
    if (cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_LE) {
      refuse("comparison ", cmp, ": expected SHMEM_CMP_EQ, NE, GT, GE, LT or LE");
    }
    check_words(world, words, count);
  }

  bool counts(size_t at) const { return status_ == nullptr || status_[at] == 0; }
  bool holds(size_t at) const {
    return ::holds(load(words_ + at), cmp_, wanted_.values[wanted_.is_vector ? at : 0]);
  }
  bool is_empty() const {
    for (size_t at = 0; at < count_; ++at) {
      if (counts(at)) return false;
    }
    return true;
  }
  bool all() const {
    for (size_t at = 0; at < count_; ++at) {
      if (counts(at) && !holds(at)) return false;
    }
    return true;
  }
  // One after the one that was found last, so that none is passed over for ever. kNone: none holds.
  size_t any() const {
    thread_local size_t last = 0;
    for (size_t step = 1; step <= count_; ++step) {
      const size_t at = (last + step) % count_;
      if (counts(at) && holds(at)) return last = at;
    }
    return kNone;
  }
  size_t some(size_t* indices) const {
    size_t found = 0;
    for (size_t at = 0; at < count_; ++at) {
      if (counts(at) && holds(at)) indices[found++] = at;
    }
    return found;
  }

 private:
  const T* words_;
  size_t count_;
  const int* status_;
  int cmp_;
  Wanted wanted_;
};

template <typename T>
T wait_for_one(const T* word, int cmp, T value) {
  World& world = World::get();
  const Words<T> one(world, word, 1, nullptr, cmp, {&value, false});
  T seen{};
  world.wait([&] {
    seen = load(word);
    return holds(seen, cmp, value);
  });
  return seen;
}

// What came through the transport is here.
World& caught_up() {
  World& world = World::get();
  world.catch_up();
  return world;
}

template <typename T>
void wait_for_all(const Words<T>& words) {
  World::get().wait([&] { return words.all(); });
}

template <typename T>
size_t wait_for_any(const Words<T>& words) {
  size_t found = kNone;
  if (words.is_empty()) return found;
  World::get().wait([&] { return (found = words.any()) != kNone; });
  return found;
}

template <typename T>
size_t wait_for_some(const Words<T>& words, size_t* indices) {
  size_t found = 0;
  if (words.is_empty()) return found;
  World::get().wait([&] { return (found = words.some(indices)) != 0; });
  return found;
}

}  // namespace

// The values are one for all, or a vector.
#define ASHLAR_SHMEM_DEFINE_SEVERAL(NAME, SUFFIX, T, VALUES, WANTED)                              \
  void shmem_##NAME##_wait_until_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp, \
                                             T VALUES) {                                          \
    guarded("shmem_" #NAME "_wait_until_all" #SUFFIX,                                             \
            [&] { wait_for_all(Words<T>(World::get(), ivars, nelems, status, cmp, WANTED)); });   \
  }                                                                                               \
  size_t shmem_##NAME##_wait_until_any##SUFFIX(T* ivars, size_t nelems, const int* status,        \
                                               int cmp, T VALUES) {                               \
    return guarded("shmem_" #NAME "_wait_until_any" #SUFFIX, [&] {                                \
      return wait_for_any(Words<T>(World::get(), ivars, nelems, status, cmp, WANTED));            \
    });                                                                                           \
  }                                                                                               \
  size_t shmem_##NAME##_wait_until_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,         \
                                                const int* status, int cmp, T VALUES) {           \
    return guarded("shmem_" #NAME "_wait_until_some" #SUFFIX, [&] {                               \
      return wait_for_some(Words<T>(World::get(), ivars, nelems, status, cmp, WANTED), indices);  \
    });                                                                                           \
  }                                                                                               \
  int shmem_##NAME##_test_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,        \
                                      T VALUES) {                                                 \
    return guarded("shmem_" #NAME "_test_all" #SUFFIX, [&] {                                      \
      return Words<T>(caught_up(), ivars, nelems, status, cmp, WANTED).all() ? 1 : 0;             \
    });                                                                                           \
  }                                                                                               \
  size_t shmem_##NAME##_test_any##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,     \
                                         T VALUES) {                                              \
    return guarded("shmem_" #NAME "_test_any" #SUFFIX, [&] {                                      \
      return Words<T>(caught_up(), ivars, nelems, status, cmp, WANTED).any();                     \
    });                                                                                           \
  }                                                                                               \
  size_t shmem_##NAME##_test_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,               \
                                          const int* status, int cmp, T VALUES) {                 \
    return guarded("shmem_" #NAME "_test_some" #SUFFIX, [&] {                                     \
      return Words<T>(caught_up(), ivars, nelems, status, cmp, WANTED).some(indices);             \
    });                                                                                           \
  }

#define ASHLAR_SHMEM_ONE \
  { &cmp_value, false }
#define ASHLAR_SHMEM_VECTOR \
  { cmp_values, true }
#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                              \
  void shmem_##NAME##_wait_until(T* ivar, int cmp, T cmp_value) {                                 \
    guarded("shmem_" #NAME "_wait_until", [&] { wait_for_one(ivar, cmp, cmp_value); });           \
  }                                                                                               \
  int shmem_##NAME##_test(T* ivar, int cmp, T cmp_value) {                                        \
    return shmem_##NAME##_test_all(ivar, 1, nullptr, cmp, cmp_value);                             \
  }                                                                                               \
  ASHLAR_SHMEM_DEFINE_SEVERAL(NAME, , T, cmp_value, (typename Words<T>::Wanted ASHLAR_SHMEM_ONE)) \
  ASHLAR_SHMEM_DEFINE_SEVERAL(NAME, _vector, T, *cmp_values,                                      \
                              (typename Words<T>::Wanted ASHLAR_SHMEM_VECTOR))
ASHLAR_SHMEM_WAIT_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

uint64_t shmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  return guarded("shmem_signal_wait_until", [&] { return wait_for_one(sig_addr, cmp, cmp_value); });
}

uint64_t shmem_signal_fetch(const uint64_t* sig_addr) {
  return guarded("shmem_signal_fetch", [&] {
    check_words(caught_up(), sig_addr, 1);
    return load(sig_addr);
  });
}

#define ASHLAR_SHMEM_DEFINE(NAME, T)                          \
  void shmem_##NAME##_wait(T* ivar, T cmp_value) {            \
    shmem_##NAME##_wait_until(ivar, SHMEM_CMP_NE, cmp_value); \
  }
ASHLAR_SHMEM_SIGNED(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE
void shmem_wait(long* ivar, long cmp_value) {
  shmem_long_wait_until(ivar, SHMEM_CMP_NE, cmp_value);
}
void shmem_wait_until(long* ivar, int cmp, long cmp_value) {
  shmem_long_wait_until(ivar, cmp, cmp_value);
}
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
