# SPDX-License-Identifier: Apache-2.0
"""A whole Slurm cluster in namespaces on one machine: login node, controller, compute nodes with their own
hostname, address, /dev/shm and processes. It starts in about a second and cannot leak: everything hangs on
one pipe that the starting process holds.

By hand: python3 cluster.py jz sinfo -N
"""

import contextlib
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import typing

import slurm_conf

_ROOM = pathlib.Path(__file__).resolve().with_name("machine_room.sh")
_NAMESPACES = [
    "--net",
    "--uts",
    "--mount",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child=KILL",
    "--mount-proc",
]
_PROGRAMS = ["slurmctld", "slurmd", "srun", "munged", "ip", "unshare", "nsenter"]
_STARTERS = ("srun", "salloc", "sbatch", "script")
_FOREIGN_PREFIXES = ("SLURM", "SRUN", "SBATCH", "SALLOC", "PMI", "OMPI_", "HVD_")


def why_unavailable() -> typing.Optional[str]:
    """The reason why no cluster can run here, or None."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_search_path()) is None]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install slurmctld slurmd slurm-client munge iproute2"
    trial = subprocess.run(
        ["unshare", *_NAMESPACES, "true"], capture_output=True, text=True, check=False, timeout=20
    )
    if trial.returncode != 0:
        return f"namespaces are not allowed here: {trial.stderr.strip()}"
    return None


def _search_path() -> str:
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


def await_true(condition: typing.Callable[[], bool], seconds: float, what: str) -> float:
    """Polls until `condition()` holds; the seconds it took. Past the deadline: TimeoutError naming `what`."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return time.monotonic() - start


class Cluster:
    """One running cluster; a context manager."""

    def __init__(self, profile: str):
        self.profile = slurm_conf.PROFILES[profile]
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="hvd-slurm-"))
        self._write_files()
        read_end, self._lifeline = os.pipe()
        with open(self.root / "log" / "room.log", "wb") as log:
            self._unshare = subprocess.Popen(
                ["setsid", "unshare", *_NAMESPACES, str(_ROOM), "room", str(self.root)],
                stdin=read_end,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )
        os.close(read_end)
        try:
            self._init = self._await_init()
            self._await_nodes(set(self.profile.node_names()))
        except BaseException:
            self.stop(keep=True)
            raise

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *exc) -> None:
        self.stop()

    def login(self, command: list, timeout: float = 60, **extra_env) -> subprocess.CompletedProcess:
        """Runs a command on the login node: stdout and stderr as text, and the exit code."""
        return subprocess.run(
            self.on_login(command),
            env=self._environment(**extra_env),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            cwd=self.root,
        )

    def start(self, command: list, **extra_env) -> subprocess.Popen:
        """Starts a command on the login node in a process group of its own."""
        return subprocess.Popen(
            self.on_login(command),
            env=self._environment(**extra_env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=self.root,
            start_new_session=True,
        )

    def on_login(self, command: list) -> list[str]:
        if command[0] in _STARTERS:
            self._await_free_nodes()
        return self._enter(self._init) + ["--wdns=" + str(self.root), "--", *map(str, command)]

    def on(self, node: str, command: list, timeout: float = 30) -> subprocess.CompletedProcess:
        """Runs a command on a compute node."""
        inner = self._enter(self._node_pid(node)) + [
            "--wdns=" + str(self.root),
            "--",
            *map(str, command),
        ]
        return self.login(inner, timeout=timeout)

    def crash(self, node: str) -> None:
        """Power off: every process and the network of the node are gone at once."""
        self.login(["kill", "-9", str(self._node_pid(node))])

    def boot(self, node: str) -> None:
        address = slurm_conf.FIRST_NODE_ADDRESS + self.profile.node_names().index(node)
        script = (
            f"setsid {_ROOM} plug {self.root} {node} 10.66.0.{address} </dev/null >/dev/null 2>&1 &"
        )
        self.login(["bash", "-c", script])
        self._await_nodes({node}, ("idle", "mixed", "allocated", "completing"))

    def submit(self, *arguments, **extra_env) -> str:
        """sbatch; the job id."""
        result = self.login(["sbatch", "--parsable", *arguments], **extra_env)
        if result.returncode != 0:
            raise AssertionError(f"sbatch {arguments}: {result.stderr}")
        return result.stdout.strip()

    def job_state(self, job: str) -> str:
        fields = self.login(["scontrol", "-o", "show", "job", job]).stdout.split()
        return next((f.split("=", 1)[1] for f in fields if f.startswith("JobState=")), "UNKNOWN")

    def await_job(self, job: str, seconds: float = 60) -> str:
        """Waits until a job is over; its final state."""
        running = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED")
        await_true(lambda: self.job_state(job) not in running, seconds, f"end of job {job}")
        return self.job_state(job)

    def processes(self, pattern: str) -> list[str]:
        """Command lines anywhere in the cluster that contain `pattern`."""
        listing = self.login(["ps", "-eo", "pid,stat,args", "--no-headers", "-ww"]).stdout
        return [
            line
            for line in listing.splitlines()
            if pattern in line and " Z" not in line[:14] and "ps -eo" not in line
        ]

    def stop(self, keep: bool = False) -> None:
        """Ends every process of the cluster. `keep` leaves its logs, and prints them."""
        os.close(self._lifeline)
        try:
            self._unshare.wait(10)
        except subprocess.TimeoutExpired:
            self._unshare.kill()
            self._unshare.wait(10)
        if keep:
            for log in sorted((self.root / "log").iterdir()):
                tail = log.read_text(errors="replace").splitlines()[-15:]
                print(f"--- {log.name}", *tail, sep="\n", file=sys.stderr)
        shutil.rmtree(self.root, ignore_errors=True)

    def _write_files(self) -> None:
        for folder in ("etc/slurm", "state", "log", "run/munge", "dev", "spool", "tmp", "home"):
            (self.root / folder).mkdir(parents=True)
        os.chmod(self.root, 0o755)
        # Slurm wants a device file per GPU: a link to /dev/null is one, and needs no privilege.
        for index in range(8):
            (self.root / "dev" / f"nvidia{index}").symlink_to("/dev/null")
        key = self.root / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        for name, text in slurm_conf.files(self.profile, self.root).items():
            (self.root / name).write_text(text)

    def _environment(self, **extra) -> dict:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN_PREFIXES)}
        environment["PATH"] = _search_path()
        environment["HOME"] = str(self.root / "home")
        environment.update({k: str(v) for k, v in extra.items()})
        return environment

    def _enter(self, pid: int) -> list[str]:
        return ["nsenter", "-t", str(pid), "-n", "-u", "-m", "-i", "-p"]

    def _node_pid(self, node: str) -> int:
        return int((self.root / "run" / f"node-{node}.pid").read_text())

    def _await_init(self) -> int:
        # setsid execs unshare (it is not a group leader), whose one child is process 1 of the cluster.
        children = pathlib.Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        await_true(lambda: children.read_text().strip() != "", 10, "process 1 of the cluster")
        return int(children.read_text().split()[0])

    def _await_free_nodes(self) -> None:
        """Until the nodes of ended jobs are free again, or 10 s, as where a node crashed: else Slurm takes others."""

        def is_free() -> bool:
            return not self.login(["squeue", "-h", "-t", "completing"], timeout=20).stdout.strip()

        with contextlib.suppress(TimeoutError):
            await_true(is_free, 10, "end of ended jobs")

    def _await_nodes(self, names: set, states: tuple = ("idle",)) -> None:
        def ready() -> bool:
            rows = self.login(["sinfo", "-h", "-N", "-o", "%N %T"], timeout=20).stdout.splitlines()
            return names <= {row.split()[0] for row in rows if row.split()[1] in states}

        await_true(ready, 40, f"nodes {sorted(names)} in state {' or '.join(states)}")


def main() -> int:
    """cluster.py PROFILE command...: runs the command on the login node of a fresh cluster."""
    if len(sys.argv) < 3 or sys.argv[1] not in slurm_conf.PROFILES:
        print(f"usage: cluster.py {{{'|'.join(slurm_conf.PROFILES)}}} command...", file=sys.stderr)
        return 2
    reason = why_unavailable()
    if reason:
        print(reason, file=sys.stderr)
        return 77
    with Cluster(sys.argv[1]) as cluster:
        return subprocess.run(
            cluster.on_login(sys.argv[2:]),
            env=cluster._environment(),
            cwd=cluster.root,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
