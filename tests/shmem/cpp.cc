// SPDX-License-Identifier: Apache-2.0
//
// OpenSHMEM in C++: all headers, symmetric objects with constructors, complex numbers of C, and a
// profiling tool that replaces functions.
#include <mpp/shmem.h>
#include <pshmem.h>
#include <shmemx.h>
#include <sys/wait.h>
#include <unistd.h>

#include <complex>
#include <cstdlib>
#include <string>
#include <vector>

#include "checks.h"

namespace {

// Constructed before main, and destroyed when the process exits.
std::vector<std::string> names = {"a string that is too long to be stored within the object"};
long word = 3;
__extension__ double _Complex c_numbers[2];
__extension__ double _Complex c_sums[2];
std::complex<float> numbers[2];
int put_count = 0;
int generic_count = 0;
int is_child = 0;

void test_complex(int count) {
  __real__ c_numbers[0] = 1;
  __imag__ c_numbers[0] = 2;
  shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, c_sums, c_numbers, 2);
  ASHLAR_EXPECT(__real__ c_sums[0] == count && __imag__ c_sums[0] == 2 * count);
  numbers[1] = {0, 1};
  shmem_complexf_prod_reduce(SHMEM_TEAM_WORLD, numbers, numbers, 2);
  if (count == 2) ASHLAR_EXPECT(numbers[1] == std::complex<float>(-1, 0));
  shmem_complexd_sum_exscan(SHMEM_TEAM_WORLD, c_sums, c_numbers, 1);
  ASHLAR_EXPECT(__imag__ c_sums[0] == 2 * shmem_my_pe());
}

// The child's exit handlers destroy `names` of the child only.
void test_fork() {
  const pid_t child = fork();
  is_child = child == 0 ? 1 : 0;
  if (is_child != 0) {
    names.emplace_back("another");
    std::exit(names.size() == 2 ? 0 : 1);
  }
  int status = 1;
  ASHLAR_EXPECT(waitpid(child, &status, 0) == child && status == 0);
  ASHLAR_EXPECT(names.size() == 1 && names[0].size() == 56);
}

// A program's definitions replace the library's functions. The library itself calls its own.
void test_profiling(int me) {
  shmem_long_p(&word, 4, me);
  shmem_long_put(&word, &word, 1, me);
  ASHLAR_EXPECT(put_count == 1 && generic_count == 1 && word == 4);
  pshmem_long_p(&word, 5, me);
  ASHLAR_EXPECT(put_count == 1 && word == 5);
  ASHLAR_EXPECT(pshmem_my_pe() == me);
}

}  // namespace

// Turns LeakSanitizer off in the forked child; see rma.c.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return is_child; }

void shmem_long_p(long* dest, long value, int pe) {
  ++put_count;
  pshmem_long_p(dest, value, pe);
}
void shmem_ctx_long_p(shmem_ctx_t, long*, long, int) { put_count = 1000; }
void shmem_long_put(long* dest, const long* source, size_t count, int pe) {
  ++generic_count;
  pshmem_long_put(dest, source, count, pe);
}

int main() {
  shmem_init();
  ASHLAR_EXPECT(names.size() == 1 && names[0].size() == 56);
  test_complex(shmem_n_pes());
  test_fork();
  test_profiling(shmem_my_pe());
  shmem_barrier_all();
  shmem_finalize();
  return names.size() == 1 ? 0 : 1;
}
