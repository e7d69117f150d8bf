#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, on this machine: the suite gpu, the kernels under compute-sanitizer, what packing and
# hvd.torch reach.
# tests/gpu/run.sh [BUILD]: a build folder with tests, `build` if not given. Its last line counts; exit code 77 where there
# is no GPU, 1 where something failed. compute-sanitizer comes with the CUDA toolkit; COMPUTE_SANITIZER names it elsewhere.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
passed=0 failed=0 skipped=0

# step NAME command...: code 77 is a skip.
step() {
  local name=$1 code=0
  shift
  echo "== $name"
  timeout 1800 "$@" || code=$?
  case $code in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) && echo "== $name failed with code $code" ;;
  esac
}

[ -x "$build/tests/unit/device/kernels_test" ] || {
  echo "$build has no tests of the GPU plane: build with -Dgpu=cuda" >&2
  exit 1
}
code=0
"$build/tests/unit/device/kernels_test" --gtest_list_tests >/dev/null || code=$?
if [ "$code" -eq 77 ]; then
  "$build/tests/unit/device/kernels_test" --gtest_list_tests || true
  exit 77
fi
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
step "suite gpu" "${MESON:-meson}" test -C "$build" --no-rebuild --suite gpu --print-errorlogs
if [ -x "$sanitizer" ]; then
  # Racecheck looks at shared memory, which these kernels do not use; it is here for those that may come.
  for tool in memcheck racecheck; do
    step "$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 "$build/tests/unit/device/kernels_test" --need-gpu
  done
else
  echo "== compute-sanitizer is not installed: skipped" && skipped=$((skipped + 2))
fi
for limit in 25 128; do
  step "packing, buckets of $limit MiB" "$build/tests/gpu/pack_bench" --bucket-mib "$limit" \
    "$root"/tests/bench/shapes_{resnet50,vgg16,bert_base}.txt
done
step "hvd.torch, with its figures" "${HVD_TEST_PYTHON:-python3}" "$root/tests/gpu/run_all.py" "$build"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
