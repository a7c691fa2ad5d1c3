"""Replaces functions of tools, when their modules are imported or at once, by ones that ask before each step."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from . import opset_conversions, optimizer_passes, pattern_fusions, rewrite_rules, session_optimizers
from .steps import Steps

# Functions that patch a module, by its name. A patch replaces an attribute of a module or a class that the tool looks up
# at each call, so that `from tool import function` before the patch makes no difference.
PATCHES: dict[str, Callable[[Any, Steps, Callable], None]] = {
    **optimizer_passes.PATCHES, **opset_conversions.PATCHES, **pattern_fusions.PATCHES, **rewrite_rules.PATCHES,
    **session_optimizers.PATCHES}


class Patches(importlib.abc.MetaPathFinder):
    def __init__(self, steps: Steps):
        self._steps = steps
        self._replaced: list[tuple[Any, str, Any]] = []
        self._searching = False

    def install(self) -> None:
        for name in PATCHES:
            if name in sys.modules:
                self.patch(sys.modules[name])
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Restores everything."""
        sys.meta_path.remove(self)
        while self._replaced:
            owner, name, original = self._replaced.pop()
            setattr(owner, name, original)

    def patch(self, module: ModuleType) -> None:
        PATCHES[module.__name__](module, self._steps, self.replace)

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces an attribute of ``owner``, if it has one of this name, by ``make`` of it."""
        original = vars(owner).get(name)
        if original is not None:
            self._replaced.append((owner, name, original))
            setattr(owner, name, make(original))

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None):
        """Finds the module like Python, with a loader that patches it."""
        if fullname not in PATCHES or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is None or spec.loader is None:
            return None
        spec.loader = _PatchingLoader(spec.loader, self)
        return spec


class _PatchingLoader(importlib.abc.Loader):
    def __init__(self, loader: Any, patches: Patches):
        self._loader = loader
        self._patches = patches

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patches.patch(module)

    def __getattr__(self, name: str) -> Any:  # tools read data files through their loader
        return getattr(self._loader, name)
