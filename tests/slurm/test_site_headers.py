# SPDX-License-Identifier: Apache-2.0
"""Each site's header as a real sbatch reads it: every option is one, with a value that it takes."""

import slurm_test

# What sbatch finds wrong with the header of another cluster is that cluster, never how it is asked for.
_ELSEWHERE = (
    "allocation failure: Invalid partition name specified",
    "allocation failure: Invalid feature specification",
    "allocation failure: Requested node configuration is not available",
)


class TestSiteHeaders(slurm_test.SlurmTest):
    profile_name = "jz"

    def verdict(self, name: str, header: str) -> str:
        """The last line of what sbatch says without submitting; empty where it would take the job."""
        script = self.write_script(f"{name}.sh", header + "true\n")
        done = self.cluster.login(["sbatch", "--test-only", script])
        return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    def test_sbatch_reads_the_header_of_each_site(self):
        folder = slurm_test.SOURCE / "site_configs"
        no_sites = ("fabrics", "generic", "ml-space")  # the last has no batch system
        sites = sorted(path.stem for path in folder.glob("*.json") if path.stem not in no_sites)
        self.assertGreater(len(sites), 20)
        for site in sites:
            header = self.run_ok(
                [slurm_test.HVDRUN, "header", "--site", site, "--nodes", "2", "-t", "01:00:00"]
            )
            with self.subTest(site=site):
                self.assertIn(self.verdict(site, header), ("", *_ELSEWHERE))
        self.assertEqual(
            self.verdict(
                "here",
                self.run_ok([slurm_test.HVDRUN, "header", "--site", "jean-zay", "--nodes", "2"]),
            ),
            "",
        )

    def test_an_option_that_is_none_would_be_seen(self):
        verdict = self.verdict("wrong", "#!/bin/bash\n#SBATCH --gress=gpu:4\n")
        self.assertNotIn(verdict, ("", *_ELSEWHERE))


if __name__ == "__main__":
    slurm_test.main()
