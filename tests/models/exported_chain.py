"""Writes torch.export archives of any length without PyTorch: layers of aten.linear, aten.relu and aten.add.Tensor.

The JSON follows schema 8; every node has a module stack and a stack trace as long as in real models.
"""

import json
import zipfile
from pathlib import Path

import numpy as np

WIDTH = 8
FLOAT, STRIDED = 7, 7


def tensor_meta(sizes: list[int]) -> dict:
    strides = [int(np.prod(sizes[axis + 1:])) for axis in range(len(sizes))]
    return {"dtype": FLOAT, "sizes": [{"as_int": size} for size in sizes], "requires_grad": False,
            "device": {"type": "cpu", "index": None}, "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": 0}, "layout": STRIDED}


def tensor(name: str) -> dict:
    return {"as_tensor": {"name": name}}


def node(target: str, name: str, inputs: dict, layer: int) -> dict:
    path = f"blocks.{layer}"
    trace = "\n".join(f'  File "/models/chain/{file}.py", line {line}, in forward\n    x = self.step(x, {line})'
                      for file, line in (("net", 40), ("block", 12 + layer % 50), ("layers", 88)))
    metadata = {"stack_trace": trace, "torch_fn": f"{name};{target}",
                "nn_module_stack": f"L__self__,,chain.Net;L__self___blocks_{layer},{path},chain.Block"}
    return {"target": f"torch.ops.aten.{target}", "name": name, "outputs": [tensor(name)], "metadata": metadata,
            "inputs": [{"name": key, "arg": tensor(value), "kind": 1} for key, value in inputs.items()],
            "is_hop_single_tensor_return": None}


def write_chain(path: Path, operations: int) -> None:
    """Writes `operations` nodes in blocks of three; each block is a module with its own weight."""
    nodes, specs, inputs, calls, weights = [], [], [], [{"fqn": "", "signature": None}], {}
    values = {"x": tensor_meta([4, WIDTH])}
    last = "x"
    for layer in range(operations // 3):
        weight, qualified = f"p_blocks_{layer}_weight", f"blocks.{layer}.weight"
        values[weight] = tensor_meta([WIDTH, WIDTH])
        inputs.append(tensor(weight))
        specs.append({"parameter": {"arg": {"name": weight}, "parameter_name": qualified}})
        calls.append({"fqn": f"blocks.{layer}", "signature": None})
        weights[qualified] = {"path_name": f"weight_{layer}", "is_param": True, "use_pickle": False,
                              "tensor_meta": {**tensor_meta([WIDTH, WIDTH]), "requires_grad": True}}
        product, active, total = f"linear_{layer}", f"relu_{layer}", f"add_{layer}"
        nodes += [node("linear.default", product, {"input": last, "weight": weight}, layer),
                  node("relu.default", active, {"self": product}, layer),
                  node("add.Tensor", total, {"self": active, "other": last}, layer)]
        values.update(dict.fromkeys((product, active, total), tensor_meta([4, WIDTH])))
        last = total
    inputs.append(tensor("x"))
    specs.append({"user_input": {"arg": tensor("x")}})
    graph = {"inputs": inputs, "outputs": [tensor(last)], "nodes": nodes, "tensor_values": values,
             "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}, "custom_obj_values": {},
             "is_single_tensor_return": False}
    signature = {"input_specs": specs, "output_specs": [{"user_output": {"arg": tensor(last)}}]}
    program = {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": calls, "metadata": {}},
               "opset_version": {"aten": 10}, "range_constraints": {}, "verifiers": ["TRAINING"],
               "schema_version": {"major": 8, "minor": 20}, "torch_version": "2.13.0", "guards_code": []}
    weight_bytes = np.eye(WIDTH, dtype=np.float32).tobytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("chain/archive_format", "pt2")
        archive.writestr("chain/models/model.json", json.dumps(program))
        archive.writestr("chain/data/weights/model_weights_config.json", json.dumps({"config": weights}))
        archive.writestr("chain/data/constants/model_constants_config.json", json.dumps({"config": {}}))
        for layer in range(operations // 3):
            archive.writestr(f"chain/data/weights/weight_{layer}", weight_bytes)
