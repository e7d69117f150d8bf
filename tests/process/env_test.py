# SPDX-License-Identifier: Apache-2.0
"""`hvdrun env`, `hvdrun sites` and `hvdrun topo` as programs and shells use them.

Usage: env_test.py HVDRUN PAGE [unittest arguments]
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

HVDRUN, PAGE = sys.argv[1:3]
VALUE = 'it\'s $HOME `id` \\ "q" *\ttab'
SITE = {
    "id": "lab",
    "name": "Lab",
    "provenance": {
        "wiki": {"source": "wiki", "date": "2026-09", "mark": "documented"},
        "guess": {"source": "guess", "date": "2026-09", "mark": "assumed"},
    },
    "source": "wiki",
    "detect": {"variables": {"LAB_HOST": "lab"}, "source": "wiki"},
    "partitions": [],
    "gres_style": "none",
    "env": [
        {"name": "LAB_VALUE", "value": VALUE, "when": "nodes>1", "why": "w", "source": "wiki"},
        {"name": "LAB_TYPED", "value": "site", "when": "always", "why": "w", "source": "wiki"},
        {"name": "LAB_TOKEN", "value": "hush", "when": "always", "why": "w", "source": "wiki"},
        {"name": "LAB_GUESS", "value": "1", "when": "always", "why": "w", "source": "guess"},
    ],
}


class TestEnv(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = pathlib.Path(self.folder.name, "lab.json")
        path.write_text(json.dumps(SITE), encoding="utf-8")
        self.variables = {
            "PATH": "/usr/bin:/bin",
            "HVD_SITE_PATH": self.folder.name,
            "LAB_HOST": "lab",
            "LAB_TYPED": "mine",
            "HVDRUN": HVDRUN,
        }

    def run_it(self, *command: str, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=self.variables, check=False
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_a_shell_gets_the_values_as_they_are(self) -> None:
        script = 'eval "$("$HVDRUN" env --nodes 2 --export)"; env -0'
        done = self.run_it("sh", "-c", script)
        found = dict(pair.split("=", 1) for pair in done.stdout.split("\0") if pair)
        self.assertEqual(found["LAB_VALUE"], VALUE)
        self.assertEqual(found["LAB_TYPED"], "mine")
        self.assertNotIn("LAB_TOKEN", found)
        self.assertNotIn("LAB_GUESS", found)

    def test_explain_says_of_each_where_it_is_from_and_why(self) -> None:
        done = self.run_it(HVDRUN, "env", "--nodes", "2", "--explain")
        self.assertIn("site lab (Lab): ", done.stdout)
        blocks = {block.partition("=")[0]: block for block in done.stdout.split("\n\n")}
        for words in (r"origin +site lab\n", r"why +w\n", "wiki, 2026-09"):
            self.assertRegex(blocks["LAB_VALUE"], words)
        self.assertRegex(blocks["LAB_TYPED"], r"^LAB_TYPED=mine\n +origin +user environment\n")
        self.assertNotIn("hush", done.stdout)

    def test_json_names_origin_source_and_what_was_overridden(self) -> None:
        report = json.loads(self.run_it(HVDRUN, "env", "--nodes", "2", "--json").stdout)
        self.assertEqual(report["site"]["found_by"], "LAB_HOST=lab")
        variables = {variable["name"]: variable for variable in report["variables"]}
        self.assertEqual(variables["LAB_VALUE"]["mark"], "documented")
        self.assertEqual(variables["LAB_TYPED"]["origin"], "user environment")
        self.assertEqual(
            variables["LAB_TYPED"]["overridden"], [{"value": "site", "origin": "site lab"}]
        )
        self.assertIsNone(variables["LAB_TOKEN"]["value"])
        self.assertEqual(
            [item["why_not"] for item in report["not_set"] if item["name"] == "LAB_GUESS"],
            ["assumed, not documented: --assume sets it"],
        )

    def test_an_assumed_value_is_set_on_demand_and_said(self) -> None:
        done = self.run_it(HVDRUN, "env", "--assume")
        self.assertIn("LAB_GUESS=1\n", done.stdout)
        self.assertIn("LAB_GUESS=1 of site lab is assumed: verify it", done.stderr)
        program = ("sh", "-c", "echo $LAB_GUESS")
        done = self.run_it(HVDRUN, "-np", "1", "--assume", *program)
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("LAB_GUESS=1, which is assumed: verify it", done.stderr)
        self.assertEqual(self.run_it(HVDRUN, "-np", "1", *program).stdout, "\n")

    def test_a_site_that_is_not_this_machine_gives_what_its_jobs_get(self) -> None:
        done = self.run_it(HVDRUN, "env", "--site", "alps-daint", "--nodes", "2")
        self.assertNotIn("OMP_NUM_THREADS", done.stdout)
        self.assertIn("site alps-daint is not this machine", done.stderr)
        script = self.run_it(HVDRUN, "script", "--site", "alps-daint", "-N", "2", "--", "true")
        exported = re.findall(r'^export (\w+)="\$\{\w+-(.*)\}"$', script.stdout, re.MULTILINE)
        self.assertGreater(len(exported), 5)
        lines = done.stdout.splitlines()
        for name, value in exported:
            self.assertIn(f"{name}={value}", lines)

    def test_a_site_that_is_this_machine_gives_what_is_here(self) -> None:
        path = pathlib.Path(self.folder.name, "lab.json")
        partition = {"name": "gpu", "select": "partition", "fabric_kind": "aries", "source": "wiki"}
        partition |= {"gpus": {"count": 1, "source": "wiki"}, "cores_per_task": 4}
        path.write_text(json.dumps(SITE | {"partitions": [partition]}), encoding="utf-8")
        here = self.run_it(HVDRUN, "env", "--nodes", "2").stdout
        done = self.run_it(HVDRUN, "env", "--site", "lab", "--nodes", "2")
        self.assertEqual(done.stdout, here)
        self.assertIn("OMP_NUM_THREADS", done.stdout)
        self.assertEqual(done.stderr, "")
        del self.variables["LAB_HOST"]
        done = self.run_it(HVDRUN, "env", "--site", "lab", "--nodes", "2")
        self.assertIn("site lab is not this machine", done.stderr)
        self.assertIn("partition gpu, fabric aries", done.stderr)
        # On the nodes of a job they count, whatever the site says of itself.
        self.variables.update(SLURM_JOB_ID="1", SLURM_JOB_NODELIST="n[1-2]", SLURM_NTASKS="2")
        done = self.run_it(HVDRUN, "env", "--site", "lab")
        self.assertEqual(done.stderr, "")

    def test_wrong_words_are_usage_errors(self) -> None:
        self.assertIn(
            "no site 'nowhere'", self.run_it(HVDRUN, "env", "--site", "nowhere", code=2).stderr
        )
        self.assertIn("no fabric 'x'", self.run_it(HVDRUN, "env", "--fabric", "x", code=2).stderr)
        self.assertIn("no site 'nowhere'", self.run_it(HVDRUN, "sites", "nowhere", code=2).stderr)

    def test_a_broken_file_is_one_warning_and_stops_those_alone_who_name_it(self) -> None:
        broken = pathlib.Path(self.folder.name, "own.json")
        broken.write_text('{\n  "id": "own",,\n}', encoding="utf-8")
        said = f"hvdrun: warning: a site file is left out: {broken}: line 2, column 15: "
        job = pathlib.Path(self.folder.name, "job.sh")
        job.write_text("#!/bin/sh\n#SBATCH --nodes=1\n", encoding="utf-8")
        for command in (
            ("env",),
            ("sites",),
            ("sites", "lab"),
            ("header", "--list"),
            ("header", "--site", "jean-zay", "--gpus", "4"),
            ("lint", str(job)),
            ("explain", "-np", "2", "true"),
            ("-np", "2", "true"),
        ):
            with self.subTest(command=command):
                done = self.run_it(HVDRUN, *command)
                self.assertEqual(done.stderr.count(said), 1, done.stderr)
                self.assertNotIn("own.json", done.stdout)
        for command in (
            ("env", "--site", "own"),
            ("sites", "own"),
            ("sites", str(broken)),
            ("header", "--site", "own", "--gpus", "4"),
            ("--site", "own", "-np", "2", "true"),
        ):
            with self.subTest(command=command):
                done = self.run_it(HVDRUN, *command, code=2)
                self.assertIn(f"hvdrun: {broken}: line 2, column 15: ", done.stderr)
                self.assertNotIn("left out", done.stderr)

    def test_the_list_counts_as_the_reference_does(self) -> None:
        report = json.loads(self.run_it(HVDRUN, "sites", "--json").stdout)
        self.assertEqual(report["here"], {"id": "lab", "evidence": "LAB_HOST=lab"})
        del self.variables["HVD_SITE_PATH"]
        report = json.loads(self.run_it(HVDRUN, "sites", "--json").stdout)
        total = {"documented": 0, "seen": 0, "assumed": 0}
        for site in report["sites"]:
            for mark, count in site["values"].items():
                total[mark] += count
        counts = ", ".join(f"{count} {mark}" for mark, count in total.items())
        self.assertIn(f"Together: {counts}.", pathlib.Path(PAGE).read_text(encoding="utf-8"))


def expanded(cpus: str) -> list[int]:
    """ "0,4-5" as numbers."""
    ends = [part.split("-") for part in cpus.split(",")]
    return [
        cpu for first, *last in ends for cpu in range(int(first), int((last or [first])[0]) + 1)
    ]


class TestTopo(unittest.TestCase):
    """The machine that this runs on, as the kernel shows it, too."""

    def topo(self, *words: str) -> str:
        done = subprocess.run(
            [HVDRUN, "topo", *words], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_each_usable_cpu_is_in_one_core(self) -> None:
        cores = json.loads(self.topo("--json"))["cores"]
        cpus = [cpu for core in cores for cpu in expanded(core["cpus"])]
        self.assertEqual(len(cpus), len(set(cpus)))
        self.assertLessEqual(os.sched_getaffinity(0), set(cpus))

    def test_ranks_are_drawn_with_their_cpus(self) -> None:
        text = self.topo("-np", "2")
        self.assertRegex(text, r"\d+ packages?, \d+ NUMA nodes?, \d+ cores?, \d+ CPUs?, \d+ GPU")
        rows = text.partition("\nrank ")[2].splitlines()[1:]
        self.assertEqual([row.split()[0] for row in rows], ["0", "1"])

    def test_a_drawing_is_xml(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "node.svg")
            self.assertEqual(self.topo("-np", "2", "--svg", str(path)), "")
            self.assertEqual(ElementTree.parse(path).getroot().tag.rpartition("}")[2], "svg")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
