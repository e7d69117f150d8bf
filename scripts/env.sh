# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Source it (bash or zsh): puts the build tree's hvdrun, man pages and Python packages on the paths of this shell: hvd,
# and horovod with horovodrun for Horovod's scripts.
#   source scripts/env.sh

if [ -n "${ZSH_VERSION:-}" ]; then
  eval '_hvd_root=${${(%):-%x}:A:h:h}'
else
  _hvd_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fi
if [ ! -e "$_hvd_root/build/build.ninja" ]; then
  echo "hvd: $_hvd_root/build is missing: run scripts/quickstart.sh first" >&2
fi
case ":$PATH:" in
  *":$_hvd_root/build/launcher:"*) ;;
  *)
    export PATH="$_hvd_root/build/launcher:$_hvd_root/runtime/horovod/bin:$PATH"
    # Where nothing was set, the empty element at the end is the system's pages.
    export MANPATH="$_hvd_root/build/docs:${MANPATH:-}"
    export PYTHONPATH="$_hvd_root/runtime/python:$_hvd_root/runtime/horovod${PYTHONPATH:+:$PYTHONPATH}"
    ;;
esac
export HVD_LIBRARY="$_hvd_root/build/runtime/c/libhvd.so"
unset _hvd_root
