#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# with_mps.sh CONTROL COMMAND...: a command whose processes use a GPU at the same time, by a daemon of CUDA's Multi-Process
# Service (nvidia-cuda-mps-control) that ends with it. Exit code: the command's; 77 where there is no daemon. No setting of
# the GPU is changed, and who was not started here does not see the daemon.
set -euo pipefail
control=$1
shift
CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d /tmp/hvd-mps.XXXXXX)
CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
timeout 20 "$control" -d || { rm -rf "$CUDA_MPS_PIPE_DIRECTORY" && echo "skipped: $control does not start" && exit 77; }
trap 'echo quit | timeout 10 "$control" || true; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
trap 'exit 143' TERM
code=0
"$@" || code=$?
echo "servers of MPS: $(echo get_server_list | timeout 10 "$control" | tr '\n' ' ')"
exit "$code"
