"""Python imports this module when it starts, because its folder is the first in PYTHONPATH: observes the steps of a tool
in the process."""

import importlib.util
import os
import sys


def _load(name, path, **places):
    spec = importlib.util.spec_from_file_location(name, path, **places)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _observe():
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(here)
    _load("whence_tool_steps", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    from pathlib import Path

    from whence_tool_steps.patches import Patches
    from whence_tool_steps.steps import FOLDER_VARIABLE, Steps

    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and os.path.isdir(folder):
        Patches(Steps(Path(folder))).install()
    return here


def _run_hidden_sitecustomize(here):
    """Runs the sitecustomize.py that Python would have imported."""
    for folder in sys.path:
        path = os.path.join(folder, "sitecustomize.py")
        if os.path.abspath(folder or ".") != here and os.path.isfile(path):
            _load("sitecustomize", path)
            return


_run_hidden_sitecustomize(_observe())
