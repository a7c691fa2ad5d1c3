"""Rewrite rules and constant folding of onnxscript, and the passes of onnx_ir. Each application is a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .steps import Steps

# Passes that consist of other passes, or whose single changes are steps.
_COMPOSED = {"Sequential", "PassManager", "FunctionalPass", "FoldConstantsPass", "RewritePass"}


def _patch_rules(module: Any, steps: Steps, replace: Callable) -> None:
    rules: list[Any] = []  # the rules that match, innermost last

    def remember(original: Callable) -> Callable:
        def try_rewrite(self: Any, *arguments: Any, **options: Any) -> Any:
            rules.append(self)
            try:
                return original(self, *arguments, **options)
            finally:
                rules.pop()

        return try_rewrite

    def ask(original: Callable) -> Callable:
        def get_replacement(self: Any, match: Any) -> Any:
            # Asks before: functions of rules may change the nodes that they match.
            return original(self, match) if not rules or steps.allows("onnxscript", *_named(rules[-1])) else None

        return get_replacement

    replace(module.RewriteRule, "try_rewrite", remember)
    replace(module.ReplacementPatternFunction, "get_replacement", ask)


def _named(rule: Any) -> tuple[str, str]:
    """Returns the rule's name, and the module of the function that returns its replacement."""
    function = getattr(getattr(rule, "_replacement_pattern", None), "_function", None)
    owner = type(getattr(function, "__self__", None))
    owner_name = owner.__name__ if owner is not type(None) else getattr(function, "__name__", "")
    name = getattr(rule, "name", None) or ""
    if owner_name and owner_name != name:
        name = f"{owner_name} {name}".strip()
    return name or "rule without a name", getattr(function, "__module__", "")


def _patch_folding(module: Any, steps: Steps, replace: Callable) -> None:
    def ask(original: Callable) -> Callable:
        def process_node(self: Any, node: Any, *arguments: Any, **options: Any) -> Any:
            replacement = original(self, node, *arguments, **options)
            name = f"constant folding of {node.op_type}"
            return replacement if replacement is not None and steps.allows("onnxscript", name, module.__name__) else None

        return process_node

    folding = getattr(module, "FoldConstantsPass", None)
    if folding is not None:
        replace(folding, "process_node", ask)


def _patch_passes(module: Any, steps: Steps, replace: Callable) -> None:
    def ask(original: Callable) -> Callable:
        def call(self: Any, model_or_result: Any, *arguments: Any) -> Any:
            name = type(self).__name__
            # A pass that returns a copy must return one.
            if name in _COMPOSED or not self.in_place or steps.allows("onnx_ir", name, type(self).__module__):
                return original(self, model_or_result, *arguments)
            return module.PassResult(getattr(model_or_result, "model", model_or_result), False)

        return call

    replace(module.PassBase, "__call__", ask)


PATCHES = {"onnxscript.rewriter._rewrite_rule": _patch_rules, "onnxscript.optimizer._constant_folding": _patch_folding,
           "onnx_ir.passes._pass_infra": _patch_passes}
