# SPDX-License-Identifier: Apache-2.0
"""``horovod.run()``: calls a function on several ranks; and horovodrun in ``launch``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from horovod import _reasons

_SAME_SIZE = "a job keeps its size: num_proc says how many ranks"
# Arguments of Horovod's that have no counterpart, and what to do instead.
_REFUSED = {
    "slots": _SAME_SIZE,
    "reset_limit": "give it to hvd.elastic.run(reset_limit=...), within the function",
    "cooldown_range": _SAME_SIZE,
    "host_discovery_script": "a job keeps its hosts: this machine, or those of the job of Slurm",
    "mpi_args": "mpirun is not called: start `mpirun ... python script.py`, and hvd.init() in it",
}
_WITHOUT_EFFECT = {
    "ssh_port": _reasons.NO_SSH,
    "ssh_identity_file": _reasons.NO_SSH,
}


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Any = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Calls ``func(*args, **kwargs)`` on `num_proc` ranks; returns the results by rank.

    The function calls ``hvd.init()``. ``hvd.run`` is behind it, and has more to choose from.

    Parameters
    ----------
    num_proc, np
        How many ranks.
    hosts, hostfile
        This machine; in a job of Slurm its nodes are used, whatever is named here.
    start_timeout
        Seconds that ranks await each other.
    output_filename
        Folder for the output of each rank.
    network_interfaces, network_interface
        As HVD_INTERFACE.
    executable
        Python of the ranks: this one, or none.
    use_gloo, use_mpi, disable_cache
        Change nothing.

    Raises
    ------
    ValueError
        An argument has no meaning here; the text says what to use.

    >>> run(pow, (2, 10), num_proc=1)
    [1024]
    """
    given = dict(locals())
    wanted = _ranks(given)
    for name, remedy in _REFUSED.items():
        if given[name] is not None:
            raise ValueError(f"horovod.run({name}={given[name]!r}): {remedy}")
    for name, reason in _WITHOUT_EFFECT.items():
        if given[name] is not None:
            warnings.warn(f"horovod.run({name}=...) has no effect: {reason}", stacklevel=2)
    if executable is not None and executable != sys.executable:
        raise ValueError(
            f"horovod.run(executable='{executable}'): ranks run {sys.executable}, as their caller "
            "does; call horovod.run from the other one"
        )
    from horovod.runner import launch
    from hvd.launch import run as run_on_ranks

    options = launch.parse_args([])
    options.np, options.hosts, options.hostfile = wanted, hosts, hostfile
    options.start_timeout, options.nics = start_timeout, network_interfaces or network_interface
    chosen = launch.choose(options).variables
    ours = {name: value for name, value in chosen.items() if name.startswith("HVD_")}
    return run_on_ranks(
        func,
        args,
        kwargs,
        wanted,
        env=ours,
        init=False,
        output_dir=output_filename,
        verbose=bool(verbose),
    )


def _ranks(given: Mapping[str, Any]) -> int:
    wanted = given["np"] if given["np"] is not None else given["num_proc"]
    if wanted is None:
        wanted = 1
    for name in ("min_num_proc", "max_num_proc", "min_np", "max_np"):
        if given[name] not in (None, wanted):
            raise ValueError(f"horovod.run({name}={given[name]!r}): {_SAME_SIZE}")
    return wanted


__all__ = ["run"]
