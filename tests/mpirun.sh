#!/bin/sh
# mpirun.sh RANKS PROGRAM [ARGUMENT...]: starts a test under MPI, Open MPI or MPICH, as root or not, with more ranks
# than cores or not. MPIRUN names another mpirun than the first of PATH.
ranks=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe  # Open MPI 5
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec "${MPIRUN:-mpirun}" -n "$ranks" "$@"
