"""Truth through a tool: which nodes of the file before does each node of the file after stand for?

No tool says so. What can be known is which values survive: names of values stay where the value does, in every tool of
the corpus. So for each node of the new file: go back from its outputs in the old file until its inputs are reached;
what was passed is what it replaced (its cone). Values that are equal when the file is run (equal.py) count as reached,
so that removed no-ops and merged duplicates are not taken for absorbed ones.

Nodes of the new file that are joined by values which the old file does not have replaced something together. Those
among them that the old file has too (same output, or the tag that corpus.py leaves in their doc_string, and same
operator) stand for themselves, the others share the rest of the cone. Left without truth, with the reason:

- inserted: a node that replaced nothing (a Cast, a QuantizeLinear)
- several: part of a group that replaced nodes of several modules, when nothing tells which part replaced which
- merged: stands for equal nodes of several modules
- no cone: the walk back ran into the graph's inputs, or its output is no value of the old file
- before: it replaced a node whose own truth is unknown
"""

import collections
from dataclasses import dataclass, field

import onnx

from accuracy import equal
from accuracy.graphs import all_nodes, attributes, first_output, keyed, outside_values
from accuracy.truth import Truth, modules

TAG = "corpus:"
QUANTISING = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
SHAPE = {"Shape", "Size"}
LONGEST = 80  # nodes in a cone; the largest real one is an attention with its mask


def through(before: onnx.ModelProto, truth: Truth, after: onnx.ModelProto, feeds: dict) -> Truth:
    """The truth of `after`, which a tool made of `before`."""
    old, new = Graph(before, equal.classes(before, feeds)), Graph(after, {})
    result = Carried(old, truth, new).result()
    return result


@dataclass
class Graph:
    """The main graph by values. `live` values depend on the graph's inputs, `sizes` only on those inputs' shapes."""

    model: onnx.ModelProto
    same: dict[str, str]
    maker: dict[str, onnx.NodeProto] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)

    def __post_init__(self):
        graph = self.model.graph
        self.stored = {tensor.name for tensor in graph.initializer}
        self.inputs = {value.name for value in graph.input} - self.stored
        self.live |= self.inputs
        for node in graph.node:
            read = [name for name in outside_values(node) if name in self.live]
            for name in filter(None, node.output):
                self.maker[name] = node
                if read:
                    self.live.add(name)
                    if node.op_type in SHAPE or all(value in self.sizes for value in read):
                        self.sizes.add(name)
        self.users = collections.defaultdict(list)
        for node in graph.node:
            for name in dict.fromkeys(outside_values(node)):
                self.users[name].append(node)

    def kind(self, name: str) -> str:
        return self.same.get(name, name)

    def is_live(self, node: onnx.NodeProto) -> bool:
        return any(name in self.live for name in node.output)


class Carried:
    def __init__(self, old: Graph, truth: Truth, new: Graph):
        self.old, self.before, self.new = old, truth, new
        self.truth = Truth()
        self.by_tag = {TAG + key: node for key, node in keyed(old.model.graph.node)}
        self.covered = set()  # keys of old nodes that a new node stands for

    def result(self) -> Truth:
        for members in self.groups():
            self.group(members)
        self.constants_and_graphs()
        self.merged()
        return self.truth

    # Groups ----------------------------------------------------------------------------------------------------------

    def survives(self, name: str) -> bool:
        return name in self.old.maker or name in self.old.inputs

    def groups(self) -> list[list[onnx.NodeProto]]:
        """Live nodes of the new file, those together that are joined by values which the old file does not have."""
        live = [node for node in self.new.model.graph.node if self.new.is_live(node)]
        parent = {id(node): node for node in live}

        def root(node):
            while parent[id(node)] is not node:
                node = parent[id(node)]
            return node

        for node in live:
            for name in outside_values(node):
                if name in self.new.live and not self.survives(name):
                    parent[id(root(node))] = root(self.new.maker[name])
        together = collections.defaultdict(list)
        for node in live:
            together[id(root(node))].append(node)
        return list(together.values())

    def own(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        """The old node that a new one still is."""
        for candidate in (self.old.maker.get(first_output(node)), self.by_tag.get(node.doc_string)):
            if candidate is not None and (candidate.op_type, candidate.domain) == (node.op_type, node.domain):
                return candidate
        return None

    def group(self, members: list[onnx.NodeProto]) -> None:
        inside = {id(node) for node in members}
        outputs = [name for node in members for name in node.output if name in self.old.maker]
        reach = collections.defaultdict(set)  # id of member -> outputs that it helps to make
        cones = {}
        for output in outputs:
            part = self.backward(output, inside)
            for node in part:
                reach[id(node)].add(output)
            inputs = {name for node in part for name in outside_values(node) if self.survives(name)}
            cones[output] = self.cone(output, inputs, {name for node in part for name in node.output})
        own = {id(node): self.own(node) for node in members}
        claimed = {id(node) for node in own.values() if node is not None}
        shares = self.shares(members, reach, cones, own, claimed)
        for node in members:
            self.decide(node, own[id(node)], reach[id(node)], shares.get(id(node)), cones)

    def backward(self, output: str, inside: set[int]) -> list[onnx.NodeProto]:
        """The members of a group that make one output, itself first."""
        part, todo, seen = [], [output], set()
        while todo:
            node = self.new.maker.get(todo.pop())
            if node is None or id(node) not in inside or id(node) in seen:
                continue
            seen.add(id(node))
            part.append(node)
            todo += [name for name in outside_values(node) if not self.survives(name)]
        return part

    def cone(self, output: str, inputs: set[str], siblings: set[str]) -> list[onnx.NodeProto] | None:
        """Old nodes between `inputs` and `output`; None when the inputs do not bound them."""
        stops = {self.old.kind(name) for name in inputs}
        found = self.walk(output, lambda name: self.old.kind(name) in stops)
        if found is None:
            kept = {name for name in self.new.live if self.survives(name)} - siblings
            found = self.walk(output, lambda name: name in kept or self.old.kind(name) in stops)
        return found

    def walk(self, output: str, stop) -> list[onnx.NodeProto] | None:
        sizes = self.old.sizes if output not in self.old.sizes else set()
        found, todo, seen = [], [self.old.maker[output]], set()
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            found.append(node)
            for name in outside_values(node):
                if name not in self.old.live or name in sizes or stop(name):
                    continue
                if name in self.old.inputs or len(found) > LONGEST:
                    return None
                todo.append(self.old.maker[name])
        return found

    # Who stands for what ---------------------------------------------------------------------------------------------

    def shares(self, members, reach, cones, own, claimed) -> dict[int, list[onnx.NodeProto]]:
        """Old nodes that each member stands for, beside itself."""
        shares = collections.defaultdict(list)
        free = {output: {id(node): node for node in cone or [] if id(node) not in claimed}
                for output, cone in cones.items()}
        new = [node for node in members if own[id(node)] is None and node.op_type not in QUANTISING]
        for node in new:  # what serves several outputs stands for what their cones share
            outputs = list(reach[id(node)])
            if len(outputs) > 1:
                common = set.intersection(*(set(free[output]) for output in outputs))
                shares[id(node)] += [free[outputs[0]][number] for number in common]
        shared = {id(node) for rest in shares.values() for node in rest}
        for output in cones:
            rest = [node for number, node in free[output].items() if number not in shared]
            takers = [node for node in new if reach[id(node)] == {output}]
            for taker in takers:
                shares[id(taker)] += rest
            if not takers:
                self.absorbed(rest, [node for node in members if output in reach[id(node)]], own, shares)
        return shares

    def absorbed(self, rest, members, own, shares) -> None:
        """Nodes that vanished into a kept neighbour: the first kept one that they feed, else the one that feeds them."""
        kept = {id(old): new for new in members if (old := own[id(new)]) is not None}
        if len(kept) == 1:
            shares[id(next(iter(kept.values())))] += rest
            return
        for node in rest:
            near = [self.nearest(node, kept, forward=True), self.nearest(node, kept, forward=False)]
            taker = next((found for found in near if found is not None), None)
            if taker is not None:
                shares[id(taker)].append(node)

    def nearest(self, node, kept, forward: bool) -> onnx.NodeProto | None:
        todo, seen = [node], set()
        while todo:
            at = todo.pop(0)
            if id(at) in kept:
                return kept[id(at)]
            if id(at) in seen or len(seen) > LONGEST:
                continue
            seen.add(id(at))
            if forward:
                todo += [user for name in at.output for user in self.old.users[name]]
            else:
                todo += [self.old.maker[name] for name in outside_values(at) if name in self.old.maker]
        return None

    def decide(self, node, own, outputs, share, cones) -> None:
        key = first_output(node)
        stands_for = [*([own] if own is not None else []), *(share or [])]
        if not outputs or any(cones[output] is None for output in outputs):
            if own is None:
                self.truth.unknown[key] = "no cone"
                return
            stands_for = [own]
        if not stands_for:
            self.truth.unknown[key] = "inserted"
            return
        self.covered |= {first_output(old) for old in stands_for}
        if any(first_output(old) not in self.before.nodes for old in stands_for):
            self.truth.unknown[key] = "before"
            return
        calls = frozenset().union(*(self.before.nodes[first_output(old)] for old in stands_for))
        if len(modules(calls)) > 1 and own is None and self.companions(node, outputs):
            self.truth.unknown[key] = "several"
            return
        self.truth.nodes[key] = calls

    def companions(self, node, outputs) -> bool:
        """Whether other new nodes share this one's cone, so that nobody can say which replaced what."""
        group = [name for name in [*node.output, *outside_values(node)]
                 if name in self.new.live and not self.survives(name)]
        others = {id(other) for name in group for other in [self.new.maker[name], *self.new.users[name]]}
        makers = [self.new.maker[name] for name in outside_values(node) if name in self.new.maker]
        return bool(group) and any(id(other) in others and other is not node and self.own(other) is None
                                   for other in [*makers, *(user for name in node.output
                                                            for user in self.new.users[name])])

    # The rest --------------------------------------------------------------------------------------------------------

    def constants_and_graphs(self) -> None:
        """Nodes that depend on no input, and those in graphs and functions: known only where they stayed."""
        old = dict(all_nodes(self.old.model))
        for key, node in all_nodes(self.new.model):
            if key in self.truth.nodes or key in self.truth.unknown:
                continue
            same = old.get(key)
            if same is None or same.op_type != node.op_type:
                self.truth.unknown[key] = "inserted"
            elif key in self.before.nodes:
                self.truth.nodes[key] = self.before.nodes[key]
            else:
                self.truth.unknown[key] = "before"

    def merged(self) -> None:
        """Adds the calls of equal old nodes that are gone; of several modules, the truth goes instead."""
        equals = collections.defaultdict(list)
        for node in self.old.model.graph.node:
            if self.old.is_live(node):
                inputs = tuple(self.old.kind(name) for name in node.input)
                equals[(node.op_type, attributes(node), inputs)].append(first_output(node))
        for keys in equals.values():
            gone = [key for key in keys if key not in self.covered and key in self.before.nodes]
            for key in keys if gone else []:
                if key in self.truth.nodes:
                    together = self.truth.nodes[key].union(*(self.before.nodes[other] for other in gone))
                    if modules(together) == modules(self.truth.nodes[key]):
                        self.truth.nodes[key] = together
                    else:
                        del self.truth.nodes[key]
                        self.truth.unknown[key] = "merged"
