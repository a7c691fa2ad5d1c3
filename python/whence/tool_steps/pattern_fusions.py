"""Patterns and optimisations of onnxslim, and the fusions of onnxruntime.transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .steps import Steps


def _patch_patterns(module: Any, steps: Steps, replace: Callable) -> None:
    def ask(original: Callable) -> Callable:
        def match(self: Any, node: Any) -> Any:
            found = original(self, node)
            return found and steps.allows("onnxslim", str(self.name), type(self).__module__)

        return match

    matcher = getattr(module, "PatternMatcher", None)
    if matcher is not None:
        replace(matcher, "match", ask)


def _patch_optimizations(module: Any, steps: Steps, replace: Callable) -> None:
    def ask(original: Callable) -> Callable:
        def optimization(graph: Any, *arguments: Any, **options: Any) -> Any:
            if steps.allows("onnxslim", original.__name__, original.__module__):
                return original(graph, *arguments, **options)
            return graph  # what constant folding returns; the others change the graph

        return optimization

    for name in ("dead_node_elimination", "subexpression_elimination", "tie_weights", "graph_constant_fold_inplace"):
        replace(module, name, ask)
    graph = getattr(getattr(module, "gs", None), "Graph", None)
    if graph is not None:
        replace(graph, "fold_constants", ask)


def _patch_fusions(module: Any, steps: Steps, replace: Callable) -> None:
    def ask(original: Callable) -> Callable:
        def apply(self: Any, *arguments: Any, **options: Any) -> Any:
            if steps.allows("onnxruntime.transformers", type(self).__name__, type(self).__module__):
                return original(self, *arguments, **options)
            return None

        return apply

    if hasattr(module, "Fusion"):  # the short name may be that of another module
        replace(module.Fusion, "apply", ask)


PATCHES = {
    "onnxslim.core.pattern": _patch_patterns, "onnxslim.core.graph_rewriter": _patch_patterns,
    "onnxslim.core.optimization": _patch_optimizations, "onnxslim.core.optimizer": _patch_optimizations,
    # onnxruntime.transformers puts its folder on the search path and imports this module by its short name.
    "fusion_base": _patch_fusions, "onnxruntime.transformers.fusion_base": _patch_fusions}
