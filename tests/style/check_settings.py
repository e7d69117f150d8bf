# SPDX-License-Identifier: Apache-2.0
"""Settings are read at the edges, by their table; every HVD_ variable that code names is in a table."""

import re
import unittest

import sources

# Where the environment of the process is taken, and why there.
_EDGES = {
    "runtime/base/environment.cc": "the reader itself",
    "runtime/base/log.cc": "lines are logged before anything else is there",
    "runtime/c/hvd.cc": "hvd_init()",
    "runtime/c/build_info.cc": "hvd_build_info(), which is asked without a job",
    "launcher/check/check_command.cc": "a command of hvdrun",
    "launcher/console/message.cc": "colours of the terminal",
    "launcher/describe/describe_command.cc": "a command of hvdrun",
    "launcher/env/env_command.cc": "a command of hvdrun",
    "launcher/env/sites_command.cc": "a command of hvdrun",
    "launcher/job/job_command.cc": "a command of hvdrun",
    "launcher/lint/lint_command.cc": "a command of hvdrun",
    "launcher/node/topo_command.cc": "a command of hvdrun",
    "launcher/options/app.cc": "the width of --help",
    "launcher/detach/attach_command.cc": "a command of hvdrun",
    "launcher/detach/detach.cc": "HOME",
    "launcher/preempt/preempt_command.cc": "a command of hvdrun",
    "launcher/run/run_command.cc": "a command of hvdrun",
}
# Where settings become typed values, and which.
_READERS = {
    "runtime/base/read_setting.cc": "the readers themselves",
    "runtime/bootstrap/meeting_settings.cc": "MeetingSettings, for c/settings.cc",
    "runtime/collective/nccl_settings.cc": "NcclSettings, for c/settings.cc",
    "runtime/device/driver_library.cc": "GpuDriverSettings, for c/settings.cc",
    "runtime/c/settings.cc": "Settings, for hvd_init()",
    "runtime/c/build_info.cc": "libraries that are only looked for",
    "launcher/check/check_command.cc": "the libhvd to look at",
    "launcher/plan/rank_resources.cc": "of the ranks' environment, which -x may change",
    "launcher/site/site_index.cc": "the folders of sites",
}
# Modules of Python that look at the environment, and for what.
_PYTHON = {
    "runtime/python/hvd/settings.py": "the reader itself",
    "runtime/python/hvd/launch.py": "passed on to the ranks; variables of Slurm",
    "runtime/python/hvd/stopping.py": "variables of Slurm",
    "runtime/python/hvd/_core/frameworks.py": "TF_USE_LEGACY_KERAS",
    "runtime/python/hvd/_core/launched.py": "rank and size, of hvdrun or Slurm",
    "runtime/python/hvd/_core/local_device.py": "HVD_LOCAL_DEVICE, of hvdrun",
    "runtime/python/hvd/torch/optimizer.py": "HVD_WAIT_IN_BACKWARD, with the argument that precedes it",
    "runtime/python/hvd/torch/distributed/process_group.py": "variables of torch.distributed",
    "runtime/horovod/horovod/_environment.py": "Horovod's variables",
    "runtime/horovod/horovod/runner/launch.py": "passed on to the ranks",
    "runtime/horovod/horovod/common/util.py": "a context manager of Horovod's for variables",
}
_READ = re.compile(r"\b(?:getenv|secure_getenv)\s*\(|Environment::of_process\(")
_READ_SETTING = re.compile(
    r"\bread_(?:switch|integer|seconds|bytes|choice|text)\(\w*[Ee]nvironment"
)
_RAW = re.compile(r'\b(?:get|get_int)\(\s*"(HVD_[A-Z_]+)"')
_READ_PYTHON = re.compile(r"\bos\.(?:environ|getenv)\b")
_NAME = re.compile(r'"(HVD_[A-Z_]*[A-Z])"')
_TABLE = "runtime/base/settings.cc"
_LAUNCH_ENV = "runtime/topology/launch_env.h"
# Not of users: macros of the C interface that errors name, and the example of a docstring.
_OTHERS = {"HVD_EXAMPLE", "HVD_GRADIENTS_OPTIONS_INITIALIZER", "HVD_VERSION"}


def reads(path: str, text: str) -> bool:
    """Whether a file takes the environment of the process, and may not."""
    if path.endswith(".py"):
        return _READ_PYTHON.search(text) is not None and path not in _PYTHON
    return _READ.search(text) is not None and path not in _EDGES


def reads_settings(path: str, text: str) -> bool:
    """Whether a file makes values of settings, and may not."""
    return _READ_SETTING.search(text) is not None and path not in _READERS


def names_in(path: str) -> set[str]:
    return set(_NAME.findall((sources.ROOT / path).read_text()))


def sources_of_cpp() -> list[str]:
    paths = sources.tracked("runtime/*.cc", "runtime/*.h", "launcher/*.cc", "launcher/*.h")
    # Headers of users, and the words of Python programs.
    skipped = ("runtime/include/", "launcher/lint/python")
    return [one.as_posix() for one in paths if not one.as_posix().startswith(skipped)]


class TestSettings(unittest.TestCase):
    def test_only_edges_read_the_environment(self):
        found = []
        for name in [*sources_of_cpp(), *(p.as_posix() for p in sources.tracked("runtime/*.py"))]:
            if reads(name, (sources.ROOT / name).read_text()):
                found.append(f"{name} reads the environment: take what it needs as an argument")
        self.assertEqual(found, [], "\n".join(found))

    def test_settings_become_values_in_one_place_each(self):
        found = []
        for name in sources_of_cpp():
            text = (sources.ROOT / name).read_text()
            if name.endswith(".cc") and reads_settings(name, text):
                found.append(f"{name} reads a setting: take its value as an argument")
            found += [f"{name} reads {one} without its row" for one in _RAW.findall(text)]
        self.assertEqual(found, [], "\n".join(found))

    def test_every_edge_is_one(self):
        for name in _EDGES.keys() - {"runtime/base/environment.cc"}:
            self.assertRegex((sources.ROOT / name).read_text(), _READ, name)
        for name in _READERS.keys() - {"runtime/base/read_setting.cc"}:
            self.assertRegex((sources.ROOT / name).read_text(), _READ_SETTING, name)
        for name in _PYTHON:
            self.assertRegex((sources.ROOT / name).read_text(), _READ_PYTHON, name)

    def test_every_variable_is_in_a_table(self):
        known = names_in(_TABLE) | names_in(_LAUNCH_ENV)
        self.assertGreater(len(known), 40)
        for path in sources.tracked("runtime/*.cc", "runtime/*.h", "launcher/*.cc", "runtime/*.py"):
            self.assertEqual(names_in(path.as_posix()) - known - _OTHERS, set(), path)

    def test_a_planted_reader_is_found(self):
        self.assertTrue(reads("runtime/engine/engine.cc", 'std::getenv("HVD_LOG")'))
        self.assertTrue(reads("launcher/plan/placement.cc", "Environment::of_process()"))
        self.assertFalse(reads("runtime/c/hvd.cc", "hvd::Environment::of_process()"))
        self.assertTrue(reads("runtime/python/hvd/numpy.py", 'os.environ["HVD_LOG"]'))
        self.assertTrue(reads_settings("runtime/engine/x.cc", 'read_switch(environment, "HVD_A")'))
        self.assertEqual(_RAW.findall('environment.get_int("HVD_A_B", 0, 1)'), ["HVD_A_B"])


if __name__ == "__main__":
    unittest.main()
