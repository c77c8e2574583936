"""A pytest plugin that runs some of the tests a command collects: those whose ids stand in CLOVER_SELECT_FILE."""

import os


def pytest_collection_modifyitems(config, items):
    with open(os.environ["CLOVER_SELECT_FILE"], encoding="utf-8") as file:
        wanted = set(file.read().splitlines())
    dropped = [item for item in items if item.nodeid not in wanted]
    if len(dropped) < len(items):  # ids that name nothing here select everything
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item.nodeid in wanted]
