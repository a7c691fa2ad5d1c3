"""Measures how often `whence accuracy` names the faulty operation: changes constants and axes of single nodes in
exports of the models of tests/accuracy, in modules that execute several operations directly.

    planted_operation_faults.py --folder /tmp/faults [--models gpt2,llama] [--tool float16] [--faults 6]

Prints a line for each model, and one for each fault that is not named: `unnamed`, no single operation is named;
`wrong`, another operation is named; `missed`, nothing differs. `alone` counts the faults that are also named without
recorded operations.
"""

import argparse
import collections
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy
import onnx
from onnx import numpy_helper

from planted_faults import TOOLS, models, silence_warnings, whence  # this import sets the paths

from whence.numerics import recorded_program  # noqa: E402

MIN_OPERATIONS = 3  # executed by the call itself, not by its child modules


def origin(node) -> dict[str, str]:
    return {entry.key.removeprefix("pkg.whence."): entry.value for entry in node.metadata_props}


def constant_index(model, node) -> int | None:
    """Returns the index of the first input that is a float32 initializer with one element."""
    numbers = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
               if numpy.prod(tensor.dims) == 1}
    return next((index for index, name in enumerate(node.input)
                 if name in numbers and numbers[name].dtype == numpy.float32), None)


def plant(model, at: int) -> None:
    """Changes the axis of a Softmax, or multiplies the constant of another node by 1.5."""
    node = model.graph.node[at]
    if node.op_type == "Softmax":
        next(attribute for attribute in node.attribute if attribute.name == "axis").i = 1
        return
    index = constant_index(model, node)
    number = numpy_helper.to_array(next(tensor for tensor in model.graph.initializer
                                        if tensor.name == node.input[index]))
    changed_number = (number * 1.5 + (0.01 if abs(number) < 1e-3 else 0)).astype(number.dtype)
    model.graph.initializer.append(numpy_helper.from_array(changed_number, "planted"))
    node.input[index] = "planted"


def plantable_nodes(model, values) -> Iterator[int]:
    """Yields the indices of nodes in which a fault can be planted: nodes of one operation, in calls with several."""
    operation_counts = {(call.module, call.call): len(call.operations) for call in values.runs[0].calls}
    for at, node in enumerate(model.graph.node):
        keys = origin(node)
        if keys.get("op", "").isdigit() and operation_counts.get(
                (keys.get("module", ""), int(keys.get("call", 0))), 0) >= MIN_OPERATIONS and (
                node.op_type == "Softmax" or node.op_type in ("Add", "Sub", "Mul", "Div", "Pow")
                and constant_index(model, node) is not None):
            yield at


def verdict(first, operator: str, source: str) -> str:
    if first is None:
        return "missed"
    if (first.operation, first.source) == (operator, source):
        return "named"
    return "wrong" if first.operation else "unnamed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--models", default=",".join(models.NAMES))
    parser.add_argument("--tool", choices=TOOLS, default="none")
    parser.add_argument("--faults", type=int, default=6, help="for each model (6)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    silence_warnings()
    generator, counts = random.Random(3), collections.Counter()
    source, faulty, target, sidecar = (options.folder / name for name in (
        "m.onnx", "faulty.onnx", "target.onnx", "m.whence.json"))
    for name in options.models.split(","):
        model = models.ENTRIES[name].model().eval()
        with models.quiet():
            whence.export(model, (), source, kwargs=models.example(name))
        module_values, values = (whence.record_values(model, kwargs=models.example(name), operations=operations)
                                 for operations in (False, True))
        program, candidates = recorded_program.read(sidecar), list(plantable_nodes(onnx.load(source), values))
        for at in generator.sample(candidates, min(options.faults, len(candidates))):
            changed = onnx.load(source)
            plant(changed, at)
            onnx.save(changed, faulty)
            shutil.copy(faulty, target)
            if options.tool != "none":
                TOOLS[options.tool](name, faulty, target)
                whence.annotate(target, source=faulty)
            keys = origin(changed.graph.node[at])
            expected = program.targets[int(keys["op"])], keys.get("source", "")
            first, without = (whence.accuracy(target, recorded, sidecar=sidecar).first
                              for recorded in (values, module_values))
            word = verdict(first, *expected)
            counts[word] += 1
            counts["alone"] += verdict(without, *expected) == "named"
            if word != "named":
                print(f"{word} {name} {changed.graph.node[at].name} {' '.join(expected)}: {first} "
                      f"{first and (first.operation, first.source, first.nodes[:4])}")
        print(f"{name}: {len(candidates)} nodes; so far {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
