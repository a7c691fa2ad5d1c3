"""Writes operators without a converter in the parts that PyTorch knows them by, and says what that costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..errors import Diagnostic, WhenceError

# Operations more than before from which on users are warned: a runtime takes as long for them as for a model.
LONG_FORM = 100


def for_refused(failure: WhenceError) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Returns what PyTorch writes the refused operators as; those that it cannot write otherwise are left out.

    An archive is functional once it is decomposed, so "aten::foo_" is looked up as "aten::foo".
    """
    refused = {each.where["op"] for each in failure.diagnostics if "op" in each.where}
    refused |= {".".join([target.removesuffix("_"), *overload])
                for target, *overload in (name.split(".") for name in refused)}
    return {operator: parts for operator, parts in torch.export.default_decompositions().items()
            if operator.name() in refused}


def cost(program: torch.export.ExportedProgram, parts: torch.export.ExportedProgram,
         failure: WhenceError) -> Diagnostic | None:
    """Returns a warning where the parts are many more operations than the program was."""
    before, after = operations(program), operations(parts)
    if after - before < LONG_FORM:
        return None
    reason = failure.diagnostics[0]
    return replace(reason, severity="warning", message=f"{reason.message}, so torch.export writes the model as {after} "
                   f"operations, which were {before}")


def operations(program: torch.export.ExportedProgram) -> int:
    """Returns the number of operations, those in branches and loops included."""
    return sum(node.op == "call_function" for part in program.graph_module.modules()
               if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes)
