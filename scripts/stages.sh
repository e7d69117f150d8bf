# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh: what --all adds to the suites. A stage returns 0 (passed), 77 (skipped, reason printed) or
# anything else (failed). Each has a build tree of its own, kept for the next run.
# shellcheck disable=SC2154  # root and build come from lib.sh

# sanitized DIR SANITIZERS command-prefix...: the unit and world suites under sanitizers.
sanitized() {
  local dir=$1 kinds=$2
  shift 2
  # gcc's sanitizer passes bring false warnings; the plain builds judge warnings.
  configure "$dir" -Dbuildtype=debugoptimized -Dexamples=disabled -Dwerror=false -Db_lundef=false \
    -Db_sanitize="$kinds" || return 1
  ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
    "$@" "$MESON" test -C "$dir" --suite unit --suite world --print-errorlogs --timeout-multiplier 10
}

stage_clang() {
  CC=clang-14 CXX=clang++-14 configure "$root/build-clang" -Dbuildtype=release || return 1
  compile "$root/build-clang"
}

stage_asan() { sanitized "$root/build-asan" address,undefined env; }

stage_tsan() {
  # Without a fixed address layout ThreadSanitizer cannot map its shadow on newer kernels.
  setarch -R true 2>/dev/null || {
    say "setarch -R is not allowed here (a container's seccomp profile?)"
    return 77
  }
  sanitized "$root/build-tsan" thread setarch -R
}

# hvdrun alone, without a library: tried in a root where nothing else is.
stage_static() {
  configure "$root/build-static" -Dstatic=true -Dbuildtype=release || return 1
  compile "$root/build-static" launcher/hvdrun || return 1
  "$root/tests/process/static_test.sh" "$root/build-static/launcher/hvdrun"
}

# About eight seconds of one core per file: some twenty minutes on two cores.
stage_tidy() {
  [ -f "$root/build-clang/compile_commands.json" ] || stage_clang || return 1
  local files
  mapfile -t files < <(cd "$root" && git ls-files 'runtime/*.cc' 'launcher/*.cc' 'examples/*.cc')
  (cd "$root" && printf '%s\n' "${files[@]}" |
    timeout 2400 xargs -P "$(nproc)" -n 4 nice clang-tidy-14 -p build-clang --quiet 2>/dev/null)
}

stage_fuzz() {
  CC=clang-14 CXX=clang++-14 configure "$root/build-fuzz" -Dfuzz=true -Dbuildtype=debugoptimized \
    -Dexamples=disabled -Dwerror=false -Db_lundef=false || return 1
  nice ninja -C "$root/build-fuzz" fuzzers || return 1
  local target name corpus found=0
  for target in "$root"/build-fuzz/tests/fuzz/fuzz_*; do
    if [ ! -x "$target" ] || [ -d "$target" ]; then continue; fi
    found=$((found + 1))
    name=$(basename "$target")
    corpus=$root/build-fuzz/corpus/$name
    mkdir -p "$corpus"
    say "$name: at most 30 s"
    quietly "$root/build-fuzz/$name.log" "$target" -max_total_time=30 -timeout=5 -rss_limit_mb=2048 \
      -artifact_prefix="$root/build-fuzz/$name." "$corpus" "$root/tests/fuzz/corpus/${name#fuzz_}" || return 1
  done
  [ "$found" -gt 0 ] || {
    say "no fuzz target was built"
    return 77
  }
}

# The newest PyTorch from PyPI, beside Debian's: the same files of ours must serve both.
stage_newest_torch() {
  local venv=$root/build-newest-torch
  [ -x "$venv/bin/python" ] || "$HVD_PYTHON" -m venv "$venv" || return 1
  quietly "$venv/pip.log" timeout 900 "$venv/bin/python" -m pip install --upgrade --progress-bar off torch numpy || {
    say "PyPI gave no torch (no network?); the log is $venv/pip.log"
    return 77
  }
  say "torch $("$venv/bin/python" -c 'import torch; print(torch.__version__)')"
  "$MESON" configure "$build" -Dpython="$venv/bin/python" || return 1
  local code=0
  "$MESON" test -C "$build" --suite python --logbase testlog-newest --print-errorlogs || code=$?
  "$MESON" configure "$build" -Dpython="$HVD_PYTHON"
  return "$code"
}
