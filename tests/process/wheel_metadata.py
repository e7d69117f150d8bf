# SPDX-License-Identifier: Apache-2.0
"""What a front end is told of the package before it is built is what the wheel says.

Usage: wheel_metadata.py SOURCES WHEEL    (its Python has the package build)
"""

from __future__ import annotations

import email
import email.policy
import sys
import zipfile

import build.util

sources, wheel = sys.argv[1:]
with zipfile.ZipFile(wheel) as content:
    name = next(one for one in content.namelist() if one.endswith(".dist-info/METADATA"))
    built = email.message_from_bytes(content.read(name), policy=email.policy.compat32)
told = build.util.project_wheel_metadata(sources)
for field in ("Name", "Version", "Requires-Python", "Requires-Dist", "Provides-Extra"):
    if told.get_all(field) != built.get_all(field):
        sys.exit(f"{field}: told {told.get_all(field)}, built {built.get_all(field)}")
