// A plug-in that throws, which the shape of its functions does not forbid.
#include <cstddef>
#include <stdexcept>

extern "C" {

int throws_in_free = 0;

void* throwing_alloc(size_t, int, void*) { throw std::runtime_error("no luck today"); }

void* plain_alloc(size_t, int, void*) { return reinterpret_cast<void*>(0x600000000000); }
void throwing_free(void*, size_t, int, void*) {
  if (throws_in_free != 0) throw 42;
}

}  // extern "C"
