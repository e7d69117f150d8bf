#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What hvdrun writes for each site, hvdrun lint accepts.
#   accepts_headers_test.sh HVDRUN
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
checked=0
while read -r site; do
  for kind in header script; do
    "$1" "$kind" --site "$site" --nodes 1 --time 00:30:00 -- python3 train.py >"$folder/job.sbatch" 2>"$folder/why" || continue
    # The note of a site that refuses a job without an account shows one.
    account=$(sed -n 's/.*add --[a-z]* (\(.*\))\.$/\1/p' "$folder/job.sbatch")
    if [ -n "$account" ]; then
      "$1" "$kind" --site "$site" --nodes 1 --time 00:30:00 --account "$account" -- python3 train.py >"$folder/job.sbatch"
    fi
    checked=$((checked + 1))
    "$1" lint --site "$site" "$folder/job.sbatch" >"$folder/found" || {
      failed=1
      echo "hvdrun $kind --site $site:"
      cat "$folder/job.sbatch" "$folder/found"
    }
  done
done < <("$1" header --list | awk '!/^ / && NF {print $1}')
echo "$checked headers and scripts checked"
[ "$checked" -gt 2 ] || failed=1
exit "$failed"
