#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws docs/explanation/drawings/*.dot anew, each as an SVG that names the digest of its text.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case ${1:-} in
  -h | --help)
    echo "usage: scripts/drawings.sh"
    exit 0
    ;;
esac
command -v dot >/dev/null || fail "there is no dot" "apt-get install graphviz"
for text in "$root"/docs/explanation/drawings/*.dot; do
  drawing=${text%.dot}.svg
  dot -Tsvg "$text" -o "$drawing"
  printf '<!-- %s -->\n' "$(sha256sum "$text" | cut -d ' ' -f 1)" >>"$drawing"
done
