#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds into build/, runs the suites, and ends with one line: N passed, N failed, N skipped
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stages.sh"
. "$(dirname "$0")/frameworks.sh"

usage="usage: scripts/test.sh [--all|--deep] [--suite unit|world|process|slurm|python|style|examples|more|long]...
  --all         also: every example (suite examples), what other tests do with more ranks or another library (suite more),
                clang without warnings, a static hvdrun, a wheel, sanitizers, fuzzing, the newest PyTorch, the newest TensorFlow
  --deep        also what seldom finds anything: each file compiled alone, clang-tidy, long programs with sanitizers, more ranks with TensorFlow, fuzzing of the launcher's parsers, TensorFlow 2.16, the part for AMD GPUs, large tensors (suite long)
  --suite NAME  only this suite (may be given again)"
every_suite=(unit world process slurm python style)
stages=(static clang asan fuzz wheel tsan newest_torch tensorflow)
deep_stages=(alone tidy asan_long tsan_long fuzz_launcher tensorflow_more tensorflow_oldest rocm long)
suites=()
all=no
deep=no
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=yes ;;
    --deep) all=yes deep=yes ;;
    --suite)
      [[ " ${every_suite[*]} examples more long " == *" ${2:-} "* ]] ||
        fail "--suite needs one of: ${every_suite[*]} examples more long" "got '${2:-}'"
      suites+=("$2")
      shift
      ;;
    -h | --help)
      echo "$usage"
      exit 0
      ;;
    *) fail "unknown argument '$1'" "$usage" ;;
  esac
  shift
done
if [ ${#suites[@]} -eq 0 ]; then
  suites=("${every_suite[@]}")
  [ "$all" = no ] || suites+=(examples more)
fi

passed=0 failed=0 skipped=0
table=()
# What the steps of a stage took: a stage runs in a shell of its own, so they go through a file.
steps=$root/build-steps

minutes() { awk "BEGIN{printf \"%.1f\", $1/60}"; }

# record NAME SECONDS PASSED FAILED SKIPPED
record() {
  passed=$((passed + $3)) failed=$((failed + $4)) skipped=$((skipped + $5))
  table+=("$(printf '%-36s %6s min  %4d passed %4d failed %4d skipped  %s' "$1" "$(minutes "$2")" "$3" "$4" "$5" \
    "$(cat "$steps" 2>/dev/null)")")
  rm -f "$steps"
}

# step NAME command...: its minutes stand at the end of the stage's line.
step() {
  local name=$1 start=$SECONDS code=0
  shift
  "$@" || code=$?
  printf '%s %s  ' "$name" "$(minutes $((SECONDS - start)))" >>"$steps"
  return "$code"
}

# ruff is in no Debian 12 package: a small environment of its own, from PyPI.
fetch_ruff() {
  [ ! -x "$root/build-tools/bin/ruff" ] || return 0
  "$HVD_PYTHON" -m venv "$root/build-tools" || return 0
  quietly "$root/build-tools/pip.log" timeout 120 "$root/build-tools/bin/pip" install --progress-bar off ruff ||
    say "ruff is not to be had from PyPI; its check will be skipped"
}

# run_suites PROCESSES suite...: in one run, so that the last program of one suite does not hold up the next suite.
run_suites() {
  local processes=$1 start=$SECONDS name log options=() p f s
  shift
  [ $# -gt 0 ] || return 0
  for name in "$@"; do options+=(--suite "$name"); done
  name=testlog-$(tr ' ' - <<<"$*")
  log=$build/meson-logs/$name.json
  say "suites $*"
  rm -f "$log"
  "$MESON" test -C "$build" --no-rebuild "${options[@]}" --num-processes "$processes" --logbase "$name" --print-errorlogs || true
  if [ ! -f "$log" ]; then
    say "suites $* did not run: meson left no log"
    record "$*" $((SECONDS - start)) 0 1 0
    return
  fi
  read -r p f s < <("$HVD_PYTHON" "$root/scripts/count_tests.py" "$log")
  for name in "$@"; do
    grep -q "\"name\": \"hvdrun:[a-z_+]*\<$name\>" "$log" || {
      say "no test is of suite $name"
      f=$((f + 1))
    }
  done
  record "$*" $((SECONDS - start)) "$p" "$f" "$s"
}

run_stage() {
  rm -f "$steps"
  local name=$1 start=$SECONDS code=0
  say "stage $name"
  ("stage_$name") || code=$?
  case $code in
    0) record "$name" $((SECONDS - start)) 1 0 0 ;;
    77) record "$name" $((SECONDS - start)) 0 0 1 ;;
    *) record "$name" $((SECONDS - start)) 0 1 0 ;;
  esac
}

unset HVD_TEST_PYTHON # each stage has its own
# What tests and the scripts of users that they run leave behind goes with this folder; other users' ranks write there.
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/hvd-test.XXXXXX")
export TMPDIR
chmod 1777 "$TMPDIR"
frameworks= # the process group that installs them
clean_up() {
  [ -z "$frameworks" ] || kill -- -"$frameworks" 2>/dev/null || true
  rm -rf "$TMPDIR" || true # another user's file must not fail what has passed
}
trap clean_up EXIT
started=$SECONDS
began=$root/build-began # the logs of this run are newer
touch "$began"
say "packages"
groups=(build torch test)
[ "$all" = no ] || groups+=(check)
"$root/scripts/packages.sh" "${groups[@]}"
fetch_ruff
"$root/scripts/gpu_packages.sh"
export PATH="$root/build-tools/bin:$PATH"
record "packages" $((SECONDS - started)) 0 0 0

[ "$deep" = no ] || stages+=("${deep_stages[@]}")
if [ "$all" = yes ]; then
  # In a group of its own, which ends with this script, however that ends.
  mkdir -p "$root/build-tools"
  set -m
  install_frameworks "$deep" >"$root/build-tools/frameworks.log" 2>&1 </dev/null &
  frameworks=$!
  set +m
fi
start=$SECONDS
configure "$build" -Dbuildtype=release -Dtests=enabled -Dgpu=auto -Dpython="$HVD_PYTHON"
compile "$build"
record "build" $((SECONDS - start)) 0 0 0
if [ "$all" = yes ]; then # before the first test: nothing else shall run beside it
  start=$SECONDS
  say "frameworks"
  wait "$frameworks" || true # a stage says what is missing
  frameworks=
  record "frameworks" $((SECONDS - start)) 0 0 0
fi

computing=() waiting=()
for suite in "${suites[@]}"; do
  case $suite in
    process | slurm | python | examples | more) waiting+=("$suite") ;;
    *) computing+=("$suite") ;;
  esac
done
run_suites "$(nproc)" "${computing[@]}"
run_suites $((2 * $(nproc))) "${waiting[@]}" # most of their time they wait
if [ "$all" = yes ]; then
  for stage in "${stages[@]}"; do run_stage "$stage"; done
fi

echo
printf '%s\n' "${table[@]}"
printf '%-36s %6s min\n\n' total "$(minutes $((SECONDS - started)))"
mapfile -t logs < <(find "$root"/build*/meson-logs -maxdepth 1 -name 'testlog*.json' -newer "$began" -size +0)
unlisted=
[ ${#logs[@]} -eq 0 ] ||
  unlisted=$("$HVD_PYTHON" "$root/scripts/count_tests.py" --skips "$root/tests/allowed_skips.txt" "${logs[@]}") || true
if [ -n "$unlisted" ]; then
  printf 'skipped for a reason that tests/allowed_skips.txt does not have:\n%s\n\n' "$unlisted"
  # A machine of one's own may lack what CI's have.
  [ -z "${CI:-}" ] || failed=$((failed + $(wc -l <<<"$unlisted")))
fi
if [ "$failed" -gt 0 ]; then # once more at the end, where a log that was cut still has them
  echo "failed:"
  [ ${#logs[@]} -eq 0 ] || "$HVD_PYTHON" "$root/scripts/count_tests.py" --failed "${logs[@]}"
  echo
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
