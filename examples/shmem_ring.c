// SPDX-License-Identifier: Apache-2.0
//
// OpenSHMEM over Ashlar: each PE writes to its neighbour, and all PEs add what they received.
// Run it with: ashlar run -n 4 shmem_ring
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  const int count = shmem_n_pes();

  // The memory is symmetric: each PE writes to its neighbour's copy.
  int* from = shmem_malloc(sizeof(int));
  shmem_int_p(from, me, (me + 1) % count);
  shmem_barrier_all();

  int* sum = shmem_malloc(sizeof(int));
  shmem_int_sum_reduce(SHMEM_TEAM_WORLD, sum, from, 1);
  if (me == 0) printf("%d PEs: PE 0 received %d, and the sum is %d\n", count, *from, *sum);

  shmem_finalize();
  return 0;
}
