"""How often `whence accuracy` names the operation with a fault: changes constants and axes in single nodes, in modules
with several operations of their own, in exports of the models of tests/accuracy.

    planted_operation_faults.py --folder /tmp/faults [--models gpt2,llama] [--tool float16] [--faults 6]

Prints a line for each model, and one for each fault that is not named: `unnamed`, no single operation is named;
`wrong`, another is named; `missed`, nothing differs. `alone` counts the faults named without recorded operations.
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

from planted_faults import TOOLS, models, quiet_here, whence  # this import sets the paths

from whence.numerics import recorded_program  # noqa: E402

SEVERAL = 3  # operations that a call executes itself


def origin(node) -> dict[str, str]:
    return {each.key.removeprefix("pkg.whence."): each.value for each in node.metadata_props}


def constant_of(model, node) -> int | None:
    """Returns the index of an input that is a single number stored in the file."""
    numbers = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer if numpy.prod(each.dims) == 1}
    return next((at for at, name in enumerate(node.input) if name in numbers and numbers[name].dtype == numpy.float32), None)


def plant(model, at: int) -> None:
    """Sets another axis of a Softmax, or multiplies a constant by 1.5."""
    node = model.graph.node[at]
    if node.op_type == "Softmax":
        next(each for each in node.attribute if each.name == "axis").i = 1
        return
    place = constant_of(model, node)
    number = numpy_helper.to_array(next(each for each in model.graph.initializer if each.name == node.input[place]))
    other = (number * 1.5 + (0.01 if abs(number) < 1e-3 else 0)).astype(number.dtype)
    model.graph.initializer.append(numpy_helper.from_array(other, "planted"))
    node.input[place] = "planted"


def places(model, values) -> Iterator[int]:
    """Yields nodes in which a fault can be planted: one operation each, in calls with several operations."""
    own = {(each.module, each.call): len(each.operations) for each in values.runs[0].calls}
    for at, node in enumerate(model.graph.node):
        keys = origin(node)
        if keys.get("op", "").isdigit() and own.get((keys.get("module", ""), int(keys.get("call", 0))), 0) >= SEVERAL and (
                node.op_type == "Softmax" or node.op_type in ("Add", "Sub", "Mul", "Div", "Pow")
                and constant_of(model, node) is not None):
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
    quiet_here()
    chosen, counts = random.Random(3), collections.Counter()
    source, faulty, target, sidecar = (options.folder / name for name in (
        "m.onnx", "faulty.onnx", "target.onnx", "m.whence.json"))
    for name in options.models.split(","):
        model = models.ENTRIES[name].model().eval()
        with models.quiet():
            whence.export(model, (), source, kwargs=models.example(name))
        plain, values = (whence.record_values(model, kwargs=models.example(name), operations=each) for each in (False, True))
        program, every = recorded_program.read(sidecar), list(places(onnx.load(source), values))
        for at in chosen.sample(every, min(options.faults, len(every))):
            changed = onnx.load(source)
            plant(changed, at)
            onnx.save(changed, faulty)
            shutil.copy(faulty, target)
            if options.tool != "none":
                TOOLS[options.tool](name, faulty, target)
                whence.annotate(target, source=faulty)
            keys = origin(changed.graph.node[at])
            expected = program.targets[int(keys["op"])], keys.get("source", "")
            first, without = (whence.accuracy(target, each, sidecar=sidecar).first for each in (values, plain))
            word = verdict(first, *expected)
            counts[word] += 1
            counts["alone"] += verdict(without, *expected) == "named"
            if word != "named":
                print(f"{word} {name} {changed.graph.node[at].name} {' '.join(expected)}: {first} "
                      f"{first and (first.operation, first.source, first.nodes[:4])}")
        print(f"{name}: {len(every)} places; so far {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
