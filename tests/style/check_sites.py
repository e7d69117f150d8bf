# SPDX-License-Identifier: Apache-2.0
"""The site files: one form, each source used, and docs/reference/sites.md as they say.

Usage: check_sites.py [--update | --counts]; --update writes the page, --counts prints it by mark.
"""

import json
import pathlib
import sys

import sources

_MARKS = ("documented", "seen", "assumed")
_PAGE = "docs/reference/sites.md"
_KEYS = (
    "$schema id extends name aliases retired provenance source sources detect scheduler shell"
    " partitions account gres_style typed gpu_bind hint time time_required directives srun_flags network_flags"
    " bootstrap_if mpi container env modules module_purge forbidden internet_on_nodes scratch_local"
    " master_addr_suffix reference notes"
).split()
# What is not a value of the cluster: names of our own, and text for readers.
_NO_VALUE = {"$schema", "id", "extends", "aliases", "retired", "provenance", "notes"}
_OWN_NAME = {"name"}  # of the site itself; a partition's or QoS's name is a value
_ONE_VALUE = {"env", "forbidden", "directives", "reference", "nics"}  # an entry is one value
_HEAD = """# Sites

What hvdrun knows of each cluster: `site_configs/ID.json`, fields in [site files](site-schema.md). Each
value there names the document that it was read in and the day, and carries a mark: **documented** by the
site or the vendor, **seen** in public scripts or in what users copied from the machine, **assumed**: to be
verified there. The counts are of values by mark; `tests/style/check_sites.py --update` writes this page.

"""


class Counter:
    """Counts the values of one document by mark."""

    def __init__(self, provenance: dict) -> None:
        self.provenance = provenance
        self.counts = dict.fromkeys(_MARKS, 0)

    def add(self, key: str) -> None:
        self.counts[self.provenance[key]["mark"]] += 1

    def walk(self, node: dict, inherited: str, is_site: bool = False) -> None:
        here = node.get("source", inherited)
        for field, value in node.items():
            if field in ("source", "sources", "why", "when"):
                continue
            if is_site and field in _NO_VALUE | _OWN_NAME:
                continue
            if field == "aliases" or value in ([], {}):
                continue
            key = node.get("sources", {}).get(field, here)
            if isinstance(value, dict) and field != "variables":
                self.walk(value, key)
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                for entry in value:
                    if field in _ONE_VALUE:
                        self.add(entry.get("source", key))
                    else:
                        self.walk(entry, key)
            else:
                self.add(key)


def count_values(site: dict, sites: dict) -> dict:
    """Return how many values of a site are documented, seen, assumed, inherited ones included."""
    counter = Counter(site["provenance"])
    counter.walk(site, site["source"], is_site=True)
    if "extends" not in site:
        return counter.counts
    base = sites[site["extends"]]
    taken = Counter(base["provenance"])
    mine = {part["name"]: part for part in site.get("partitions", [])}
    rest = {
        key: value for key, value in base.items() if key not in site or key in ("source", "sources")
    }
    rest.pop("detect", None)
    taken.walk(rest, base["source"], is_site=True)
    for part in base["partitions"]:
        own = mine.get(part["name"], {})
        left = {k: v for k, v in part.items() if k not in own or k in ("source", "sources")}
        taken.walk(left, base["source"])
    return {mark: counter.counts[mark] + taken.counts[mark] for mark in _MARKS}


def partitions_of(site: dict, sites: dict) -> list[dict]:
    """Return the partitions, those taken over included."""
    if "extends" not in site:
        return site["partitions"]
    mine = {part["name"]: part for part in site.get("partitions", [])}
    return [{**part, **mine.get(part["name"], {})} for part in sites[site["extends"]]["partitions"]]


def row(site: dict, sites: dict) -> str:
    """Return the site's line of the table."""
    parts = partitions_of(site, sites)
    names = ", ".join(f"`{part['name']}`" for part in parts) or "any"
    gpus = sorted(
        {f"{part['gpus']['count']} {part['gpus'].get('model', '')}".strip() for part in parts}
    )
    cores = sorted({part["cores_per_task"] for part in parts})
    counts = count_values(site, sites)
    documents = [
        entry["source"].split(" (")[0]
        for entry in site["provenance"].values()
        if entry["mark"] != "assumed"
    ]
    cells = [
        f"`{site['id']}`",
        "retired" if "retired" in site else "in service",
        names,
        "; ".join(gpus),
        ", ".join(str(core) for core in cores),
        *(str(counts[mark]) for mark in _MARKS),
        "; ".join(documents[:2]),
    ]
    return "| " + " | ".join(cells) + " |"


def page(sites: dict) -> str:
    """Return docs/reference/sites.md."""
    head = "| site | state | partitions | GPUs per node | cores per task | documented | seen | assumed | main sources |"
    rule = "|---|---|---|---|---|---|---|---|---|"
    real = [sites[name] for name in sorted(sites) if name != "generic"] + [sites["generic"]]
    total = {mark: sum(count_values(site, sites)[mark] for site in real) for mark in _MARKS}
    sum_line = f"\nTogether: {total['documented']} documented, {total['seen']} seen, {total['assumed']} assumed.\n"
    notes = ["\n## Notes of the sites\n"]
    for site in real:
        notes.append(
            f"\n**{site['id']}**: {site['name']}\n\n"
            + "".join(f"- {note}\n" for note in site["notes"])
        )
    return (
        _HEAD
        + "\n".join([head, rule, *(row(site, sites) for site in real)])
        + "\n"
        + sum_line
        + "".join(notes)
    )


def complaints(path: pathlib.Path, text: str, site: dict) -> list[str]:
    """Return what is wrong with one file's form."""
    found = []
    if not text.isascii():
        found.append(f"{path}: not ASCII")
    order = [key for key in _KEYS if key in site]
    if list(site) != order:
        found.append(f"{path}: fields in the order {', '.join(order)}, please")
    used = set()

    def walk(node: object) -> None:
        if isinstance(node, list):
            for entry in node:
                walk(entry)
        if isinstance(node, dict):
            for field, value in node.items():
                if field == "source":
                    used.add(value)
                elif field == "sources":
                    used.update(value.values())
                elif field != "provenance":
                    walk(value)

    walk(site)
    for key in sorted(set(site["provenance"]) - used):
        found.append(f"{path}: no value comes from '{key}' of provenance: take it out")
    return found


def main() -> None:
    """Check, or write the page."""
    root = pathlib.Path(sources.ROOT)
    files = sorted((root / "site_configs").glob("*.json"))
    files = [file for file in files if file.name != "fabrics.json"]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    sites = {file.stem: json.loads(text) for file, text in texts.items()}
    if "--counts" in sys.argv:
        for name, site in sites.items():
            counts = count_values(site, sites)
            print(name, *(f"{counts[mark]} {mark}" for mark in _MARKS), sep="\t")
        return
    expected = page(sites)
    if "--update" in sys.argv:
        (root / _PAGE).write_text(expected, encoding="utf-8")
    found = [
        line for file, text in texts.items() for line in complaints(file, text, sites[file.stem])
    ]
    if not (root / _PAGE).exists() or (root / _PAGE).read_text(encoding="utf-8") != expected:
        found.append(
            f"{_PAGE}: not what the site files say: run tests/style/check_sites.py --update"
        )
    print("\n".join(found) or f"{len(files)} site files and {_PAGE}: as they should be")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
