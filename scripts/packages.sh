#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh GROUP...: installs the Debian packages of these groups (packages.txt) that are missing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

groups=" $* "
[ $# -gt 0 ] || fail "no group given" "use: scripts/packages.sh build|torch|test|check|bench ..."
command -v apt-get >/dev/null || fail "this machine has no apt-get" \
  "the scripts are written for Debian 12; elsewhere install what scripts/packages.txt names"

wanted=()
while read -r name group _; do
  case $name in '' | '#'*) continue ;; esac
  case $groups in *" ${group:-build} "*) wanted+=("$name") ;; esac
done <"$root/scripts/packages.txt"

missing=()
for name in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null || true)
  [ "${state:0:2}" = ii ] || missing+=("$name")
done
if [ ${#missing[@]} -eq 0 ]; then
  say "skipped: the ${#wanted[@]} packages of [$*] are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "${#missing[@]} packages are missing and there is no sudo" \
    "as root: apt-get install -y --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing ${#missing[@]} of ${#wanted[@]} packages: ${missing[*]}"
quietly "$log" "${as_root[@]}" apt-get update ||
  fail "apt-get update failed" "look at the network and at /etc/apt/sources.list, then run this again"
quietly "$log" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" ||
  fail "apt-get install failed" "the lines above say which package; the list is scripts/packages.txt"
