# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts: where things are, and how they speak.

# The system's Python and meson: others may come first on PATH and lack the frameworks.
export HVD_PYTHON=${HVD_PYTHON:-/usr/bin/python3}
MESON=${MESON:-/usr/bin/meson}
[ -x "$MESON" ] || MESON=meson
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034  # read by the scripts that source this file
build=$root/build

say() { printf '%s\n' "-- $*"; }

# fail "what went wrong" "what to do": one clear sentence each, exit 1.
fail() {
  printf '\nerror: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '       %s\n' "$2" >&2
  exit 1
}

# quietly LOG command...: output goes to LOG; on failure its end is shown.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return 0
  tail -n 40 "$log" >&2
  return 1
}

# configure DIR option...: sets a build tree up once; later only changed options are applied.
configure() {
  local dir=$1
  shift
  if [ -f "$dir/build.ninja" ]; then
    say "build tree $(basename "$dir") is there"
    "$MESON" configure "$dir" "$@" >/dev/null || fail "meson cannot configure $dir" "rm -r $dir and try again"
    return
  fi
  say "setting up $(basename "$dir")"
  quietly "$dir.setup.log" "$MESON" setup "$dir" "$root" "$@" ||
    fail "meson cannot set up $dir" "the lines above say why; the whole log is $dir.setup.log"
  rm -f "$dir.setup.log"
}

# compile DIR target...: shows ninja's progress.
compile() {
  local dir=$1
  shift
  nice ninja -C "$dir" "$@" || fail "the build in $dir failed" "the first error above is the one to read"
}
