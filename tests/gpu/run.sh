#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, on this machine: builds what is missing, then run_all.py.
# tests/gpu/run.sh [BUILD] [options of run_all.py]: a build folder with tests, or a folder that collect.py has made; unless
# given, `build` where that has tests for GPUs, else `build-gpu`, which is set up where it is not there. The tests need
# the packages of `scripts/packages.sh build test`. Exit code 77 where there is no GPU, 1 where something failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${HVD_TEST_PYTHON:-python3}
programs=(launcher/hvdrun runtime/c/libhvd.so tests/gpu/gpu_table_rank tests/gpu/gpu_bench tests/gpu/libgpu_waits.so
  tests/gpu/pack_bench tests/unit/device/kernels_test)

# has_tests BUILD: a build folder that knows how to make all of them.
has_tests() {
  local said
  [ -f "$1/build.ninja" ] || return 1
  said=$(ninja -C "$1" build.ninja 2>&1) || { # options that have changed count from here on
    printf '%s\n' "$said" >&2
    return 1
  }
  ninja -C "$1" -t query "${programs[@]}" >/dev/null 2>&1
}

case " $* " in
  *" --list "* | *" --help "* | *" -h "*) ;;
  *) "$python" -B "$root/tests/gpu/found.py" --gpu ;; # 77 ends the script
esac
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  build=$1
  shift
elif has_tests "$root/build"; then
  build=$root/build
else
  build=$root/build-gpu
fi
roots=
if [ -f "$build/build.ninja" ] || [ ! -x "$build/tests/gpu/gpu_bench" ]; then # not collected: to be built
  roots=$("$root/scripts/gpu_packages.sh" --roots)
  [ -n "$roots" ] || roots=$("$python" -B "$root/tests/gpu/found.py")
fi
options=(-Dgpu=cuda -Dtests=enabled ${roots:+-Dgpu_roots="$roots"})
if [ -f "$build/build.ninja" ]; then
  has_tests "$build" || {
    echo "error: $build has no tests for GPUs: meson configure $build ${options[*]}"
    [ -n "$roots" ] || echo "       and before it scripts/gpu_packages.sh, which brings the headers of CUDA and NCCL"
    exit 1
  } >&2
  ninja -C "$build" "${programs[@]}"
elif [ ! -x "$build/tests/gpu/gpu_bench" ]; then
  meson setup "$build" "$root" -Dbuildtype=release "${options[@]}"
  ninja -C "$build" "${programs[@]}"
fi
if command -v nvidia-smi >/dev/null; then
  timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || true
fi
exec "$python" -B "$root/tests/gpu/run_all.py" "$build" "$@"
