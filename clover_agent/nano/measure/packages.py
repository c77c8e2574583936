"""The packages whose code is broken for the measure: small, pure Python, well tested, and absent from training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A source distribution and how its tests run on plain Python 3.11 and pytest, offline.

    keep: what of the archive goes into a task's repository. code: files and folders to put bugs into (test folders in
    them are left alone). tests: pytest's arguments. path: what PYTHONPATH has to be, if anything.
    """

    name: str
    version: str
    keep: tuple[str, ...]
    code: tuple[str, ...]
    tests: str
    path: str = ""

    @property
    def archive(self) -> str:
        """Stem of the distribution's file name."""
        return f"{self.name}-{self.version}"


def _flat(name: str, version: str, tests: str = "tests", keep: tuple[str, ...] = ("tests",)) -> Package:
    return Package(name, version, (name, *keep), (name,), tests)


def _src(name: str, version: str, tests: str = "tests") -> Package:
    return Package(name, version, ("src", "tests"), ("src",), tests, "src")


# Where only some test files are named, the others need packages that a bare machine lacks, or take long.
PACKAGES: tuple[Package, ...] = (
    _src(
        "anytree",
        "2.13.0",
        "tests --ignore tests/test_dotexport.py --ignore tests/test_dotexporter.py"
        " --ignore tests/test_mermaidexporter.py --ignore tests/test_uniquedotexporter.py",
    ),
    _src("cachetools", "8.0.2"),
    Package("colorama", "0.4.6", ("colorama",), ("colorama",), "colorama/tests"),
    Package("first", "2.0.2", ("first.py", "test_first.py"), ("first.py",), "test_first.py"),
    _flat(
        "funcy",
        "2.1",
        "tests/test_calc.py tests/test_decorators.py tests/test_flow.py tests/test_funcmakers.py"
        " tests/test_interface.py tests/test_objects.py tests/test_strings.py tests/test_types.py",
    ),
    _src("humanize", "4.17.0", "tests/test_filesize.py tests/test_lists.py tests/test_number.py"),
    _flat("inflection", "0.5.1", "test_inflection.py", ("test_inflection.py",)),
    _flat(
        "mistletoe",
        "1.6.0",
        "test --ignore test/test_contrib --ignore test/test_block_token.py"
        " --ignore test/test_html_renderer.py --ignore test/test_latex_renderer.py",
        ("test",),
    ),
    Package(
        "mistune",
        "3.4.0",
        ("src", "tests", "pyproject.toml"),
        ("src",),
        "tests/test_misc.py tests/test_plugins.py tests/test_syntax.py tests/test_directives.py",
        "src",
    ),
    _flat("num2words", "0.5.14", "tests --ignore tests/test_cli.py"),
    _flat("parse", "1.22.4"),
    _src("parsy", "2.2"),
    _flat("pyparsing", "3.3.3", "tests/test_simple_unit.py"),
    Package(
        "pyrsistent",
        "0.20.0",
        ("pyrsistent", "tests", "_pyrsistent_version.py"),
        ("pyrsistent",),
        "tests --ignore tests/hypothesis_vector_test.py",
    ),
    _src("rfc3986", "2.0.0", "tests/test_builder.py tests/test_misc.py tests/test_parseresult.py"),
    Package("roman", "5.2", ("src",), ("src/roman",), "src/tests.py", "src"),
    _flat("schema", "0.7.8", "test_schema.py", ("test_schema.py",)),
    _src("semver", "3.1.2"),
    Package("simpleeval", "1.0.8", ("simpleeval.py", "tests"), ("simpleeval.py",), "tests"),
    Package("tabulate", "0.8.10", ("tabulate.py", "test"), ("tabulate.py",), "test"),
    _flat("tinydb", "4.9.0"),
    _flat("toolz", "1.0.0", "toolz", ("tlz",)),
    _flat("unidiff", "1.0.1"),
    _flat("voluptuous", "0.16.0", "voluptuous/tests/tests.py", ()),
    Package("xmltodict", "1.0.4", ("xmltodict.py", "tests"), ("xmltodict.py",), "tests"),
)
