# SPDX-License-Identifier: Apache-2.0
"""What hvdrun learns of a real cluster, by libslurm and by the commands, and which commands say it."""

import json
import pathlib
import re
import unittest

import slurm_test

_LIBRARY = "libslurm.so.38"
_EDITS = {"max_time": "99:00:00", "max_nodes": 3}


def _library() -> str:
    """The path of the library that hvdrun would load; empty: not here."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"):
        path = pathlib.Path(folder, _LIBRARY)
        if path.exists():
            return str(path)
    return ""


@unittest.skipUnless(slurm_test.HVDRUN.exists(), "hvdrun is not built")
class TestLiveCluster(slurm_test.SlurmTest):
    """One cluster, and a site file drafted on it."""

    def hvdrun(self, *words, **env):
        return self.cluster.login([slurm_test.HVDRUN, *words], **env)

    def by_commands(self, *words, **env):
        """The same where libslurm is an empty file; scontrol has a library of its own."""
        script = f'mount --bind /dev/null {_library()} && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", slurm_test.HVDRUN, *words]
        return self.cluster.login(command, **env)

    def parts(self, result) -> list[dict]:
        return json.loads(result.stdout)["cluster"]

    def asked(self, result) -> str:
        return next(part["reason"] for part in self.parts(result) if part["name"] == "asked")

    def draft(self, **changes) -> pathlib.Path:
        """A drafted site file; `changes` are made to its first partition."""
        site = json.loads(self.run_ok([slurm_test.HVDRUN, "sites", "new"]))
        site["partitions"][0].update(changes)
        path = self.cluster.root / "drafted.json"
        path.write_text(json.dumps(site))
        return path

    def test_a_draft_is_a_site_file_of_the_cluster(self):
        path = self.draft()
        site = json.loads(path.read_text())
        self.assertEqual(site["id"], "lab")
        self.assertEqual([one["name"] for one in site["partitions"]], ["gpu_p13", "gpu_p2"])
        first = site["partitions"][0]
        self.assertEqual(
            first["gpus"], {"count": 4, "model": "V100", "type": "v100"}, site["partitions"]
        )
        self.assertEqual((first["cores_per_task"], first["max_time"]), (10, "20:00:00"))
        header = self.run_ok([slurm_test.HVDRUN, "header", "--site", path, "--gpus", "8"])
        self.assertIn("#SBATCH --nodes=2\n", header)
        batch = self.write_script("draft.sh", header + "true\n")
        self.assertEqual(self.run_batch(batch)[0], "COMPLETED")

    def test_a_drafted_site_is_recognised_on_the_login_node(self):
        path = self.draft()
        env = {"HVD_SITE_PATH": path.parent}
        listing = self.hvdrun("sites", **env).stdout
        self.assertIn("here: lab (slurm.conf says ClusterName=lab)", listing)
        shown = self.parts(self.hvdrun("check", "--json", **env))
        self.assertIn("lab says the same as the cluster", [part["reason"] for part in shown])

    def test_check_shows_both_where_they_disagree(self):
        path = self.draft(**_EDITS)
        parts = self.parts(self.hvdrun("check", "--json", HVD_SITE_PATH=path.parent))
        told = [part["reason"] for part in parts if part["name"] == "site file"]
        self.assertRegex(
            told[0], r"gpu_p13: max_time is 99:00:00 in .*seen\), 20:00:00 on the cluster"
        )

    def test_header_and_submit_warn_of_what_the_cluster_refuses(self):
        path = self.draft(**_EDITS)
        job = ["--site", path, "--gpus", "4", "--time", "50:00:00"]
        result = self.hvdrun("header", *job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--time 2-02:00:00 is over the 20:00:00", result.stderr)
        self.assertIn("max_time is 99:00:00 in the site file", result.stderr)
        result = self.hvdrun("submit", *job, "--dry-run", "--", "true")
        self.assertIn("--time 2-02:00:00 is over the 20:00:00", result.stderr)
        fits = self.hvdrun("header", "--site", "generic", "--nodes", "1", "--partition", "gpu_p2")
        self.assertEqual(fits.stderr, "")

    def test_a_hidden_partition_is_there(self):
        update = ["scontrol", "update", "PartitionName=gpu_p2"]
        self.run_ok([*update, "Hidden=YES"])
        self.addCleanup(self.run_ok, [*update, "Hidden=NO"])
        job = ["header", "--site", "generic", "--nodes", "1", "--partition"]
        for ask in (self.hvdrun, self.by_commands):
            self.assertEqual(ask(*job, "gpu_p2").stderr, "")
            self.assertIn("no partition 'none' now: it has gpu_p13\n", ask(*job, "none").stderr)

    def test_lint_finds_it_in_a_script(self):
        script = self.write_script(
            "long.sh",
            "#!/bin/bash\n#SBATCH --partition=gpu_p2\n#SBATCH --time=30:00:00\nsrun true\n",
        )
        result = self.hvdrun("lint", "--site", "generic", script)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"--time 1-06:00:00 is over the 20:00:00")
        self.assertIn("live-cluster", result.stdout)

    def test_another_sites_file_is_not_held_against_this_cluster(self):
        result = self.hvdrun(
            "header",
            "--site",
            "jean-zay",
            "--gpus",
            "4",
            "--time",
            "100:00:00",
            "--qos",
            "qos_gpu-t4",
        )
        self.assertNotIn("on the cluster", result.stderr)

    def test_a_job_knows_its_time_left(self):
        script = self.write_script("left.sh", f"#!/bin/bash\n{slurm_test.HVDRUN} check --json\n")
        state, output = self.run_batch(script, "--time=10")
        text = next(p["reason"] for p in json.loads(output)["cluster"] if p["name"] == "job")
        self.assertRegex(
            text, r"^job \d+ is running on jz\d, until .* at the latest, 00:\d\d:\d\d left$"
        )

    def test_libslurm_and_the_commands_say_the_same(self):
        first = self.hvdrun("check", "--json")
        if not self.asked(first).startswith(_LIBRARY):
            self.skipTest(f"hvdrun asks otherwise: {self.asked(first)}")
        second = self.by_commands("check", "--json")
        self.assertTrue(self.asked(second).startswith("scontrol ("), second.stdout)
        self.assertIn("is not here", self.asked(second))
        self.assertEqual(self.parts(first)[1:], self.parts(second)[1:])
        self.assertEqual(
            self.run_ok([slurm_test.HVDRUN, "sites", "new"]),
            self.by_commands("sites", "new").stdout,
        )

    def test_follow_works_either_way_and_says_when_a_job_ends(self):
        for ask in self.hvdrun, self.by_commands:
            if ask == self.by_commands and not _library():
                continue
            command = ["submit", "--site", "generic", "--nodes", "1", "--time", "10", "--follow"]
            result = ask(*command, "--", "sleep", "2", timeout=120)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(result.stderr, r"is running on jz\d, until 20\S+ at the latest")
            self.assertRegex(result.stderr, r"job \d+ ended: completed")

    def test_without_a_configuration_nothing_blocks(self):
        env = {"SLURM_CONF": "/no/such/slurm.conf"}
        result = self.hvdrun("check", "--json", timeout=60, **env)
        self.assertFalse(self.parts(result)[0]["available"], result.stdout)
        result = self.hvdrun("sites", "new", timeout=60, **env)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(len(re.findall("hvdrun: ", result.stderr)), 1, result.stderr)


class TestSilentController(slurm_test.SlurmTest):
    """No command waits longer than its limit, and jobs are written all the same."""

    def test_a_header_is_printed_without_an_answer(self):
        controller = self.cluster.login(["pgrep", "-x", "slurmctld"]).stdout.split()[0]
        self.cluster.login(["kill", "-STOP", controller])
        try:
            words = ["header", "--site", "generic", "--nodes", "1"]
            result = self.cluster.login([slurm_test.HVDRUN, *words], timeout=60)
        finally:
            self.cluster.login(["kill", "-CONT", controller])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("#SBATCH --nodes=1\n", result.stdout)
        self.assertRegex(result.stderr, "are not known: .* gave no answer in time")


if __name__ == "__main__":
    slurm_test.main()
