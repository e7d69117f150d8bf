# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh: the frameworks of PyPI and the stages that run with them. Each has a virtual environment of its
# own, build-NAME, kept for the next run.
#   build-newest-torch       the newest PyTorch
#   build-tensorflow-2.16    the oldest TensorFlow that the plugin can serve
#   build-tensorflow-newest  the newest one; tensorflow-cpu is the same without code for GPUs, half of the download; with
#                            Keras 2 (tf_keras), whose tests are skipped where it did not come
# shellcheck disable=SC2154  # root and build come from lib.sh

# So long PyPI may take for all of them.
install_seconds=1200

# install_framework NAME pip-argument...: into build-NAME, where the file `ready` says that all of it came.
install_framework() {
  local venv=$root/build-$1
  shift
  rm -f "$venv/ready"
  [ -x "$venv/bin/pip" ] || {
    rm -rf "$venv" # one that was not made to its end has no pip
    "$HVD_PYTHON" -m venv "$venv" || return 1
  }
  # In the foreground: in the group of processes that test.sh ends when it ends.
  timeout --foreground $((install_seconds > SECONDS ? install_seconds - SECONDS : 1)) \
    nice "$venv/bin/python" -m pip install --progress-bar off "$@" >"$venv/pip.log" 2>&1 || return 1
  touch "$venv/ready"
}

# install_keras2 NAME: beside TensorFlow, without what it depends on: a TensorFlow of another name.
install_keras2() {
  timeout --foreground $((install_seconds > SECONDS ? install_seconds - SECONDS : 1)) \
    nice "$root/build-$1/bin/python" -m pip install --progress-bar off --no-deps --upgrade tf_keras \
    >>"$root/build-$1/pip.log" 2>&1
}

# For the background, while the compilers run: minutes go by until PyPI has sent all. A stage says what did not come.
# With the oldest TensorFlow where the first argument is "yes".
install_frameworks() {
  SECONDS=0
  install_framework newest-torch --upgrade torch numpy keras || true
  [ "$1" = no ] || install_framework tensorflow-2.16 tensorflow-cpu==2.16.2 cloudpickle || true
  if install_framework tensorflow-newest --upgrade tensorflow-cpu cloudpickle; then
    install_keras2 tensorflow-newest || true
  fi
}

# framework_version NAME MODULE: says the version of what was installed; 77 where nothing came, and why.
framework_version() {
  local venv=$root/build-$1 version
  [ -f "$venv/ready" ] || {
    say "PyPI gave no $2 for build-$1 (no network?): $(tail -n 1 "$venv/pip.log")"
    return 77
  }
  version=$(TF_CPP_MIN_LOG_LEVEL=3 "$venv/bin/python" -c "import $2; print($2.__version__)") || return 1
  say "$2 $version"
}

# framework_tests LOG argument-of-meson-test...: fails, too, where no case passed, as all were skipped.
framework_tests() {
  local log=$1 code=0 counts
  shift
  "$MESON" test -C "$build" --num-processes $((2 * $(nproc))) --logbase "$log" --print-errorlogs "$@" || code=$?
  counts=$("$HVD_PYTHON" "$root/scripts/count_tests.py" "$build/meson-logs/$log.json")
  say "$log: $counts (passed, failed, skipped)"
  [ "${counts%% *}" -gt 0 ] || return 1
  return "$code"
}

# The newest PyTorch, beside Debian's: the same files of ours must serve both.
stage_newest_torch() {
  local python=$root/build-newest-torch/bin/python code=0
  framework_version newest-torch torch || return $?
  "$MESON" configure "$build" -Dpython="$python" -Dtorch_python="$python" || return 1
  step python framework_tests testlog-newest --suite python --no-suite one_torch || code=$?
  # What Debian's PyTorch lacks: a gradient scaler for CPUs, DDP's later ways.
  step examples framework_tests testlog-newest-examples --no-rebuild example_amp_2 example_ddp_2 || code=$?
  "$MESON" configure "$build" -Dpython="$HVD_PYTHON" -Dtorch_python= || return 1
  return "$code"
}

# rocm_roots: folders with the headers of HIP and RCCL. A ROCm that is there comes first; else HIP's come with triton,
# the compiler of PyTorch, and RCCL's, which is in no package, is NCCL's header with HIP's names, as RCCL makes it.
# 77, and what is missing, where there are none.
rocm_roots() {
  local place=$root/build-tools/rocm nccl=$root/build-tools/gpu/nvidia/nccl/include/nccl.h hip missing=()
  [ ! -f /opt/rocm/include/rccl/rccl.h ] || {
    echo /opt/rocm
    return
  }
  hip=("$root"/build-newest-torch/lib/python3*/site-packages/triton/backends/amd)
  [ -f "${hip[0]}/include/hip/hip_runtime_api.h" ] ||
    missing+=("headers of HIP (PyPI gave no triton with build-newest-torch)")
  [ -f "$nccl" ] || missing+=("header of NCCL for RCCL's (scripts/gpu_packages.sh brings it)")
  [ ${#missing[@]} -eq 0 ] || {
    echo "${missing[0]}${missing[1]:+, and no ${missing[1]}}"
    return 77
  }
  mkdir -p "$place/include/rccl"
  sed -e 's|<cuda_runtime.h>|<hip/hip_runtime_api.h>|; /#include <cuda_/d; s/cudaStream_t/hipStream_t/g' "$nccl" \
    >"$place/include/rccl/rccl.h"
  echo "$place,${hip[0]}"
}

# The part for AMD GPUs: compiled and loaded, though nothing of it runs without one.
stage_rocm() {
  local dir=$root/build-rocm roots
  roots=$(rocm_roots) || {
    say "there is no ROCm here, and no $roots"
    return 77
  }
  configure "$dir" -Dbuildtype=release -Dexamples=disabled -Dgpu=rocm -Dgpu_roots="$roots" || return 1
  step compile compile "$dir" runtime/c/libhvd.so launcher/hvdrun || return 1
  "$dir/launcher/hvdrun" check --build | grep ROCm
}

# tensorflow_tests RELEASE suite...
tensorflow_tests() {
  local release=$1 name suites=() code=0
  shift
  for name in "$@"; do suites+=(--suite "$name"); done
  framework_version "tensorflow-$release" tensorflow || return $?
  "$MESON" configure "$build" -Dtensorflow_python="$root/build-tensorflow-$release/bin/python" || return 1
  step "$release" framework_tests "testlog-tensorflow-$release" "${suites[@]}" || code=$?
  "$MESON" configure "$build" -Dtensorflow_python= || return 1
  return "$code"
}

# Debian has no TensorFlow. One plugin and one package serve the newest, with all tests and the examples, and the oldest,
# with the tests that tell one release from another.
stage_tensorflow() { tensorflow_tests newest tensorflow tensorflow_examples; }
stage_tensorflow_more() { tensorflow_tests newest tensorflow_more; }
stage_tensorflow_oldest() { tensorflow_tests 2.16 tensorflow_oldest; }
