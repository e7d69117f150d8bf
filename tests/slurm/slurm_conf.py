# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the test cluster: a profile becomes the text of each file.

A profile imitates one real machine, small: `jz` is Jean Zay's V100 part, `daint` is the hybrid Piz Daint. Their nodes
declare more cores than this machine has, so tasks are not bound. The nodes of `cores` are honest: each has what this
machine has, and Slurm binds the tasks to it.
"""

import dataclasses
import pathlib
import subprocess


@dataclasses.dataclass(frozen=True)
class NodeKind:
    """Nodes that are alike: their names, what they declare and their GPUs."""

    names: tuple[str, ...]
    hardware: str  # Empty: what this machine has.
    feature: str
    gpu_type: str
    gpus: int


@dataclasses.dataclass(frozen=True)
class Profile:
    """One imitated machine."""

    kinds: tuple[NodeKind, ...]
    partitions: tuple[str, ...]
    switches: tuple[str, ...]
    binds_tasks: bool = False

    def node_names(self) -> list[str]:
        return [name for kind in self.kinds for name in kind.names]


_QUAD_V100 = NodeKind(
    ("jz1", "jz2", "jz3", "jz4"),
    "Sockets=2 CoresPerSocket=20 ThreadsPerCore=2",
    "v100,v100-16g",
    "v100",
    4,
)
_OCTO_V100 = NodeKind(
    ("p2n1", "p2n2"),
    "Sockets=2 CoresPerSocket=12 ThreadsPerCore=2",
    "v100,v100-32g",
    "v100",
    8,
)
_XC50 = NodeKind(
    ("nid00001", "nid00002", "nid00003", "nid00004"),
    "Sockets=1 CoresPerSocket=12 ThreadsPerCore=2",
    "gpu,perf",
    "p100",
    1,
)
_HONEST = NodeKind(("c1", "c2", "c3"), "", "honest", "none", 0)

PROFILES = {
    "jz": Profile(
        (_QUAD_V100, _OCTO_V100),
        (
            "PartitionName=gpu_p13 Nodes=jz[1-4] Default=YES MaxTime=20:00:00",
            "PartitionName=gpu_p2 Nodes=p2n[1-2] MaxTime=20:00:00",
        ),
        (
            "SwitchName=leaf0 Nodes=jz[1-2]",
            "SwitchName=leaf1 Nodes=jz[3-4]",
            "SwitchName=leaf2 Nodes=p2n[1-2]",
            "SwitchName=spine Switches=leaf[0-2]",
        ),
    ),
    "daint": Profile(
        (_XC50,),
        ("PartitionName=normal Nodes=nid0000[1-4] Default=YES MaxTime=24:00:00",),
        ("SwitchName=group0 Nodes=nid0000[1-4]",),
    ),
    "cores": Profile(
        (_HONEST,),
        ("PartitionName=cpu Nodes=c[1-3] Default=YES MaxTime=20:00:00",),
        ("SwitchName=group0 Nodes=c[1-3]",),
        binds_tasks=True,
    ),
}

FIRST_NODE_ADDRESS = 11


def _honest_hardware() -> str:
    """Sockets, cores and threads of this machine, as slurmd counts them."""
    line = subprocess.run(
        ["slurmd", "-C"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    wanted = ("SocketsPerBoard=", "CoresPerSocket=", "ThreadsPerCore=")
    return " ".join(field for field in line.split() if field.startswith(wanted))


def _node_line(name: str, kind: NodeKind) -> str:
    line = f"NodeName={name} {kind.hardware or _honest_hardware()} Feature={kind.feature} "
    if kind.gpus:
        return line + f"Gres=gpu:{kind.gpu_type}:{kind.gpus} RealMemory=8000"
    return line + "RealMemory=1000"


def _slurm_conf(profile: Profile, root: pathlib.Path) -> str:
    # config_overrides lets a node declare more cores than this machine has; task/none because task/affinity
    # then refuses --hint=nomultithread; proctrack/pgid because linuxproc misses orphans on scancel;
    # cred_expire is short because a requeued job starts again only after it.
    lines = [
        "ClusterName=lab",
        "SlurmctldHost=login",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        "AuthInfo=cred_expire=5",
        f"StateSaveLocation={root}/state",
        f"SlurmdSpoolDir={root}/spool/%n",
        f"TmpFS={root}/tmp/%n",
        f"SlurmctldPidFile={root}/run/slurmctld.pid",
        f"SlurmdPidFile={root}/run/slurmd-%n.pid",
        f"SlurmctldLogFile={root}/log/slurmctld.log",
        f"SlurmdLogFile={root}/log/slurmd-%n.log",
        "SlurmctldDebug=info",
        "SlurmdDebug=verbose",
        "ProctrackType=proctrack/pgid",
        f"TaskPlugin=task/{'affinity' if profile.binds_tasks else 'none'}",
        "SwitchType=switch/none",
        "TopologyPlugin=topology/tree",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=sched_min_interval=10000,batch_sched_delay=0,bf_interval=1",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "GresTypes=gpu",
        "AccountingStorageType=accounting_storage/none",
        "JobAcctGatherType=jobacct_gather/none",
        "JobCompType=jobcomp/none",
        "PropagateResourceLimits=NONE",
        "ReturnToService=2",
        "SlurmdTimeout=30",
        "KillWait=3",
        "DefMemPerCPU=10",
    ]
    if not profile.binds_tasks:
        lines.append("SlurmdParameters=config_overrides")
    for kind in profile.kinds:
        lines += [_node_line(name, kind) for name in kind.names]
    lines += profile.partitions
    return "\n".join(lines) + "\n"


def _gres_conf(profile: Profile, root: pathlib.Path) -> str:
    return "".join(
        f"NodeName={','.join(kind.names)} Name=gpu Type={kind.gpu_type} "
        f"File={root}/dev/nvidia{'0' if kind.gpus == 1 else f'[0-{kind.gpus - 1}]'}\n"
        for kind in profile.kinds
        if kind.gpus
    )


def _hosts(profile: Profile) -> str:
    lines = ["127.0.0.1 localhost", "10.66.0.1 login"]
    for offset, name in enumerate(profile.node_names()):
        lines.append(f"10.66.0.{FIRST_NODE_ADDRESS + offset} {name}")
    return "\n".join(lines) + "\n"


def files(profile: Profile, root: pathlib.Path) -> dict[str, str]:
    """Path below `root` -> text, for every file that the daemons read."""
    return {
        "etc/hosts": _hosts(profile),
        "etc/slurm/slurm.conf": _slurm_conf(profile, root),
        "etc/slurm/gres.conf": _gres_conf(profile, root),
        "etc/slurm/topology.conf": "\n".join(profile.switches) + "\n",
        "etc/slurm/cgroup.conf": "CgroupAutomount=no\n",
        # 300 s by default: a Get of a key that does not exist on a remote node would block that long.
        "etc/slurm/mpi.conf": "PMIxTimeout=5\n",
    }
