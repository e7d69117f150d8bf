# SPDX-License-Identifier: Apache-2.0
"""What Horovod's scripts catch."""

from __future__ import annotations

from hvd.elastic import HostsUpdatedInterrupt
from hvd.errors import HvdError as HorovodInternalError

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """The sentence of ``HorovodVersionMismatchError``."""
    return (
        f"{name} {version} is loaded, but horovod was made for {name} {installed_version}: install "
        "that version, or build horovod again"
    )


class HorovodVersionMismatchError(ImportError):
    """A framework of another version than the one compiled for; hvd is compiled for none."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
