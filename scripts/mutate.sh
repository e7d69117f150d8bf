#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Changes single lines of the product, each at a time, and says which of them no test notices. In a worktree of its own,
# which is of the last commit; see scripts/mutate.py for the arguments. Runs side by side take a COPY each: most of the
# time of a mutant is one compiler's.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case ${1:-} in
  -h | --help)
    echo "usage: scripts/mutate.sh [--copy COPY] [--folder FOLDER]... [--count N] [--seed N] [--results FILE] [--again FILE]"
    exit 0
    ;;
esac
copy=$root/build-mutants
if [ "${1:-}" = --copy ]; then
  copy=$root/build-mutants-$2
  shift 2
fi
[ -e "$copy/.git" ] || git -C "$root" worktree add --quiet --detach "$copy" HEAD
git -C "$copy" checkout --quiet --detach "$(git -C "$root" rev-parse HEAD)"
git -C "$copy" checkout --quiet -- .
[ -f "$copy/build/build.ninja" ] ||
  quietly "$copy/setup.log" "$MESON" setup "$copy/build" "$copy" -Ddebug=false -Doptimization=1 -Dexamples=disabled ||
  fail "meson cannot set up $copy/build" "see $copy/setup.log"
# What scripts/test.sh --all has installed: the newest PyTorch judges more lines than Debian's, TensorFlow those of its own.
python=$root/build-newest-torch
[ ! -f "$python/ready" ] || "$MESON" configure "$copy/build" -Dpython="$python/bin/python"
python=$root/build-tensorflow-newest
[ ! -f "$python/ready" ] || "$MESON" configure "$copy/build" -Dtensorflow_python="$python/bin/python"
exec "$HVD_PYTHON" -B "$copy/scripts/mutate.py" "$copy/build" "$@"
