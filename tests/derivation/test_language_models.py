"""Files of language models in the forms of onnxruntime-genai and mobius: fused operators, caches, tables of angles."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from safetensors.torch import save_file

import language_files
import small_models
from command import run


class Files:
    def __init__(self, folder, kind="llama"):
        self.folder = folder
        self.sidecar = folder / "model.whence.json"
        self.models = [language_files.model_of(seed, kind) for seed in (0, 1)]
        for seed, model in enumerate(self.models):
            save_file({name: each.contiguous() for name, each in model.state_dict().items()}, self.weights(seed))
        with torch.no_grad(), whence.record(self.sidecar):
            torch.export.export(self.models[0], (), language_files.arguments(), strict=False)

    def weights(self, seed=0):
        return self.folder / f"{seed}.safetensors"

    def path(self, form, seed=0):
        target = self.folder / f"{form}.{seed}.onnx"
        return target if target.exists() else language_files.write(self.models[seed], form, target)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("language_models"))


def attest(files, path, code):
    done = run("attest", path, "--weights", files.weights(), "--sidecar", files.sidecar, "--json", code=code)
    return json.loads(done.stdout)["predicate"]


class Wrapper(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, **arguments):
        return self.inner(**arguments).logits


def export_of(files, recording):
    """Returns a call of torch.export as users make it."""
    arguments, options, model = language_files.arguments(), {}, files.models[0]
    if recording == "positions":
        arguments["position_ids"] = torch.arange(9).repeat(2, 1)
    if recording == "dynamic sizes":
        sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
        options["dynamic_shapes"] = dict.fromkeys(arguments, sizes)
    if recording == "a wrapper":
        model = Wrapper(model)
    return lambda: torch.export.export(model, (), arguments, strict=False, **options)


@pytest.mark.parametrize("recording", ["positions", "dynamic sizes", "a wrapper"])
def test_other_recordings_of_the_model_account_for_all_as_well(files, recording, tmp_path):
    export = export_of(files, recording)
    with torch.no_grad(), whence.record(tmp_path / "model.whence.json"):
        export()
    for form in language_files.FORMS:
        run("attest", files.path(form), "--weights", files.weights(), "--sidecar", tmp_path / "model.whence.json")


@pytest.mark.parametrize("form", language_files.FORMS)
def test_the_forms_compute_what_the_model_computes(files, form):
    """A guard of language_files.py: the other tests call its files honest."""
    ids = np.arange(16).reshape(2, 8) * 5 % language_files.VOCABULARY
    expected = files.models[0](torch.from_numpy(ids)).logits.detach().numpy()
    graph = onnx.load(files.path(form))
    session = onnxruntime.InferenceSession(files.path(form), providers=["CPUExecutionProvider"])
    logits, *caches = session.run(None, language_files.feeds(graph, ids[:, :7]))
    np.testing.assert_allclose(logits, expected[:, :7], atol=1e-5)
    past = dict(zip([each.name for each in graph.graph.output][1:], caches, strict=True))
    logits = session.run(None, language_files.feeds(graph, ids[:, 7:], past))[0]
    np.testing.assert_allclose(logits, expected[:, 7:], atol=1e-5)


@pytest.mark.parametrize("tool", ["exported", "blocks_of_4"])
@pytest.mark.parametrize("form", language_files.FORMS)
def test_every_tensor_and_node_is_accounted_for_and_refitted(files, form, tool, tmp_path):
    paths = [files.path(form, seed) for seed in (0, 1)]
    if tool == "blocks_of_4":
        paths = [tmp_path / f"{seed}.onnx" for seed in (0, 1)]
        for seed, path in enumerate(paths):
            small_models.TOOLS["blocks_of_4"](files.path(form, seed), path, None)
    predicate = attest(files, paths[0], 0)
    # All tables, norms and projections are exact; what is constant depends on no weight.
    weights = onnx.load(paths[1]).graph.initializer
    constants = {each["name"] for each in predicate["tensors"] if each["verdict"] == "constant"}
    assert {"cos_cache", "sin_cache"} <= constants
    refitted = tmp_path / "refitted.onnx"
    run("refit", paths[0], "--base", files.weights(), "--weights", files.weights(1), "--sidecar", files.sidecar,
        "-o", refitted)
    numbers = {each.name: each.raw_data for each in onnx.load(refitted).graph.initializer}
    assert numbers == {each.name: each.raw_data for each in weights}


def test_an_adapter_of_a_projection_is_merged_into_the_packed_weight(files, tmp_path):
    generator = torch.Generator().manual_seed(3)
    adapter, merged = {}, {name: each.clone() for name, each in files.models[0].state_dict().items()}
    for name in ("model.layers.0.self_attn.v_proj", "model.layers.1.self_attn.q_proj"):
        rows, columns = merged[name + ".weight"].shape
        down, up = torch.randn(4, columns, generator=generator), torch.randn(rows, 4, generator=generator)
        adapter |= {f"base_model.model.{name}.lora_A.weight": down, f"base_model.model.{name}.lora_B.weight": up}
        merged[name + ".weight"] += 2.0 * (up @ down)
    save_file(adapter, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8}))
    run("refit", files.path("packed"), "--base", files.weights(), "--weights", files.weights(), "--lora", tmp_path,
        "--sidecar", files.sidecar, "-o", tmp_path / "merged.onnx")
    model = language_files.model_of(0)
    model.load_state_dict(merged)
    ids = np.arange(14).reshape(2, 7) * 11 % language_files.VOCABULARY
    session = onnxruntime.InferenceSession(tmp_path / "merged.onnx", providers=["CPUExecutionProvider"])
    logits = session.run(["logits"], language_files.feeds(onnx.load(tmp_path / "merged.onnx"), ids))[0]
    expected = model(torch.from_numpy(ids)).logits.detach().numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(expected).max())


def attentions(graph):
    return [node for node in graph.node if node.op_type in ("GroupQueryAttention", "Attention")]


def norms(graph):
    return [node for node in graph.node if node.op_type == "SkipSimplifiedLayerNormalization"]


def set_attribute(node, **values):
    kept = [each for each in node.attribute if each.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in values.items())])


def edit(graph, name, change):
    tensor = next(each for each in graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor).copy())), name))


def exchange(node, one, other):
    node.input[one], node.input[other] = node.input[other], node.input[one]


def exchange_pasts(graph):
    one, other = attentions(graph)[:2]
    slot = list(one.input).index("past_key_values.0.key")
    one.input[slot], other.input[slot] = other.input[slot], one.input[slot]


def exchange_cache_parts(graph):
    node = attentions(graph)[0]
    slot = list(node.input).index("past_key_values.0.key")
    exchange(node, slot, slot + 1)


def count_one_token_less(graph):
    graph.initializer.append(numpy_helper.from_array(np.array(2, np.int64), "two"))
    next(node for node in graph.node if node.op_type == "Sub").input[1] = "two"


def add_number(graph, node, slot, numbers):
    graph.initializer.append(numpy_helper.from_array(numbers, "added"))
    node.input.extend([""] * (slot + 1 - len(node.input)))
    node.input[slot] = "added"


def skip_a_norm(graph):
    next(node for node in graph.node if node.output[0].endswith("gate_proj")).input[0] = norms(graph)[0].output[3]


def read_an_early_sum(graph):
    norms(graph)[1].input[0] = "embedded"


def exchange_rows_of_keys_and_values(graph):
    def change(numbers):
        columns = language_files.KEY_HEADS * language_files.HEAD_SIZE
        return np.concatenate([numbers[:, :-2 * columns], numbers[:, -columns:], numbers[:, -2 * columns:-columns]], 1)
    edit(graph, "model.layers.0.self_attn.qkv_proj.weight_t", change)


def change_an_angle(graph):
    def change(numbers):
        numbers[40, 3] += 1e-4
        return numbers
    edit(graph, "cos_cache", change)


def keep_a_key_unturned(graph):
    name = "model.layers.0.self_attn.k_proj"
    node = next(node for node in graph.node if node.output[0] == name + ".turned")
    attentions(graph)[0].input[1] = name
    graph.node.remove(node)


def choose_angles_by_ids(graph):
    next(node for node in graph.node if node.output[0] == "cosines").input[1] = "input_ids"


def add_a_value_to_itself(graph):
    norms(graph)[0].input[1] = norms(graph)[0].input[0]


def narrow_ids(graph):
    graph.node.insert(0, helper.make_node("Cast", ["input_ids"], ["narrow_ids"], to=onnx.TensorProto.INT8))
    graph.node.insert(1, helper.make_node("Cast", ["narrow_ids"], ["ids"], to=onnx.TensorProto.INT64))
    next(node for node in graph.node if node.output[0] == "embedded").input[1] = "ids"


def reverse_ids(graph):
    for name, number in (("starts", -1), ("ends", -1000), ("reversed_axis", 1)):
        graph.initializer.append(numpy_helper.from_array(np.array([number], np.int64), name))
    graph.node.insert(0, helper.make_node("Slice", ["input_ids", "starts", "ends", "reversed_axis", "starts"], ["ids"]))
    next(node for node in graph.node if node.output[0] == "embedded").input[1] = "ids"


def multiply_logits(graph):
    node = next(node for node in graph.node if node.output[0] == "lm_head")
    node.op_type, node.domain = "FusedMatMul", "com.microsoft"
    set_attribute(node, alpha=0.5)


def node_of(graph, output):
    return next(node for node in graph.node if output in node.output)


def read_negated(graph):
    graph.node.insert(list(graph.node).index(node_of(graph, "seen")) + 1, helper.make_node("Not", ["seen"], ["unseen"]))
    node_of(graph, "seen_rows").input[0] = "unseen"


def see_all_tokens(graph):
    graph.initializer.append(numpy_helper.from_array(np.array([[True]]), "all_seen"))
    node = node_of(graph, "seen_rows")
    graph.node.insert(list(graph.node).index(node), helper.make_node("Or", ["seen", "all_seen"], ["each_seen"]))
    node.input[0] = "each_seen"


def transpose_mask(graph):
    number = list(graph.node).index(node_of(graph, "visible"))
    graph.node.insert(number, helper.make_node("Transpose", ["earlier"], ["later"], perm=[0, 2, 1]))
    node_of(graph, "visible").input[1] = "later"


def start_at_the_first_token(graph):
    """A mask that is right without a cache."""
    graph.initializer.append(numpy_helper.from_array(np.array([0], np.int64), "start"))
    ends = node_of(graph, "new_counts")
    ends.input[1], ends.input[2] = "start", "length"


def hide_less(graph):
    edit(graph, "lowest", lambda _: np.float32(-1))


def subtract_the_mean(graph):
    norms(graph)[0].op_type = "SkipLayerNormalization"


def round_to_8_bits(graph):
    node = next(node for node in graph.node if node.output[0] == "logits")
    graph.node.remove(node)
    graph.node.append(helper.make_node("Cast", ["lm_head"], ["coarse"], to=onnx.TensorProto.FLOAT8E4M3FN))
    graph.node.append(helper.make_node("Cast", ["coarse"], ["logits"], to=onnx.TensorProto.FLOAT))


def round_between(dtype):
    def change(graph):
        node = node_of(graph, "logits")
        graph.node.remove(node)
        graph.node.extend([helper.make_node("Cast", ["lm_head"], ["rounded"], to=dtype),
                           helper.make_node("Cast", ["rounded"], ["logits"], to=onnx.TensorProto.FLOAT)])
    return change


def rotation_of(graph):
    return next(node for node in graph.node if node.op_type == "RotaryEmbedding")


BOTH = {
    "logits in float16": round_between(onnx.TensorProto.FLOAT16),
    "logits in bfloat16": round_between(onnx.TensorProto.BFLOAT16),
    "a sum of a value with itself": add_a_value_to_itself,
    "tokens in 8 bits": narrow_ids,
    "tokens in reverse order": reverse_ids,
    "a factor in a product": multiply_logits,
    "a norm that subtracts the mean": subtract_the_mean,
    "logits in 8 bits": round_to_8_bits,
    "another scale": lambda graph: set_attribute(attentions(graph)[0], scale=0.26),
    "heads of the keys": lambda graph: set_attribute(attentions(graph)[0], kv_num_heads=4),
    "a limit of the scores": lambda graph: set_attribute(attentions(graph)[0], softcap=30.0),
    "another epsilon": lambda graph: set_attribute(norms(graph)[0], epsilon=1e-3),
    "a bias in a norm": lambda graph: add_number(graph, norms(graph)[0], 3, np.full(64, 1e-3, np.float32)),
    "caches of other layers": exchange_pasts,
    "keys for values in a cache": exchange_cache_parts,
    "a norm that is skipped": skip_a_norm,
    "an early sum": read_an_early_sum,
    "an angle": change_an_angle,
}
PACKED = {
    "rows of keys and values": exchange_rows_of_keys_and_values,
    "sines for cosines": lambda graph: exchange(attentions(graph)[0], 7, 8),
    "one token less": count_one_token_less,
    "a window": lambda graph: set_attribute(attentions(graph)[0], local_window_size=4),
    "other pairs of elements": lambda graph: set_attribute(attentions(graph)[0], rotary_interleaved=1),
    "no rotation": lambda graph: set_attribute(attentions(graph)[0], do_rotary=0),
    "given positions": lambda graph: add_number(graph, attentions(graph)[0], 9, np.zeros((2, 9), np.int64)),
    "a sink": lambda graph: add_number(graph, attentions(graph)[0], 11, np.zeros(4, np.float32)),
}
SEPARATE = {
    "a key without rotation": keep_a_key_unturned,
    "angles of tokens": choose_angles_by_ids,
    "keys for values": lambda graph: exchange(attentions(graph)[0], 1, 2),
    "later positions": lambda graph: set_attribute(attentions(graph)[0], is_causal=0),
    "no mask": lambda graph: attentions(graph)[0].input.__setitem__(3, ""),
    "other pairs of elements": lambda graph: set_attribute(rotation_of(graph), interleaved=1),
    "other heads of a rotation": lambda graph: set_attribute(rotation_of(graph), num_heads=2),
    "fewer rotated elements": lambda graph: set_attribute(rotation_of(graph), rotary_embedding_dim=8),
}
MASKED = {
    "a transposed mask": transpose_mask,
    "exchanged branches": lambda graph: exchange(node_of(graph, "addends"), 1, 2),
    "rows of the cache": start_at_the_first_token,
    "positions that are hidden a little": hide_less,
    "a comparison of the columns with the rows": lambda graph: exchange(node_of(graph, "earlier"), 0, 1),
    "no positions that are the same": lambda graph: setattr(node_of(graph, "earlier"), "op_type", "Greater"),
    "positions that only follow padding": lambda graph: setattr(node_of(graph, "visible"), "op_type", "Or"),
}
WITH_MASK = {"a negated mask": read_negated, "padding that is seen": see_all_tokens}
CHANGES = [(form, name, change) for form, own in
           (("packed", PACKED), ("separate", SEPARATE | WITH_MASK), ("masked", MASKED | WITH_MASK))
           for name, change in {**BOTH, **own}.items()]


@pytest.mark.parametrize(("form", "change"), [(form, change) for form, _, change in CHANGES],
                         ids=[f"{form}-{name}" for form, name, _ in CHANGES])
def test_changes_of_fused_operators_are_found(files, form, change, tmp_path):
    model = onnx.load(files.path(form))
    change(model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    predicate = attest(files, tmp_path / "changed.onnx", 1)
    named = [each for kind in ("tensors", "nodes") for each in predicate[kind] if each["verdict"] == "unaccounted"]
    assert named or predicate["differences"]


@pytest.fixture(scope="module", params=["windowed", "neighbours", "joined"])
def other_files(request, tmp_path_factory):
    return Files(tmp_path_factory.mktemp(request.param), request.param)


# The separate form has no window.
def test_windows_rotations_of_neighbours_and_joined_weights_are_accounted_for(other_files):
    is_windowed = "windowed" in other_files.folder.name
    for form in ("packed",) if is_windowed else language_files.FORMS:
        attest(other_files, other_files.path(form), 0)


def test_a_window_of_another_size_is_found_and_named(tmp_path_factory):
    files = Files(tmp_path_factory.mktemp("windows"), "windowed")
    for window in (-1, language_files.WINDOW - 1, language_files.WINDOW + 1):
        model = onnx.load(files.path("packed"))
        set_attribute(attentions(model.graph)[1], local_window_size=window)
        onnx.save(model, files.folder / "changed.onnx")
        predicate = attest(files, files.folder / "changed.onnx", 1)
        remarks = [each.get("remark", "") for each in predicate["nodes"] if each["verdict"] == "unaccounted"]
        assert len(remarks) == 1
        assert "see" in remarks[0]
        assert "is_causal" not in remarks[0]


def test_a_file_that_turns_halves_is_found_where_the_program_turns_neighbours(tmp_path_factory):
    files = Files(tmp_path_factory.mktemp("halves"), "neighbours")
    model = onnx.load(files.path("packed"))
    set_attribute(attentions(model.graph)[0], rotary_interleaved=0)
    onnx.save(model, files.folder / "changed.onnx")
    attest(files, files.folder / "changed.onnx", 1)


def test_exchanged_parts_of_a_joined_weight_are_found(tmp_path_factory):
    files = Files(tmp_path_factory.mktemp("parts"), "joined")
    model = onnx.load(files.path("separate"))
    key, value = (node_of(model.graph, f"model.layers.1.self_attn.{name}_proj") for name in "kv")
    key.input[1], value.input[1] = value.input[1], key.input[1]
    onnx.save(model, files.folder / "changed.onnx")
    predicate = attest(files, files.folder / "changed.onnx", 1)
    assert "Attention" in [each["op_type"] for each in predicate["nodes"] if each["verdict"] == "unaccounted"]


def test_products_that_may_round_their_input_are_accounted_for_and_say_so(files, tmp_path):
    small_models.TOOLS["blocks_of_4"](files.path("packed"), tmp_path / "blocks.onnx", None)
    model = onnx.load(tmp_path / "blocks.onnx")
    product = next(node for node in model.graph.node if node.op_type == "MatMulNBits")
    set_attribute(product, accuracy_level=4)
    onnx.save(model, tmp_path / "rounding.onnx")
    nodes = attest(files, tmp_path / "rounding.onnx", 0)["nodes"]
    assert [each["name"] for each in nodes if "int8" in each.get("remark", "")] == [product.name]


@pytest.mark.parametrize("form", ["separate", "masked"])
def test_an_attention_of_turned_queries_and_plain_keys_is_named(files, form, tmp_path):
    model = onnx.load(files.path(form))
    keep_a_key_unturned(model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    predicate = attest(files, tmp_path / "changed.onnx", 1)
    assert "Attention" in [each["op_type"] for each in predicate["nodes"] if each["verdict"] == "unaccounted"]
