#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man pages are well formed, each has every option of its command, and they name no other pages.
#   man_pages_test.sh HVDRUN MAN1 MAN5
set -euo pipefail
failed=0

complain() {
  echo "$*"
  failed=1
}

for page in "$2"/*.1 "$3"/*.5; do
  if command -v man >/dev/null; then
    warnings=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) || true
    [ -z "$warnings" ] || complain "man: $page: $warnings"
  fi
  if command -v mandoc >/dev/null; then
    # scdoc puts a paragraph before each heading and list; groff and mandoc skip it.
    warnings=$(mandoc -Tlint -W warning "$page" | grep -v 'skipping paragraph macro') || true
    [ -z "$warnings" ] || complain "mandoc: $warnings"
  fi
done

for command in $("$1" describe commands); do
  page=$2/hvdrun-$command.1
  [ "$command" != run ] || page=$2/hvdrun.1
  while IFS=$'\t' read -r option _; do
    grep -qF -- "${option//-/\\-}" "$page" || grep -qF -- "$option" "$page" ||
      complain "$page lacks $option"
  done < <("$1" describe options "$command")
done
# An installation has these pages, not those of the sources.
if grep -n 'docs/' "$2"/*.1 "$3"/*.5; then complain "a page names a file that is not installed"; fi
grep -qF 'HVD_FULL_TRACEBACK' "$2/hvdrun.1" || grep -qF 'HVD\_FULL\_TRACEBACK' "$2/hvdrun.1" ||
  complain "hvdrun.1 lacks the variables of the library"
exit "$failed"
