# Sourced by the scripts: an Open MPI environment for ranks that outnumber cores, also as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1   # containers and CI run as root
export OMPI_MCA_rmaps_base_oversubscribe=1                         # more ranks than cores are meant
export OMPI_MCA_mpi_yield_when_idle=1                              # else a waiting rank takes a core from a working one
export OMPI_MCA_hwloc_base_binding_policy=none                     # else a rank and all its threads share one core
