#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, on this machine: builds what is missing, then run_all.py.
# tests/gpu/run.sh [BUILD] [options of run_all.py]: a build folder with tests, or a folder that collect.py has made; `build`
# if not given. Exit code 77 where there is no GPU, 1 where something failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  build=$1
  shift
fi
python=${HVD_TEST_PYTHON:-python3}
programs=(launcher/hvdrun runtime/c/libhvd.so tests/gpu/gpu_table_rank tests/gpu/gpu_bench tests/gpu/libgpu_waits.so
  tests/gpu/pack_bench tests/unit/device/kernels_test)
if [ -f "$build/build.ninja" ]; then
  ninja -C "$build" "${programs[@]}" ||
    { echo "$build has no tests of the GPU plane: configure it with -Dgpu=cuda -Dtests=enabled" >&2 && exit 1; }
elif [ ! -x "$build/tests/gpu/gpu_bench" ]; then
  roots=$("$root/scripts/gpu_packages.sh" --roots)
  [ -n "$roots" ] || roots=$("$python" -B "$root/tests/gpu/found.py")
  meson setup "$build" "$root" -Dbuildtype=release -Dgpu=cuda -Dtests=enabled ${roots:+-Dgpu_roots="$roots"}
  ninja -C "$build" "${programs[@]}"
fi
if command -v nvidia-smi >/dev/null; then
  timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || true
fi
exec "$python" -B "$root/tests/gpu/run_all.py" "$build" "$@"
