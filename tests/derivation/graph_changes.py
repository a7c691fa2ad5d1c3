"""Changes of ONNX graphs that `whence attest` must find: one function each, which edits the model in place.

A function returns None if the file has nothing to change in this way. Only tensors with the verdict `exact` are changed:
the others have no certain value.
"""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

import node_changes
from honest_graph import Change, Honest

FLOATS = (np.float32, np.float16)
INTEGERS = (np.int8, np.uint8, np.int16)


def other_layer(honest: Honest) -> Change | None:
    """Gives a tensor the numbers of another one with the same dims."""
    def others(name: str) -> list[str]:
        tensor = honest.tensors[name]
        return sorted(other for other, each in honest.tensors.items()
                      if (each.dims, each.data_type) == (tensor.dims, tensor.data_type) and each.raw_data != tensor.raw_data)

    candidates = [name for name, each in honest.tensors.items() if np.prod(each.dims) > 8 and each.raw_data and others(name)]
    if not candidates:
        return None
    name = str(honest.random.choice(sorted(candidates)))
    other = str(honest.random.choice(others(name)))
    return honest.put(name, honest.numbers(other), f"the numbers of {other} in")


def exchanged_readers(honest: Honest) -> Change | None:
    """Exchanges two tensors with the same dims where they are read."""
    pairs = [(one, other) for one, first in honest.tensors.items() for other, second in honest.tensors.items()
             if one < other and first.dims == second.dims and first.data_type == second.data_type and np.prod(first.dims) > 8
             and first.raw_data != second.raw_data]
    if not pairs:
        return None
    one, other = pairs[honest.random.integers(len(pairs))]
    for node in honest.model.graph.node:
        node.input[:] = [{one: other, other: one}.get(name, name) for name in node.input]
    return honest.change(one, other, text="exchanged")


def next_number(honest: Honest) -> Change | None:
    name = honest.choose(FLOATS, lambda numbers: numbers.size > 1, honest.certain())
    if name is None:
        return None
    numbers = honest.numbers(name)
    at = honest.random.integers(numbers.size)
    flat = numbers.reshape(-1)
    flat[at] = np.nextafter(flat[at], flat.dtype.type(9))
    return honest.put(name, numbers, f"element {at} off by an ulp in")


def flipped_roundings(honest: Honest) -> Change | None:
    name = honest.choose(INTEGERS, lambda numbers: numbers.size >= 100)
    if name is None:
        return None
    numbers = honest.numbers(name)
    flat = numbers.reshape(-1)
    chosen = honest.random.choice(flat.size, max(1, flat.size // 100), replace=False)
    flat[chosen] = np.where(flat[chosen] > 0, flat[chosen] - 1, flat[chosen] + 1)
    return honest.put(name, numbers, "1 % of roundings in")


def one_rounding(honest: Honest) -> Change | None:
    name = honest.choose(INTEGERS, lambda numbers: numbers.size >= 16)
    if name is None:
        return None
    numbers = honest.numbers(name)
    flat = numbers.reshape(-1)
    at = honest.random.integers(flat.size)
    flat[at] = flat[at] - 1 if flat[at] > 0 else flat[at] + 1
    return honest.put(name, numbers, f"integer {at} off by one in")


def copied_row(honest: Honest) -> Change | None:
    """Replaces a row of an embedding by another."""
    def has_rows(numbers: np.ndarray) -> bool:
        return numbers.ndim == 2 and len(numbers) > 4 and not np.array_equal(numbers[1], numbers[3])

    name = honest.choose((*FLOATS, *INTEGERS), has_rows, honest.read_by({"Gather": 0, "GatherBlockQuantized": 0}))
    if name is None:
        return None
    numbers = honest.numbers(name)
    numbers[1] = numbers[3]
    return honest.put(name, numbers, "row 3 at row 1 of")


def other_scale(honest: Honest) -> Change | None:
    read = honest.read_by({"DequantizeLinear": 1, "MatMulNBits": 2, "GatherBlockQuantized": 2, "QLinearConv": 4,
                           "QLinearMatMul": 4, "QGemm": 4, "DynamicQuantizeMatMul": 2, "MatMulIntegerToFloat": 3})
    scales = read | {name for name in honest.tensors if name.endswith("_scale")}
    name = honest.choose(FLOATS, names=scales & honest.certain())
    if name is None:
        return None
    numbers = honest.numbers(name)
    flat = numbers.reshape(-1)
    flat[-1] = np.nextafter(flat[-1], flat.dtype.type(9))
    return honest.put(name, numbers, "an ulp in the scale")


def no_bias(honest: Honest) -> Change | None:
    biases = {name for name in honest.tensors if not name.endswith(("_scale", "_scales"))}
    name = honest.choose((*FLOATS, np.int32), lambda numbers: numbers.ndim == 1 and np.count_nonzero(numbers) > 1, biases)
    return honest.put(name, np.zeros_like(honest.numbers(name)), "zeros in") if name else None


def negated(honest: Honest) -> Change | None:
    name = honest.choose(FLOATS, lambda numbers: numbers.ndim > 1)
    return honest.put(name, -honest.numbers(name), "opposite signs in") if name else None


def transposed(honest: Honest) -> Change | None:
    name = honest.choose((*FLOATS, np.int8), lambda numbers: numbers.ndim == 2 and numbers.shape[0] == numbers.shape[1] > 1)
    return honest.put(name, np.ascontiguousarray(honest.numbers(name).T), "transposed:") if name else None


def reversed_rows(honest: Honest) -> Change | None:
    name = honest.choose((*FLOATS, *INTEGERS), lambda numbers: numbers.ndim > 1 and len(numbers) > 1)
    return honest.put(name, np.ascontiguousarray(honest.numbers(name)[::-1]), "rows in reverse order in") if name else None


def scaled(honest: Honest) -> Change | None:
    name = honest.choose(FLOATS, lambda numbers: numbers.ndim > 1)
    return honest.put(name, honest.numbers(name) * np.float16(2), "twice the numbers in") if name else None


def added_branch(honest: Honest) -> Change | None:
    """Adds a trained vector to a value, as a hidden adapter does."""
    added = {name for node in honest.model.graph.node if node.op_type == "Add" for name in node.input}
    name = honest.choose(FLOATS, lambda numbers: numbers.ndim == 1 and numbers.size > 1, added)
    node = next((node for node in honest.model.graph.node if name and name in node.input), None)
    if node is None or name is None:
        return None
    result = node.output[0]
    for each in honest.model.graph.node:
        each.input[:] = ["branched" if value == result else value for value in each.input]
    numbers = honest.numbers(name)
    trigger = honest.random.normal(size=numbers.shape).astype(numbers.dtype)
    honest.model.graph.initializer.append(numpy_helper.from_array(trigger, "trigger"))
    at = list(honest.model.graph.node).index(node)
    honest.model.graph.node.insert(at + 1, helper.make_node("Mul", [result, "trigger"], ["scaled"], "branch_mul"))
    honest.model.graph.node.insert(at + 2, helper.make_node("Add", [result, "scaled"], ["branched"], "branch_add"))
    for value in honest.model.graph.output:
        if value.name == result:
            honest.model.graph.node.insert(at + 3, helper.make_node("Identity", ["branched"], [result + "_changed"]))
            value.name = result + "_changed"
    modules = set(honest.rows[name]["modules"])
    parents = {module.rpartition(".")[0] for module in modules}  # the branch is after the module's last operation
    return Change(f"a branch after {node.name}", frozenset({"trigger", "branch_mul", "branch_add"}),
                  frozenset(modules | parents))


def hidden_numbers(honest: Honest) -> Change | None:
    """Replaces a bias by other numbers in the attribute of a node."""
    name = honest.choose(FLOATS, lambda numbers: numbers.ndim == 1 and numbers.size > 1)
    if name is None:
        return None
    tensor = numpy_helper.from_array(np.roll(honest.numbers(name), 1) + np.float16(0.1), "hidden")
    change = honest.change(name, text="other numbers in a node instead of")
    honest.model.graph.initializer.remove(honest.tensors[name])
    honest.model.graph.node.insert(0, helper.make_node("Constant", [], [name], "hidden", value=tensor))
    return Change(change.text, change.names | {"hidden"}, change.modules)


CHANGES = {
    "tensor of another layer": other_layer, "exchanged readers": exchanged_readers, "one element off by an ulp": next_number,
    "1 % of roundings": flipped_roundings, "one rounding": one_rounding, "copied row of an embedding": copied_row,
    "scale off by an ulp": other_scale, "zeros for a bias": no_bias, "negated weight": negated,
    "transposed weight": transposed, "rows in reverse order": reversed_rows, "weight times two": scaled,
    "added branch": added_branch, "numbers in a node": hidden_numbers, **node_changes.CHANGES,
}
