#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our figures beside those of Open MPI, MPICH, Gloo and DDP, all measured in this one run, on a quiet machine.
# scripts/bench.sh [--page] [--rounds N] [TABLE...]: launcher, allreduce, operations, lists, oversubscribed, tcp, nodes, mpi, step, hooks,
# tensorflow, start; default: all. --page writes docs/reference/figures.md and its plots from the tables with peers; --rounds: turns of
# each library (2). HVD_TEST_PYTHON names a Python that has TensorFlow, without which that table is left out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
page=no
options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      sed -n '3,6s/^# //p' "$0"
      exit 0
      ;;
    --page) page=yes ;;
    --rounds) options+=("$1" "${2:?a number of turns is needed}") && shift ;;
    *) break ;;
  esac
  shift
done
[ $page = no ] || [ $# -eq 0 ] || fail "--page is of all tables" "leave out $*"

"$root/scripts/packages.sh" build torch test bench
configure "$build" -Dbuildtype=release -Dtests=enabled -Dpython="$HVD_PYTHON"
compile "$build"
# shellcheck source=scripts/env.sh
. "$root/scripts/env.sh"

peers=$build/peers
"$root/scripts/peers.sh" "$peers"
source_dir=$root/tests/bench

say "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg): $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-)"
if [ $# -eq 0 ] || [ "$*" = launcher ]; then
  "$HVD_PYTHON" "$source_dir/launcher_bench.py" "$build/launcher/hvdrun"
fi
[ "$*" != launcher ] || exit 0
figures=$build/figures.json
"$HVD_PYTHON" -B "$source_dir/compare.py" "$build" "$peers" --json "$figures" ${options[@]+"${options[@]}"} "$@"
[ $page = no ] || "$HVD_PYTHON" -B "$source_dir/figures_page.py" "$figures" "$root/docs/reference/figures.md"
