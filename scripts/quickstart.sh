#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a clean clone on Debian 12 to two trained models: installs what is missing, builds, trains with 4 ranks.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

ranks=4
limit=240
started=$SECONDS

train() {
  local code=0
  say "$*"
  # A deadline of our own: a hang would be a bug, and must not look like a slow machine.
  timeout --kill-after=10 "$limit" "$@" || code=$?
  [ "$code" -ne 0 ] || return 0
  [ "$code" -ne 124 ] || fail "the training did not end within $limit s" "please report the output above"
  fail "the training ended with exit code $code" "the first failing rank is named above"
}

gpu=auto
case ${1:-} in
  '') ;;
  --without-gpu) gpu=none ;;
  -h | --help)
    echo "usage: scripts/quickstart.sh [--without-gpu]    (see README.md)"
    echo "  --without-gpu    leave out the part for GPUs, and the 390 MB from PyPI that it is built with"
    exit 0
    ;;
  *) fail "unknown argument '$1'" "use: scripts/quickstart.sh [--without-gpu]" ;;
esac

say "1/4 packages"
"$root/scripts/packages.sh" build torch
"$HVD_PYTHON" -c 'import torch' 2>/dev/null || fail "$HVD_PYTHON cannot import torch" \
  "unset HVD_PYTHON to use Debian's /usr/bin/python3, or give a Python that has torch"

# The part for GPUs, if it comes quickly; it can be added later.
[ "$gpu" = none ] || "$root/scripts/gpu_packages.sh" --within 20

say "2/4 build"
if [ -f "$build/build.ninja" ]; then
  configure "$build" -Dgpu="$gpu" # another option may have been given before; only what changed is built
else
  configure "$build" -Dbuildtype=release -Dtests=disabled -Dgpu="$gpu"
fi
compile "$build"
# shellcheck source=scripts/env.sh
. "$root/scripts/env.sh"

say "3/4 a digit classifier in C++, $ranks ranks"
train hvdrun -np "$ranks" "$build/examples/digits"

say "4/4 the same in PyTorch, $ranks ranks"
train hvdrun -np "$ranks" "$HVD_PYTHON" "$root/examples/pytorch/digits.py"

say "done in $((SECONDS - started)) s. To go on in this shell: source scripts/env.sh; then for example"
say "  hvdrun -np 4 --nodes 2 $HVD_PYTHON examples/pytorch/digits.py"
