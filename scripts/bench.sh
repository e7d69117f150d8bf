#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our figures beside those of Open MPI, MPICH, Gloo and DDP, all measured in this one run, on a quiet machine.
# scripts/bench.sh [TABLE...]: launcher, allreduce, operations, lists, oversubscribed, tcp, nodes, mpi, step, hooks, tensorflow, start;
# default: all. HVD_TEST_PYTHON names a Python that has TensorFlow, without which that table is left out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

"$root/scripts/packages.sh" build torch test bench
configure "$build" -Dbuildtype=release -Dtests=enabled -Dpython="$HVD_PYTHON"
compile "$build"
# shellcheck source=scripts/env.sh
. "$root/scripts/env.sh"

peers=$build/peers
mkdir -p "$peers"
source_dir=$root/tests/bench

# peer NAME compiler...: one program of the comparison; one that cannot be built is said and left out.
peer() {
  local name=$1
  shift
  if [ "$peers/$name" -nt "$source_dir/fresh_bench.h" ]; then return; fi
  quietly "$peers/$name.log" "$@" -std=c++20 -O2 -o "$peers/$name" || say "$name cannot be built: left out"
}
peer mpi_openmpi mpicxx.openmpi "$source_dir/mpi_peer.cc"
peer mpi_mpich mpicxx.mpich "$source_dir/mpi_peer.cc"
peer limit_peer g++ -ftree-vectorize -fvect-cost-model=dynamic -march=native "$source_dir/limit_peer.cc" -pthread
peer gloo_peer g++ "$source_dir/gloo_peer.cc" -lgloo -pthread

say "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg): $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-)"
# Open MPI refuses to run as root unless told twice.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ $# -eq 0 ] || [ "$*" = launcher ]; then
  "$HVD_PYTHON" "$source_dir/launcher_bench.py" "$build/launcher/hvdrun"
fi
[ "$*" != launcher ] || exit 0
exec "$HVD_PYTHON" "$source_dir/compare.py" "$build" "$peers" "$@"
