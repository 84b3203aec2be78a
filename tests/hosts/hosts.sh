#!/bin/bash
# hosts.sh RANKS,RANKS,... [--rate 1gbit] [--env NAME]... -- PROGRAM [ARGUMENT...]
#
# Runs PROGRAM under Open MPI with so many ranks on each of several "hosts" of this machine: network namespaces joined by a bridge, each with its own
# host name, mount table and /dev/shm, as two machines of a cluster would have. --rate throttles what each host sends.
# --env passes a variable on; SHOAL_* and OMP_NUM_THREADS are passed always. Exit status 77 with a line that says why
# where namespaces may not be made (root and Open MPI are needed). Everything made is taken away at the end.
set -euo pipefail

if [[ "${1:-}" == --agent ]]; then
  # Open MPI's launch agent, in place of ssh: HOST COMMAND..., to be run on that host.
  shift
  host="$1"
  shift
  exec ip netns exec "$host" unshare --mount --uts --propagation private sh -c '
    hostname "$0" && mount -t tmpfs -o mode=1777,size="${SHOAL_HOSTS_SHM:-1g}" tmpfs /dev/shm && exec sh -c "$*"' "$host" "$@"
fi

skip() {
  echo "hosts.sh: SKIPPED, $1"
  exit 77
}

IFS=, read -ra ranks <<< "$1"
hosts=${#ranks[@]} total=0
for r in "${ranks[@]}"; do total=$((total + r)); done
shift
rate="" extra=()
while [[ "$1" != -- ]]; do
  case "$1" in
    --rate) rate="$2"; shift 2 ;;
    --env) extra+=(-x "$2"); shift 2 ;;
    *) echo "hosts.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
shift

for tool in ip unshare mount hostname; do
  command -v "$tool" >/dev/null || skip "there is no $tool here (Debian: iproute2, util-linux, mount, hostname)"
done
[[ $EUID -eq 0 ]] || skip "network namespaces need root"
mpirun="${MPIRUN:-mpirun}"
[[ "$("$mpirun" --version 2>/dev/null)" =~ Open\ MPI|OpenRTE ]] || skip "$mpirun is not Open MPI's"

id="shoal$$"
bridge="b0"
cleanup() {
  for ((h = 0; h < hosts; ++h)); do ip netns delete "$id-$h" 2>/dev/null || true; done
  ip netns delete "$id-net" 2>/dev/null || true
}
trap cleanup EXIT
# The bridge lies in a namespace of its own: nothing of this machine's network is touched.
ip netns add "$id-net" 2>/dev/null || skip "this user may not make network namespaces"
ip -n "$id-net" link add "$bridge" type bridge 2>/dev/null || skip "this kernel has no bridge device"
ip -n "$id-net" link set "$bridge" up
list=""
for ((h = 0; h < hosts; ++h)); do
  host="$id-$h"
  ip netns add "$host"
  ip -n "$host" link set lo up
  ip -n "$host" link add eth0 type veth peer name "port$h" netns "$id-net"
  ip -n "$host" address add "10.77.0.$((h + 1))/24" dev eth0
  ip -n "$host" link set eth0 up
  ip -n "$id-net" link set "port$h" master "$bridge" up
  if [[ -n "$rate" ]]; then
    ip netns exec "$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms 2>/dev/null ||
      skip "tc cannot throttle a link here"
  fi
  list+="${list:+,}$host:${ranks[h]}"
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
for name in $(compgen -e | grep '^SHOAL_' || true); do extra+=(-x "$name"); done
# mpirun itself runs on the first host, so that its daemons reach it over the bridge; host names are no DNS names, so
# the agent gets them as they stand.
status=0
ip netns exec "$id-0" unshare --mount --uts --propagation private sh -c '
  hostname "$0-launcher" && mount -t tmpfs -o mode=1777,size="${SHOAL_HOSTS_SHM:-1g}" tmpfs /dev/shm && exec "$@"' "$id-0" \
  "$mpirun" -n "$total" --host "$list" --map-by slot \
  --mca plm_rsh_agent "$(realpath "$0") --agent" --mca plm_rsh_no_tree_spawn 1 \
  --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 --mca btl "self,vader,tcp" --mca pml ob1 \
  -x OMP_NUM_THREADS "${extra[@]}" "$@" || status=$?
exit "$status"
