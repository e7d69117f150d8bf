#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `source scripts/env.sh` puts hvdrun, horovodrun and the man pages on the paths, once, in bash and in zsh.
#   env_script_test.sh ENV_SH LIBHVD
set -euo pipefail
unset MANPATH
root=$(mktemp -d)
source=$(cd "$(dirname "$1")/.." && pwd)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/scripts" "$root/build/launcher" "$root/build/docs/man1" "$root/runtime"
ln -s "$source/runtime/horovod" "$source/runtime/python" "$root/runtime"
printf '.TH hvdrun 1\n.SH NAME\nhvdrun\n' >"$root/build/docs/man1/hvdrun.1"
cp "$1" "$root/scripts/env.sh"
touch "$root/build/build.ninja"
printf '#!/bin/sh\n' >"$root/build/launcher/hvdrun"
chmod +x "$root/build/launcher/hvdrun"

failed=0
for shell in bash zsh; do
  if ! command -v "$shell" >/dev/null; then
    echo "$shell is not installed: left out"
    continue
  fi
  # shellcheck disable=SC2016  # the variables are the shell's
  found=$(cd / && "$shell" -c 'set -eu; . "$1/scripts/env.sh"; . "$1/scripts/env.sh"
    command -v hvdrun; command -v horovodrun; echo "$PATH" | tr : "\n" | grep -c "^$1/"
    echo "$MANPATH"; echo "$HVD_LIBRARY"' "$shell" "$root")
  wanted=$(printf '%s\n' "$root/build/launcher/hvdrun" "$root/runtime/horovod/bin/horovodrun" 2 \
    "$root/build/docs:" "$root/build/runtime/c/libhvd.so")
  if [ "$found" != "$wanted" ]; then
    printf '%s found\n%s\nand not\n%s\n' "$shell" "$found" "$wanted"
    failed=1
  fi
  # shellcheck disable=SC2016  # the variables are the shell's
  version=$("$shell" -c '. "$1/scripts/env.sh"; export HVD_LIBRARY=$2; horovodrun --version' "$shell" "$root" "$2" 2>&1) ||
    version="an error: $version"
  case $version in
    [0-9]*.[0-9]*.[0-9]*) ;;
    *)
      echo "$shell: horovodrun --version says $version"
      failed=1
      ;;
  esac
done

# In small images man is a program that says how to get one.
if [[ $(man -w 2>/dev/null) == /* ]]; then
  . "$root/scripts/env.sh"
  places=$(man -w) # the folders that are searched
  case $places: in
    "$root/build/docs:"*/man:*) ;;
    *)
      echo "man looks in $places"
      failed=1
      ;;
  esac
  page=$(man -w hvdrun) || page=nowhere
  if [ "$page" != "$root/build/docs/man1/hvdrun.1" ]; then
    echo "man finds hvdrun(1) at $page"
    failed=1
  fi
fi
exit "$failed"
