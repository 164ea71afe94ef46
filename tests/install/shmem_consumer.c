// SPDX-License-Identifier: Apache-2.0
//
// A minimal OpenSHMEM program that uses the installed library and includes its header by the
// standard name. Each PE writes to the next one.
#include <shmem.h>

int main(void) {
  shmem_init();
  int* word = (int*)shmem_malloc(sizeof(int));
  shmem_int_p(word, 42, (shmem_my_pe() + 1) % shmem_n_pes());
  shmem_barrier_all();
  const int status = *word == 42 ? 0 : 1;
  shmem_finalize();
  return status;
}
