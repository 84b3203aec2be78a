#!/bin/sh
# mpi_start.sh PROGRAM: three ranks, of which one never starts MPI; the others must say so and the job must end.
if [ -n "$MPI_START_RANK" ]; then
  [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || exec sleep 60
  exec "$1" message
fi
out=$(MPI_START_RANK=1 timeout 60 "$(dirname "$0")/../mpirun.sh" 3 "$0" "$1" 2>&1)
code=$?
echo "$out"
echo "exit status $code"
[ $code -ne 0 ] && [ $code -ne 124 ] &&
  echo "$out" | grep -q "rank [02] of 3: MPI did not start within 10 s: another rank has not arrived"
