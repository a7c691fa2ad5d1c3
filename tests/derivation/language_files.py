"""ONNX files of a language model in the forms of two builders, which write nodes without tracing the model.

`packed` is the form of onnxruntime-genai and of mobius for a CPU: one product for query, key and value,
GroupQueryAttention with caches and tables of angles, sums and norms in one node. `separate` is the standard form of
mobius: RotaryEmbedding and Attention of ONNX, with a mask. `masked` is the same with a mask of positions as well, which
mobius counts from the mask of tokens.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import (
    Ernie4_5Config,
    Ernie4_5ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
)

HEADS, KEY_HEADS, HEAD_SIZE, LAYERS, POSITIONS, VOCABULARY = 4, 2, 16, 2, 48, 96
FORMS = ("packed", "separate", "masked")
WINDOW = 4


# `windowed`: positions see WINDOW positions. `neighbours`: rotations turn pairs of neighbours. `joined`: the checkpoint
# has one weight for query, key and value.
KINDS = {"llama": (LlamaForCausalLM, LlamaConfig, {}),
         "windowed": (MistralForCausalLM, MistralConfig, {"sliding_window": WINDOW}),
         "neighbours": (Ernie4_5ForCausalLM, Ernie4_5Config, {"tie_word_embeddings": False, "head_dim": HEAD_SIZE}),
         "joined": (Phi3ForCausalLM, Phi3Config, {"original_max_position_embeddings": POSITIONS})}


def model_of(seed: int, kind: str = "llama") -> PreTrainedModel:
    torch.manual_seed(seed)
    model_class, config_class, settings = KINDS[kind]
    config = config_class(vocab_size=VOCABULARY, hidden_size=HEADS * HEAD_SIZE, intermediate_size=160, use_cache=False,
                         num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS,
                         max_position_embeddings=POSITIONS, bos_token_id=1, eos_token_id=2, pad_token_id=0, **settings)
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.3 * torch.rand_like(parameter)).add_(0.02 * torch.randn_like(parameter))
    return model


def arguments(length: int = 9) -> dict[str, torch.Tensor]:
    ids = torch.arange(2 * length).reshape(2, length) % VOCABULARY
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


class Builder:
    """Collects nodes and weights. A method adds a node and returns its result."""

    def __init__(self, model: PreTrainedModel, form: str):
        self.form = form
        self.neighbours = int(isinstance(model, Ernie4_5ForCausalLM))
        self.window = getattr(model.config, "sliding_window", None) or -1
        self.state = {name: each.detach().numpy() for name, each in model.state_dict().items()}
        self.separate_joined_weights()
        self.epsilon, self.scale = model.config.rms_norm_eps, HEAD_SIZE**-0.5
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        angles = np.outer(np.arange(POSITIONS, dtype=np.float32), model.model.rotary_emb.inv_freq.numpy())
        self.weights["cos_cache"] = torch.from_numpy(angles).cos().numpy()
        self.weights["sin_cache"] = torch.from_numpy(angles).sin().numpy()

    def add(self, op_type: str, inputs: list[str], outputs: list[str], domain: str = "", **attributes) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=outputs[0] + "/" + op_type, domain=domain,
                                           **attributes))
        return outputs[0]

    def separate_joined_weights(self) -> None:
        key_rows = KEY_HEADS * HEAD_SIZE
        for name in list(self.state):
            module = name.rpartition("qkv_proj")[0] or name.rpartition("gate_up_proj")[0]
            parts = {"q_proj": HEADS * HEAD_SIZE, "k_proj": key_rows, "v_proj": key_rows}
            if "gate_up_proj" in name:
                parts = dict.fromkeys(("gate_proj", "up_proj"), len(self.state[name]) // 2)
            if module:
                pieces = np.split(self.state.pop(name), np.cumsum(list(parts.values()))[:-1])
                self.state |= {f"{module}{part}.weight": piece for part, piece in zip(parts, pieces, strict=True)}

    def weight(self, name: str, numbers: np.ndarray) -> str:
        self.weights[name] = np.ascontiguousarray(numbers)
        return name

    def product(self, value: str, *modules: str) -> str:
        name = modules[0] if len(modules) == 1 else modules[0].rpartition(".")[0] + ".qkv_proj"
        rows = np.concatenate([self.state[each + ".weight"] for each in modules])
        return self.add("MatMul", [value, self.weight(name + ".weight_t", rows.T)], [name])

    def norm(self, name: str) -> str:
        return self.weight(name + ".weight", self.state[name + ".weight"])

    def next_norm(self, total: str, value: str, name: str) -> tuple[str, str]:
        """Returns the norm of a sum, and the sum."""
        self.add("SkipSimplifiedLayerNormalization", [total, value, self.norm(name)], [name, "", "", name + ".sum"],
                 domain="com.microsoft", epsilon=self.epsilon)
        return name, name + ".sum"

    def number(self, name: str, value: int | list[int]) -> str:
        return self.weight(name, np.array(value, np.int64))

    def start(self) -> None:
        """Adds what all layers share."""
        if self.form == "packed":
            axis = self.number("axis", [1])
            self.add("ReduceSum", ["attention_mask", axis], ["tokens"], keepdims=0)
            self.add("Sub", ["tokens", self.number("one", 1)], ["last"])
            self.add("Cast", ["last"], ["lengths"], to=TensorProto.INT32)
            self.add("Shape", ["attention_mask"], ["mask_dims"])
            self.add("Gather", ["mask_dims", "one"], ["total"], axis=0)
            self.add("Cast", ["total"], ["total_length"], to=TensorProto.INT32)
            return
        self.add("Gather", ["cos_cache", "position_ids"], ["cosines"])
        self.add("Gather", ["sin_cache", "position_ids"], ["sines"])
        self.add("Cast", ["attention_mask"], ["seen"], to=TensorProto.BOOL)
        one = self.number("axis", [1])
        self.add("Unsqueeze", ["seen", one], ["seen_rows"])
        if self.form == "masked":
            self.add_mask_of_positions(one)
            return
        self.add("Shape", ["input_ids"], ["dims"], start=0, end=2)
        self.add("Shape", ["attention_mask"], ["columns"], start=1, end=2)
        self.add("Concat", ["dims", "columns"], ["mask_dims"], axis=0)
        self.add("Expand", ["seen_rows", "mask_dims"], ["expanded"])
        self.add("Unsqueeze", ["expanded", one], ["mask"])

    def add_mask_of_positions(self, one: str) -> None:
        """Adds a mask that hides the tokens of padding and those after each token, as numbers that are added."""
        self.add("CumSum", ["attention_mask", self.number("columns_axis", 1)], ["counts"])
        self.add("Shape", ["input_ids"], ["length"], start=1, end=2)
        self.add("Shape", ["attention_mask"], ["all_length"], start=1, end=2)
        self.add("Sub", ["all_length", "length"], ["first"])
        self.add("Slice", ["counts", "first", "all_length", one], ["new_counts"])
        self.add("Unsqueeze", ["new_counts", self.number("last_axis", [2])], ["rows"])
        self.add("Unsqueeze", ["counts", one], ["columns"])
        self.add("GreaterOrEqual", ["rows", "columns"], ["earlier"])
        self.add("And", ["seen_rows", "earlier"], ["visible"])
        zero, lowest = (self.weight(name, np.float32(value)) for name, value in (("zero", 0), ("lowest", -3.4e38)))
        self.add("Where", ["visible", zero, lowest], ["addends"])
        self.add("Unsqueeze", ["addends", one], ["mask"])

    def attention(self, value: str, layer: str) -> str:
        query, key, projected = (f"{layer}.self_attn.{name}_proj" for name in "qkv")
        number = layer.rpartition(".")[2]
        caches = [f"past_key_values.{number}.{part}" for part in ("key", "value")]
        results = [layer + ".attended", *(f"present.{number}.{part}" for part in ("key", "value"))]
        if self.form == "packed":
            packed = self.product(value, query, key, projected)
            return self.add("GroupQueryAttention",
                            [packed, "", "", *caches, "lengths", "total_length", "cos_cache", "sin_cache"], results,
                            domain="com.microsoft", num_heads=HEADS, kv_num_heads=KEY_HEADS, scale=self.scale, do_rotary=1,
                            local_window_size=self.window, rotary_interleaved=self.neighbours)
        turned = [self.add("RotaryEmbedding", [self.product(value, name), "cosines", "sines"], [name + ".turned"],
                           num_heads=heads, interleaved=self.neighbours) for name, heads in ((query, HEADS), (key, KEY_HEADS))]
        return self.add("Attention", [*turned, self.product(value, projected), "mask", *caches], results,
                        q_num_heads=HEADS, kv_num_heads=KEY_HEADS, scale=self.scale,
                        is_causal=int(self.form == "separate"))

    def run(self) -> onnx.ModelProto:
        self.start()
        total = self.add("Gather", [self.norm("model.embed_tokens"), "input_ids"], ["embedded"])
        value = self.add("SimplifiedLayerNormalization", [total, self.norm("model.layers.0.input_layernorm")],
                         ["first_norm"], epsilon=self.epsilon, axis=-1, stash_type=1)
        for number in range(LAYERS):
            layer = f"model.layers.{number}"
            value = self.product(self.attention(value, layer), layer + ".self_attn.o_proj")
            value, total = self.next_norm(total, value, layer + ".post_attention_layernorm")
            gate, up = (self.product(value, f"{layer}.mlp.{name}_proj") for name in ("gate", "up"))
            sigmoid = self.add("Sigmoid", [gate], [gate + ".sigmoid"])
            activated = self.add("Mul", [gate, sigmoid], [gate + ".activated"])
            product = self.add("Mul", [activated, up], [up + ".gated"])
            value = self.product(product, layer + ".mlp.down_proj")
            following = f"model.layers.{number + 1}.input_layernorm" if number + 1 < LAYERS else "model.norm"
            value, total = self.next_norm(total, value, following)
        self.add("Identity", [self.product(value, "lm_head")], ["logits"])
        return self.model()

    def model(self) -> onnx.ModelProto:
        def of_cache(name: str, length: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KEY_HEADS, length, HEAD_SIZE])

        def of_ids(name: str, length: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", length])

        names = [f"{number}.{part}" for number in range(LAYERS) for part in ("key", "value")]
        ids = [of_ids("input_ids", "length"), of_ids("attention_mask", "all")]
        ids += [of_ids("position_ids", "length")] if self.form != "packed" else []
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", VOCABULARY])
        graph = helper.make_graph(self.nodes, "main", ids + [of_cache("past_key_values." + name, "past") for name in names],
                                  [logits, *(of_cache("present." + name, "all") for name in names)],
                                  [numpy_helper.from_array(each, name) for name, each in self.weights.items()])
        opsets = [helper.make_opsetid("", 21 if self.form == "packed" else 23), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def write(model: PreTrainedModel, form: str, target: Path) -> Path:
    onnx.save(Builder(model, form).run(), target)
    return target


def feeds(model: onnx.ModelProto, ids: np.ndarray, past: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Inputs for `ids` [batch, length] after the cached positions."""
    cached = 0 if past is None else next(iter(past.values())).shape[2]
    empty = np.zeros((len(ids), KEY_HEADS, 0, HEAD_SIZE), np.float32)
    named = {"input_ids": ids, "attention_mask": np.ones((len(ids), cached + ids.shape[1]), np.int64),
             "position_ids": np.tile(np.arange(cached, cached + ids.shape[1]), (len(ids), 1))}
    return {each.name: named[each.name] if each.name in named
            else (past or {}).get(each.name.replace("past_key_values", "present"), empty) for each in model.graph.input}
