// SPDX-License-Identifier: Apache-2.0
//
// A minimal OpenSHMEM program that uses the installed library and includes its header by the
// standard name. Runs as one PE.
#include <shmem.h>

int main(void) {
  shmem_init();
  int* word = shmem_malloc(sizeof(int));
  shmem_int_p(word, 42, shmem_n_pes() - 1);
  shmem_barrier_all();
  const int status = *word == 42 ? 0 : 1;
  shmem_finalize();
  return status;
}
