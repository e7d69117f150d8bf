#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `source scripts/env.sh` puts hvdrun on the path, once, in bash and in zsh.
#   env_script_test.sh ENV_SH
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/scripts" "$root/build/launcher"
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
    command -v hvdrun; echo "$PATH" | tr : "\n" | grep -c "^$1/"; echo "$HVD_LIBRARY"' "$shell" "$root")
  wanted=$(printf '%s\n' "$root/build/launcher/hvdrun" 1 "$root/build/runtime/c/libhvd.so")
  if [ "$found" != "$wanted" ]; then
    printf '%s found\n%s\nand not\n%s\n' "$shell" "$found" "$wanted"
    failed=1
  fi
done
exit "$failed"
