# SPDX-License-Identifier: Apache-2.0
"""horovodrun: says in hvdrun's words what its options mean, then becomes hvdrun."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from horovod import _environment
from horovod.common.basics import HorovodBasics
from horovod.runner import options as known
from hvd.launch import allocation_size, hvdrun_path, in_slurm_shell, with_variables


class Refusal(ValueError):
    """What was asked for is not possible; the text says what is."""


class Plan(NamedTuple):
    """What horovodrun does: arguments of hvdrun, variables to set, sentences about the rest."""

    arguments: list[str]
    variables: dict[str, str | None]  # None: without it
    said: list[str]


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line, those of a configuration file included."""
    options = known.parser().parse_args(argv)
    options.said = []
    if options.config_file:
        options.said = known.configure(
            options, read_settings(options.config_file), options.config_file
        )
    return options


def read_settings(path: str) -> object:
    """What a YAML file says."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise Refusal(
            "--config-file needs PyYAML: pip install pyyaml; or give its entries as options"
        ) from None
    return yaml.safe_load(Path(path).read_text())


def hosts_of(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Name and slots of each host that was named."""
    if options.hosts:
        pairs = [entry.partition(":") for entry in options.hosts.split(",") if entry]
        return [(name.strip(), int(slots or 1)) for name, _, slots in pairs]
    if options.hostfile:
        lines = Path(options.hostfile).read_text().splitlines()
        entries = [line.partition("#")[0].split() for line in lines]
        return [(words[0], _slots(words[1:])) for words in entries if words]
    return []


def _slots(words: list[str]) -> int:
    return next((int(word.partition("=")[2]) for word in words if word.startswith("slots=")), 1)


def _is_here(host: str) -> bool:
    name = socket.gethostname()
    here = {"localhost", "127.0.0.1", "::1", name, name.partition(".")[0]}
    return host in here or host.partition(".")[0] in here


def choose(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Plan:
    """Ranks and variables, of what horovodrun and ``horovod.run`` have in common.

    Raises
    ------
    Refusal
        There is no way to start that; the text says what there is.
    """
    said: list[str] = []
    hosts = hosts_of(options)
    others = [name for name, _ in hosts if not _is_here(name)]
    in_job = in_slurm_shell(environment)
    if others and not in_job:
        raise Refusal(
            f"hosts {', '.join(others)}: hvdrun starts ranks on this machine or, in a job of Slurm, "
            "on its nodes, and nowhere through ssh. Ask Slurm: `hvdrun submit`, or in an sbatch "
            "script `hvdrun python train.py`"
        )
    slots = sum(count for _, count in hosts)
    if hosts and options.np and options.np > slots:
        raise Refusal(f"-np {options.np}: the hosts that were named have {slots} slots")
    variables = _variables(options)
    if not in_job:
        return Plan(_flags_here(options, slots), variables, said)
    if hosts or options.host_discovery_script:
        said.append(
            "-H, --hostfile, --host-discovery-script: the nodes are those of the job of Slurm"
        )
    sizes, flags = allocation_size(environment, options.np)
    return Plan([*flags, *_limits(options)], {**variables, **sizes}, said)


def _limits(options: argparse.Namespace) -> list[str]:
    given = {"--min-np": options.min_np, "--max-np": options.max_np}
    return [word for name, value in given.items() if value for word in (name, str(value))]


def _flags_here(options: argparse.Namespace, slots: int) -> list[str]:
    """How many ranks, on this machine."""
    if options.host_discovery_script:
        flags = ["-np", str(options.np)] if options.np else []
        flags += [*_limits(options), "--host-discovery-script", options.host_discovery_script]
        if options.slots_per_host:
            flags += ["--slots-per-host", str(options.slots_per_host)]
        return flags
    if options.np is None:
        raise Refusal("say how many ranks: -np N")
    # The hosts that were named are all that there are: the most ranks that they have slots for.
    ranks = max(options.np, min(options.max_np or 0, slots))
    return ["-np", str(ranks), *(["--min-np", str(options.min_np)] if options.min_np else [])]


def plan(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Plan:
    """What horovodrun does; raises Refusal."""
    chosen = choose(options, environment)
    said = options.said + known.ignored(options) + chosen.said
    if options.cooldown:
        said.append("--blacklist-cooldown-range has no effect: a host is not left out")
    arguments = list(chosen.arguments)
    if options.output_filename:
        arguments += ["--output-dir", options.output_filename]
        said.append("--output-filename: files are DIR/rank-N.out and DIR/rank-N.err")
    if options.timestamp:
        arguments.append("--timestamp")
    if options.verbose:
        arguments.append("--verbose")
    return Plan([*arguments, "--", *options.command], chosen.variables, said)


def _variables(options: argparse.Namespace) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    if options.start_timeout:
        found["HVD_START_TIMEOUT_SECONDS"] = str(options.start_timeout)
    if options.nics:
        found["HVD_INTERFACE"] = options.nics
    if options.fusion_threshold_mb is not None:
        found["HVD_FUSION_THRESHOLD"] = str(int(float(options.fusion_threshold_mb) * 1024 * 1024))
    if options.timeline_filename:
        found["HVD_TIMELINE"] = options.timeline_filename
        if options.timeline_mark_cycles and not options.no_timeline_mark_cycles:
            found["HVD_TIMELINE_MARK_BATCHES"] = "1"
    if options.no_stall_check:
        found["HVD_STALL_CHECK_TIME_SECONDS"] = "0"
    elif options.stall_seconds:
        found["HVD_STALL_CHECK_TIME_SECONDS"] = str(options.stall_seconds)
    if options.stall_shutdown_seconds is not None:
        # Below 0 is never, as 0 is.
        found["HVD_STALL_SHUTDOWN_TIME_SECONDS"] = str(max(0, options.stall_shutdown_seconds))
    if options.log_level:
        found["HVD_LOG"] = _environment.log_level(options.log_level)
    return found


def build_summary() -> str:
    """What horovodrun --check-build prints."""
    import horovod

    basics = HorovodBasics(__file__)
    frameworks = {
        "TensorFlow": importlib.util.find_spec("tensorflow") is not None,
        "PyTorch": importlib.util.find_spec("torch") is not None,
        "MXNet": False,
    }
    controllers = {"MPI": basics.mpi_built(), "Gloo": basics.gloo_built()}
    operations = {
        "NCCL": bool(basics.nccl_built()),
        "DDL": basics.ddl_built(),
        "CCL": basics.ccl_built(),
        "MPI": basics.mpi_built(),
        "Gloo": basics.gloo_built(),
    }
    sections = {
        "Available Frameworks": frameworks,
        "Available Controllers": controllers,
        "Available Tensor Operations": operations,
    }
    lines = [f"Horovod v{horovod.__version__} (its interface, by hvdrun-horovod):"]
    for title, parts in sections.items():
        lines += ["", f"{title}:"]
        lines += [f"    [{'X' if there else ' '}] {name}" for name, there in parts.items()]
    lines += ["", "Gloo stands for libhvd's own shared memory and sockets: hvdrun check --build"]
    return "\n".join(lines)


def run_commandline(argv: Sequence[str] | None = None) -> int:
    """The program horovodrun; returns only what is not hvdrun's exit code."""
    import horovod

    try:
        options = parse_args(argv)
        if options.version:
            print(horovod.__version__)
            return 0
        if options.check_build:
            print(build_summary())
            return 0
        if not options.command:
            raise Refusal("name a program: horovodrun -np 2 python train.py")
        chosen = plan(options)
        program = hvdrun_path()
    except (Refusal, OSError) as refusal:
        print(f"horovodrun: {refusal}", file=sys.stderr)
        return 2
    for sentence in chosen.said:
        print(f"horovodrun: {sentence}", file=sys.stderr)
    sys.stderr.flush()
    environment = with_variables(os.environ, chosen.variables)
    os.execve(program, [program, "run", *chosen.arguments], environment)


if __name__ == "__main__":
    sys.exit(run_commandline())
