"""Origins in the files of mobius, which builds ONNX models from a configuration: read from its keys, and kept by
`whence.keep` while it fuses. mobius has its own environment (tools/setup/tool_environments.sh)."""

import json
import os
import subprocess
import sys

import onnx
import pytest

import command

pytestmark = pytest.mark.matrix

MODELS = ("llama", "qwen2", "qwen3", "mistral", "phi3", "gpt2", "cohere", "opt", "stablelm", "gemma")
PROVIDERS = ("default", "cpu", "cuda", "webgpu", "dml")

# Writes a file for each provider: MODEL-PROVIDER.onnx, with random weights.
BUILD = """
import sys
import numpy as np, onnx_ir, whence
from mobius import CausalLMConfig, build_from_module, registry
folder, name, kept, *providers = sys.argv[1:]
config = CausalLMConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, hidden_act="silu", rms_norm_eps=1e-6,
                        rope_theta=10000.0, rope_type="default", pad_token_id=0)
def build(provider):
    if kept == "read":
        return build_from_module(registry.get(name)(config), config, execution_provider=provider)
    with whence.keep():
        return build_from_module(registry.get(name)(config), config, execution_provider=provider)
for provider in providers:
    model = next(iter(build(provider).values()))
    for value in model.graph.initializers.values():
        if value.const_value is None:
            value.const_value = onnx_ir.tensor(np.random.rand(*map(int, value.shape)).astype(value.dtype.numpy()), name=value.name)
    onnx_ir.save(model, f"{folder}/{name}-{provider}.onnx")
"""


def wrong_nodes(path) -> tuple[int, list[str]]:
    """Returns the number of nodes, and a line for each node whose module contradicts the parameters that it reads, the
    name of a computed value, or the kind of the operator."""
    rows = [row for row in command.run_json("select", path)["nodes"] if not row["nested"]]
    model = onnx.load(path)
    parameters = {each.name for each in model.graph.initializer}
    wrong = []
    for node, row in zip(model.graph.node, rows, strict=True):
        owners = {name.rpartition(".")[0] for name in node.input
                  if name in parameters and name.endswith((".weight", ".bias"))}
        expected = owners if len(owners) < 2 else {os.path.commonprefix([f"{each}." for each in owners]).rpartition(".")[0]}
        is_attention = "Attention" in node.op_type
        if row["confidence"] == "unattributed" or expected and row["primary"] not in expected \
                or is_attention and not row["primary"].endswith("attn"):
            wrong.append(f"{node.op_type} {node.name}: {row['primary']}, not {expected}")
    return len(rows), wrong


@pytest.mark.parametrize("way", ["read", "kept"])
@pytest.mark.parametrize("name", MODELS)
def test_every_node_has_its_module(name, way, tmp_path):
    packages = list((command.ROOT / "build/tools/mobius/lib").glob("python*/site-packages"))
    if not packages:
        pytest.skip("no environment of mobius: tools/setup/tool_environments.sh")
    path = os.pathsep.join(map(str, [command.ROOT / "python", *packages]))
    built = subprocess.run([sys.executable, "-W", "ignore", "-c", BUILD, tmp_path, name, way, *PROVIDERS], text=True,
                           capture_output=True, env={**os.environ, "WHENCE": str(command.BINARY), "PYTHONPATH": path})
    assert built.returncode == 0, built.stderr
    for provider in PROVIDERS:
        nodes, wrong = wrong_nodes(tmp_path / f"{name}-{provider}.onnx")
        assert nodes > 40 and not wrong, (provider, json.dumps(wrong, indent=1))
