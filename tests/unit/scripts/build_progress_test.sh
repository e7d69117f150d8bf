#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A build without a terminal tells how many files there are and where it is, and keeps ninja's exit code and words.
#   build_progress_test.sh LIB_SH
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/ninja" <<'END'
#!/bin/sh
echo "ninja: Entering directory"
echo "[0/1] Regenerating build files"
echo "[1/3] Compiling a"
echo "b.cc:7: error: what"
echo "[2/3] Compiling b"
echo "[3/3] Linking c"
[ "$4" != broken ]
END
chmod +x "$folder/ninja"
export PATH="$folder:$PATH"
failed=0

# compiled BEAT TARGET: what compile() says, and its exit code.
compiled() {
  # shellcheck disable=SC1090,SC2034  # the script under test, and what it reads
  (. "$lib" && beat_seconds=$1 && compile "$folder" all "$2") 2>&1 || echo "exit code $?"
}

# same WHAT FOUND WANTED
same() {
  [ "$2" = "$3" ] && return
  printf '%s: found\n%s\nand not\n%s\n' "$@"
  failed=1
}

lib=$1
same "a beat at each file" "$(compiled 0 whole)" $'-- files to build: 3\n-- 2 of 3\n-- 3 of 3'
same "none within the time" "$(compiled 3600 whole)" "-- files to build: 3"
same "the log" "$(sed -n 4p "$folder/compile.log")" "b.cc:7: error: what"
told=$(compiled 3600 broken)
for words in "b.cc:7: error: what" "the build in $folder failed" "$folder/compile.log" "exit code 1"; do
  case $told in
    *"$words"*) ;;
    *) same "a build that fails" "$told" "... $words ..." ;;
  esac
done
exit "$failed"
