#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings what the GPU plane is built with from PyPI into build-tools/gpu: the headers of CUDA's driver and runtime, NVRTC,
# which compiles the kernels, and NCCL. No GPU and no CUDA toolkit is needed. Where PyPI is out of reach it says so: the
# build then has no GPU part, unless a toolkit is found.
# gpu_packages.sh [--roots | --within SECONDS]
#   --roots           bring nothing; print the value of Meson's option gpu_roots, no line where nothing is there
#   --within SECONDS  give up after so long
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# CUDA 13 compiles no kernels for V100 and P100.
packages=(nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-nccl-cu12==2.28.9)
tools=$root/build-tools
place=$tools/gpu
ready=$place/ready
seconds=600

bring() {
  if [ "$(cat "$ready" 2>/dev/null)" = "${packages[*]}" ]; then
    say "skipped: ${packages[*]} are there"
    return
  fi
  [ -x "$tools/bin/python" ] || quietly "$tools/gpu.log" "$HVD_PYTHON" -m venv "$tools" || {
    say "no GPU part: $HVD_PYTHON cannot make a virtual environment (Debian: python3-venv)"
    return
  }
  say "bringing ${packages[*]} (390 MB)"
  rm -rf "$place"
  # Not quietly: a place without network is not a fault, and pip writes pages about it.
  timeout "$seconds" "$tools/bin/python" -m pip install --progress-bar off --no-deps --no-compile --retries 1 \
    --target "$place" "${packages[@]}" >"$tools/gpu.log" 2>&1 </dev/null || {
    rm -rf "$place"
    say "no GPU part: PyPI did not give ${packages[*]} within $seconds s; scripts/gpu_packages.sh tries again, its log is" \
      "$tools/gpu.log"
    return
  }
  printf '%s\n' "${packages[*]}" >"$ready"
}

case ${1:-} in
  '') bring ;;
  --roots) [ ! -f "$ready" ] || echo "$place/nvidia/cuda_runtime,$place/nvidia/cuda_nvrtc,$place/nvidia/nccl" ;;
  --within)
    [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--within needs a number of seconds" "got '${2:-}'"
    seconds=$2
    bring
    ;;
  *) fail "unknown argument '$1'" "use: scripts/gpu_packages.sh [--roots | --within SECONDS]" ;;
esac
