#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wheel works in an environment where nothing else is; then with numpy, with Horovod's names, from C++ and under mypy.
# TensorFlow's plugin finds libhvd beside itself; all else needs no library that a bare machine lacks.
#   wheel_test.sh WHEEL [PYTHON [HOROVOD_SOURCE]]
# PYTHON (default /usr/bin/python3) makes the environment; HOROVOD_SOURCE is runtime/horovod, whose build asks PyPI.
set -euo pipefail
wheel=$(realpath "$1") python=${2:-/usr/bin/python3} horovod=${3:-}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failed=0

complain() {
  printf 'FAILED: %s\n' "$*"
  failed=1
}

# wants TEXT WORD...: succeeds, and prints the text. Nothing of this shell is set but the environment's path.
wants() {
  local text=$1 code=0 printed
  shift
  printed=$(cd "$room" && timeout 120 env -i HOME="$room" OMP_NUM_THREADS=1 PATH="$room/venv/bin:/usr/bin:/bin" "$@" 2>&1) || code=$?
  if [ "$code" -ne 0 ] || [[ $printed != *"$text"* ]]; then
    complain "(code $code, wanted '$text') $*"
    printf '%s\n' "$printed"
  fi
}

[[ $(basename "$wheel") == hvdrun-*-py3-none-*linux*_*.whl ]] || complain "the name $(basename "$wheel") is not one for every Python"
names=$("$python" -m zipfile --list "$wheel")
for file in hvd/__init__.py hvd/py.typed hvd/torch/__init__.py hvd/tensorflow/__init__.py hvd/keras/__init__.py \
  hvd/lib/libhvd.so hvd/lib/libhvd_tf.so hvd/lib/pkgconfig/hvd.pc hvd/bin/hvdrun hvd/include/hvd/hvd.h \
  hvd/include/hvd/hvd.hpp hvdrun.py man1/hvdrun.1 completions/hvdrun; do
  [[ $names == *"$file"* ]] || complain "$file is not in the wheel"
done
[[ $names != *__pycache__* ]] || complain "the wheel has compiled Python in it"

"$python" -m venv "$room/venv"
"$room/venv/bin/pip" install --quiet --no-index --no-deps "$wheel"
site=$("$room/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
for file in "$site/hvd/bin/hvdrun" "$site"/hvd/lib/*.so; do
  needs=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v '^lib\(c\|m\|dl\|gcc_s\|pthread\|rt\)\.so\|^ld-linux' || true)
  expected=''
  [ "$(basename "$file")" != libhvd_tf.so ] || expected=libhvd.so
  [ "$needs" = "$expected" ] || complain "$(basename "$file") needs '$needs', wanted '$expected'"
  # shellcheck disable=SC2016  # $ORIGIN is the linker's
  [ -z "$expected" ] || [[ $(readelf -d "$file") == *'[$ORIGIN]'* ]] ||
    complain "$(basename "$file") does not look for $expected beside itself:" "$(readelf -d "$file" | grep PATH)"
  newest=$(objdump -T "$file" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
  [ "$(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -n 1)" = GLIBC_2.34 ] ||
    complain "$(basename "$file") needs $newest: Debian 12 and all that is not older than glibc 2.34 shall do"
done

wants 'hvdrun ' hvdrun --version
wants 'hvdrun ' python -m hvdrun --version
wants "$site/hvd/lib/libhvd.so" hvdrun check --build
wants 'rank 1 of 2' hvdrun -np 2 python -c 'import hvd; hvd.init(); print("rank", hvd.rank(), "of", hvd.size())'
wants 'shm' hvdrun -np 2 python -c 'import hvd; hvd.init(); print(hvd.describe())'
wants 'import tensorflow first' python -c '
import ctypes, pathlib, hvd
plugin = ctypes.CDLL(str(pathlib.Path(hvd.__file__).parent / "lib" / "libhvd_tf.so"))
plugin.hvd_tf_problem.restype = ctypes.c_char_p
print(plugin.hvd_tf_problem().decode())'
wants '[8, 8]' python -c 'import hvd; print(hvd.run(pow, (2, 3), np=2))'
command -v man >/dev/null && wants "$room/venv/share/man/man1/hvdrun.1" man -w hvdrun
wants 'srun' hvdrun script --site generic --nodes 1 -- python train.py

# numpy and torch of the system, where they are.
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
  wants '[3.0, 3.0]' env PYTHONPATH="$site" hvdrun -np 2 /usr/bin/python3 -c '
import hvd, hvd.numpy, numpy
hvd.init()
print(hvd.numpy.allreduce(numpy.full(2, 1.0 + hvd.rank()), op=hvd.numpy.Sum).tolist())'
fi

cat >"$room/sum.cc" <<'END'
#include <hvd/hvd.hpp>

#include <cstdio>
#include <vector>

int main() {
  const hvd::Context job;
  std::vector<float> ones(3, 1.0F);
  hvd::allreduce<float>("ones", ones, HVD_SUM);
  std::printf("C++ sum %g\n", ones[0]);
}
END
# shellcheck disable=SC2016  # the words are the inner shell's
wants '' env PKG_CONFIG_PATH="$site/hvd/lib/pkgconfig" sh -c 'c++ -std=c++20 sum.cc $(pkg-config --cflags --libs hvd) -o sum'
wants 'C++ sum 2' hvdrun -np 2 ./sum

if command -v mypy >/dev/null && [ "$python" = /usr/bin/python3 ]; then # an old mypy reads no newer Python
  cat >"$room/user.py" <<'END'
import hvd

hvd.init()
ranks: int = hvd.size()
members: hvd.ProcessSet = hvd.add_process_set([0])
rate: float = hvd.learning_rate(0.1, 3, warmup_steps=10)
END
  wants 'Success' mypy --strict --cache-dir=/dev/null --python-executable "$room/venv/bin/python" user.py
  printf 'import hvd\n\nhvd.init()\nname: str = hvd.rank()\n' >"$room/wrong.py"
  wants 'Incompatible types' sh -c "! mypy --cache-dir=/dev/null --python-executable '$room/venv/bin/python' wrong.py"
fi

if [ -n "$horovod" ]; then
  cp -r "$horovod" "$room/horovod"
  "$room/venv/bin/pip" install --quiet --no-deps "$room/horovod"
  wants 'rank 1 of 2' hvdrun -np 2 python -c '
import horovod.common.util, hvd
hvd.init(); print("rank", hvd.rank(), "of", hvd.size())'
fi
exit "$failed"
