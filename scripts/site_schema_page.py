# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/site-schema.md from the schema of the site files.

Usage: site_schema_page.py [--check]; --check fails where the page is not what would be written.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "site_configs" / "schema"
PAGE = ROOT / "docs" / "reference" / "site-schema.md"

INTRODUCTION = """# Site files

Generated from `site_configs/schema/` by `scripts/site_schema_page.py`. Task: [add a site](../how-to/add-a-site.md).

JSON, checked against the schema (draft 7). An unknown field is an error. Of sites with one `id` the first counts:

1. `--site FILE.json`
2. the folders of `HVD_SITE_PATH`, separated by colons
3. the user's: `$XDG_CONFIG_HOME/hvdrun/sites`, else `~/.config/hvdrun/sites`
4. the system's: `hvdrun/sites` in each folder of `XDG_CONFIG_DIRS`, else `/etc/xdg/hvdrun/sites`; then
   `/etc/hvdrun/sites`
5. those embedded in hvdrun

`hvdrun sites --check` prints all that is wrong with the files of 2 to 4, `hvdrun sites NAME --json` prints a site as a
file to start from, and `hvdrun sites --fields` prints this page. Fields in bold are required; with `extends` the other
site may supply them.

The site has a `source`, a key of `provenance`. An object inside has that of the object around it unless it names one,
and `sources` names those of single fields.
"""

CONDITIONS = """## Conditions

`when` of a variable is one or more of these, joined by `and`; `not` before one turns it round. What is not known
counts as false and is said by `hvdrun env --explain`.

| condition | holds |
|---|---|
| `always` | |
| `historical` | never: the variable is kept as text and explained |
| `nodes>1` | on that many nodes; also `>=`, `<`, `<=`, `=` |
| `gpus>0` | with that many GPUs per node; the same comparisons |
| `nccl>=2.27` | with that version of the libnccl or librccl found at run time; the same comparisons |
| `plugin_found` | a libfabric plugin of NCCL or RCCL is on `LD_LIBRARY_PATH` or where the loader looks |
| `container` | inside a container |
| `fabric=slingshot-11` | on that fabric: {fabrics} |
| `mixed_ports` | where RDMA ports of the node are down, slower or not of the fabric |
| `gpu_vendor=amd` | with GPUs of `nvidia` or `amd` |
| `partition=NAME` | in a job of that partition |
| `step_network=WORD` | in a step whose `--network` has that word, see below |

Of two variables with one name the first whose condition holds is taken. In a value, `{{interfaces}}`, `{{interface}}`
(the first), `{{devices}}` and `{{ports}}` (devices with `:1`) stand for what the node's ports on the fabric are
called.

A name that begins with `SLURM_` is an option of srun's: in a batch or salloc shell it is set for srun itself, all
others by the hvdrun in each task. srun tells its tasks nothing of its `--network`, so `step_network` is known where
`SLURM_NETWORK` gives it to srun: from the site's `env` in scripts and shells, else from the user. A task that does not
know it warns of the variables that stay unset. [Launches of each site](site-launches.md) shows what comes of it.

`site_configs/fabrics.json` holds the variables of each kind of fabric in the same form; a site's own come before them.

## Defaults of jobs

`defaults.json` beside `sites/` in the folders 3 and 4 says what `hvdrun header`, `script` and `submit` take where
nothing is typed:

{defaults}

    {{"account": "abc",
     "sites": {{"jean-zay": {{"account": "xyz", "partition": "gpu_p2", "modules": ["pytorch-gpu/py3/2.8.0"]}}}}}}

What is typed comes first, then the user's file, then the system's, then the site; in a file what `sites` says of the
site comes before what is said of all. A comment in each header says which file gave what.

## How a site is recognised

In this order over all sites: an environment variable (`variables`, `system_names`), `SLURM_CLUSTER_NAME`
(`cluster_names`), the ClusterName of slurm.conf (the same), the host name, the domain (behind the first dot of the host
name, else what `/etc/resolv.conf` searches). Where two claim a machine, the first found counts. None: `generic`.
`hvdrun sites` says which, and why.
"""


def resolve(schema: dict, root: dict) -> dict:
    """Return `schema` with what it refers to."""
    if "$ref" not in schema:
        return schema
    target = resolve(root["definitions"][schema["$ref"].rsplit("/", 1)[1]], root)
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def reference_name(schema: dict) -> str:
    """Return the name of the definition that `schema` is, or holds."""
    reference = schema.get("$ref") or schema.get("items", {}).get("$ref")
    if reference is None and isinstance(schema.get("additionalProperties"), dict):
        reference = schema["additionalProperties"].get("$ref")
    return reference.rsplit("/", 1)[1] if reference else ""


def described(schema: dict, root: dict) -> str:
    """Return the form of a value in a few words."""
    full = resolve(schema, root)
    name = reference_name(schema)
    is_object = name and "properties" in resolve(root["definitions"][name], root)
    link = f"[{name}](#{name.replace('_', '-')})" if is_object else ""
    kind = full.get("type", "string")
    if "enum" in full:
        return ", ".join(f"`{value}`" for value in full["enum"])
    if kind == "array":
        return f"list of {link}" if link else f"list of {described(full['items'], root)}"
    if kind == "object":
        if link and "properties" in full:
            return link
        return f"object of {link or 'texts'}"
    forms = {"time": "time as sbatch takes it", "cpu_list": "CPU list", "count": "number from 1"}
    if name in forms:
        return forms[name]
    if kind == "integer" and "maximum" in full:
        return f"{full['minimum']} to {full['maximum']}"
    return {"string": "text", "boolean": "true or false", "integer": "number"}.get(kind, kind)


def table(schema: dict, root: dict) -> list[str]:
    """Return one line per field of an object."""
    lines = ["| field | value | meaning |", "|---|---|---|"]
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        if name == "$schema" or ("sources" in schema["properties"] and name.startswith("source")):
            continue
        label = f"**`{name}`**" if name in required else f"`{name}`"
        meaning = resolve(field, root).get("description", "")
        lines.append(f"| {label} | {described(field, root)} | {meaning} |")
    return lines


def page() -> str:
    """Return the text of the page."""
    root = json.loads((SCHEMAS / "site.schema.json").read_text(encoding="utf-8"))
    parts = [INTRODUCTION, "## site", "", *table(root, root), ""]
    for name, definition in root["definitions"].items():
        if "properties" not in definition:
            continue
        parts += [f"## {name}".replace("_", "-"), "", *table(definition, root), ""]
    fabrics = root["definitions"]["partition"]["properties"]["fabric_kind"]["enum"]
    defaults = json.loads((SCHEMAS / "defaults.schema.json").read_text(encoding="utf-8"))
    parts.append(
        CONDITIONS.format(
            fabrics=", ".join(f"`{name}`" for name in fabrics),
            defaults="\n".join(table(defaults, defaults)).replace("[job](#job)", "these fields"),
        )
    )
    return re.sub(r" +\|", " |", "\n".join(parts))


def main() -> int:
    """Write or check the page."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not what the schema says: run scripts/site_schema_page.py")
    return 1


sys.exit(main())
