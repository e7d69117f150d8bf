# SPDX-License-Identifier: Apache-2.0
"""Writes the nodes of machines.py in hwloc's XML form (version 2), each file with its source."""

from __future__ import annotations

import pathlib

from machines import GIB, NODES, Device, Node


def bitmap(bits: list[int]) -> str:
    value = sum(1 << bit for bit in bits)
    words = []
    while value:
        word = value & 0xFFFFFFFF
        words.append(f"0x{word:x}")
        value >>= 32
    return ",".join(reversed(words)) or "0x0"


class Writer:
    """Nested objects with sets; hwloc wants them all."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.lines: list[str] = []
        self.opened: list[int] = []  # lines of the objects not ended yet
        self.depth = 0
        self.index = 0

    def start(
        self,
        kind: str,
        attributes: str,
        cpus: list[int] | None = None,
        numas: list[int] | None = None,
    ) -> None:
        self.index += 1
        sets = ""
        if cpus is not None and numas is not None:
            prefixes = ("", "complete_")  # hwloc 2.9 crashes on objects that lack the second
            sets = "".join(f' {p}cpuset="{bitmap(cpus)}"' for p in prefixes)
            sets += "".join(f' {p}nodeset="{bitmap(numas)}"' for p in prefixes)
            if kind == "Machine":
                sets += f' allowed_cpuset="{bitmap(cpus)}" allowed_nodeset="{bitmap(numas)}"'
        self.opened.append(len(self.lines))
        self.lines.append(
            f'{" " * self.depth}<object type="{kind}"{attributes}{sets} gp_index="{self.index}">'
        )
        self.depth += 1

    def end(self) -> None:
        self.depth -= 1
        if self.opened.pop() == len(self.lines) - 1:
            self.lines[-1] = self.lines[-1][:-1] + "/>"
        else:
            self.lines.append(f"{' ' * self.depth}</object>")

    def info(self, name: str, value: str) -> None:
        self.lines.append(f'{" " * self.depth}<info name="{name}" value="{value}"/>')

    def cpus_of_core(self, core: int) -> list[int]:
        cores = self.node.numas * self.node.cores
        if self.node.siblings_apart:
            return [core + thread * cores for thread in range(self.node.threads)]
        return [core * self.node.threads + thread for thread in range(self.node.threads)]

    def cores_of(self, numas: list[int]) -> list[int]:
        return [n * self.node.cores + i for n in numas for i in range(self.node.cores)]

    def cpus_of(self, numas: list[int]) -> list[int]:
        return sorted(cpu for core in self.cores_of(numas) for cpu in self.cpus_of_core(core))

    def with_memory(self, numas: list[int]) -> list[int]:
        return sorted(numas + [m for m, at in self.node.gpu_memory.items() if at in numas])

    def numa_objects(self, numa: int) -> None:
        cpus = self.cpus_of([numa])
        self.start(
            "NUMANode", f' os_index="{numa}" local_memory="{self.node.gib * GIB}"', cpus, [numa]
        )
        self.end()
        for memory, at in self.node.gpu_memory.items():
            if at == numa:
                self.start(
                    "NUMANode",
                    f' os_index="{memory}" subtype="GPUMemory" local_memory="{96 * GIB}"',
                    cpus,
                    [memory],
                )
                self.end()

    def device(self, device: Device) -> None:
        kind = f"{device.pci_class} [{device.vendor}:{device.chip}] [0000:0000] 00"
        self.start("PCIDev", f' pci_busid="{device.bus}" pci_type="{kind}" pci_link_speed="0.0"')
        if device.name:
            self.info("PCIDevice", device.name)
        if device.net:
            self.start("OSDev", f' name="{device.net}" osdev_type="2"')
            self.end()
        if device.rdma:
            self.start("OSDev", f' name="{device.rdma}" osdev_type="3"')
            self.info("Port1State", "4")
            self.info("Port1LID", f"0x{device.lid:x}")
            self.end()
        self.end()

    def bridges(self, numa: int) -> None:
        for root in self.node.roots:
            if root.numa != numa:
                continue
            buses = [int(d.bus.split(":")[1], 16) for switch in root.switches for d in switch]
            domain = root.switches[0][0].bus.split(":")[0]
            low, high = min(buses), max(buses)
            self.start(
                "Bridge",
                f' bridge_type="0-1" depth="0" bridge_pci="{domain}:[{low:02x}-{high:02x}]"',
            )
            for number, switch in enumerate(root.switches):
                ids = [int(d.bus.split(":")[1], 16) for d in switch]
                attributes = (
                    f' bridge_type="1-1" depth="1" bridge_pci="{domain}:[{min(ids):02x}-{max(ids):02x}]"'
                    f' pci_busid="{domain}:{low:02x}:1f.{number}" pci_link_speed="0.0"'
                    ' pci_type="0604 [1000:c010] [0000:0000] 00"'
                )
                self.start("Bridge", attributes)
                for device in switch:
                    self.device(device)
                self.end()
            self.end()

    def numa_part(self, numa: int) -> None:
        self.numa_objects(numa)
        for core in self.cores_of([numa]):
            cpus = self.cpus_of_core(core)
            self.start("Core", f' os_index="{core}"', cpus, [numa])
            for cpu in cpus:
                self.start("PU", f' os_index="{cpu}"', [cpu], [numa])
                self.end()
            self.end()
        self.bridges(numa)

    def write(self) -> list[str]:
        node = self.node
        everything = list(range(node.numas))
        self.start(
            "Machine", ' os_index="0"', self.cpus_of(everything), self.with_memory(everything)
        )
        per_package = node.numas // node.packages
        for package in range(node.packages):
            numas = everything[package * per_package : (package + 1) * per_package]
            self.start(
                "Package", f' os_index="{package}"', self.cpus_of(numas), self.with_memory(numas)
            )
            for numa in numas:
                grouped = per_package > 1
                if grouped:
                    self.start("Group", ' kind="1001" subkind="0"', self.cpus_of([numa]), [numa])
                self.numa_part(numa)
                if grouped:
                    self.end()
            self.end()
        self.end()
        return self.lines


def main() -> None:
    folder = pathlib.Path(__file__).parent
    for name, node in NODES.items():
        lines = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        ]
        lines += [
            f"<!-- {name}: {node.mark} -->",
            '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
            '<topology version="2.0">',
        ]
        lines += Writer(node).write()
        lines.append("</topology>")
        (folder / f"{name}.xml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
