#!/usr/bin/env python3
"""Lays out the NuGet package and the Unity package. Two runs write the same bytes.

usage: pack.py FOLDER RID=LIBRARY...      linux-x64=target/release/libgleed_ffi.so win-x64=gleed_ffi.dll
"""

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NATIVE = {"linux": "libgleed.so", "win": "gleed.dll", "osx": "libgleed.dylib", "android": "libgleed.so"}
# Unity's names for the system and the processor of each runtime identifier.
UNITY = {
    "linux-x64": ("Standalone", "Linux64", "x86_64", "Linux"),
    "win-x64": ("Standalone", "Win64", "x86_64", "Windows"),
    "osx-x64": ("Standalone", "OSXUniversal", "x86_64", "OSX"),
    "osx-arm64": ("Standalone", "OSXUniversal", "ARM64", "OSX"),
    "android-arm64": ("Android", "Android", "ARM64", None),
}
PROPS = """<Project>
  <PropertyGroup>
    <AllowUnsafeBlocks>true</AllowUnsafeBlocks>
  </PropertyGroup>
</Project>
"""
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
%s</Types>
"""
RELATIONS = """<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/Gleed.nuspec" Id="R1" />
</Relationships>
"""


def main() -> None:
    if len(sys.argv) < 3 or not all("=" in argument for argument in sys.argv[2:]):
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    libraries = dict(argument.split("=", 1) for argument in sys.argv[2:])
    unknown = [rid for rid in libraries if rid.split("-")[0] not in NATIVE]
    if unknown:
        sys.exit(f"{unknown[0]} begins with none of {', '.join(NATIVE)}")
    version = json.loads((HERE / "package.json").read_text())["version"]
    named = re.search(r"<version>(.*)</version>", (HERE / "Gleed.nuspec").read_text())[1]
    crate = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    project = re.search(r"<Version>(.*)</Version>", (HERE / "Gleed.csproj").read_text())[1]
    if not version == named == project == crate:
        sys.exit(f"package.json has version {version}, Gleed.nuspec {named}, Gleed.csproj {project}, Cargo.toml {crate}")
    out.mkdir(parents=True, exist_ok=True)
    write_zip(out / f"Gleed.{version}.nupkg", nuget(libraries))
    for_unity = {rid: library for rid, library in libraries.items() if rid in UNITY}
    for rid in sorted(libraries.keys() - for_unity.keys()):
        print(f"not in Unity's package, which has no name for it: {rid}", file=sys.stderr)
    if for_unity:
        write_tgz(out / f"com.gleed.gleed-{version}.tgz", unity(for_unity))


def texts() -> dict[str, bytes]:
    """Returns the files that both packages have besides the sources."""
    files = {"README.md": HERE / "README.md", "LICENSE-MIT": ROOT / "LICENSE-MIT", "LICENSE-APACHE": ROOT / "LICENSE-APACHE"}
    return {name: path.read_bytes() for name, path in files.items()}


def nuget(libraries: dict[str, str]) -> dict[str, bytes]:
    files = {"Gleed.nuspec": (HERE / "Gleed.nuspec").read_bytes(), "build/Gleed.props": PROPS.encode(), **texts()}
    files |= {f"contentFiles/cs/any/Gleed/{path.name}": path.read_bytes() for path in (HERE / "Runtime").glob("*.cs")}
    for rid, library in libraries.items():
        files[f"runtimes/{rid}/native/{NATIVE[rid.split('-')[0]]}"] = Path(library).read_bytes()
    endings = sorted({Path(name).suffix[1:] for name in files} - {""})
    types = "".join(f'  <Default Extension="{ending}" ContentType="application/octet" />\n' for ending in endings)
    types += "".join(
        f'  <Override PartName="/{name}" ContentType="application/octet" />\n' for name in sorted(files) if not Path(name).suffix
    )
    return {"[Content_Types].xml": (TYPES % types).encode(), "_rels/.rels": RELATIONS.encode(), **files}


def unity(libraries: dict[str, str]) -> dict[str, bytes]:
    files = {"package.json": (HERE / "package.json").read_bytes(), **texts()}
    for folder in ("Runtime", "Unity", "Samples~"):
        files |= {str(path.relative_to(HERE)): path.read_bytes() for path in (HERE / folder).rglob("*") if path.is_file()}
    importers = {}
    for rid, library in libraries.items():
        name = f"Plugins/{rid}/{NATIVE[rid.split('-')[0]]}"
        files[name], importers[name] = Path(library).read_bytes(), plugin(*UNITY[rid])
    # Unity ignores files of a package that have no .meta, and folders whose names end in ~.
    seen = [name for name in files if "~" not in name]
    folders = {str(parent) for name in seen for parent in Path(name).parents if str(parent) != "."}
    for name in [*seen, *folders]:
        files[name + ".meta"] = meta(name, name in folders, importers.get(name))
    return files


def meta(name: str, is_folder: bool, importer: str | None) -> bytes:
    kinds = {".cs": "MonoImporter", ".asmdef": "AssemblyDefinitionImporter", ".json": "PackageManifestImporter", ".md": "TextScriptImporter"}
    if importer is None:
        importer = ("DefaultImporter" if is_folder else kinds.get(Path(name).suffix, "DefaultImporter")) + ":\n  externalObjects: {}\n"
    # The identifier is the same in each version, so that scenes keep their components.
    guid = hashlib.md5(f"com.gleed.gleed/{name}".encode()).hexdigest()
    return f"fileFormatVersion: 2\nguid: {guid}\n{'folderAsset: yes' + chr(10) if is_folder else ''}{importer}".encode()


def plugin(group: str, target: str, processor: str, system: str | None) -> str:
    """Returns the settings of a library for one system, and for the editor if it runs on that system."""
    editor = ""
    if system is not None:
        editor = (
            "  - first:\n      Editor: Editor\n    second:\n      enabled: 1\n      settings:\n"
            f"        CPU: {processor}\n        DefaultValueInitialized: true\n        OS: {system}\n"
        )
    return (
        "PluginImporter:\n  serializedVersion: 2\n  isPreloaded: 0\n  isOverridable: 0\n  platformData:\n"
        "  - first:\n      Any: \n    second:\n      enabled: 0\n      settings: {}\n" + editor +
        f"  - first:\n      {group}: {target}\n    second:\n      enabled: 1\n      settings:\n        CPU: {processor}\n"
    )


def write_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, data)
    print(path)


def write_tgz(path: Path, files: dict[str, bytes]) -> None:
    with open(path, "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, data in sorted(files.items()):
                info = tarfile.TarInfo(f"package/{name}")
                info.size, info.mode = len(data), 0o644
                archive.addfile(info, io.BytesIO(data))
    print(path)


if __name__ == "__main__":
    main()
