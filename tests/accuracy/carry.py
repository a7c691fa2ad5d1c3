"""Truth through a tool: which old nodes does each new node replace?

Tools do not record this. But values that survive can be identified: by name, or by content when both files are run
(equal.py). So each node of the new file is traced back: from its outputs in the old file to its inputs. The old nodes
on that way are the ones that it replaced (its cone).

New nodes joined by values that the old file does not have replaced old nodes together. A new node that also exists in
the old file (same output, or the tag that corpus.py writes into doc_strings, and same operator) represents itself; the
others share the remaining cone. Nodes without truth, with the reason:

- inserted: the node replaced nothing (a Cast, a QuantizeLinear)
- several: part of a group that replaced nodes of several modules, and the parts cannot be assigned
- merged: represents equal nodes of several modules
- no cone: the walk back reached the graph's inputs, or the output is not a value of the old file
- before: it replaced a node without known truth
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
LONGEST = 80  # nodes in a cone; the largest real one is an attention with its mask


def through(before: onnx.ModelProto, truth: Truth, after: onnx.ModelProto, feeds: dict) -> Truth:
    """Returns the truth of `after`, which a tool created from `before`."""
    old_values, new_values = equal.values(before, feeds), equal.values(after, feeds)
    return Carried(Graph(before), truth, Graph(after), equal.Classes(old_values), equal.weights(new_values),
                   equal.renamed_values(old_values, new_values, in_blocks(after))).result()


def in_blocks(model: onnx.ModelProto) -> set[str]:
    """Returns values with channels in names (NCHWc): results of ONNX Runtime's own operators, and later values."""
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
        self.maker, self.live, self.sizes = {}, set(self.inputs), set()
        self.users = collections.defaultdict(list)
        for node in self.nodes:
            read = [name for name in outside_values(node) if name in self.live]
            for name in filter(None, node.output):
                self.maker[name] = node
                if read:
                    self.live.add(name)
                    if node.op_type in SIZES or all(value in self.sizes for value in read):
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
        self.old_weights, self.new_weights = equal.weights(classes.found), weights
        self.truth = Truth()
        self.parted = set()  # new nodes identified by their weight
        self.by_tag = {TAG + key: node for key, node in keyed(old.model.graph.node)}
        self.covered = set()  # keys of old nodes that a new node represents
        # New value -> old value; a name in both files is sufficient.
        self.same = {name: name for name in [*old.maker, *old.inputs] if name in new.live}
        self.same.update((name, other) for name, other in renamed.items()
                         if name in new.live and other in old.live and self.one_origin(other))

    def result(self) -> Truth:
        groups = self.groups()
        reshapes = [group[0] for group in groups if len(group) == 1 and self.only_reshapes(group[0])]
        for members in groups:
            if not (len(members) == 1 and self.only_reshapes(members[0])):
                self.group(members)
        for node in reshapes:
            self.reshape(node)
        self.constants_and_graphs()
        self.merged()
        return self.truth

    def one_origin(self, value: str) -> bool:
        """Returns whether all equal values of the old file come from nodes with one truth."""
        content = self.classes.content
        makers = [node for name, node in self.old.maker.items() if content.get(name) == content[value]
                  and not any(content.get(read) == content[value] for read in outside_values(node))]
        return len({self.before.nodes.get(first_output(node)) for node in makers}) <= 1

    # Groups ----------------------------------------------------------------------------------------------------------

    def groups(self) -> list[list[onnx.NodeProto]]:
        """Groups the live nodes of the new file that are joined by values which the old file lacks."""
        live = [node for node in self.new.nodes if self.new.is_live(node)]
        parent = {id(node): node for node in live}

        def root(node):
            while parent[id(node)] is not node:
                node = parent[id(node)]
            return node

        for node in live:
            for name in self.unknown_inputs(node):
                parent[id(root(node))] = root(self.new.maker[name])
        together = collections.defaultdict(list)
        for node in live:
            together[id(root(node))].append(node)
        return list(together.values())

    def unknown_inputs(self, node: onnx.NodeProto) -> list[str]:
        return [name for name in outside_values(node)
                if name in self.new.live and name in self.new.maker and name not in self.same]

    def own(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        """Returns the old node that is the same as the new one."""
        output = first_output(node)
        for candidate in (self.old.maker.get(self.same.get(output)), self.by_tag.get(node.doc_string)):
            if candidate is not None and (candidate.op_type, candidate.domain) == (node.op_type, node.domain):
                return candidate
        return None

    def only_reshapes(self, node: onnx.NodeProto) -> bool:
        """Returns whether a new node only returns its input, possibly in another shape."""
        names = [self.same.get(name) for name in (*node.input[:1], first_output(node))]
        return (self.own(node) is None and None not in names
                and len({self.classes.content[name] for name in names}) == 1)

    def reshape(self, node: onnx.NodeProto) -> None:
        """Assigns a reshape to the old node that reshaped the same value, if that was removed. Otherwise the tool added
        it for another new node, such as the Gemm that replaces a MatMul of more than two dimensions, and it gets that
        node's truth."""
        content, key = self.classes.content[self.same[node.input[0]]], first_output(node)
        alike = RESHAPING if node.op_type in RESHAPING else {node.op_type}
        gone = [first_output(old) for old in self.old.nodes if old.op_type in alike
                and self.classes.content[first_output(old)] == content and first_output(old) not in self.new.maker]
        if not gone:
            self.adopt_neighbour(node)
        elif any(old not in self.before.nodes for old in gone):
            self.truth.unknown[key] = "before"
        elif len({modules(self.before.nodes[old]) for old in gone}) > 1:
            self.truth.unknown[key] = "several"
        else:
            self.covered |= set(gone)
            self.truth.nodes[key] = frozenset().union(*(self.before.nodes[old] for old in gone))

    def adopt_neighbour(self, node: onnx.NodeProto) -> None:
        key = first_output(node)
        for near in ([self.new.maker.get(node.input[0])], self.new.users[key]):
            truths = {self.truth.nodes.get(first_output(other)) if self.is_new_product(other) else None for other in near}
            if len(truths) == 1 and None not in truths:
                self.truth.nodes[key] = truths.pop()
                return
        self.truth.unknown[key] = "inserted"

    def is_new_product(self, node: onnx.NodeProto | None) -> bool:
        """An unchanged product needs no Reshape."""
        old = self.old.maker.get(first_output(node)) if node is not None else None
        return node is not None and node.op_type in PRODUCTS and (old is None or old.op_type != node.op_type)

    def group(self, members: list[onnx.NodeProto]) -> None:
        inside = {id(node) for node in members}
        outputs = [name for node in members for name in node.output if self.same.get(name) in self.old.maker]
        reach = collections.defaultdict(set)  # id of member -> outputs computed from it
        cones = {}
        for output in outputs:
            part = self.backward(output, inside)
            for node in part:
                reach[id(node)].add(output)
            cones[output] = self.cone(output, part)
        own = {id(node): self.own(node) for node in members}
        shares = self.shares(members, reach, cones, own)
        takers = collections.Counter(id(old) for node in members for old in shares[id(node)]
                                     if own[id(node)] is None and id(node) not in self.parted)
        for node in members:
            alone = id(node) in self.parted or all(takers[id(old)] == 1 for old in shares[id(node)])
            self.decide(node, own[id(node)], reach[id(node)], shares[id(node)], cones, alone)

    def backward(self, output: str, inside: set[int]) -> list[onnx.NodeProto]:
        """Returns the members of a group that compute one output, its producer first."""
        part, todo, seen = [], [output], set()
        while todo:
            node = self.new.maker[todo.pop()]
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
        inputs = [self.same[name] for node in part for name in outside_values(node) if name in self.same]
        stops = {kind.get(name, name) for name in inputs}
        start = self.same[output]
        while True:  # later nodes return the same value, so a tool that keeps one of them keeps the first
            same = [name for name in outside_values(self.old.maker[start]) if name in self.old.maker
                    and kind.get(name) == kind.get(start) and kind.get(name) not in stops]
            if not same or not equal.comparable(self.classes.found[start]):
                break
            start = same[0]
        found = self.walk(start, lambda name: kind.get(name, name) in stops)
        if found is None:
            produced = {self.same.get(name) for node in part for name in node.output}
            kept = set(self.same.values()) - produced
            found = self.walk(start, lambda name: name in kept or kind.get(name, name) in stops)
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

    # Assignment of old nodes to new nodes ----------------------------------------------------------------------------

    def shares(self, members, reach, cones, own) -> dict[int, list[onnx.NodeProto]]:
        """Returns the old nodes that each member represents, besides itself."""
        shares = collections.defaultdict(list)
        claimed = {id(node) for node in own.values() if node is not None}
        free = {output: {id(node): node for node in cone or [] if id(node) not in claimed}
                for output, cone in cones.items()}
        new = [node for node in members if own[id(node)] is None and node.op_type not in QUANTISING]
        shares.update(self.peel_products(new, cones, free, reach))
        new = [node for node in new if id(node) not in self.parted]
        for node in new:  # a node for several outputs represents what their cones share
            outputs = list(reach[id(node)])
            if len(outputs) > 1:
                common = set.intersection(*(set(free[output]) for output in outputs))
                shares[id(node)] += [free[outputs[0]][number] for number in common]
        shared = {id(node) for taker in new for node in shares[id(taker)]}
        for output in cones:
            rest = [node for number, node in free[output].items() if number not in shared]
            takers = [node for node in new if reach[id(node)] == {output}]
            takers = takers or [node for node in new if output in reach[id(node)]]  # one product, then Split
            for taker in takers:
                shares[id(taker)] += rest
            if not takers:
                self.absorbed(rest, [node for node in members if output in reach[id(node)]], own, shares)
        return shares

    def peel_products(self, new, cones, free, reach) -> dict[int, list[onnx.NodeProto]]:
        """Finds new matrix products in a group that replaced several modules: the weight identifies the old product.
        Later nodes of the group then represent the remaining nodes, and also that product if they took its bias."""
        peeled = {}
        for node in new:
            candidates = {id(old): old for output in reach[id(node)] for old in free[output].values()}
            truths = {self.before.nodes.get(first_output(old)) for old in candidates.values()}
            if node.op_type in PRODUCTS and len(truths) > 1 and not reach[id(node)] & set(node.output):
                digests = weights_of(self.new, node, self.new_weights)
                mine = [old for old in candidates.values() if weights_of(self.old, old, self.old_weights) & digests]
                if mine:
                    peeled[id(node)] = mine
        self.parted |= set(peeled)
        others = [node for node in new if id(node) not in peeled]
        for output in cones:
            digests = set().union(*(weights_of(self.new, node, self.new_weights) for node in others
                                         if output in reach[id(node)]))
            for old in [old for olds in peeled.values() for old in olds]:
                if not weights_of(self.old, old, self.old_weights) & digests:
                    free[output].pop(id(old), None)
        return peeled

    def absorbed(self, rest, members, own, shares) -> None:
        """Assigns removed nodes to a kept neighbour: the first one that they feed, otherwise one that feeds them."""
        kept = {id(old): new for new in members if (old := own[id(new)]) is not None}
        if len(kept) == 1:
            shares[id(next(iter(kept.values())))] += rest
            return
        for node in rest:
            neighbours = [self.nearest(node, kept, forward=True), self.nearest(node, kept, forward=False)]
            taker = next((found for found in neighbours if found is not None), None)
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

    def decide(self, node, own, outputs, share, cones, alone: bool) -> None:
        """`alone`: no other new node has the same cone; otherwise the old nodes cannot be assigned."""
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
        if len(truths) > 1 and own is None and len(outputs) == 1 and not alone:
            self.truth.unknown[key] = "several"
        else:
            self.truth.nodes[key] = calls

    # Remaining nodes -------------------------------------------------------------------------------------------------

    def constants_and_graphs(self) -> None:
        """Handles constant nodes, and nodes in subgraphs and functions: known only if they are unchanged."""
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
            gone = [key for key in keys if key not in self.covered and key in self.before.nodes]
            for key in keys if gone else []:
                if key in self.truth.nodes and key not in gone:
                    together = self.truth.nodes[key].union(*(self.before.nodes[other] for other in gone))
                    if modules(together) == modules(self.truth.nodes[key]):
                        self.truth.nodes[key] = together
                    else:
                        del self.truth.nodes[key]
                        self.truth.unknown[key] = "merged"
