"""keep: keeps the origins of nodes while tools edit a model in memory with onnx_ir.

onnxscript's rewriter, optimizer and version converter, onnx_ir's passes and the fusions of transformers edit graphs by
three methods of onnx_ir: they create a node, they let the readers of a value read another one, and they remove what
nobody reads any longer. ``keep`` observes these methods. The nodes that nobody reads after a replacement are what the
new nodes replaced. A pass may also exchange the whole graph, as the version converter does where it uses onnx's; its nodes
are those that computed values of the same names before.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..base.optional_packages import import_optional
from ..base.report_printing import Printed, counted
from . import edited_graphs, node_origins
from .node_origins import Origin, Source
from .observed_graphs import ObservedGraphs


@dataclass(repr=False)
class KeepReport(Printed):
    """What happened to the nodes inside ``whence.keep``."""

    replaced: int = 0             # new nodes with the origins of the nodes that they replaced
    merged: int = 0               # nodes that replaced an equal node
    by_neighbours: int = 0        # nodes without an origin that got the module of the nodes around them
    lost: list[str] = field(default_factory=list)  # names of nodes without an origin

    def _headline(self) -> str:
        text = (f"{counted(self.replaced, 'node')} replaced others, {self.merged} replaced an equal one, "
                f"{self.by_neighbours} by neighbours")
        return text + (f"; without an origin: {', '.join(self.lost)}" if self.lost else "")


@contextmanager
def keep(model: Any = None) -> Iterator[KeepReport]:
    """Keeps the origins of nodes that tools replace, merge and remove in models of onnx_ir.

        with whence.keep():
            program = torch.onnx.export(model, args, dynamo=True)
        with whence.keep():
            exported = OnnxExporter().export(model, inputs, config=OnnxConfig(ort_fusions="cpu"))

    A node that replaces several others gets all of their modules, and ``pkg.whence.primary``: the module of its main
    operation. Its confidence is that of the weakest of them, ``matched`` at most. The keys of PyTorch and onnxscript are
    kept from the main operation. At the end, nodes without an origin get the module of the nodes around them, in the
    graphs to which a node was added.

    model    an onnx_ir.Model, or the result of ``torch.onnx.export``: only it is observed, and all of its nodes get an
             origin. By default every model is observed, also one that is created in the block.

    Yields a KeepReport, which is complete after the block. Requires onnx_ir (E0307); tools that edit other representations
    need ``whence.carry``. Models of other threads are observed, too, unless ``model`` is given. Raises WhenceError E0101
    if it is not such a model.
    """
    ir = import_optional("onnx_ir", "whence.keep")
    block = _Block(ObservedGraphs(model))
    with _observing(ir, block) as observer:
        yield block.report
        with _lock:
            observer.finish(block)


_lock = threading.RLock()  # guards the observer, which threads share
_observer: _Observer | None = None


@dataclass(eq=False)
class _Block:
    """One use of ``keep``."""

    graphs: ObservedGraphs
    report: KeepReport = field(default_factory=KeepReport)
    new_nodes: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)


@contextmanager
def _observing(ir: Any, block: _Block) -> Iterator[_Observer]:
    """Observes onnx_ir inside the block. Blocks may be nested, or overlap in threads: one observer serves all, so that each
    change is recorded once and the methods are restored when the last block ends."""
    global _observer
    with _lock:
        if _observer is None:
            _observer = _Observer()
            _observer.install(ir)
        observer = _observer
        observer.blocks.append(block)
    try:
        yield observer
    finally:
        with _lock:
            observer.blocks.remove(block)
            if not observer.blocks:
                observer.uninstall()
                _observer = None


def _merger_class() -> Any:
    """Returns onnxscript's class that copies metadata to new nodes; None without onnxscript, or if it has none."""
    try:
        from onnxscript.utils.metadata_merger import MetadataMerger
    except ImportError:
        return None
    return MetadataMerger


class _Observer:
    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.originals: list[tuple[Any, str, Any]] = []  # class, name and function of each observed method
        self.new_nodes: weakref.WeakSet[Any] = weakref.WeakSet()
        self.dead: weakref.WeakSet[Any] = weakref.WeakSet()
        # New nodes whose replaced value is computed by a node with further results that are still read.
        self.waiting: weakref.WeakKeyDictionary[Any, list[list[Any]]] = weakref.WeakKeyDictionary()
        # The new nodes that together compute the outputs of a new node, which may replace one value after the other.
        self.groups: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self.replacements: weakref.WeakSet[Any] = weakref.WeakSet()  # values that replaced another one
        # The replaced nodes of each node, and the node itself if it had an origin before.
        self.sources: weakref.WeakKeyDictionary[Any, list[Source]] = weakref.WeakKeyDictionary()
        self.merged: weakref.WeakSet[Any] = weakref.WeakSet()  # nodes that replaced equal nodes
        self.inlined: weakref.WeakSet[Any] = weakref.WeakSet()  # nodes of functions, with the modules of their call
        # Nodes without an origin that replaced an equal node: what they were for is known only in part.
        self.known_in_part: weakref.WeakSet[Any] = weakref.WeakSet()
        self.calls = threading.local()  # depth: of nested calls of the observed methods

    def install(self, ir: Any) -> None:
        create, replace_uses, replace_input = ir.Node.__init__, ir.Value.replace_all_uses_with, ir.Node.replace_input_with
        merger, run_pass = _merger_class(), ir.passes.PassBase.__call__
        copy_merged = getattr(merger, "copy_merged_metadata", None)

        def node_created(node: Any, *args: Any, **kwargs: Any) -> None:
            create(node, *args, **kwargs)
            with _lock:
                for known in (self, *self.blocks):
                    known.new_nodes.add(node)

        def uses_replaced(value: Any, replacement: Any, *args: Any, **kwargs: Any) -> None:
            self.observe(lambda: replace_uses(value, replacement, *args, **kwargs), value, replacement)

        def input_replaced(node: Any, index: int, value: Any) -> None:
            before = node.inputs[index] if index < len(node.inputs) else None
            self.observe(lambda: replace_input(node, index, value), before, value)

        def pass_called(graph_pass: Any, model: Any) -> Any:
            before = getattr(model, "model", model).graph  # a model, or the result of another pass
            result = run_pass(graph_pass, model)
            if result.model.graph is not before:
                with _lock:
                    self.graph_exchanged(before, result.model.graph)
            return result

        def metadata_merged(self: Any, from_nodes: Any, to: Any) -> None:
            """Leaves whence's keys as they are: the merger takes an empty text, the root, for a missing key."""
            nodes = [to] if isinstance(to, ir.Node) else list(to)
            before = [node_origins.whence_keys(node.metadata_props) for node in nodes]
            copy_merged(self, from_nodes, to)
            for node, keys in zip(nodes, before, strict=True):
                if keys:
                    node_origins.restore(keys, node.metadata_props)

        observed = [(ir.Node, "__init__", node_created), (ir.Value, "replace_all_uses_with", uses_replaced),
                    (ir.Node, "replace_input_with", input_replaced), (ir.passes.PassBase, "__call__", pass_called)]
        if copy_merged is not None:
            observed.append((merger, "copy_merged_metadata", metadata_merged))
        for owner, name, method in observed:
            self.originals.append((owner, name, getattr(owner, name)))
            setattr(owner, name, method)

    def uninstall(self) -> None:
        for owner, name, original in self.originals:
            setattr(owner, name, original)

    def observe(self, replace: Callable[[], None], old: Any, new: Any) -> None:
        depth = getattr(self.calls, "depth", 0)
        self.calls.depth = depth + 1
        try:
            replace()
        finally:
            self.calls.depth = depth
        if depth == 0 and old is not None and new is not None and old is not new:
            with _lock:
                self.replaced(old, new)

    def replaced(self, old: Any, new: Any) -> None:
        producer = new.producer()
        if old.producer() is None or producer is None:
            return  # of a graph input or an initializer
        reports = [block.report for block in self.blocks
                   if old.producer().graph in block.graphs or producer.graph in block.graphs]
        if not reports:
            return  # of another model
        dead = self.nodes_that_died(old.producer())
        further_output = producer in self.groups and new not in self.replacements
        added = self.groups[producer] if further_output else self.added_nodes(producer, old.producer())
        if len(producer.outputs) > 1:
            self.groups.setdefault(producer, added)
        self.replacements.add(new)
        if not dead:
            self.waiting.setdefault(old.producer(), []).append(added)
            return
        if any(new is value for node in dead for value in node.inputs):
            return  # the dead nodes were left out, not replaced
        gone = [*edited_graphs.computed_again(dead, added), *dead]
        copies = {node: self.sources[node] for node in gone if node in self.merged}
        sources = node_origins.sources_of(gone, old.producer(), copies)
        if edited_graphs.are_equal(producer, old.producer()):
            self.merged.add(producer)
        late = [nodes for node in dead for nodes in self.waiting.pop(node, [])]
        for nodes in [*late, added]:
            kinds = {node_origins.kind_of(node.op_type) for node in nodes} - {""}
            moved = edited_graphs.moved_nodes(nodes, sources)
            for node in nodes:
                self.inherit(node, [moved[node]] if node in moved else sources, kinds, old.producer(), reports)

    def graph_exchanged(self, before: Any, after: Any) -> None:
        reports = [block.report for block in self.blocks if before in block.graphs or after in block.graphs]
        makers = {output.name: node for node in before for output in node.outputs if output.name}
        for node in after if reports else ():
            earlier = next((makers[output.name] for output in node.outputs if output.name in makers), None)
            if earlier is None or not node_origins.is_unknown(node.metadata_props):
                continue
            if edited_graphs.has_equal_names(node, earlier):
                node.metadata_props.update(earlier.metadata_props)
            else:
                self.inherit(node, node_origins.sources_of([earlier], earlier, {}), set(), earlier, reports)

    def nodes_that_died(self, producer: Any) -> list[Any]:
        """Returns ``producer`` and the nodes before it that nobody reads any longer, in an order in which the last one is
        ``producer``; nothing if it is still read."""
        dead: list[Any] = []
        candidates = [producer]
        while candidates:
            node = candidates.pop()
            if node in self.dead or any(output.is_graph_output() or any(use.node not in self.dead for use in output.uses())
                                        for output in node.outputs):
                continue
            self.dead.add(node)
            dead.append(node)
            candidates += [value.producer() for value in node.inputs if value is not None and value.producer() is not None]
        return dead[::-1]

    def added_nodes(self, producer: Any, replaced: Any) -> list[Any]:
        """Returns ``producer`` and the new nodes before it that have no origin yet. Those of an inlined function may have
        the metadata of its call."""
        is_call = node_origins.is_call(replaced.metadata_props)
        added, candidates = [producer], [producer]

        def has_origin(node: Any) -> bool:
            if is_call:
                return node in self.inlined or node in self.sources
            return node_origins.read(node.metadata_props) is not None

        while candidates:
            for value in candidates.pop().inputs:
                node = value.producer() if value is not None else None
                if node in self.new_nodes and node not in added and not has_origin(node):
                    added.append(node)
                    candidates.append(node)
        return added

    def inherit(self, node: Any, sources: list[Source], kinds: set[str], replaced: Any, reports: list[KeepReport]) -> None:
        """``kinds``: of all nodes that replaced the sources together."""
        if node in self.inlined:
            return
        if node in self.new_nodes and node_origins.is_call(replaced.metadata_props):
            node_origins.fill_template(node.metadata_props, node.domain, node.op_type, replaced.metadata_props)
            self.inlined.add(node)
            _count(reports, "replaced")
            return
        if node not in self.sources:
            own = node_origins.source_of(node, computed_value=True)
            self.sources[node] = [] if own is None else [own]
            if sources:
                _count(reports, "merged" if node in self.merged else "replaced")
                if own is None and node not in self.new_nodes:
                    self.known_in_part.add(node)
        known = self.sources[node]
        known[:0] = [source for source in sources if source not in known]
        if not known:
            return
        origin = node_origins.merge(node.op_type, known, kinds)
        primary = next((source for source in reversed(known) if source.origin.primary == origin.primary), None)
        if primary is not None:
            node.metadata_props.update(primary.exporter_keys)
        if origin.by_whence or len(origin.modules) > 1:
            node_origins.write(origin, node.metadata_props, node.domain, node.op_type, "kept")

    def finish(self, block: _Block) -> None:
        """Gives nodes without an origin the common module of their readers, or else of the nodes that they read, or else
        that of the node in whose body they are. Between an input and an output of the model, it is the root. Leaves nodes for
        which annotate found no module."""
        gc.collect()  # graphs that tools no longer use may refer to themselves
        nodes = block.graphs.nodes()
        graphs = {id(node.graph): node.graph for node in [*block.new_nodes, *nodes]
                  if node.graph is not None and node.graph in block.graphs}
        chosen = {id(node.graph) for node in nodes}
        owners = {id(body): node for graph in graphs.values() for node in graph for body in edited_graphs.bodies_of(node)}
        open_nodes: list[Any] = []

        def states_nothing(graph: Any) -> bool:
            """Returns true for the body of a function that a tool built, and for a model without origins."""
            owner = owners.get(id(graph))
            return (id(graph) not in chosen and all(node_origins.is_unknown(node.metadata_props) for node in graph)
                    and (owner is None or states_nothing(owner.graph)))

        for graph in graphs.values():
            _drop_templates(graph)
            if states_nothing(graph):
                continue
            unknown = [node for node in graph if node_origins.is_unknown(node.metadata_props)]
            for node in reversed(unknown):
                self.infer(node, [use.node for output in node.outputs for use in output.uses()], block.report)
            for node in unknown:
                self.infer(node, [value.producer() for value in node.inputs if value is not None], block.report)
            for node in reversed(graph):
                if node in self.known_in_part:
                    self.widen(node, [use.node for output in node.outputs for use in output.uses()])
            open_nodes += [node for node in unknown if node_origins.is_unknown(node.metadata_props)]
        for node in open_nodes:
            owner = node
            while owner is not None and node_origins.read(owner.metadata_props) is None:
                owner = owners.get(id(owner.graph))
            if owner is not None:
                self.infer(node, [owner], block.report, inside=True)
            elif edited_graphs.passes_input_to_output(node):
                block.report.by_neighbours += 1
                node_origins.write(node_origins.INSIDE_ROOT, node.metadata_props, node.domain, node.op_type, "dataflow")
        block.report.lost += [node.name or node.op_type for node in open_nodes
                              if node_origins.is_unknown(node.metadata_props)]

    def infer(self, node: Any, neighbours: list[Any], report: KeepReport, inside: bool = False) -> None:
        """``inside``: the neighbour is the node in whose body ``node`` is, so the module is only an enclosing one."""
        known = _origins_of(neighbours)
        if node_origins.read(node.metadata_props) is not None or not known:
            return
        report.by_neighbours += 1
        origin = node_origins.inferred_from(known, inside)
        node_origins.write(origin, node.metadata_props, node.domain, node.op_type, "dataflow")

    @staticmethod
    def widen(node: Any, readers: list[Any]) -> None:
        """Gives the node the module around its origin and its readers."""
        origin = node_origins.inferred_from(_origins_of([node, *readers]))
        node_origins.write(origin, node.metadata_props, node.domain, node.op_type, "dataflow")


def _origins_of(nodes: list[Any]) -> list[Origin]:
    stated = [node_origins.read(node.metadata_props) for node in nodes if node is not None]
    return [origin for origin in stated if origin is not None]








def _count(reports: list[KeepReport], kind: str) -> None:
    for report in reports:
        setattr(report, kind, getattr(report, kind) + 1)


def _drop_templates(graph: Any) -> None:
    """Removes the metadata of functions from nodes that are in none: those in the bodies of inlined nodes, whose call is
    unknown. All nodes of a function have such metadata."""
    templates = [node for node in graph if node_origins.is_template(node.metadata_props)]
    if len(templates) < sum(1 for node in graph if node_origins.whence_keys(node.metadata_props)):
        for node in templates:
            node.metadata_props.clear()
