#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes job scripts of examples for each site by `hvdrun script`; or compares what is here.

python3 examples/slurm/job_scripts.py build/launcher/hvdrun --update
python3 examples/slurm/job_scripts.py build/launcher/hvdrun           # exit code 1 if one is stale
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
SITES = ["jean-zay", "piz-daint", "alps-daint", "generic"]
# The program in examples/, and the nodes that it is given: one for each framework, and a benchmark.
# That of any other example is made on demand: hvdrun script --site SITE -- python3 examples/...
EXAMPLES = {
    "digits": ("pytorch/digits.py", 2),
    "keras-mnist": ("keras/mnist.py --checkpoints keras-mnist", 2),
    "resnet50": ("pytorch/synthetic_benchmark.py --model resnet50", 4),
    "tensorflow-custom-loop": ("tensorflow/custom_loop.py", 2),
}
# Scaling on GPUs, by the kind of node: its site and partition, the nodes, images a GPU holds.
SCALING = {
    "imagenet-quad": ("jean-zay", "gpu_p13", 8, 64),
    "imagenet-octo": ("jean-zay", "gpu_p2", 4, 128),
    "imagenet": ("alps-daint", "normal", 8, 256),
}
# No rank itself: it starts the jobs, so it runs in the batch shell.
STARTER = "python3 examples/pytorch/scaling_curve.py --ranks"


def hvdrun_says(hvdrun: str, *arguments: str) -> str:
    """What hvdrun prints, by a site's name and built-in file alone."""
    ended = subprocess.run([hvdrun, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"hvdrun {' '.join(arguments)}: {ended.stderr}")
    first, rest = ended.stdout.split("\n", 1)
    return f"{first}\n{LICENCE}{rest}"


def scripts(hvdrun: str) -> dict[Path, str]:
    """The text of every job script, by its file."""
    wanted = {}
    for site in SITES:
        size = ["--site", site, "--time", "00:30:00"]
        for name, (program, nodes) in EXAMPLES.items():
            words = ["--nodes", str(nodes), "--job-name", name]
            command = ["python3", *f"examples/{program}".split()]
            text = hvdrun_says(hvdrun, "script", *size, *words, "--", *command)
            wanted[HERE / site / f"{name}.sbatch"] = text
        words = ["--nodes", "2", "--job-name", "scaling-curve"]
        header = hvdrun_says(hvdrun, "header", *size, *words).rstrip()
        ranks = '1 2 "$SLURM_NTASKS"'
        body = "# It starts the ranks itself: no srun here.\n" + f"{STARTER} {ranks}\n"
        wanted[HERE / site / "scaling-curve.sbatch"] = f"{header}\n\n{body}"
    for name, (site, partition, nodes, batch) in SCALING.items():
        size = ["--site", site, "--partition", partition, "--nodes", str(nodes)]
        header = hvdrun_says(
            hvdrun, "header", *size, "--time", "00:30:00", "--job-name", name
        ).rstrip()
        wanted[HERE / site / f"{name}.sbatch"] = f"{header}\n\n{scaling_body(nodes, batch)}"
    return wanted


def scaling_body(nodes: int, batch: int) -> str:
    """Runs of the synthetic benchmark on 1, 2, 4 ... nodes of a job."""
    program = f"python3 examples/pytorch/imagenet_synthetic.py --batch-size {batch}"
    counts = [count for count in (1, 2, 4, 8, 16) if count <= nodes]
    return (
        "# One rank per GPU; float32 gradients, then float16 ones. srun of Slurm 22.05 to 23.02 does\n"
        "# not take --cpus-per-task over from sbatch.\n"
        f"for nodes in {' '.join(map(str, counts))}; do\n"
        "  ranks=$((nodes * SLURM_NTASKS / SLURM_JOB_NUM_NODES))\n"
        '  step=(srun --nodes="$nodes" --ntasks="$ranks" --cpus-per-task="$SLURM_CPUS_PER_TASK")\n'
        f'  "${{step[@]}}" hvdrun {program}\n'
        f'  "${{step[@]}}" hvdrun {program} --fp16-allreduce\n'
        "done\n"
    )


def main() -> int:
    """Writes or compares; 1 where a file differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hvdrun", help="path of hvdrun")
    parser.add_argument("--update", action="store_true", help="write the files")
    options = parser.parse_args()
    wanted = scripts(options.hvdrun)
    present = set(HERE.glob("*/*.sbatch"))
    if options.update:
        for path in present - set(wanted):
            path.unlink()
        for path, text in wanted.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return 0
    stale = sorted(present ^ set(wanted))
    for path in stale:
        print(f"{path}: {'not there' if path in wanted else 'of no example'}")
    for path in sorted(present & set(wanted)):
        lines = difflib.unified_diff(
            path.read_text().splitlines(), wanted[path].splitlines(), str(path), "now", lineterm=""
        )
        difference = "\n".join(lines)
        if difference:
            print(difference)
            stale.append(path)
    if stale:
        print("write them anew: python3 examples/slurm/job_scripts.py HVDRUN --update")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
