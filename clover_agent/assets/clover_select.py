"""A pytest plugin that runs some of the tests a command collects: those whose ids stand in CLOVER_SELECT_FILE.

Test files in which none of them stands are not even imported.
"""

import os

import pytest

with open(os.environ["CLOVER_SELECT_FILE"], encoding="utf-8") as chosen:
    WANTED = frozenset(chosen.read().splitlines())
FILES = frozenset(test.split("::")[0] for test in WANTED)


def needless(path, root):
    """Whether a collected file can be left alone; never when some id does not begin with a file."""
    if not os.path.isfile(path) or os.path.basename(path) in ("__init__.py", "conftest.py"):
        return None
    if not all(os.path.isfile(os.path.join(root, name)) for name in FILES):
        return None
    return True if os.path.relpath(path, root).replace(os.sep, "/") not in FILES else None


class SinceSeven:
    """The hook under the name of its argument since pytest 7."""

    def pytest_ignore_collect(self, collection_path, config):
        return needless(str(collection_path), str(config.rootpath))


class BeforeSeven:
    """The same for older ones."""

    def pytest_ignore_collect(self, path, config):
        return needless(str(path), str(config.rootdir))


def pytest_configure(config):
    modern = int(pytest.__version__.split(".")[0]) >= 7
    config.pluginmanager.register(SinceSeven() if modern else BeforeSeven(), "clover_select_files")


def pytest_collection_modifyitems(config, items):
    dropped = [item for item in items if item.nodeid not in WANTED]
    if len(dropped) < len(items):  # ids that name nothing here select everything
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item.nodeid in WANTED]
