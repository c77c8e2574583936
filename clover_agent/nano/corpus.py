"""The training corpus: Python modules of the standard library and of permissively licensed packages.

A corpus is one xz file of JSON lines: {"package", "version", "licence", "path", "source"}. Packages named in an
exclude list never enter it, in any version or vendored copy; tests, data tables and generated modules stay out.
Building one reads archives only: nothing of a package is run.

python -m clover_agent.nano.corpus OUT ARCHIVE... --exclude FILE [--unwanted ARCHIVE...]
writes OUT and, beside it, manifest.json.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import lzma
import random
import re
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from email import message_from_string
from pathlib import Path, PurePosixPath

MIN_CHARACTERS, MAX_CHARACTERS = 600, 120_000
PACKAGE_CHARACTERS = 3_000_000  # of one package at most, so that no single style rules
HELD_OUT_SHARE = 0.06

_PERMISSIVE = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Unlicense|0BSD|HPND|CC0)\b", re.I)
_COPYLEFT = re.compile(r"\b(A?GPL|LGPL|General Public|EUPL|MPL|Mozilla|Proprietary|CC-BY-NC)\b|GPLv", re.I)
_METADATA = re.compile(r"(\.dist-info/METADATA|(^|/)PKG-INFO)$")
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|testing|_?vendor(ed)?|_vendored_packages|examples?|benchmarks?|docs?|locale|locales|migrations|"
    r"idlelib|lib2to3|turtledemo|humaneval|mbpp|quixbugs|swe_?bench)(/|$)|(^|/)(test_[^/]*|[^/]*_test|conftest|"
    r"setup|[^/]*_pb2|_?version|[^/]*lextab|[^/]*yacctab)\.py$",
    re.I,
)


@dataclass(frozen=True)
class Module:
    """One Python file. path: inside the package's archive, POSIX form."""

    package: str
    version: str
    licence: str
    path: str
    source: str


def held_out(package: str) -> bool:
    """Whether a package serves evaluation only: decided by its name alone, so that it holds for every corpus."""
    digest = hashlib.sha256(package.lower().encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 < HELD_OUT_SHARE


def read_corpus(path: str | Path, *, held_out_packages: bool = False) -> list[Module]:
    """The modules of a corpus file: those for training, or those of the held-out packages."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        modules = [Module(**json.loads(line)) for line in lines]
    return [module for module in modules if held_out(module.package) == held_out_packages]


def build(
    archives: Iterable[Path],
    exclude: set[str],
    out: Path,
    limit: int,
    *,
    unwanted: Iterable[Path] = (),
    standard_library: bool = True,
) -> dict[str, dict[str, str]]:
    """Write a corpus of the standard library and `archives` (wheels and source archives), at most `limit` characters.

    exclude: names of packages, and of modules and folders wherever they are. unwanted: archives whose code stays out
    also where another package has copied a function of it. Returns the manifest: version, licence and number of
    modules by package.
    """
    packages = [list(_standard_library())] if standard_library else []
    packages += [list(_archive(path)) for path in sorted(archives)]
    copied = {
        body
        for path in unwanted
        for name, data in _members(path)
        if name.endswith(".py")
        for body in _bodies(data.decode("utf-8", "replace"))
    }
    banned = {_normal(name) for name in exclude}
    seen: set[str] = set()
    chosen: list[Module] = []
    for modules in packages:
        random.Random(0).shuffle(modules)
        room = PACKAGE_CHARACTERS
        for module in modules:
            parts = {_normal(part.removesuffix(".py")) for part in PurePosixPath(module.path).parts}
            if _normal(module.package) in banned or parts & banned or _LEFT_OUT.search(module.path):
                continue
            digest = hashlib.sha256(re.sub(r"\s+", "", module.source).encode()).hexdigest()
            if digest in seen or not _usable(module.source) or len(module.source) > room:
                continue
            if copied and not copied.isdisjoint(_bodies(module.source)):
                continue
            seen.add(digest)
            room -= len(module.source)
            chosen.append(module)
    random.Random(1).shuffle(chosen)
    manifest: dict[str, dict[str, str]] = {}
    total = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(out, "wt", encoding="utf-8", preset=6) as lines:
        for module in chosen:
            total += len(module.source)
            if total > limit:
                break
            lines.write(json.dumps(asdict(module), ensure_ascii=False) + "\n")
            entry = manifest.setdefault(
                module.package, {"version": module.version, "licence": module.licence, "modules": "0"}
            )
            entry["modules"] = str(int(entry["modules"]) + 1)
    return dict(sorted(manifest.items()))


def _usable(source: str) -> bool:
    if not MIN_CHARACTERS <= len(source) <= MAX_CHARACTERS or "\r" in source or "\x00" in source or "\f" in source:
        return False
    lines = source.splitlines()
    if max(map(len, lines)) > 300 or any("generated by" in line.lower() for line in lines[:5]):
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))


def _bodies(source: str) -> Iterator[bytes]:
    """A digest of every function of six lines or more: of its statements, whatever their layout; docstring left out."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 5:
            body = node.body if ast.get_docstring(node, clean=False) is None else node.body[1:]
            if len(body) > 1:
                yield hashlib.sha256("".join(map(ast.dump, body)).encode()).digest()


def _standard_library() -> Iterator[Module]:
    root = Path(sysconfig.get_path("stdlib"))
    version = ".".join(map(str, sys.version_info[:3]))
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).as_posix()
        if inside.startswith(("site-packages/", "test/", "ensurepip/")):
            continue
        yield from _module("python", version, "PSF-2.0", inside, path.read_bytes())


def _archive(path: Path) -> Iterator[Module]:
    files = dict(_members(path))
    about = next(
        (data for name, data in files.items() if re.search(r"(\.dist-info/METADATA|(^|/)PKG-INFO)$", name)), None
    )
    if about is None:
        return
    meta = message_from_string(about.decode("utf-8", "replace"))
    classifiers = [c for c in meta.get_all("Classifier", []) if c.startswith("License")]
    stated = " ".join([str(meta.get("License-Expression", "")), str(meta.get("License", ""))[:200], *classifiers])
    if _COPYLEFT.search(stated) or not (found := _PERMISSIVE.search(stated)):
        return
    licence = str(meta.get("License-Expression") or found.group(1))
    for name, data in sorted(files.items()):
        if name.endswith(".py"):
            yield from _module(str(meta["Name"]), str(meta["Version"]), licence, name, data)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    wanted = (".py", "METADATA", "PKG-INFO")
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(wanted) and info.file_size < 2 * MAX_CHARACTERS:
                    yield info.filename, archive.read(info)
    elif path.name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(wanted) and member.size < 2 * MAX_CHARACTERS:
                    handle = archive.extractfile(member)
                    assert handle is not None
                    yield PurePosixPath(*PurePosixPath(member.name).parts[1:]).as_posix(), handle.read()


def _module(package: str, version: str, licence: str, path: str, data: bytes) -> Iterator[Module]:
    try:
        yield Module(package, version, licence, path, data.decode("utf-8"))
    except UnicodeDecodeError:
        return


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def main(arguments: list[str] | None = None) -> None:
    """Build a corpus from the command line."""
    parser = argparse.ArgumentParser(prog="clover_agent.nano.corpus", description="Build the training corpus.")
    parser.add_argument("out", type=Path, help="the corpus, .jsonl.xz")
    parser.add_argument("archives", type=Path, nargs="*", help="wheels and .tar.gz source archives")
    parser.add_argument("--exclude", type=Path, required=True, help="names of packages to leave out, one a line")
    parser.add_argument("--unwanted", type=Path, nargs="*", default=[], help="archives whose functions stay out, too")
    parser.add_argument("--characters", type=int, default=100_000_000, help="size limit of the source text")
    options = parser.parse_args(arguments)
    lines = options.exclude.read_text(encoding="utf-8").splitlines()
    exclude = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    manifest = build(options.archives, exclude, options.out, options.characters, unwanted=options.unwanted)
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
    options.out.with_name("manifest.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(manifest)} packages, {sum(int(entry['modules']) for entry in manifest.values())} modules")


if __name__ == "__main__":
    main()
