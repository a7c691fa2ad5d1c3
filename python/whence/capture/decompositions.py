"""Decomposes operators without a converter as PyTorch defines them, and reports the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..errors import Diagnostic, WhenceError

# Minimum number of additional operations for a warning: they take as long to run as an entire model.
LONG_FORM = 100


def for_refused(failure: WhenceError) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Returns PyTorch's decompositions of the refused operators, if they have one.

    A decomposed program is functional, so the name "aten::foo_" also selects "aten::foo".
    """
    refused = {each.where["op"] for each in failure.diagnostics if "op" in each.where}
    refused |= {".".join([target.removesuffix("_"), *overload])
                for target, *overload in (name.split(".") for name in refused)}
    return {operator: function for operator, function in torch.export.default_decompositions().items()
            if operator.name() in refused}


def cost(program: torch.export.ExportedProgram, decomposed: torch.export.ExportedProgram,
         failure: WhenceError) -> Diagnostic | None:
    """Returns a warning if decomposition makes the program much longer."""
    before, after = operations(program), operations(decomposed)
    if after - before < LONG_FORM:
        return None
    reason = failure.diagnostics[0]
    return replace(reason, severity="warning", message=f"{reason.message}, so torch.export decomposes the model into "
                   f"{after} operations instead of {before}")


def operations(program: torch.export.ExportedProgram) -> int:
    """Returns the number of operations, including those in branches and loops."""
    return sum(node.op == "call_function" for part in program.graph_module.modules()
               if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes)
