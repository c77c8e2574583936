"""Test results from a JUnit XML file as pytest writes it (junit_family=xunit1, which names each test's file)."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from tools.render import TestFailure


@dataclass(frozen=True)
class Results:
    """Test ids by outcome, each in the order of the file.

    An expected failure counts as skipped: code under test can declare one at any time, so it proves nothing.
    """

    passed: tuple[str, ...]
    failed: tuple[TestFailure, ...]
    skipped: tuple[str, ...]
    collection_errors: tuple[TestFailure, ...]


def read_junit(data: bytes) -> Results | None:
    """The results in `data`; None for anything that is no complete JUnit file. A test with an error anywhere failed."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:  # nothing pytest writes, and a way to blow up a parser
        return None
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return None
    if root.tag not in ("testsuites", "testsuite"):
        return None
    passed: dict[str, None] = {}
    skipped: dict[str, None] = {}
    failed: dict[str, TestFailure] = {}
    collection: list[TestFailure] = []
    for case in root.iter("testcase"):
        name = node_id(case)
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        if fault is not None:
            failure = TestFailure(name, (fault.text or fault.get("message") or "").strip("\n"))
            if fault.tag == "error" and fault.get("message", "").startswith("collection failure"):
                collection.append(failure)
            else:
                failed.setdefault(name, failure)
        elif case.find("skipped") is not None:
            skipped[name] = None
        else:
            passed[name] = None
    return Results(
        passed=tuple(name for name in passed if name not in failed),
        failed=tuple(failed.values()),
        skipped=tuple(name for name in skipped if name not in failed),
        collection_errors=tuple(collection),
    )


def node_id(case: ElementTree.Element) -> str:
    """pytest's own name of a test case: `path::Class::test`, or the path of a file that could not be collected.

    `classname` is the dotted path and the classes; `file` is where the test's function is written, which for an
    inherited test is another file than the one it runs in.
    """
    file, owner, name = case.get("file", ""), case.get("classname", ""), case.get("name", "")
    if not file:
        return "::".join(part for part in (owner, name) if part)
    module = file.removesuffix(".py").replace("/", ".")
    if not owner:
        return file if name == module else f"{file}::{name}"
    if owner == module or owner.startswith(f"{module}."):
        return "::".join([file, *filter(None, owner[len(module) + 1 :].split(".")), name])
    parts = owner.split(".")
    first = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts))
    return "::".join(["/".join(parts[:first]) + ".py", *parts[first:], name])
