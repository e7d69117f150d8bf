#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/reference/hvdrun.md is what hvdrun prints of its commands.
#   reference_test.sh HVDRUN PAGE [--update]
set -euo pipefail
if [ "${3:-}" = --update ]; then
  "$1" describe markdown >"$2"
  exit
fi
diff -u "$2" <("$1" describe markdown) || {
  echo "the options changed: run $0 $1 $2 --update"
  exit 1
}
