#!/usr/bin/env python3
"""Writes what a package of the C library contains: a list of materials and the licences.

usage: contents.py FOLDER TARGET [CARGO ARGUMENT...]

Writes FOLDER/sbom.cdx.json (CycloneDX 1.5), FOLDER/LICENSE-MIT, FOLDER/LICENSE-APACHE and FOLDER/LICENSES-OTHERS.txt for the crates that
ffi/bare links for a target. It has neither a date nor a random number: the same crates give the same bytes.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "ffi/bare/Cargo.toml"
# Rust's own libraries: core, and compiler_builtins, which contains functions of LLVM's compiler-rt and of musl.
CORE = "(MIT OR Apache-2.0) AND MIT AND (Apache-2.0 WITH LLVM-exception)"
CORE_TEXTS = ("Apache-2.0.txt", "LLVM-exception.txt", "MIT.txt")


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    crates = linked(target, sys.argv[3:])
    out.mkdir(parents=True, exist_ok=True)
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        shutil.copyfile(ROOT / name, out / name)
    bill = materials(crates, target)
    (out / "sbom.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    (out / "LICENSES-OTHERS.txt").write_text(licences(crates))


def linked(target: str, arguments: list[str]) -> list[dict]:
    """Returns the packages whose code gets into the library, without macros, tests and builds, each with its dependencies."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", MANIFEST, "--filter-platform", target]
    data = json.loads(subprocess.run(command + arguments, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    found, waiting = {}, [data["resolve"]["root"]]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        needed = [
            dependency["pkg"]
            for dependency in nodes[name]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            and not any("proc-macro" in built["kind"] for built in packages[dependency["pkg"]]["targets"])
        ]
        found[name] = packages[name] | {"needs": [packages[one] for one in needed]}
        waiting += needed
    return sorted(found.values(), key=lambda package: (package["name"], package["version"]))


def materials(crates: list[dict], target: str) -> dict:
    sums = {
        (package["name"], package["version"]): package.get("checksum")
        for package in tomllib.loads((ROOT / "ffi/bare/Cargo.lock").read_text())["package"]
    }
    version = next(package["version"] for package in crates if package["name"] == "gleed")
    rust = subprocess.run(["rustc", "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout.split()[1]
    components = [
        {
            "type": "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "description": " ".join((package["description"] or "").split()),
            **hashes(sums[package["name"], package["version"]]),
            "licenses": [{"expression": expression(package)}],
            "purl": reference(package),
        }
        for package in crates
    ]
    components.append(
        {
            "type": "library",
            "bom-ref": f"pkg:generic/rust-core@{rust}",
            "name": "rust-core",
            "version": rust,
            "description": "Rust's core and compiler_builtins",
            "licenses": [{"expression": CORE}],
            "purl": f"pkg:generic/rust-core@{rust}",
        }
    )
    product = f"pkg:generic/gleed@{version}?target={target}"
    root = next(package for package in crates if package["name"] == "gleed-bare")
    needs = [{"ref": product, "dependsOn": [reference(root), f"pkg:generic/rust-core@{rust}"]}]
    needs += [{"ref": reference(package), "dependsOn": sorted(map(reference, package["needs"]))} for package in crates]
    subject = {"type": "library", "bom-ref": product, "name": "gleed", "version": version, "purl": product}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": subject | {"licenses": [{"expression": "MIT OR Apache-2.0"}]}},
        "components": components,
        "dependencies": needs,
    }


def reference(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def hashes(checksum: str | None) -> dict:
    return {} if checksum is None else {"hashes": [{"alg": "SHA-256", "content": checksum}]}


def expression(package: dict) -> str:
    if not package["license"]:
        sys.exit(f"{package['name']} names no licence")
    # An older notation for OR.
    return package["license"].replace("/", " OR ")


def licences(crates: list[dict]) -> str:
    """Returns the licence texts of each crate from outside of this repository, and of Rust's own libraries."""
    parts = ["What a library of Gleed contains besides Gleed, and under which licences.\n"]
    for package in crates:
        folder = pathlib.Path(package["manifest_path"]).parent
        if folder.is_relative_to(ROOT):
            continue
        files = sorted(path for path in folder.iterdir() if re.match("(licen[cs]e|copying|notice|unlicense)", path.name, re.I) and path.is_file())
        if not files:
            sys.exit(f"{package['name']} {package['version']} brings no text of its licence")
        parts.append(heading(f"{package['name']} {package['version']}: {expression(package)}"))
        parts += [f"--- {path.name}\n\n{path.read_text().strip()}\n" for path in files]
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    parts.append(heading(f"Rust's core and compiler_builtins: {CORE}"))
    parts += [f"--- {name}\n\n{(pathlib.Path(sysroot) / 'share/doc/rust/licenses' / name).read_text().strip()}\n" for name in CORE_TEXTS]
    return "\n".join(parts)


def heading(text: str) -> str:
    return f"\n{'=' * 100}\n{text}\n{'=' * 100}\n"


if __name__ == "__main__":
    main()
