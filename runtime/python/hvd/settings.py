# SPDX-License-Identifier: Apache-2.0
"""The environment variables that users set: what each takes, its default, what it does.

``print(hvd.settings.explain())`` shows all of them, as docs/reference/environment.md does.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from hvd._core.setting_rows import ROWS


class Setting(NamedTuple):
    """One of these variables.

    Attributes
    ----------
    name
        Of the variable.
    kind
        text, path, switch, integer, seconds, bytes, choice or words.
    lowest, highest
        The range of a number.
    initial
        The number where the variable is unset; None: see `default`.
    takes
        The same in words.
    remedy
        What to give in place of a value that does not fit.
    fails_start
        Whether a wrong number fails ``hvd.init()``.
    default
        What holds where it is unset.
    acts_in
        libhvd, hvdrun, Python or scripts.
    meaning
        What it does.
    """

    name: str
    kind: str
    lowest: int
    highest: int
    initial: int | None
    takes: str
    remedy: str
    fails_start: bool
    default: str
    acts_in: str
    meaning: str


SETTINGS = {row[0]: Setting(*row) for row in ROWS}


def explain(name: str = "") -> str:
    """What a setting means; all of them without a name.

    Parameters
    ----------
    name
        Of the variable.

    Raises
    ------
    KeyError
        There is no such setting.

    >>> explain("HVD_SHARE_GPU")
    'HVD_SHARE_GPU: 1: several ranks may use one GPU. Takes 0 or 1; default: 0.'
    """
    if not name:
        return "\n".join(explain(one) for one in SETTINGS)
    setting = SETTINGS[name]
    meaning = setting.meaning.removesuffix(".")
    return f"{name}: {meaning}. Takes {setting.takes}; default: {setting.default}."


def given(name: str) -> str:
    """What the environment has for a setting; "" where it is unset.

    Parameters
    ----------
    name
        Of the variable.

    >>> given("HVD_MPI_LIBRARY")
    ''
    """
    return os.environ.get(SETTINGS[name].name, "")


def read_number(name: str) -> int:
    """The number of a setting that has one where it is unset; of a switch 0 or 1.

    Parameters
    ----------
    name
        Of the variable.

    Raises
    ------
    InvalidArgumentError
        The value is not a number, or not in the range.

    >>> read_number("HVD_CHECK_REPLICAS")
    100
    """
    setting = SETTINGS[name]
    text = given(name).strip()
    if not text and setting.initial is not None:
        return setting.initial
    if text.isdecimal() and setting.lowest <= int(text) <= setting.highest:
        return int(text)
    from hvd._core.refusals import refused  # the library's path is a setting, too

    raise refused(f"{name}={text!r} is not {setting.takes}; give {setting.remedy}, or unset it")
