# SPDX-License-Identifier: Apache-2.0
"""check_api.py [FOLDER]: the reference of the Python interface, as pages in FOLDER, without a warning."""

import importlib.util
import os
import subprocess
import sys
import tempfile

import sources


def build(pages: str) -> int:
    """Sphinx's exit code."""
    with tempfile.TemporaryDirectory(prefix="hvd-api-") as cache:
        sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
        return subprocess.run(
            [*sphinx, "-d", cache, "docs/api", pages],
            cwd=sources.ROOT,
            env={
                **os.environ,
                "HVD_LIBRARY": str(sources.BUILD / "runtime" / "c" / "libhvd.so"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            check=False,
            timeout=500,
        ).returncode


def main() -> None:
    if importlib.util.find_spec("sphinx") is None:
        sources.skip("python3-sphinx is not installed")
    if not (sources.BUILD / "runtime" / "c" / "libhvd.so").exists():
        sources.skip("libhvd.so is not built, which the package loads")
    if len(sys.argv) > 1:
        sys.exit(build(os.path.abspath(sys.argv[1])))
    with tempfile.TemporaryDirectory(prefix="hvd-pages-") as pages:
        sys.exit(build(pages))


if __name__ == "__main__":
    main()
