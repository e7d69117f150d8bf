#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tools shellcheck and hvdrun lint find nothing in the scripts that hvdrun writes, one of each shape and site.
#   job_scripts_test.sh HVDRUN
set -euo pipefail
if ! command -v shellcheck >/dev/null; then
  echo "skipped: shellcheck not found: apt-get install shellcheck"
  exit 77
fi
hvdrun=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
program=(-- python3 train.py --name "it's \$a & b")

write() {
  local name=$1
  shift
  "$hvdrun" script "$@" "${program[@]}" >"$folder/$name.sh"
}

write gpu --site jean-zay --gpus 6
write exclusive --site jean-zay --nodes 4 --gpus-per-node 3 --exclusive
write cpu --site generic --nodes 2
write array --site jean-zay --gpus 4 --array 0-9%2
write requeue --site jean-zay --gpus 8 --requeue --modules a/b,c
write container --site jean-zay --gpus 8 --container 'my image.sif'
write all --site jean-zay --gpus 8 --container i.sif --array 0-3 --requeue --signal B:USR1@90
# At each site that there is, with the account and time that some want; hvdrun lint agrees with hvdrun script.
example='import json, sys; print(json.load(sys.stdin).get("account", {}).get("example", ""))'
while read -r site _; do
  refusal=$("$hvdrun" script --site "$site" --nodes 2 -- true 2>&1 >/dev/null) || true
  if [[ $refusal == *"has no batch system"* ]]; then continue; fi
  account=$("$hvdrun" sites "$site" --json | python3 -c "$example")
  write "site-$site" --site "$site" --nodes 2 --time 0:10:00 ${account:+--account "$account"}
  "$hvdrun" lint --site "$site" "$folder/site-$site.sh"
done < <("$hvdrun" header --list | grep -v '^ ')
# SC2016: a $ in an argument of the program stays as it was typed.
shellcheck --shell=bash --exclude=SC2016 "$folder"/*.sh
