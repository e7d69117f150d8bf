# SPDX-License-Identifier: Apache-2.0
"""The options of horovodrun: which mean something here, which do not, and why."""

from __future__ import annotations

import argparse
from typing import Any

from horovod import _reasons

_NO_MPIRUN = "mpirun is not called; `mpirun -np N python train.py` works without horovodrun, too"
_ONE_ENGINE = "libhvd has one controller, with and without MPI"

# Options that take a value and change nothing: names, then why.
IGNORED_VALUES: list[tuple[list[str], str]] = [
    (["-p", "--ssh-port"], _reasons.NO_SSH),
    (["-i", "--ssh-identity-file"], _reasons.NO_SSH),
    (["--cycle-time-ms"], _reasons.NO_CYCLE),
    (["--cache-capacity"], _reasons.NO_CACHE),
    (["--autotune-log-file"], _reasons.NO_TUNING),
    (["--autotune-warmup-samples"], _reasons.NO_TUNING),
    (["--autotune-steps-per-sample"], _reasons.NO_TUNING),
    (["--autotune-bayes-opt-max-samples"], _reasons.NO_TUNING),
    (["--autotune-gaussian-process-noise"], _reasons.NO_TUNING),
    (["--elastic-timeout"], "hvdrun --loss-timeout says how long ranks wait for one another"),
    (["--reset-limit"], "hvd.elastic.run(reset_limit=...) has it, in the program"),
    (["--mpi-args"], _NO_MPIRUN),
    (["--binding-args"], "hvdrun --bind places ranks"),
    (["--num-nccl-streams"], _reasons.ONE_STREAM),
    (["--thread-affinity"], _reasons.BINDING),
    (["--gloo-timeout-seconds"], _reasons.LOST_AT_ONCE),
]

IGNORED_SWITCHES: list[tuple[list[str], str]] = [
    (["--disable-cache"], "nothing about hosts is kept between runs"),
    (["--hierarchical-allreduce"], _reasons.TWO_LEVELS),
    (["--no-hierarchical-allreduce"], _reasons.TWO_LEVELS),
    (["--hierarchical-allgather"], _reasons.TWO_LEVELS),
    (["--no-hierarchical-allgather"], _reasons.TWO_LEVELS),
    (["--torus-allreduce"], _reasons.BY_NCCL),
    (["--no-torus-allreduce"], _reasons.BY_NCCL),
    (["--autotune"], _reasons.NO_TUNING),
    (["--no-autotune"], _reasons.NO_TUNING),
    (["--mpi-threads-disable"], _reasons.ALL_THREADS),
    (["--no-mpi-threads-disable"], _reasons.ALL_THREADS),
    (["--tcp"], _NO_MPIRUN),
    (["--log-with-timestamp"], _reasons.NO_TIME),
    (["--log-without-timestamp"], "messages have no time"),
    (["--log-hide-timestamp"], "messages have no time"),
    (["--no-log-hide-timestamp"], _reasons.NO_TIME),
    (["--gloo"], _ONE_ENGINE),
    (["--mpi"], _ONE_ENGINE),
    (["--jsrun"], "ranks start on this machine or through Slurm"),
]


def _destination(names: list[str]) -> str:
    return "ignored " + next(name for name in names if name.startswith("--"))


def ignored(options: argparse.Namespace) -> list[str]:
    """A sentence for each option that was given and changes nothing."""
    return [
        f"{_destination(names).split()[1]} has no effect: {reason}"
        for names, reason in IGNORED_VALUES + IGNORED_SWITCHES
        if getattr(options, _destination(names)) not in (None, False)
    ]


def parser() -> argparse.ArgumentParser:
    """What reads a command line of horovodrun."""
    made = argparse.ArgumentParser(
        prog="horovodrun",
        description="Starts a program as horovodrun does, through hvdrun: on this machine, or in a "
        "batch or salloc shell of Slurm on its nodes.",
        allow_abbrev=False,
    )
    made.add_argument("-v", "--version", action="store_true", help="print the version")
    made.add_argument("-np", "--num-proc", dest="np", type=_count, help="how many ranks")
    made.add_argument(
        "-cb", "--check-build", action="store_true", help="print what is built, and end"
    )
    made.add_argument(
        *("--min-np", "--min-num-proc"),
        type=_count,
        help="the job goes on with as few ranks, where some are lost",
    )
    made.add_argument(
        *("--max-np", "--max-num-proc"), type=_count, help="the most ranks, where hosts come"
    )
    made.add_argument(
        "--slots-per-host", type=_count, help="of hosts that the script names without a number"
    )
    made.add_argument("--start-timeout", type=_count, help="seconds that ranks await each other")
    made.add_argument(
        *("--network-interfaces", "--network-interface"), dest="nics", help="as in HVD_INTERFACE"
    )
    made.add_argument("--output-filename", help="folder for each rank's output: --output-dir")
    made.add_argument("--verbose", action="store_true", help="say what is decided and why")
    made.add_argument("--config-file", help="a YAML file with some of these options")
    made.add_argument("--fusion-threshold-mb", type=_amount, help="as in HVD_FUSION_THRESHOLD")
    made.add_argument("--timeline-filename", help="as in HVD_TIMELINE")
    marks = made.add_mutually_exclusive_group()
    marks.add_argument("--timeline-mark-cycles", action="store_true", help="mark batches, too")
    marks.add_argument("--no-timeline-mark-cycles", action="store_true", help="(the default)")
    made.add_argument(
        *("-prefix-timestamp", "--prefix-timestamp", "--prefix-output-with-timestamp"),
        *("--prefix-with-timestamp",),
        dest="timestamp",
        action="store_true",
        help="put the time before each line",
    )
    stall = made.add_mutually_exclusive_group()
    stall.add_argument("--no-stall-check", action="store_true", help="do not report stalls")
    stall.add_argument("--stall-check", action="store_true", help="report stalls (the default)")
    stall.add_argument("--stall-check-warning-time-seconds", dest="stall_seconds", type=_count)
    made.add_argument(
        "--stall-check-shutdown-time-seconds", dest="stall_shutdown_seconds", type=int
    )
    made.add_argument(
        "--log-level", type=str.upper, choices="TRACE DEBUG INFO WARNING ERROR FATAL".split()
    )
    hosts = made.add_mutually_exclusive_group()
    hosts.add_argument("-H", "--hosts", help="h1:slots,...; this machine, or Slurm's")
    hosts.add_argument("-hostfile", "--hostfile", help="the same in a file")
    hosts.add_argument("--host-discovery-script", help="a command that prints HOST:SLOTS lines")
    no_effect = made.add_argument_group("without effect", "a sentence says why")
    no_effect.add_argument(
        "--blacklist-cooldown-range", nargs=2, dest="cooldown", help=argparse.SUPPRESS
    )
    for names, reason in IGNORED_VALUES:
        no_effect.add_argument(*names, dest=_destination(names), metavar="X", help=reason)
    for names, reason in IGNORED_SWITCHES:
        no_effect.add_argument(*names, dest=_destination(names), action="store_true", help=reason)
    made.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    return made


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _amount(text: str) -> float:
    amount = float(text)
    if not 0 <= amount < 1 << 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in MB")
    return amount


# Keys of a configuration file, and the option that each is; others have no effect.
CONFIGURED = {
    ("params", "fusion_threshold_mb"): "fusion_threshold_mb",
    ("stall_check", "warning_time_seconds"): "stall_seconds",
    ("stall_check", "shutdown_time_seconds"): "stall_shutdown_seconds",
    ("timeline", "filename"): "timeline_filename",
    ("logging", "level"): "log_level",
}


def configure(options: argparse.Namespace, settings: Any, name: str) -> list[str]:
    """Takes over what a configuration file says and the command line does not."""
    said = []
    for section, entries in (settings or {}).items():
        pairs = entries.items() if isinstance(entries, dict) else [(None, entries)]
        for key, value in pairs:
            option = CONFIGURED.get((section, key))
            label = section if key is None else f"{section}.{key}"
            if (section, key) == ("stall_check", "enabled"):
                options.no_stall_check = options.no_stall_check or not value
            elif (section, key) == ("timeline", "mark_cycles"):
                options.timeline_mark_cycles = options.timeline_mark_cycles or bool(value)
            elif option is None:
                said.append(f"{name}: {label} has no effect")
            elif getattr(options, option) is None:
                setattr(options, option, str(value).upper() if option == "log_level" else value)
    return said
