"""Finds the layers of an ONNX file: without help, with its checkpoint, and with its program: own_file.py FOLDER"""

import sys

import onnx
import torch
from safetensors.torch import save_file
from shown import enter_output_folder, whence as command
from transformers import BertConfig, BertModel

import whence


def write_file_without_metadata() -> None:
    """Writes own.onnx without metadata and with numbers as names, its program model.pt2, and its checkpoint."""
    torch.manual_seed(0)
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    model = BertModel(config).eval()
    program = torch.export.export(model, (torch.randint(0, 500, (1, 16)),), strict=False)
    torch.export.save(program, "model.pt2")
    torch.onnx.export(program, (), "own.onnx", dynamo=True, verbose=False)
    file = onnx.load("own.onnx")
    names = {name: f"v{number}" for number, name in enumerate(
        dict.fromkeys([value for node in file.graph.node for value in node.output if value not in
                       {each.name for each in file.graph.output}] + [each.name for each in file.graph.initializer]))}
    for number, node in enumerate(file.graph.node):
        node.name = f"n{number}"
        node.doc_string = ""
        del node.metadata_props[:]
        node.input[:] = [names.get(value, value) for value in node.input]
        node.output[:] = [names.get(value, value) for value in node.output]
    for initializer in file.graph.initializer:
        initializer.name = names[initializer.name]
    del file.graph.value_info[:]
    onnx.save(file, "own.onnx")
    save_file(model.state_dict(), "model.safetensors")


def main() -> int:
    enter_output_folder()
    write_file_without_metadata()
    command("show own.onnx")
    command("annotate own.onnx --weights model.safetensors -o by_weights.onnx")
    command("show by_weights.onnx --depth 2")
    command("record model.pt2 -o model.whence.json")
    command("annotate own.onnx --sidecar model.whence.json -o annotated.onnx")
    command("explain annotated.onnx n40")
    command("report annotated.onnx --sidecar model.whence.json -o report.html")
    return 0 if whence.validate("annotated.onnx").coverage.percent > 95 else 1


if __name__ == "__main__":
    sys.exit(main())
