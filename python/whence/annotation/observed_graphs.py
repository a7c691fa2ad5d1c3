"""Knows which graphs ``keep`` observes: those of one model, or all."""

from __future__ import annotations

from typing import Any

from ..errors import error
from ..files.model_files import ir_model_of


class ObservedGraphs:
    """The graphs of one model of onnx_ir, with those that tools add; or every graph if ``model`` is None."""

    def __init__(self, model: Any) -> None:
        """Raises WhenceError E0101 for a value that is no model of onnx_ir."""
        self._model = None if model is None else ir_model_of(model)
        if self._model is None and model is not None:
            raise error("E0101", "usage", f"keep observes a model of onnx_ir in memory, not a {type(model).__name__}",
                        "pass an onnx_ir.Model or the result of torch.onnx.export; for a file use whence.carry")
        self._ids = self._current_ids()
        self._others: list[Any] = []  # graphs of other models; kept, so that no later graph gets the id of one of them
        self._other_ids: set[int] = set()

    def __contains__(self, graph: Any) -> bool:
        if self._model is None or id(graph) in self._ids:
            return True
        if graph is None or id(graph) in self._other_ids:
            return False
        self._ids = self._current_ids()  # tools may have added this graph
        if id(graph) not in self._ids:
            self._others.append(graph)
            self._other_ids.add(id(graph))
        return id(graph) in self._ids

    def nodes(self) -> list[Any]:
        """Returns all nodes of the model; none if every model is observed."""
        return [node for owner in self._owners() for node in owner.all_nodes()]

    def _owners(self) -> list[Any]:
        return [] if self._model is None else [self._model.graph, *self._model.functions.values()]

    def _current_ids(self) -> set[int]:
        return {id(graph) for owner in self._owners() for graph in (owner, getattr(owner, "graph", owner), *owner.subgraphs())}
