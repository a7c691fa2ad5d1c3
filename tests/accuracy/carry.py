"""Transfers the truth through a tool: finds the old nodes that each new node replaces.

Tools do not record this, but surviving values can be identified: by name, or by content when both files are run
(equal.py). A new node's outputs and inputs are found in the old file; the old nodes between them (its cone) are the
nodes that it replaced.

New nodes joined by values that the old file lacks form a group, which replaced old nodes together. A new node that also
exists in the old file (same operator, and same output or same tag in its doc_string, written by corpus.py) represents
itself; the others share the remaining cone. Reasons why a node has no truth:

- inserted: the node replaced nothing (a Cast, a QuantizeLinear)
- several: part of a group that replaced nodes of several modules, and the parts cannot be assigned
- merged: represents equal nodes of several modules
- no cone: the search reached the graph's inputs, or the output is not a value of the old file
- before: the node replaced a node without known truth
"""

import collections

import onnx

from accuracy import equal
from accuracy.graphs import all_nodes, attributes, first_output, keyed, outside_values, sorted_nodes
from accuracy.truth import Truth, modules

TAG = "corpus:"
QUANTISING = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
RESHAPING = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}
PRODUCTS = {"Gemm", "FusedGemm", "MatMul", "FusedMatMul"}
SIZES = {"Shape", "Size"}
MAX_CONE = 80  # nodes in a cone; the largest real one is an attention with its mask


def transfer(before: onnx.ModelProto, truth: Truth, after: onnx.ModelProto, feeds: dict) -> Truth:
    """Returns the truth of `after`, which a tool created from `before`."""
    old_values, new_values = equal.values(before, feeds), equal.values(after, feeds)
    return Carried(Graph(before), truth, Graph(after), equal.Classes(old_values), equal.weights(new_values),
                   equal.renamed_values(old_values, new_values, blocked_values(after))).result()


def blocked_values(model: onnx.ModelProto) -> set[str]:
    """Returns the values with channels in blocks (NCHWc): results of ONNX Runtime's operators, and values computed
    from them."""
    names = set()
    for node in sorted_nodes(model.graph):
        if node.op_type != "ReorderOutput" and (node.domain == "com.microsoft.nchwc" or names.intersection(node.input)):
            names.update(node.output)
    return names


class Graph:
    """Indexes the main graph by value. `live` values depend on the graph's inputs, `sizes` only on their shapes."""

    def __init__(self, model: onnx.ModelProto):
        self.model, self.nodes = model, sorted_nodes(model.graph)
        self.inputs = {value.name for value in model.graph.input} - {t.name for t in model.graph.initializer}
        self.producer, self.live, self.sizes = {}, set(self.inputs), set()
        self.users = collections.defaultdict(list)
        for node in self.nodes:
            live_inputs = [name for name in outside_values(node) if name in self.live]
            for name in filter(None, node.output):
                self.producer[name] = node
                if live_inputs:
                    self.live.add(name)
                    if node.op_type in SIZES or all(value in self.sizes for value in live_inputs):
                        self.sizes.add(name)
            for name in dict.fromkeys(outside_values(node)):
                self.users[name].append(node)

    def is_live(self, node: onnx.NodeProto) -> bool:
        return any(name in self.live for name in node.output)


def weights_of(graph: Graph, node: onnx.NodeProto, weights: dict[str, str]) -> set[str]:
    return {weights[name] for name in outside_values(node) if name not in graph.live and name in weights}


class Carried:
    def __init__(self, old: Graph, truth: Truth, new: Graph, classes: equal.Classes, weights: dict, renamed: dict):
        self.old, self.before, self.new, self.classes = old, truth, new, classes
        self.old_weights, self.new_weights = equal.weights(classes.arrays), weights
        self.truth = Truth()
        self.matched_by_weight = set()
        self.by_tag = {TAG + key: node for key, node in keyed(old.model.graph.node)}
        self.covered = set()  # keys of old nodes that a new node represents
        # New value -> old value; equal names are sufficient.
        self.old_names = {name: name for name in [*old.producer, *old.inputs] if name in new.live}
        self.old_names.update((name, other) for name, other in renamed.items()
                              if name in new.live and other in old.live and self.has_one_origin(other))

    def result(self) -> Truth:
        groups = self.find_groups()
        reshapes = [group[0] for group in groups if len(group) == 1 and self.only_reshapes(group[0])]
        for members in groups:
            if not (len(members) == 1 and self.only_reshapes(members[0])):
                self.assign_group(members)
        for node in reshapes:
            self.assign_reshape(node)
        self.constants_and_graphs()
        self.merged()
        return self.truth

    def has_one_origin(self, value: str) -> bool:
        """Returns whether all equal values of the old file come from nodes with one truth."""
        content = self.classes.content
        producers = [node for name, node in self.old.producer.items() if content.get(name) == content[value]
                     and not any(content.get(read) == content[value] for read in outside_values(node))]
        return len({self.before.nodes.get(first_output(node)) for node in producers}) <= 1

    # Groups ----------------------------------------------------------------------------------------------------------

    def find_groups(self) -> list[list[onnx.NodeProto]]:
        """Groups the live nodes of the new file that are joined by values which the old file lacks."""
        live = [node for node in self.new.nodes if self.new.is_live(node)]
        parent = {id(node): node for node in live}

        def root(node):
            while parent[id(node)] is not node:
                node = parent[id(node)]
            return node

        for node in live:
            for name in self.unknown_inputs(node):
                parent[id(root(node))] = root(self.new.producer[name])
        together = collections.defaultdict(list)
        for node in live:
            together[id(root(node))].append(node)
        return list(together.values())

    def unknown_inputs(self, node: onnx.NodeProto) -> list[str]:
        return [name for name in outside_values(node)
                if name in self.new.live and name in self.new.producer and name not in self.old_names]

    def counterpart(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        """Returns the old node that the tool kept as this new one."""
        output = first_output(node)
        for candidate in (self.old.producer.get(self.old_names.get(output)), self.by_tag.get(node.doc_string)):
            if candidate is not None and (candidate.op_type, candidate.domain) == (node.op_type, node.domain):
                return candidate
        return None

    def only_reshapes(self, node: onnx.NodeProto) -> bool:
        """Returns whether a new node returns its input unchanged or in another shape."""
        names = [self.old_names.get(name) for name in (*node.input[:1], first_output(node))]
        return (self.counterpart(node) is None and None not in names
                and len({self.classes.content[name] for name in names}) == 1)

    def assign_reshape(self, node: onnx.NodeProto) -> None:
        """Assigns a reshape to the old node that reshaped the same value, if that was removed. Otherwise the tool added
        it for another new node, such as the Gemm that replaces a MatMul of more than two dimensions, and it gets that
        node's truth."""
        content, key = self.classes.content[self.old_names[node.input[0]]], first_output(node)
        op_types = RESHAPING if node.op_type in RESHAPING else {node.op_type}
        removed = [first_output(old) for old in self.old.nodes if old.op_type in op_types
                   and self.classes.content[first_output(old)] == content and first_output(old) not in self.new.producer]
        if not removed:
            self.adopt_neighbour(node)
        elif any(old not in self.before.nodes for old in removed):
            self.truth.unknown[key] = "before"
        elif len({modules(self.before.nodes[old]) for old in removed}) > 1:
            self.truth.unknown[key] = "several"
        else:
            self.covered |= set(removed)
            self.truth.nodes[key] = frozenset().union(*(self.before.nodes[old] for old in removed))

    def adopt_neighbour(self, node: onnx.NodeProto) -> None:
        key = first_output(node)
        for neighbours in ([self.new.producer.get(node.input[0])], self.new.users[key]):
            truths = {self.truth.nodes.get(first_output(other)) if self.is_new_product(other) else None
                      for other in neighbours}
            if len(truths) == 1 and None not in truths:
                self.truth.nodes[key] = truths.pop()
                return
        self.truth.unknown[key] = "inserted"

    def is_new_product(self, node: onnx.NodeProto | None) -> bool:
        """Returns whether the tool created the product or changed its operator: an unchanged one needs no Reshape."""
        old = self.old.producer.get(first_output(node)) if node is not None else None
        return node is not None and node.op_type in PRODUCTS and (old is None or old.op_type != node.op_type)

    def assign_group(self, members: list[onnx.NodeProto]) -> None:
        inside = {id(node) for node in members}
        outputs = [name for node in members for name in node.output if self.old_names.get(name) in self.old.producer]
        reach = collections.defaultdict(set)  # id of member -> outputs computed from it
        cones = {}
        for output in outputs:
            part = self.backward(output, inside)
            for node in part:
                reach[id(node)].add(output)
            cones[output] = self.cone(output, part)
        own = {id(node): self.counterpart(node) for node in members}
        shares = self.shares(members, reach, cones, own)
        takers = collections.Counter(id(old) for node in members for old in shares[id(node)]
                                     if own[id(node)] is None and id(node) not in self.matched_by_weight)
        for node in members:
            unambiguous = id(node) in self.matched_by_weight or all(takers[id(old)] == 1 for old in shares[id(node)])
            self.decide(node, own[id(node)], reach[id(node)], shares[id(node)], cones, unambiguous)

    def backward(self, output: str, inside: set[int]) -> list[onnx.NodeProto]:
        """Returns the members of a group that compute one output, its producer first."""
        part, todo, seen = [], [output], set()
        while todo:
            node = self.new.producer[todo.pop()]
            if id(node) in inside and id(node) not in seen:
                seen.add(id(node))
                part.append(node)
                todo += self.unknown_inputs(node)
        return part

    def cone(self, output: str, part: list[onnx.NodeProto]) -> list[onnx.NodeProto] | None:
        """Returns the old nodes between the inputs of `part` and `output`; None if the inputs do not bound them.

        A reshaped value counts as the value itself, unless the part consists of reshapes.
        """
        reshapes = all(node.op_type in RESHAPING for node in part)
        kind = self.classes.shaped if reshapes else self.classes.content
        inputs = [self.old_names[name] for node in part for name in outside_values(node) if name in self.old_names]
        stops = {kind.get(name, name) for name in inputs}
        start = self.old_names[output]
        while True:  # go back to the first node with this value, which a tool keeps rather than later ones
            same = [name for name in outside_values(self.old.producer[start]) if name in self.old.producer
                    and kind.get(name) == kind.get(start) and kind.get(name) not in stops]
            if not same or not equal.comparable(self.classes.arrays[start]):
                break
            start = same[0]
        found = self.walk(start, lambda name: kind.get(name, name) in stops)
        if found is None:
            produced = {self.old_names.get(name) for node in part for name in node.output}
            bounds = set(self.old_names.values()) - produced
            found = self.walk(start, lambda name: name in bounds or kind.get(name, name) in stops)
        return found

    def walk(self, output: str, stop) -> list[onnx.NodeProto] | None:
        sizes = self.old.sizes if output not in self.old.sizes else set()
        found, todo, seen = [], [self.old.producer[output]], set()
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            found.append(node)
            for name in outside_values(node):
                if name not in self.old.live or name in sizes or stop(name):
                    continue
                if name in self.old.inputs or len(found) > MAX_CONE:
                    return None
                todo.append(self.old.producer[name])
        return found

    # Assignment of old nodes to new nodes ----------------------------------------------------------------------------

    def shares(self, members, reach, cones, own) -> dict[int, list[onnx.NodeProto]]:
        """Returns the old nodes that each member represents in addition to its counterpart."""
        shares = collections.defaultdict(list)
        claimed = {id(node) for node in own.values() if node is not None}
        free = {output: {id(node): node for node in cone or [] if id(node) not in claimed}
                for output, cone in cones.items()}
        new = [node for node in members if own[id(node)] is None and node.op_type not in QUANTISING]
        shares.update(self.peel_products(new, cones, free, reach))
        new = [node for node in new if id(node) not in self.matched_by_weight]
        for node in new:  # a node for several outputs represents the intersection of their cones
            outputs = list(reach[id(node)])
            if len(outputs) > 1:
                common = set.intersection(*(set(free[output]) for output in outputs))
                shares[id(node)] += [free[outputs[0]][number] for number in common]
        shared = {id(node) for taker in new for node in shares[id(taker)]}
        for output in cones:
            rest = [node for number, node in free[output].items() if number not in shared]
            takers = [node for node in new if reach[id(node)] == {output}]
            takers = takers or [node for node in new if output in reach[id(node)]]  # one product before a Split
            for taker in takers:
                shares[id(taker)] += rest
            if not takers:
                self.absorbed(rest, [node for node in members if output in reach[id(node)]], own, shares)
        return shares

    def peel_products(self, new, cones, free, reach) -> dict[int, list[onnx.NodeProto]]:
        """Finds the old matrix products of new ones by their weights, in groups that replaced several modules. Other
        nodes of the group represent the remaining old nodes, and an old product as well if they read its bias."""
        peeled = {}
        for node in new:
            candidates = {id(old): old for output in reach[id(node)] for old in free[output].values()}
            truths = {self.before.nodes.get(first_output(old)) for old in candidates.values()}
            if node.op_type in PRODUCTS and len(truths) > 1 and not reach[id(node)] & set(node.output):
                digests = weights_of(self.new, node, self.new_weights)
                matches = [old for old in candidates.values() if weights_of(self.old, old, self.old_weights) & digests]
                if matches:
                    peeled[id(node)] = matches
        self.matched_by_weight |= set(peeled)
        others = [node for node in new if id(node) not in peeled]
        for output in cones:
            digests = set().union(*(weights_of(self.new, node, self.new_weights) for node in others
                                         if output in reach[id(node)]))
            for old in [old for olds in peeled.values() for old in olds]:
                if not weights_of(self.old, old, self.old_weights) & digests:
                    free[output].pop(id(old), None)
        return peeled

    def absorbed(self, rest, members, own, shares) -> None:
        """Assigns each removed node to its nearest remaining consumer, otherwise to its nearest remaining producer."""
        remaining = {id(old): new for new in members if (old := own[id(new)]) is not None}
        if len(remaining) == 1:
            shares[id(next(iter(remaining.values())))] += rest
            return
        for node in rest:
            neighbours = [self.nearest(node, remaining, forward=True), self.nearest(node, remaining, forward=False)]
            taker = next((found for found in neighbours if found is not None), None)
            if taker is not None:
                shares[id(taker)].append(node)

    def nearest(self, node, remaining, forward: bool) -> onnx.NodeProto | None:
        todo, seen = [node], set()
        while todo:
            at = todo.pop(0)
            if id(at) in remaining:
                return remaining[id(at)]
            if id(at) in seen or len(seen) > MAX_CONE:
                continue
            seen.add(id(at))
            if forward:
                todo += [user for name in at.output for user in self.old.users[name]]
            else:
                todo += [self.old.producer[name] for name in outside_values(at) if name in self.old.producer]
        return None

    def decide(self, node, own, outputs, share, cones, unambiguous: bool) -> None:
        """Sets the truth of one node. `unambiguous`: no other new node shares its cone."""
        key = first_output(node)
        replaced = [*([own] if own is not None else []), *share]
        if not outputs or any(cones[output] is None for output in outputs):
            replaced = [own] if own is not None else []
            reason = "no cone"
        else:
            reason = "inserted"
        if not replaced:
            self.truth.unknown[key] = reason
            return
        keys = {first_output(old) for old in replaced}
        self.covered |= keys
        if any(old not in self.before.nodes for old in keys):
            self.truth.unknown[key] = "before"
            return
        calls = frozenset().union(*(self.before.nodes[old] for old in keys))
        truths = {modules(self.before.nodes[old]) for old in keys}
        if len(truths) > 1 and own is None and len(outputs) == 1 and not unambiguous:
            self.truth.unknown[key] = "several"
        else:
            self.truth.nodes[key] = calls

    # Remaining nodes -------------------------------------------------------------------------------------------------

    def constants_and_graphs(self) -> None:
        """Sets the truth of constant nodes and of nodes in subgraphs and functions, if they are unchanged."""
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
        """Adds the calls of removed equal nodes; if they belong to several modules, removes the truth instead."""
        equals = collections.defaultdict(list)
        for node in self.old.nodes:
            if self.old.is_live(node):
                inputs = tuple(self.classes.shaped.get(name, name) for name in node.input)
                equals[(node.op_type, attributes(node), inputs)].append(first_output(node))
        for keys in equals.values():
            removed = [key for key in keys if key not in self.covered and key in self.before.nodes]
            for key in keys if removed else []:
                if key in self.truth.nodes and key not in removed:
                    together = self.truth.nodes[key].union(*(self.before.nodes[other] for other in removed))
                    if modules(together) == modules(self.truth.nodes[key]):
                        self.truth.nodes[key] = together
                    else:
                        del self.truth.nodes[key]
                        self.truth.unknown[key] = "merged"
