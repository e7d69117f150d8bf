# SPDX-License-Identifier: Apache-2.0
"""The nodes of topologies/*.xml as tables.

Each says whether its devices were recorded on such a node or follow a documented table (synthetic),
from where, and what is assumed. After a change type ``python3 generate.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GIB = 1 << 30
NVIDIA, AMD, INTEL, MELLANOX, CRAY = "10de", "1002", "8086", "15b3", "17db"


@dataclass
class Device:
    """A GPU (pci class 03xx) or a NIC (class 02xx) with its operating system's names."""

    bus: str
    vendor: str
    chip: str
    pci_class: str
    name: str = ""
    net: str = ""
    rdma: str = ""
    lid: int = 1


@dataclass
class Root:
    """A host bridge at NUMA node ``numa``; the devices of one inner list share a switch."""

    numa: int
    switches: list[list[Device]]


@dataclass
class Node:
    packages: int
    numas: int  # in all packages
    cores: int  # by NUMA node
    threads: int
    gib: int  # by NUMA node
    roots: list[Root]
    mark: str
    siblings_apart: bool = True  # the kernel counts all first threads first
    gpu_memory: dict[int, int] = field(
        default_factory=dict
    )  # NUMA node of a GPU's memory -> of its CPUs


def gpu(bus: str, name: str, chip: str, vendor: str = NVIDIA, pci_class: str = "0302") -> Device:
    return Device(bus, vendor, chip, pci_class, name)


def mi250x(bus: str) -> Device:
    return gpu(bus, "AMD Instinct MI250X", "7408", AMD, "0380")


def cassini(bus: str, number: int) -> Device:
    return Device(bus, CRAY, "0501", "0200", "Cassini", net=f"hsn{number}")


def mellanox(bus: str, number: int, net: str = "", lid: int = 1) -> Device:
    return Device(
        bus, MELLANOX, "101b", "0207" if lid else "0200", "ConnectX-6", net, f"mlx5_{number}", lid
    )


def omni_path(bus: str, number: int) -> Device:
    return Device(bus, INTEL, "24f0", "0208", "Omni-Path HFI", f"ib{number}", f"hfi1_{number}")


V100 = ("Tesla V100-SXM2", "1db1")
A100 = ("NVIDIA A100-SXM4", "20b0")
H100 = ("NVIDIA H100", "2330")


def gcd_roots() -> list[Root]:
    """LUMI-G and Frontier: one board of HPE (EX235a)."""
    pairs = {3: ("c1", "c6"), 1: ("c9", "ce"), 0: ("d1", "d6"), 2: ("d9", "de")}
    roots = []
    for number, (numa, (first, second)) in enumerate(pairs.items()):
        roots.append(Root(numa, [[mi250x(f"0000:{first}:00.0")], [mi250x(f"0000:{second}:00.0")]]))
        roots.append(
            Root(numa, [[cassini(f"0000:{(0x51, 0x20, 0x00, 0x80)[number] + 1:02x}:00.0", number)]])
        )
    return roots


def dgx_a100_roots() -> list[Root]:
    quarters = [
        (3, ("07", "0f"), (("0c", 0), ("12", 1))),
        (1, ("47", "4e"), (("4b", 2), ("54", 3))),
        (7, ("87", "90"), (("8d", 6), ("94", 7))),
        (5, ("b7", "bd"), (("ba", 8), ("cc", 9))),
    ]
    roots = []
    for numa, gpus, nics in quarters:
        devices = [gpu(f"0000:{bus}:00.0", *A100) for bus in gpus]
        devices += [mellanox(f"0000:{bus}:00.0", number, f"ib{number}") for bus, number in nics]
        roots.append(Root(numa, [devices]))
    roots.append(Root(0, [[mellanox("0000:61:00.0", 4, "ib4")]]))
    return roots


def dgx_h100_roots() -> list[Root]:
    buses = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]
    nics = [
        ("18", 0),
        ("40", 3),
        ("4f", 4),
        ("5e", 5),
        ("9a", 6),
        ("c0", 9),
        ("ce", 10),
        ("dc", 11),
    ]
    roots = []
    for number, (bus, (nic, device)) in enumerate(zip(buses, nics)):
        pair = [gpu(f"0000:{bus}:00.0", *H100), mellanox(f"0000:{nic}:00.0", device, f"ib{number}")]
        roots.append(Root(number // 4, [pair]))
    roots.append(Root(0, [[mellanox("0000:29:00.0", 1, "ens6f0np0", 0)]]))
    return roots


NODES = {
    "jean-zay-v100-quad": Node(
        2,
        2,
        20,
        2,
        96,
        [
            Root(
                0,
                [
                    [gpu("0000:1a:00.0", *V100), omni_path("0000:18:00.0", 0)],
                    [gpu("0000:1c:00.0", *V100), omni_path("0000:19:00.0", 1)],
                ],
            ),
            Root(
                1,
                [
                    [gpu("0000:88:00.0", *V100), omni_path("0000:86:00.0", 2)],
                    [gpu("0000:8a:00.0", *V100), omni_path("0000:87:00.0", 3)],
                ],
            ),
        ],
        "synthetic: 4 V100 and 10 cores for each, by IDRIS's page of the GPU partitions, "
        "http://www.idris.fr/en/docs/jean-zay/slurm/slurm_partitions_gpu (2025); Omni-Path by its Horovod page. "
        "Assumed: two sockets with SMT, two GPUs and two NICs at each, in order; bus numbers.",
    ),
    "jean-zay-v100-octo": Node(
        2,
        2,
        12,
        2,
        192,
        [
            Root(
                0,
                [
                    [gpu(f"0000:{bus}:00.0", *V100) for bus in ("1a", "1c")]
                    + [omni_path("0000:18:00.0", 0)],
                    [gpu(f"0000:{bus}:00.0", *V100) for bus in ("3d", "3f")]
                    + [omni_path("0000:3b:00.0", 1)],
                ],
            ),
            Root(
                1,
                [
                    [gpu(f"0000:{bus}:00.0", *V100) for bus in ("88", "8a")]
                    + [omni_path("0000:86:00.0", 2)],
                    [gpu(f"0000:{bus}:00.0", *V100) for bus in ("b1", "b3")]
                    + [omni_path("0000:af:00.0", 3)],
                ],
            ),
        ],
        "synthetic: 8 V100 and 3 cores for each (gpu_p2), by IDRIS's page of the GPU partitions, "
        "http://www.idris.fr/en/docs/jean-zay/slurm/slurm_partitions_gpu (2025). "
        "Assumed: two sockets with SMT, four GPUs and two NICs at each, in order; bus numbers.",
    ),
    "jean-zay-a100-octo": Node(
        2,
        2,
        32,
        2,
        256,
        [
            Root(
                0,
                [
                    [gpu(f"0000:{bus}:00.0", *A100) for bus in ("07", "0b")]
                    + [omni_path("0000:05:00.0", 0)],
                    [gpu(f"0000:{bus}:00.0", *A100) for bus in ("48", "4c")]
                    + [omni_path("0000:46:00.0", 1)],
                ],
            ),
            Root(
                1,
                [
                    [gpu(f"0000:{bus}:00.0", *A100) for bus in ("88", "8b")]
                    + [omni_path("0000:86:00.0", 2)],
                    [gpu(f"0000:{bus}:00.0", *A100) for bus in ("c8", "cb")]
                    + [omni_path("0000:c6:00.0", 3)],
                ],
            ),
        ],
        "synthetic: 8 A100 and 8 cores for each (gpu_p5, public job scripts, 2024 to 2026), 4 Omni-Path links "
        "(model card of BLOOM, https://huggingface.co/bigscience/bloom, 2022). "
        "Assumed: two sockets with SMT, one NUMA node and four GPUs at each, in order; bus numbers.",
    ),
    "jean-zay-h100-quad": Node(
        2,
        2,
        48,
        2,
        256,
        [
            Root(
                0,
                [
                    [gpu("0000:1b:00.0", *H100), mellanox("0000:1a:00.0", 0, "ib0")],
                    [gpu("0000:4c:00.0", *H100), mellanox("0000:4b:00.0", 1, "ib1")],
                ],
            ),
            Root(
                1,
                [
                    [gpu("0000:9b:00.0", *H100), mellanox("0000:9a:00.0", 2, "ib2")],
                    [gpu("0000:cb:00.0", *H100), mellanox("0000:ca:00.0", 3, "ib3")],
                ],
            ),
        ],
        "synthetic: 4 H100 and 24 cores for each (gpu_p6, public job scripts, 2024 to 2026). "
        "Assumed: InfiniBand with a NIC for each GPU, two sockets with SMT, two GPUs at each; bus numbers.",
    ),
    "piz-daint-xc50": Node(
        1,
        1,
        12,
        2,
        64,
        [
            Root(0, [[gpu("0000:02:00.0", "Tesla P100-PCIE-16GB", "15f8")]]),
        ],
        "synthetic: 12 cores with SMT and 1 P100, by CSCS's course of 2019 (the machine is retired). "
        "Aries has no PCI network device: ipogif0 is not in this form. Assumed: memory, bus number.",
    ),
    "alps-gh200": Node(
        4,
        4,
        72,
        1,
        120,
        [
            Root(n, [[gpu(f"00{n}9:01:00.0".rjust(12, "0"), "NVIDIA GH200 120GB", "2342")]])
            for n in range(4)
        ]
        + [Root(n, [[cassini(f"00{n}{'0'}:01:00.0".rjust(12, "0"), n)]]) for n in range(4)],
        "synthetic: four modules of 72 cores, GPU and Slingshot 11 NIC, by CSCS, https://docs.cscs.ch (2026-08); "
        "a GPU's memory is NUMA nodes of its own, 8 for each GPU, by "
        "https://github.com/NVIDIA/mlperf-common/pull/16 (2024-07); the first of each 8 is here. "
        "Assumed: host bridge of its own for each NIC; bus numbers.",
        gpu_memory={4: 0, 12: 1, 20: 2, 28: 3},
    ),
    "lumi-g": Node(
        1,
        4,
        16,
        2,
        128,
        gcd_roots(),
        "synthetic: NUMA nodes of the GPUs (GCDs) and the map of cores by LUMI's user guide (2024-10) and "
        "LUMI-AI-Guide (2026-04), https://docs.lumi-supercomputer.eu. Assumed: NIC n at the NUMA node of "
        "GCD 2n; bus numbers.",
    ),
    "frontier": Node(
        1,
        4,
        16,
        2,
        128,
        gcd_roots(),
        "synthetic: GPU of each group of cores by https://docs.olcf.ornl.gov/systems/frontier_user_guide.html "
        "(2026-07). Assumed: NICs as on LUMI-G; bus numbers.",
    ),
    "perlmutter": Node(
        1,
        4,
        16,
        2,
        64,
        [
            Root(3, [[gpu("0000:03:00.0", *A100)]]),
            Root(3, [[cassini("0000:21:00.0", 3)]]),
            Root(2, [[gpu("0000:41:00.0", *A100)]]),
            Root(2, [[cassini("0000:61:00.0", 2)]]),
            Root(1, [[gpu("0000:82:00.0", *A100)]]),
            Root(1, [[cassini("0000:a1:00.0", 1)]]),
            Root(0, [[gpu("0000:c1:00.0", *A100)]]),
            Root(0, [[cassini("0000:e1:00.0", 0)]]),
        ],
        "recorded: NUMA node and CPUs of each GPU and NIC, from a public report of sysfs and "
        "nvidia-smi topo -m on two nodes (2026); reversed order also in NERSC's nersc-dl-multigpu. "
        "Assumed: NICs behind host bridges of their own; bus numbers.",
    ),
    "leonardo": Node(
        1,
        2,
        16,
        1,
        256,
        [
            Root(
                0,
                [
                    [
                        gpu("0000:1d:00.0", "NVIDIA A100-SXM-64GB", "20b3"),
                        mellanox("0000:1a:00.0", 0, "ib0"),
                    ],
                    [
                        gpu("0000:56:00.0", "NVIDIA A100-SXM-64GB", "20b3"),
                        mellanox("0000:53:00.0", 1, "ib1"),
                    ],
                ],
            ),
            Root(
                1,
                [
                    [
                        gpu("0000:8f:00.0", "NVIDIA A100-SXM-64GB", "20b3"),
                        mellanox("0000:8c:00.0", 2, "ib2"),
                    ],
                    [
                        gpu("0000:c8:00.0", "NVIDIA A100-SXM-64GB", "20b3"),
                        mellanox("0000:c5:00.0", 3, "ib3"),
                    ],
                ],
            ),
        ],
        "synthetic: 32 cores in one socket, 4 A100, HDR InfiniBand, by CINECA, "
        "https://docs.hpc.cineca.it/hpc/leonardo.html. Assumed: a port for each GPU, two NUMA nodes with two GPUs "
        "at each, no SMT; bus numbers.",
    ),
    "juwels-booster": Node(
        2,
        8,
        6,
        2,
        64,
        [
            Root(3, [[gpu("0000:03:00.0", *A100), mellanox("0000:01:00.0", 0, "ib0")]]),
            Root(1, [[gpu("0000:44:00.0", *A100), mellanox("0000:41:00.0", 1, "ib1")]]),
            Root(7, [[gpu("0000:84:00.0", *A100), mellanox("0000:81:00.0", 2, "ib2")]]),
            Root(5, [[gpu("0000:c4:00.0", *A100), mellanox("0000:c1:00.0", 3, "ib3")]]),
        ],
        "recorded: NUMA node, CPUs and nearest NIC (PIX) of each GPU from nvidia-smi topo -mp, as quoted in a "
        "public job script; cores by https://apps.fz-juelich.de/jsc/hps/juwels/booster-overview.html. "
        "Assumed: bus numbers.",
    ),
    "dgx-a100": Node(
        2,
        8,
        16,
        2,
        128,
        dgx_a100_roots(),
        "recorded: NUMA nodes, CPUs and switches from NCCL's topology file and nvidia-smi topo -m in "
        "https://github.com/NVIDIA/nccl/issues/1505 and /2157 (2024 and 2026). Of the storage NICs one is here. "
        "Assumed: bus numbers but those of the first switch.",
    ),
    "dgx-h100": Node(
        2,
        2,
        56,
        2,
        1024,
        dgx_h100_roots(),
        "recorded: CPUs of each GPU and the NIC at its switch from nvidia-smi topo -m in "
        "https://github.com/NVIDIA/nccl/issues/1264 (2024). Of the storage NICs one is here, as Ethernet. "
        "Assumed: names and bus numbers.",
    ),
    "laptop": Node(
        1,
        1,
        4,
        2,
        16,
        [
            Root(
                0,
                [
                    [Device("0000:00:02.0", INTEL, "9a49", "0300", "Iris Xe Graphics")],
                    [Device("0000:00:14.3", INTEL, "a0f0", "0280", "Wi-Fi 6", net="wlan0")],
                ],
            ),
        ],
        "synthetic: a processor of 4 cores with SMT, its own display and wireless network.",
        siblings_apart=False,
    ),
}
