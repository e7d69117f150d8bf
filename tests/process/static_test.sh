#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A static hvdrun works in a root where nothing else is but a static shell: no libraries, no /etc, no home.
#   static_test.sh HVDRUN
# shellcheck disable=SC2016  # the variables are those of the shell in there
set -euo pipefail
hvdrun=$(realpath "$1")
if ! command -v busybox >/dev/null || ldd "$(command -v busybox)" >/dev/null 2>&1; then
  echo "no static busybox (package busybox-static)"
  exit 77
fi
unshare -rmpf true 2>/dev/null || {
  echo "name spaces are not allowed here"
  exit 77
}
if ldd "$hvdrun" >/dev/null 2>&1; then
  echo "$hvdrun needs libraries"
  exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/bin" "$root/proc" "$root/tmp"
cp "$hvdrun" "$(command -v busybox)" "$root/bin"

# inside WORD...: runs it in that root, with nothing but PATH set.
inside() {
  # shellcheck disable=SC2016
  timeout 60 unshare -rmpf sh -c 'mount -t proc proc "$1/proc" && shift && exec "$@"' sh "$root" \
    chroot "$root" /bin/busybox env -i PATH=/bin "$@" 2>&1
}

failed=0
# wants TEXT CODE WORD...: what it prints holds the text, and it ends with that code.
wants() {
  local text=$1 code=0 printed
  printed=$(inside "${@:3}") || code=$?
  if [ "$code" -ne "$2" ] || [[ $printed != *"$text"* ]]; then
    printf 'FAILED (code %s): %s\n%s\n' "$code" "${*:3}" "$printed"
    failed=1
  fi
}

wants 'rank 1 of 2' 0 hvdrun -np 2 --prefix busybox sh -c 'echo rank $HVD_RANK of $HVD_SIZE'
wants 'rank 3 of 4' 0 hvdrun -np 4 --nodes 2 busybox sh -c 'echo rank $HVD_RANK of $HVD_SIZE'
wants 'rank 1 on host' 7 hvdrun -np 2 busybox sh -c 'exit $((HVD_RANK * 7))'
wants '#SBATCH --nodes=2' 0 hvdrun header --site jean-zay --gpus 8
wants 'srun' 0 hvdrun script --site generic --nodes 1 -- busybox sh -c true
wants 'no site' 2 hvdrun header --site nowhere --gpus 8
wants 'jean-zay' 0 hvdrun header --list
wants 'HVD_RANK' 0 hvdrun explain -np 2 busybox true
wants '"size": 2' 0 hvdrun explain --json -np 2 busybox true
wants 'shows no CPUs' 2 hvdrun topo
wants 'hvdrun' 0 hvdrun --version
wants 'loads no libraries' 1 hvdrun check --build
wants 'Usage: hvdrun' 0 hvdrun --help
wants '_hvdrun' 0 hvdrun completion bash
exit "$failed"
