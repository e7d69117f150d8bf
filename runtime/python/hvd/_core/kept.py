# SPDX-License-Identifier: Apache-2.0
"""The last two saves of a state: while one is written, the one before it stays whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Saved:
    """One save.

    Attributes
    ----------
    version
        Numbers commits and syncs, equal on all ranks.
    parts
        Copies of values.
    """

    def __init__(self, version: int, parts: Any) -> None:
        self.version = version
        self.parts = parts


class Kept:
    """The newest save and the one before, whose memory the next one takes.

    >>> kept = Kept()
    >>> for version in (1, 2, 3):
    ...     _ = kept.save(version, lambda old: {"epoch": version})
    >>> kept.newest.parts, kept.find(2).parts, kept.find(1)
    ({'epoch': 3}, {'epoch': 2}, None)
    """

    def __init__(self) -> None:
        self._slots: list[Saved | None] = [None, None]
        self._place = 0

    @property
    def newest(self) -> Saved | None:
        """The last one that is whole; None: there is none yet."""
        return self._slots[self._place]

    @property
    def before(self) -> Saved | None:
        """The one before the newest."""
        return self._slots[1 - self._place]

    @property
    def all(self) -> list[Saved]:
        """Both, as far as they are there."""
        return [saved for saved in (self.newest, self.before) if saved is not None]

    def save(self, version: int, copies: Callable[[Any], Any]) -> Saved:
        """Adds a save: `copies` makes its parts, and may write to those that it is given.

        What ends `copies` leaves the newest as it was.
        """
        spare = 1 - self._place
        old = self._slots[spare]
        self._slots[spare] = None  # no save from now on: it is being written to
        new = Saved(version, copies(old.parts if old is not None else None))
        self._slots[spare] = new
        self._place = spare
        return new

    def find(self, version: int) -> Saved | None:
        """The save of this version, where it is kept."""
        return next((saved for saved in self.all if saved.version == version), None)

    def drop_newer(self, version: int) -> bool:
        """Forgets newer saves than that of `version`; True: that is the newest now, as it was not."""
        was_newest = self.newest
        for place, saved in enumerate(self._slots):
            if saved is not None and saved.version > version:
                self._slots[place] = None
        if self.newest is None:
            self._place = 1 - self._place
        return was_newest is not self.newest and self.find(version) is not None
