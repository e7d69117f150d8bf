#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every long option that hvdrun prints in its help is in the man page and in the completion.
#   completion_test.sh HVDRUN MAN_PAGE COMPLETION
set -euo pipefail
missing=0
for command in "" header script check; do
  # shellcheck disable=SC2086
  for option in $("$1" $command --help | grep -oE -- '(^|[ ,])--[a-z][a-z-]+' | tr -d ' ,' | sort -u); do
    [ "$option" != --np ] || continue # spelled -np
    grep -qF -- "${option//-/\\-}" "$2" || { echo "$2 lacks $option of hvdrun $command" && missing=1; }
    grep -qF -- "$option" "$3" || { echo "$3 lacks $option of hvdrun $command" && missing=1; }
  done
done
exit "$missing"
