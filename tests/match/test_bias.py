"""The biases of int8 projections identify them: quantisation changes the weights but not the biases. With rotary
embeddings, nothing else distinguishes queries from keys."""

import onnx
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import command
from accuracy import tools
from match.test_calls import keys


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_a_bias_identifies_its_product(dynamo, tmp_path):
    torch.manual_seed(1)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=4, use_cache=False)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    forward = model.forward
    model.forward = lambda input_ids, attention_mask: forward(input_ids=input_ids, attention_mask=attention_mask,
                                                              return_dict=False)[0]
    inputs = (torch.randint(0, 300, (1, 12)), torch.ones(1, 12, dtype=torch.long))
    torch.jit.trace(model, inputs, check_trace=False).save(tmp_path / "model.pt")
    torch.save(inputs, tmp_path / "inputs.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json", "--inputs", tmp_path / "inputs.pt")
    torch.onnx.export(model, inputs, tmp_path / "exported.onnx", dynamo=dynamo, opset_version=18, verbose=False,
                      input_names=["input_ids", "attention_mask"], **({"external_data": False} if dynamo else {}))
    tools.onnxruntime_offline("extended")("", tmp_path / "exported.onnx", tmp_path / "fused.onnx")
    tools.dynamic_int8("", tmp_path / "fused.onnx", tmp_path / "int8.onnx")
    command.run("annotate", tmp_path / "int8.onnx", "-o", tmp_path / "annotated.onnx", "--sidecar", tmp_path / "model.json")
    nodes = onnx.load(tmp_path / "annotated.onnx").graph.node
    producer = {node.output[0]: node for node in nodes}
    biases = 0
    for node in nodes:
        for bias in node.input:
            if node.op_type == "Add" and bias.endswith("_proj.bias"):
                product = next(producer[name] for name in node.input if name in producer)
                while product.op_type != "MatMulInteger":
                    product = producer[product.input[0]]
                assert keys(node)["module"] == keys(product)["module"] == bias.removesuffix(".bias")
                biases += 1
    assert biases == 6
    attention = [keys(node)["module"] for node in nodes if node.op_type == "Softmax"]
    assert attention == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
