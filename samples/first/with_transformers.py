"""Exports a transformers model with origins by two exporters, and runs an optimiser: with_transformers.py FOLDER"""

import sys

import torch
from shown import enter_output_folder, whence as command
from transformers import BertConfig, BertModel
from transformers.exporters import OnnxConfig

import whence
from whence.exporters.transformers import OnnxExporter


def main() -> int:
    enter_output_folder()
    torch.manual_seed(0)
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)

    model = BertModel(config).eval()  # yours: AutoModel.from_pretrained("name")
    inputs = {"input_ids": torch.randint(0, 500, (1, 16)), "attention_mask": torch.ones(1, 16, dtype=torch.int64)}
    exported = OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True, ort_fusions="cpu"))
    exported.save_pretrained("exported")

    with whence.record("bert.whence.json"):
        torch.onnx.export(model, (), "bert.onnx", kwargs=inputs, dynamo=True, verbose=False)
    whence.annotate("bert.onnx", "bert.whence.json")
    whence.carry("bert.onnx", ["onnxslim", "{in}", "{out}"], "bert.slim.onnx")

    command("validate exported/model.onnx --depth 1")
    command("show bert.onnx --depth 2")
    command("explain bert.onnx /encoder/layer.1/attention/self/query/MatMul --sidecar bert.whence.json")
    command("validate bert.slim.onnx --baseline bert.onnx --depth 1")
    command("select bert.slim.onnx --modules 'encoder.layer.1.attention' --ops Gemm")
    reports = [whence.validate(path) for path in ("exported/model.onnx", "bert.slim.onnx")]
    return 0 if all(report.coverage.percent > 95 for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
