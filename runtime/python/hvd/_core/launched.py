# SPDX-License-Identifier: Apache-2.0
"""What each rank of ``hvd.run()`` executes: ``python -m hvd._core.launched FOLDER``."""

from __future__ import annotations

import faulthandler
import json
import linecache
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from hvd._core import tracebacks
from hvd._core.pickles import cloudpickle

FAILED = 1
INTERRUPTED = 128 + signal.SIGINT


def whole_file(path: Path, content: bytes) -> None:
    """Writes a file that nobody sees half written."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)


def identity() -> tuple[int, int]:
    """Rank and size as hvdrun or Slurm says them; (-1, 0) where neither does."""
    for rank, size in (("HVD_RANK", "HVD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return -1, 0


class Report:
    """Tells the caller what became of this rank, in files of the folder. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rank, self.size = identity()

    def write(self, value: bytes | None, **facts: Any) -> None:
        """The value first: who finds the facts finds the value."""
        if value is not None:
            whole_file(self.folder / f"rank-{self.rank}.value", value)
        facts.update(rank=self.rank, size=self.size, host=socket.gethostname(), time=time.time())
        whole_file(self.folder / f"rank-{self.rank}.json", json.dumps(facts).encode())

    def result(self, value: Any) -> int:
        """Exit code of a rank whose function returned."""
        try:
            content = (cloudpickle() or pickle).dumps(value)
        except Exception as failure:
            kind = type(value).__qualname__
            text = f"the result, a {kind}, cannot be pickled: {failure}"
            self.write(None, ok=False, type=type(failure).__qualname__, message=text, traceback="")
            return FAILED
        self.write(content, ok=True)
        return 0

    def failure(self, error: BaseException) -> int:
        """Exit code of a rank whose function raised."""
        # The frames above the user's function are ours.
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        whole = error.__traceback__
        error.__traceback__ = frames or whole
        with tracebacks.cut(error):
            lines = traceback.format_exception(type(error), error, error.__traceback__)
        error.__traceback__ = whole
        try:
            content = (cloudpickle() or pickle).dumps(error)
        except Exception:
            content = None  # The text tells as much.
        self.write(
            content,
            ok=False,
            type=type(error).__qualname__,
            message=str(error),
            traceback="".join(lines),
            # Ranks that lost another fail because of it.
            consequence=type(error).__name__ in ("PeerLostError", "AbortedError"),
        )
        return FAILED


def check_folder(folder: Path) -> None:
    """What is unpickled must be from this user."""
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"{folder} is not this user's own, or others may write to it")


def take_over(settings: dict[str, Any]) -> None:
    """Makes this process look for modules and source lines where the caller does."""
    sys.path[:] = settings["path"] + [entry for entry in sys.path if entry not in settings["path"]]
    sys.argv[:] = settings["argv"]
    for name, lines in settings["sources"].items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def call(folder: Path, settings: dict[str, Any], report: Report) -> Any:
    """The value of the caller's function on this rank."""
    if settings["init"]:
        import hvd

        hvd.init()
        report.rank, report.size = hvd.rank(), hvd.size()
    try:
        function, args, kwargs = pickle.loads((folder / "call").read_bytes())
    except Exception as failure:
        raise RuntimeError(
            f"the function or its arguments cannot be unpickled in a rank: {failure}; what a rank "
            "needs must be importable there, or cloudpickle be installed in both places"
        ) from failure
    return function(*args, **kwargs)


def run_call(folder: Path) -> int:
    """Runs the caller's function and reports its value or exception; the exit code."""
    check_folder(folder)
    report = Report(folder)
    # hvdrun hands on the signal by which the caller asks where a rank is that never returns.
    stacks = open(folder / f"rank-{report.rank}.stack", "w")  # noqa: SIM115 (open to the end)
    faulthandler.register(signal.SIGUSR1, file=stacks)
    try:
        settings = json.loads((folder / "settings").read_text())
        take_over(settings)
        value = call(folder, settings, report)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            return report.failure(leaving)
        value = None
    except BaseException as error:
        return report.failure(error)
    return report.result(value)


def main() -> int:
    """The rank that hvdrun started."""
    if len(sys.argv) != 2:
        print("hvd._core.launched: started by hvd.run() with a folder", file=sys.stderr)
        return 2
    return run_call(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
