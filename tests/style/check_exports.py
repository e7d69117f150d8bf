# SPDX-License-Identifier: Apache-2.0
"""Shared objects export hvd_* and nothing else: no C++ symbol, and none of libsodium's."""

import subprocess

import sources

_LIBRARIES = ["runtime/c/libhvd.so"]


def exported(library: str) -> list[str]:
    """Names that a shared object defines for others."""
    nm = sources.tool("nm")
    listing = subprocess.run(
        [nm, "-D", "--defined-only", "--format=posix", str(sources.BUILD / library)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split()[0].split("@")[0] for line in listing.stdout.splitlines() if line]


def main() -> None:
    found = [name for name in _LIBRARIES if (sources.BUILD / name).exists()]
    if not found:
        sources.skip(f"{', '.join(_LIBRARIES)} is not built")
    complaints = []
    for library in found:
        names = exported(library)
        if "hvd_init" not in names:
            complaints.append(f"{library} does not export hvd_init")
        complaints += [f"{library} exports {name}" for name in names if not name.startswith("hvd_")]
    sources.finish(complaints)


if __name__ == "__main__":
    main()
