# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts: where things are, and how they speak.

# The system's Python and meson: others may come first on PATH and lack the frameworks.
export HVD_PYTHON=${HVD_PYTHON:-/usr/bin/python3}
MESON=${MESON:-/usr/bin/meson}
[ -x "$MESON" ] || MESON=meson
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# One compiler cache for every checkout, also of files with debug information, which names the folder they were compiled in.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$root
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
  tail -n 60 "$log" >&2
  return 1
}

# at_once FUNCTION item...: FUNCTION item for each, as many at a time as there are cores; 1 where one of them failed.
at_once() {
  local function=$1 item running=0 code=0
  shift
  for item in "$@"; do
    if [ "$running" -ge "$(nproc)" ]; then
      wait -n || code=1
      running=$((running - 1))
    fi
    "$function" "$item" &
    running=$((running + 1))
  done
  while [ "$running" -gt 0 ]; do
    wait -n || code=1
    running=$((running - 1))
  done
  return "$code"
}

# Half of a build's time goes into headers and templates: the files of a target are compiled together, up to 100 of them.
# For a tree that is edited in, `meson configure build -Dunity=off` compiles each alone again.
unity=(-Dunity=on -Dunity_size=100)

# configure DIR option...: sets a build tree up once; later only changed options are applied. Every tree has the GPU part
# where gpu_packages.sh has brought what it needs, unless it names its own gpu_roots.
configure() {
  local dir=$1 gpu_roots
  shift
  gpu_roots=$("$root/scripts/gpu_packages.sh" --roots)
  [[ -z $gpu_roots || " $*" == *" -Dgpu_roots="* ]] || set -- "$@" -Dgpu_roots="$gpu_roots"
  if [ -f "$dir/build.ninja" ]; then
    say "build tree $(basename "$dir") is there"
    # A tree that was set up before an option came learns of it only when it is set up again.
    "$MESON" configure "$dir" "$@" >/dev/null 2>&1 || quietly "$dir.setup.log" "$MESON" setup --reconfigure "$dir" "$root" "$@" ||
      fail "meson cannot configure $dir" "rm -r $dir and try again"
    rm -f "$dir.setup.log"
    return
  fi
  say "setting up $(basename "$dir")"
  quietly "$dir.setup.log" "$MESON" setup "$dir" "$root" "${unity[@]}" "$@" ||
    fail "meson cannot set up $dir" "the lines above say why; the whole log is $dir.setup.log"
  rm -f "$dir.setup.log"
}

beat_seconds=60

# progress LOG: keeps the lines of a build in LOG; says how many files there are, and now and then how many are done.
progress() {
  local line next=
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s\n' "$line" >&3
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] && ${BASH_REMATCH[1]} -gt 0 ]] || continue # 0: ninja makes its own file anew
    if [ -z "$next" ]; then
      say "files to build: ${BASH_REMATCH[2]}"
    elif [ "$SECONDS" -ge "$next" ]; then
      say "${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
    else
      continue
    fi
    next=$((SECONDS + beat_seconds))
  done 3>"$1"
}

# compile DIR target...: shows ninja's progress on a terminal; elsewhere a line a minute, and the end of a build that failed.
compile() {
  local dir=$1 advice="the first error above is the one to read" log=$1/compile.log
  shift
  if [ -t 1 ]; then
    nice ninja -C "$dir" "$@" || fail "the build in $dir failed" "$advice"
    return
  fi
  NINJA_STATUS='[%f/%t] ' nice ninja -C "$dir" "$@" 2>&1 | progress "$log" || {
    tail -n 60 "$log" >&2
    fail "the build in $dir failed" "$advice; all of it is in $log"
  }
}
