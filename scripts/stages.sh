# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh: what --all adds to the suites. A stage returns 0 (passed), 77 (skipped, reason printed) or
# anything else (failed). The build trees are kept for the next run.
#   build-clang  clang: warnings, AddressSanitizer, UndefinedBehaviorSanitizer, the fuzz targets, all from one tree
#   build-tidy   clang's commands for each file, for the stages alone and tidy; no code is made
#   build-tsan   gcc's ThreadSanitizer, without the launcher
#   build-static a static hvdrun
# shellcheck disable=SC2154  # root and build come from lib.sh
clang_tree=$root/build-clang
# Lines of the program, and no more: the rest of the debug information costs as much as the optimisation.
sanitized_options=(-Ddebug=true -Db_ndebug=false -Dc_args=-g1 -Dcpp_args=-g1 -Db_lundef=false)

# What runs under sanitizers. The launcher's programs do not: its threads only write output, and its readers are fuzzed.
# What takes minutes so, though its code is that of others, waits for --deep.
sanitized=(--suite unit --suite world --no-suite launcher --no-suite long_sanitized)
not_with_tsan=(--no-suite one_thread)

# sanitized_tests DIR command-prefix... -- option of meson test...
sanitized_tests() {
  local dir=$1 prefix=()
  shift
  while [ "$1" != -- ]; do
    prefix+=("$1")
    shift
  done
  shift
  ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
    "${prefix[@]}" "$MESON" test -C "$dir" --no-rebuild --print-errorlogs --timeout-multiplier 10 "$@"
}

stage_clang() {
  CC="ccache clang-14" CXX="ccache clang++-14" configure "$clang_tree" -Dfuzz=true -Doptimization=1 \
    "${sanitized_options[@]}" || return 1
  local targets
  compile "$clang_tree" build.ninja # an older tree learns of new tests before they are listed
  mapfile -t targets < <("$HVD_PYTHON" "$root/scripts/test_programs.py" "$clang_tree" "${sanitized[@]}")
  compile "$clang_tree" "${targets[@]}" fuzzers
}

# fuzz_targets ALIAS: programs of the clang tree, built or not.
fuzz_targets() { ninja -C "$clang_tree" -t query "$1" | sed -n 's/^ *|* *\(tests\/fuzz\/fuzz_[a-z0-9_]*\)$/\1/p' | sort -u; }

stage_asan() { sanitized_tests "$clang_tree" env -- "${sanitized[@]}"; }

# After stage_clang, whose tree it takes.
stage_asan_long() {
  local targets
  [ -d "$clang_tree" ] || return 77
  mapfile -t targets < <("$HVD_PYTHON" "$root/scripts/test_programs.py" "$clang_tree" --suite long_sanitized)
  compile "$clang_tree" "${targets[@]}" || return 1
  sanitized_tests "$clang_tree" env -- --suite long_sanitized
}

stage_tsan() {
  # Without a fixed address layout ThreadSanitizer cannot map its shadow on newer kernels.
  setarch -R true 2>/dev/null || {
    say "setarch -R is not allowed here (a container's seccomp profile?)"
    return 77
  }
  local dir=$root/build-tsan targets
  # gcc's sanitizer passes bring false warnings; the plain builds judge warnings.
  configure "$dir" -Dexamples=disabled -Dwerror=false -Db_sanitize=thread -Doptimization=1 \
    "${sanitized_options[@]}" || return 1
  compile "$dir" build.ninja # an older tree learns of new tests before they are listed
  mapfile -t targets < <("$HVD_PYTHON" "$root/scripts/test_programs.py" "$dir" "${sanitized[@]}" "${not_with_tsan[@]}")
  step compile compile "$dir" "${targets[@]}" || return 1
  step run sanitized_tests "$dir" setarch -R -- "${sanitized[@]}" "${not_with_tsan[@]}"
}

# After stage_tsan, whose tree it takes.
stage_tsan_long() {
  local dir=$root/build-tsan targets
  [ -d "$dir" ] || return 77
  mapfile -t targets < <("$HVD_PYTHON" "$root/scripts/test_programs.py" "$dir" --suite long_sanitized "${not_with_tsan[@]}")
  compile "$dir" "${targets[@]}" || return 1
  sanitized_tests "$dir" setarch -R -- --suite long_sanitized "${not_with_tsan[@]}"
}

# hvdrun alone, without a library: tried in a root where nothing else is. Of files that are not joined: one that loads
# libraries must not come with its neighbours.
stage_static() {
  configure "$root/build-static" -Dstatic=true -Dbuildtype=release -Dunity=off || return 1
  compile "$root/build-static" launcher/hvdrun || return 1
  "$root/tests/process/static_test.sh" "$root/build-static/launcher/hvdrun"
}

# A wheel from the source distribution, as pip makes it, tried in an environment of its own. The compiler cache has
# all of it from the main build, whose flags are the same.
stage_wheel() {
  local dir=$root/build-wheel tools=$root/build-tools wheels gpu_roots option settings=()
  [ -x "$tools/bin/python" ] || "$HVD_PYTHON" -m venv "$tools" || return 1
  quietly "$dir/pip.log" timeout 120 "$tools/bin/python" -m pip install --progress-bar off build || {
    say "PyPI gave no build (no network?); the log is $dir/pip.log"
    return 77
  }
  rm -rf "$dir/dist"
  gpu_roots=$("$root/scripts/gpu_packages.sh" --roots)
  for option in -Dwerror=true "${unity[@]}" ${gpu_roots:+-Dgpu_roots="$gpu_roots"}; do
    settings+=(--config-setting=setup-args="$option")
  done
  step build quietly "$dir/build.log" "$tools/bin/python" -m build "${settings[@]}" --outdir "$dir/dist" "$root" || return 1
  wheels=("$dir"/dist/*.whl)
  say "$(cd "$dir/dist" && du -h --apparent-size ./* | tr '\n\t' '  ')"
  step metadata "$tools/bin/python" -B "$root/tests/process/wheel_metadata.py" "$root" "${wheels[0]}" || return 1
  step test "$root/tests/process/wheel_test.sh" "${wheels[0]}" "$HVD_PYTHON" "$root/runtime/horovod"
}

# Sets build-tidy up.
commands_of_clang() {
  CC=clang-14 CXX=clang++-14 configure "$root/build-tidy" -Dbuildtype=release -Dunity=off || return 1
  compile "$root/build-tidy" launcher/options/revision.h
}

stage_alone() {
  commands_of_clang || return 1
  nice "$HVD_PYTHON" -B "$root/scripts/alone.py" "$root/build-tidy" "$root/runtime" "$root/launcher" "$root/examples"
}

stage_tidy() {
  local tree=$root/build-tidy files
  commands_of_clang || return 1
  cd "$root" || return 1
  mapfile -t files < <(git ls-files 'runtime/*.cc' 'launcher/*.cc' 'examples/*.cc' ':!examples/cpp/torch_*.cc')
  nice "$HVD_PYTHON" "$root/scripts/tidy.py" "$tree" "${files[@]}"
}

# fuzz_target PROGRAM: its findings are printed with the input, which CI does not keep.
fuzz_target() {
  local name corpus log found
  name=$(basename "$1")
  corpus=$clang_tree/corpus/$name log=$clang_tree/$name.log
  mkdir -p "$corpus"
  rm -f "$clang_tree/$name."*-*
  "$1" -max_total_time=10 -timeout=5 -rss_limit_mb=2048 -artifact_prefix="$clang_tree/$name." \
    "$corpus" "$root/tests/fuzz/corpus/${name#fuzz_}" >"$log" 2>&1 && return 0
  say "$name failed: $(grep -m 1 'broken invariant\|ERROR: \|runtime error: ' "$log")"
  tail -n 60 "$log"
  for found in "$clang_tree/$name."*-*; do
    if [ -f "$found" ]; then say "base64 of $(basename "$found"): $(base64 -w 0 "$found" | head -c 8000)"; fi
  done
  return 1
}

stage_fuzz() { fuzz fuzzers; }

# The launcher's parsers read what its own user wrote; their corpus is replayed with the unit tests in any case.
stage_fuzz_launcher() {
  step compile compile "$clang_tree" launcher_fuzzers || return 1
  step run fuzz launcher_fuzzers
}

# fuzz ALIAS
fuzz() {
  local targets
  mapfile -t targets < <(fuzz_targets "$1")
  [ ${#targets[@]} -gt 0 ] || {
    say "no fuzz target was built"
    return 1
  }
  say "${#targets[@]} targets, 10 s each"
  at_once fuzz_target "${targets[@]/#/$clang_tree/}"
}

# More than 2^31 elements: 5 GiB and a minute or two; skips itself where there is less memory.
stage_long() { "$MESON" test -C "$build" --no-rebuild --suite long --logbase testlog-long --print-errorlogs; }
