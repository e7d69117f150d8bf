# SPDX-License-Identifier: Apache-2.0
"""Gradients that leave together: what the arguments of an optimizer say, and who waits for whom."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Union

from hvd._core import api
from hvd._core.refusals import refused
from hvd._core.work import share
from hvd.errors import BackwardPassError

# How many, or the members of each.
Groups = Union[int, Sequence[Sequence[Any]], None]


def chosen_groups(
    num_groups: int,
    groups: Groups,
    kind: type | tuple[type, ...],
    word: str,
    key: Callable[[Any], Any] = id,
) -> Groups:
    """What the arguments `num_groups`, of old scripts, and `groups` of an optimizer say.

    Call it from the function that the user calls: a warning names the line that did.

    Parameters
    ----------
    num_groups
        The old name of a number in `groups`; 0 when it is not used.
    groups
        None, a number of groups, or a list or tuple of such of members.
    kind
        The class of a member, or some.
    word
        What an error calls a member: ``torch.Tensor``.
    key
        Equal for two names of one member.

    Raises
    ------
    InvalidArgumentError
        `groups` is something else, or has a member twice.

    >>> chosen_groups(0, [["kernel", "bias"]], str, "str")
    [['kernel', 'bias']]
    """
    if num_groups != 0:
        warnings.warn(
            f"num_groups is now called groups: pass groups={num_groups}",
            DeprecationWarning,
            stacklevel=3,
        )
        groups = num_groups if groups is None else groups
    if groups is None or (isinstance(groups, int) and groups >= 0):
        return groups
    if not isinstance(groups, (list, tuple)):
        raise refused(
            f"groups should be a non-negative integer or a list of list of {word}: it is {groups!r}"
        )
    seen: set[Any] = set()
    for group in groups:
        if not isinstance(group, (list, tuple)) or not all(
            isinstance(member, kind) for member in group
        ):
            raise refused(f"groups must consist of lists of {word}, the parameters: not {group!r}")
        for member in group:
            if key(member) in seen:
                raise refused(
                    "A parameter can only appear once in groups. Take it out of all lists but one."
                )
            seen.add(key(member))
    return groups


def grouped_indices(
    groups: Groups, members: Sequence[Any], key: Callable[[Any], Any] = id
) -> list[list[int]]:
    """The groups of two and more, as indices into `members`; of a number: consecutive members.

    Parameters
    ----------
    groups
        As ``chosen_groups()`` returns it. What is not among `members` counts nowhere.
    members
        All that travels: parameters of torch, variables of TensorFlow or Keras.
    key
        Equal for two names of one member.

    >>> grouped_indices(2, ["a", "b", "c", "d", "e"])
    [[0, 1, 2], [3, 4]]
    >>> grouped_indices([["c", "a"], ["b"]], ["a", "b", "c"], key=str)
    [[2, 0]]
    """
    if not groups:
        return []
    if isinstance(groups, int):
        count = min(groups, len(members))
        parts: list[list[int]] = []
        begin = 0
        for number in range(count):
            end = begin + share(len(members), number, count)
            parts.append(list(range(begin, end)))
            begin = end
    else:
        places = {key(member): index for index, member in enumerate(members)}
        parts = [[places[key(m)] for m in group if key(m) in places] for group in groups]
    return [part for part in parts if len(part) > 1]


class Group:
    """Gradients that leave together: none before the last has its last pass.

    Parameters
    ----------
    members
        Their indices.
    passes_per_step
        Backward passes that add up before a gradient leaves.
    """

    def __init__(self, members: list[int], passes_per_step: int) -> None:
        self._members = members
        self.passes_per_step = passes_per_step
        self._passes: dict[int, int] = {}
        self._complete: dict[int, int] = {}

    def add(self, index: int, address: int, name: str) -> list[tuple[int, int]]:
        """One more pass of a member; index and address of what the library may know now."""
        passes = self._passes[index] = self._passes.get(index, 0) + 1
        if passes < self.passes_per_step:
            return [(index, address)]
        if index in self._complete and len(self._complete) < len(self._members):
            raise BackwardPassError(
                f"rank {api.rank()}: gradient '{name}': another backward pass after {passes - 1} of "
                f"{self.passes_per_step}; call optimizer.step() first, or raise "
                "backward_passes_per_step"
            )
        if len(self._complete) == len(self._members):
            return [(index, address)]  # which is a pass too many for the library
        self._complete[index] = address
        if len(self._complete) < len(self._members):
            return []
        return list(self._complete.items())

    def begin_step(self) -> None:
        """Nothing is held any more."""
        self._passes.clear()
        self._complete.clear()


def groups_that_hold(groups: Groups, members: Sequence[Any], passes: int) -> dict[int, Group]:
    """The group of each gradient that is in one of two or more, by its index."""
    held: dict[int, Group] = {}
    for indices in grouped_indices(groups, members):
        group = Group(indices, passes)
        held.update((index, group) for index in indices)
    return held
