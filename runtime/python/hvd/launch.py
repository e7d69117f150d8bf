# SPDX-License-Identifier: Apache-2.0
"""``hvd.run()``: calls a function on several ranks, from a notebook or script."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hvd import settings
from hvd._core import _lib, outcomes
from hvd._core.live_process import LiveProcess
from hvd._core.pickles import cloudpickle
from hvd.errors import InvalidArgumentError

_STACK_SECONDS = 2.0
_FILE_SYSTEM_SECONDS = 5.0  # a file that another node wrote may be that late
_LAST_STEP = 0xFFFFFFF0  # batch and interactive shells are steps, too, with numbers above
_MAX_SOURCE_CHARACTERS = 1 << 20


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    np: int | None = None,
    *,
    nodes: int | None = None,
    env: Mapping[str, str | None] | None = None,
    timeout: float | None = None,
    init: bool = True,
    output: bool = True,
    prefix: bool | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    verbose: bool = False,
) -> list[Any]:
    """Calls ``fn(*args, **kwargs)`` on every rank of a new job and returns the results by rank.

    Outside of Slurm the ranks are processes of this machine. In a batch or salloc shell, or a
    notebook that was started there, they run on the nodes of the allocation.

    Parameters
    ----------
    fn
        The function. With cloudpickle it may be a lambda, a closure, or from a cell or ``__main__``;
        without, it must be importable.
    args, kwargs
        Its arguments, equal on all ranks. Of any size: they travel through files.
    np
        Ranks. Default: in an allocation as many as Slurm was asked for; elsewhere one per GPU, or 1.
    nodes
        Nodes of the allocation to use; elsewhere virtual nodes, which share no memory.
    env
        Variables for the ranks beside those here; None removes one.
    timeout
        Seconds for the whole call; what every late rank was doing is in the error. Default: none.
    init
        False: ``fn`` calls ``hvd.init()`` itself, with options of its own. True: the job is joined
        before; another ``hvd.init()`` does nothing.
    output
        False: what the ranks write is not shown here.
    prefix
        Whether "[rank] " stands before their lines. Default: if there are several ranks.
    output_dir
        Also write each rank's output to files in this folder.
    directory
        Where a private folder for function and results is made, and removed. In an allocation all
        nodes must see it. Default: there HVD_RENDEZVOUS_DIR or ~/.cache/hvd, elsewhere that of
        :mod:`tempfile`.
    options
        More options of ``hvdrun run``.
    verbose
        hvdrun says what it decides, and why.

    Returns
    -------
    list
        What ``fn`` returned on rank 0, 1, ...

    Raises
    ------
    RankFailedError
        A rank raised an exception (which is the ``__cause__``), was killed, or ended without a
        result. The others have been ended.
    DeadlineError
        A rank did not return within `timeout`.
    InvalidArgumentError
        The arguments are wrong, or cannot be pickled.
    KeyboardInterrupt
        Ctrl-C, or the notebook's stop button; the ranks have been ended.

    >>> import hvd
    >>> hvd.run(pow, (2, 10), np=1)
    [1024]
    """
    _check(fn, np, nodes, timeout)
    in_allocation = in_slurm_shell(os.environ)
    content = _pickled(fn, tuple(args), dict(kwargs or {}))
    environment = rank_environment(os.environ, env or {})
    command = [hvdrun_path(), "run"]
    if in_allocation:
        sizes, flags = allocation_size(environment, np, nodes)
        environment = with_variables(environment, sizes)
        command += flags
    else:
        # In a rank, too: who calls this there means a job of its own.
        command += [*_flag("-np", np), "--nested"] if np is not None else []
        command += _flag("--nodes", nodes)
    for name, value in (env or {}).items():
        command += ["-x", name] if value is not None else []
    if prefix is not None:
        command.append("--prefix" if prefix else "--no-prefix")
    command += _flag("--output-dir", output_dir)
    command += (["--verbose"] if verbose else []) + list(options)
    folder = _private_folder(directory, in_allocation)
    try:
        (folder / "call").write_bytes(content)
        (folder / "settings").write_text(json.dumps(_settings(init)))
        command += ["--", sys.executable, "-m", "hvd._core.launched", str(folder)]
        process = LiveProcess(command, environment, output, _ending_seconds(options))
        code = _supervised(process, folder, np or 0, timeout)
        patience = _FILE_SYSTEM_SECONDS if in_allocation and code == 0 else 0.0
        records = outcomes.read_all(folder, np or 0, patience)
        if code == 128 + signal.SIGINT and not records.by_rank:
            raise KeyboardInterrupt
        outcomes.check_reported(folder, records, code, process.last_error_text)
        return [outcomes.value_of(folder, rank) for rank in range(records.size)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ending_seconds(options: Sequence[str]) -> float:
    """So long hvdrun may take to end: ranks have --grace, SIGTERM, and 5 s later SIGKILL."""
    grace = 10.0
    typed = " ".join(options).replace("--grace=", "--grace ").split()
    for word, following in zip(typed, typed[1:]):
        with contextlib.suppress(ValueError):  # hvdrun says what is wrong with it
            grace = float(following) if word == "--grace" else grace
    return grace + 20.0


def _supervised(process: LiveProcess, folder: Path, expected: int, timeout: float | None) -> int:
    """Shows what the ranks write until they have ended; the exit code of hvdrun."""
    try:
        if timeout is None:
            code = process.wait()
        else:
            code = process.wait(time.monotonic() + timeout)
        if code is None:
            assert timeout is not None
            records = outcomes.read(folder, expected)
            process.ask(
                signal.SIGUSR1, lambda: outcomes.stacks_are_there(folder, records), _STACK_SECONDS
            )
            process.end(hides="hvdrun: ")  # the user has sent no signal
            raise outcomes.late(folder, records, expected, timeout)
        return code
    finally:
        process.close()


def _check(fn: object, np: int | None, nodes: int | None, timeout: float | None) -> None:
    if not callable(fn):
        raise InvalidArgumentError(f"hvd.run: {fn!r} is not callable; pass a function")
    for name, value in (("np", np), ("nodes", nodes)):
        # An integer of NumPy is one, too.
        if value is not None and (not hasattr(value, "__index__") or value < 1):
            raise InvalidArgumentError(f"hvd.run: {name} is {value!r}; give 1 or more, or None")
    if timeout is not None and timeout <= 0:
        raise InvalidArgumentError(f"hvd.run: timeout is {timeout}; give seconds, or None")
    if np is None and is_rank(os.environ):
        raise InvalidArgumentError(
            "hvd.run: this process is a rank of hvdrun, or a task of srun; call hvd.run outside of "
            "them, or give np= for ranks on this machine alone"
        )
    if not sys.executable:
        raise InvalidArgumentError("hvd.run: sys.executable is empty: which Python are the ranks?")


def _flag(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]


def in_slurm_shell(environment: Mapping[str, str]) -> bool:
    """True in a batch or salloc shell, as hvdrun sees it: a job, but no task of a step.

    Parameters
    ----------
    environment
        Variables and their values.
    """
    is_job = "SLURM_JOB_ID" in environment or "SLURM_JOBID" in environment
    return is_job and not _in_step(environment)


def is_rank(environment: Mapping[str, str]) -> bool:
    """True in a rank of hvdrun, and in one of several tasks of a step.

    Parameters
    ----------
    environment
        Variables and their values.
    """
    is_task = _in_step(environment) and environment["SLURM_STEP_NUM_TASKS"] != "1"
    return is_task or "HVD_RANK" in environment


def _in_step(environment: Mapping[str, str]) -> bool:
    """As in_slurm_step() of runtime/topology/identity.cc."""
    step = environment.get("SLURM_STEP_ID", environment.get("SLURM_STEPID", ""))
    is_real = step.isdigit() and int(step) <= _LAST_STEP
    return is_real and "SLURM_STEP_NUM_TASKS" in environment


def rank_environment(here: Mapping[str, str], asked: Mapping[str, str | None]) -> dict[str, str]:
    """The variables that ranks start with: those here, without what only a notebook can use.

    Parameters
    ----------
    here
        Those of this process.
    asked
        What the caller wants to be different; None removes a variable.
    """
    environment = dict(here)
    if environment.get("MPLBACKEND", "").startswith("module://"):
        del environment["MPLBACKEND"]
    environment = with_variables(environment, asked)
    # The ranks import this very package before they know the caller's sys.path.
    package = str(Path(__file__).resolve().parents[1])
    given = environment.get("PYTHONPATH", "")
    if package not in given.split(os.pathsep):
        environment["PYTHONPATH"] = given + os.pathsep + package if given else package
    return environment


def with_variables(here: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """An environment with other values; None removes a variable.

    Parameters
    ----------
    here
        Those of this process.
    changes
        Names and values; None removes a variable.
    """
    both: dict[str, str | None] = dict(here)
    both.update(changes)
    return {name: str(value) for name, value in both.items() if value is not None}


def allocation_size(
    environment: Mapping[str, str], np: int | None, nodes: int | None = None
) -> tuple[dict[str, str | None], list[str]]:
    """Variables and flags for `np` ranks in an allocation: hvdrun and srun take them so.

    Parameters
    ----------
    environment
        Variables and their values.
    np
        Ranks; None: as many as the allocation has tasks.
    nodes
        Nodes; None: all of the allocation.
    """
    if np is None:
        return {}, _flag("--nodes", nodes)
    variables: dict[str, str | None] = {"SLURM_NTASKS": str(np), "SLURM_NPROCS": str(np)}
    # What the job was asked for counts no more.
    variables.update(SLURM_TASKS_PER_NODE=None, SLURM_NTASKS_PER_NODE=None)
    most = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or "1"
    return variables, ["--nodes", str(nodes or min(np, int(most)))]


def hvdrun_path() -> str:
    """The hvdrun that belongs to this library and package; that of PATH where there is none.

    Raises
    ------
    FileNotFoundError
        There is no hvdrun.
    """
    library = Path(_lib.library_path()).resolve()
    for parent in list(library.parents)[:3]:  # a build tree
        place = parent / "launcher" / "hvdrun"
        if os.access(place, os.X_OK):
            return str(place)
    try:
        import hvdrun

        return hvdrun.program_path()
    except (ImportError, FileNotFoundError):
        found = shutil.which("hvdrun")
    if found:
        return os.path.abspath(found)
    raise FileNotFoundError(
        f"hvd.run: hvdrun is neither in this package, nor in a build tree of {library}, nor on PATH: "
        "build it with 'ninja -C build', or install the package hvdrun"
    )


def _pickled(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    package = cloudpickle()
    name = getattr(fn, "__qualname__", repr(fn))
    if package is None and getattr(fn, "__module__", None) == "__main__":
        raise InvalidArgumentError(
            f"hvd.run: {name} is from a notebook or __main__, which plain pickle cannot send to a "
            "rank: install cloudpickle (pip install cloudpickle), or put it in a module of its own"
        )
    try:
        return (package or pickle).dumps((fn, args, kwargs))
    except Exception as failure:
        remedy = (
            "open files, locks and generators cannot travel: make them in the function"
            if package
            else "install cloudpickle (pip install cloudpickle)"
        )
        raise InvalidArgumentError(
            f"hvd.run: {name} or its arguments cannot be pickled: {failure}; {remedy}"
        ) from failure


def _settings(init: bool) -> dict[str, Any]:
    """What a rank needs before it can unpickle; cells of a notebook for its traceback."""
    sources: dict[str, list[str]] = {}
    left = _MAX_SOURCE_CHARACTERS
    for name in list(linecache.cache):
        entry = linecache.cache[name]
        if not isinstance(entry, tuple) or len(entry) != 4 or entry[0] > left:
            continue
        if not os.path.exists(name):
            sources[name] = list(entry[2])
            left -= entry[0]
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return {"init": init, "path": path, "argv": sys.argv[:1] or [""], "sources": sources}


def _private_folder(directory: str | os.PathLike[str] | None, in_allocation: bool) -> Path:
    """A new folder that only this user can enter; removes those of callers that were killed."""
    if directory is None and in_allocation:
        directory = settings.given("HVD_RENDEZVOUS_DIR") or os.path.expanduser("~/.cache/hvd")
    parent = Path(directory if directory is not None else tempfile.gettempdir()).absolute()
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A number tells a process only on its machine, and only in its namespace.
    namespace = os.stat("/proc/self/ns/pid").st_ino
    mine = f"hvd-run-{os.getuid()}-{socket.gethostname()}-{namespace}-"
    for left in parent.glob(mine + "*"):
        number = left.name[len(mine) :].partition("-")[0]
        if number.isdigit() and not os.path.exists(f"/proc/{number}"):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{mine}{os.getpid()}-", dir=parent))
