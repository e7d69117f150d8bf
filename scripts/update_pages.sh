#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes anew what is made from data and code: golden files, the job scripts of the examples, and the pages of docs/reference
# that say so. Read the diff.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case ${1:-} in
  -h | --help)
    echo "usage: scripts/update_pages.sh [BUILD]   (default: build)"
    exit 0
    ;;
esac
cd "$root"
build=${1:-build}
[ -f "$build/build.ninja" ] || fail "no $build/build.ninja" "configure first: meson setup $build"

tests=(unit_env unit_job unit_lint unit_node unit_plan)
ninja -C "$build" launcher/hvdrun "${tests[@]/#/tests/}"
# A test may still fail for another reason than a golden file; the last line says so.
failed=()
for test in "${tests[@]}"; do
  "$build/tests/$test" --update >"$build/$test-update.log" 2>&1 || failed+=("$build/$test-update.log")
done
python3 tests/style/check_sites.py --update
if command -v dot >/dev/null; then scripts/drawings.sh; fi
python3 scripts/site_schema_page.py
tests/unit/launcher/describe/reference_test.sh "$build/launcher/hvdrun" docs/reference/hvdrun.md --update
python3 -B examples/slurm/job_scripts.py "$build/launcher/hvdrun" --update
git status --short -- docs examples tests runtime/python
[ ${#failed[@]} -eq 0 ] || fail "tests that fail still" "see ${failed[*]}"
