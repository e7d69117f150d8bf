# SPDX-License-Identifier: Apache-2.0
"""No include runs up the layer list; and a planted include that does is found."""

import pathlib
import re
import unittest

import sources

# A layer may include itself and what stands before it. backends and engine stand side by side.
_ORDER = [
    ["base"],
    ["topology"],
    ["transport"],
    ["bootstrap"],
    ["device"],
    ["collective"],
    ["backends", "engine"],
    ["optim"],
    ["c"],
    ["python", "plugins"],
]
_RANK = {layer: rank for rank, group in enumerate(_ORDER) for layer in group}
_LAUNCHER_MAY_USE = {"base", "topology", "transport", "bootstrap"}
# The same within the launcher; the commands beside `run` know nothing of each other.
_LAUNCHER_ORDER = [
    ["console"],
    ["options"],
    ["site"],
    ["node"],
    ["plan"],
    ["run"],
    ["cluster"],
    ["check", "describe", "env", "job", "lint"],
    ["detach", "preempt"],
    ["main"],
]
_LAUNCHER_RANK = {folder: rank for rank, group in enumerate(_LAUNCHER_ORDER) for folder in group}
# The same within the engine; what drives the rooms stands above them, in engine/ itself.
_ENGINE_ORDER = ["timeline", "options", "request", "plane", "protocol", "main"]
_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
# The one file that may know all backends by name stands in c, above them: no exception is needed.
# A backend knows the tools that backends share, and no other backend.
_SHARED_BY_BACKENDS = ["node", "lanes"]


def _backend_allowed(folder: str, used: str) -> bool:
    if folder in _SHARED_BY_BACKENDS:
        place = _SHARED_BY_BACKENDS.index(folder)
        return used in _SHARED_BY_BACKENDS[: place + 1]
    return used == folder or used in _SHARED_BY_BACKENDS


def _allowed(layer: str, used: str) -> bool:
    if layer == "launcher":
        return used in _LAUNCHER_MAY_USE or used == "launcher"
    if layer == used:
        return True
    return used != "launcher" and _RANK[used] < _RANK[layer]


def _layer_of(path: pathlib.Path) -> str:
    parts = path.parts
    if parts[0] == "launcher":
        return "launcher"
    return parts[1] if parts[0] == "runtime" and len(parts) > 2 and parts[1] in _RANK else ""


def _folder_of(name: str) -> str:
    """The folder below launcher/ of a file or an include; main.cc stands above all."""
    parts = pathlib.PurePosixPath(name).parts
    return parts[1] if len(parts) > 2 else "main"


def _launcher_allowed(folder: str, used: str) -> bool:
    return folder == used or _LAUNCHER_RANK[used] < _LAUNCHER_RANK[folder]


def _room_of(name: str) -> str:
    """The folder below engine/ of a file (without runtime/) or an include; options.h is a room."""
    parts = pathlib.PurePosixPath(name).parts
    if parts[-1] == "options.h":
        return "options"
    return parts[1] if len(parts) > 2 else "main"


def _room_allowed(room: str, used: str) -> bool:
    return _ENGINE_ORDER.index(used) <= _ENGINE_ORDER.index(room)


def violations(path: pathlib.Path, text: str) -> list[str]:
    """One sentence per include of `path` that runs up."""
    layer = _layer_of(path)
    if not layer:
        return []
    found = []
    for include in _INCLUDE.findall(text):
        used = include.split("/")[0]
        if "/" not in include or (used not in _RANK and used != "launcher"):
            continue
        if not _allowed(layer, used):
            found.append(f"{path}: {layer} may not include {include} ({used} is not below it)")
        elif layer == used == "backends":
            folder, other = path.parts[2], include.split("/")[1]
            if not _backend_allowed(folder, other):
                found.append(f"{path}: {folder} may not include {include} (of another backend)")
        elif layer == used == "engine":
            room, below = _room_of(path.relative_to("runtime").as_posix()), _room_of(include)
            if not _room_allowed(room, below):
                found.append(f"{path}: {room} may not include {include} ({below} is not below it)")
        elif layer == used == "launcher":
            folder, below = _folder_of(path.as_posix()), _folder_of(include)
            if not _launcher_allowed(folder, below):
                found.append(
                    f"{path}: {folder} may not include {include} ({below} is not below it)"
                )
    return found


class TestLayers(unittest.TestCase):
    def test_no_include_runs_up(self):
        found = []
        for path in sources.tracked("runtime/*", "launcher/*"):
            if path.suffix in (".h", ".hpp", ".cc", ".c"):
                found += violations(path, (sources.ROOT / path).read_text())
        self.assertEqual(found, [], "\n".join(found))

    def test_every_folder_of_runtime_has_a_place_in_the_list(self):
        folders = {
            p.parts[1] for p in sources.tracked("runtime/*.cc", "runtime/*.h") if len(p.parts) > 2
        }
        self.assertEqual(folders - set(_RANK) - {"include"}, set())

    def test_every_room_of_the_engine_has_a_place_in_the_list(self):
        files = sources.tracked("runtime/engine/*.cc", "runtime/engine/*.h")
        rooms = {_room_of(p.relative_to("runtime").as_posix()) for p in files}
        self.assertEqual(rooms - set(_ENGINE_ORDER), set())

    def test_every_folder_of_launcher_has_a_place_in_the_list(self):
        files = sources.tracked("launcher/*.cc", "launcher/*.h")
        self.assertEqual({_folder_of(p.as_posix()) for p in files} - set(_LAUNCHER_RANK), set())

    def test_planted_violations_are_found(self):
        for path, include in [
            ("runtime/base/status.cc", "engine/engine.h"),
            ("runtime/transport/link.h", "bootstrap/store.h"),
            ("runtime/engine/engine.cc", "backends/shm/shm_backend.h"),
            ("runtime/backends/shm/plane.cc", "engine/engine.h"),
            ("runtime/backends/tcp/tcp_backend.cc", "backends/shm/small_task.h"),
            ("runtime/backends/node/exchange.h", "backends/lanes/lane_set.h"),
            ("runtime/engine/request/completion.h", "engine/protocol/negotiation.h"),
            ("runtime/engine/plane/reduction.cc", "engine/engine.h"),
            ("launcher/main.cc", "engine/engine.h"),
            ("runtime/c/process.cc", "launcher/options/command_line.h"),
            ("launcher/plan/environment_plan.cc", "launcher/run/exec.h"),
            ("launcher/node/topo_command.cc", "launcher/plan/placement.h"),
            ("launcher/lint/job_request.cc", "launcher/job/job_size.h"),
            ("launcher/options/app.cc", "launcher/site/site.h"),
        ]:
            planted = f'#include <vector>\n#include "base/status.h"\n#include "{include}"\n'
            self.assertEqual(len(violations(pathlib.Path(path), planted)), 1, path)

    def test_includes_that_run_down_are_fine(self):
        for path, include in [
            ("runtime/c/backend_table.cc", "backends/shm/shm_backend.h"),
            ("runtime/backends/tcp/tcp_backend.cc", "backends/node/node_plane.h"),
            ("runtime/engine/engine.cc", "collective/backend.h"),
            ("runtime/engine/engine.cc", "engine/protocol/negotiation.h"),
            ("runtime/engine/request/pending_request.h", "engine/timeline/traced_request.h"),
            ("launcher/run/run_command.cc", "bootstrap/store.h"),
            ("runtime/base/status.cc", "fmt/core.h"),
            ("launcher/main.cc", "launcher/run/run_command.h"),
            ("launcher/job/submit_command.cc", "launcher/run/exec.h"),
            ("launcher/node/topo_command.cc", "launcher/node/read_node.h"),
        ]:
            self.assertEqual(violations(pathlib.Path(path), f'#include "{include}"\n'), [], path)


if __name__ == "__main__":
    unittest.main()
