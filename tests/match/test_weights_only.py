"""``whence annotate --weights`` identifies modules by the parameters that nodes read, without a recording and with all
names replaced. The expected modules follow from the structure of each model."""

import json
import struct
import zipfile

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import save_file
from torch import nn

import command
from accuracy import rename, tools
from match.test_calls import keys


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        return self.out(torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1) @ self.value(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(32), Attention()
        self.up, self.down, self.act = nn.Linear(32, 64), nn.Linear(64, 32), nn.ReLU()

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(self.act(self.up(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layers, self.head = nn.Embedding(50, 32), nn.ModuleList(Block() for _ in range(2)), nn.Linear(32, 5)

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    model = Encoder().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model


@pytest.fixture(scope="module")
def renamed_file(model, tmp_path_factory):
    """A file of PyTorch's TorchScript exporter with every name replaced. LayerNorm is decomposed at opset 16."""
    return export(model, torch.randint(0, 50, (2, 7)), tmp_path_factory.mktemp("renamed"))


def export(model, x, folder, renamed: bool = True):
    path = folder / "model.onnx"
    torch.onnx.export(model, (x,), path, dynamo=False, opset_version=16, verbose=False, do_constant_folding=True)
    if renamed:
        file = onnx.load(path)
        rename.rename_everything(file)
        onnx.save(file, path)
    return path


def rows_of(path) -> list[tuple]:
    return [(node.op_type, keys(node)["module"], keys(node)["confidence"]) for node in onnx.load(path).graph.node]


def annotated(path, weights, folder, *options) -> list[tuple]:
    command.run("annotate", path, "--weights", weights, "-o", folder / "out.onnx", *options)
    return rows_of(folder / "out.onnx")


def readers(rows, op_types=("MatMul", "Gather", "Gemm", "MatMulInteger", "MatMulNBits")) -> set[tuple]:
    return {(module, word) for op_type, module, word in rows if op_type in op_types and word != "ancestor"}


LAYERS = ("query", "key", "value", "out")
PRODUCTS = {("table", "matched"), ("head", "matched")} | {
    (f"layers.{i}.{name}", "matched") for i in range(2) for name in ("up", "down", *(f"attention.{layer}" for layer in LAYERS))}


def test_nodes_that_read_parameters_and_nodes_between_them(model, renamed_file, tmp_path):
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    rows = annotated(renamed_file, tmp_path / "model.safetensors", tmp_path)
    assert readers(rows) == PRODUCTS
    # Only the norm reads the values inside the decomposed norm.
    assert {(module, word) for op_type, module, word in rows if op_type in ("ReduceMean", "Pow", "Sqrt")} == {
        (f"layers.{i}.norm", "inferred") for i in range(2)}
    # Nodes between query and out belong to the attention; an activation belongs to the block around it.
    assert {(module, word) for op_type, module, word in rows if op_type in ("Softmax", "Relu")} == {
        (f"layers.{i}{below}", "ancestor") for i in range(2) for below in ("", ".attention")}
    # Residual sums add no parameter; the other sums add a bias.
    sums = [module for op_type, module, word in rows if op_type == "Add" and word == "ancestor"]
    assert sums and set(sums) <= {"", "layers.0", "layers.1"}


def test_weights_add_nothing_to_a_file_annotated_by_names(model, tmp_path):
    file = export(model, torch.randint(0, 50, (2, 7)), tmp_path, renamed=False)
    command.run("annotate", file, "-o", tmp_path / "names.onnx")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    result = command.run("annotate", tmp_path / "names.onnx", "--weights", tmp_path / "model.safetensors", "-o", tmp_path / "out.onnx")
    assert "the checkpoint adds nothing" in result.stderr and "whence strip" in result.stderr
    assert "previous file" not in result.stderr and rows_of(tmp_path / "out.onnx") == rows_of(tmp_path / "names.onnx")


def test_only_names_of_the_models_modules_are_used(model, tmp_path):
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    path = export(model, torch.randint(0, 50, (2, 7)), tmp_path, renamed=False)
    rows = annotated(path, tmp_path / "model.safetensors", tmp_path)
    assert {(module, word) for op_type, module, word in rows if op_type == "Relu"} == {
        (f"layers.{i}.act", "inferred") for i in range(2)}
    # ONNX Runtime GenAI's builder uses different names for modules.
    file = onnx.load(path)
    for node in file.graph.node:
        node.name = node.name.replace("/attention/", "/attn/").replace("/query/", "/q_proj/").replace("/out/", "/o_proj/")
        for names in (node.input, node.output):
            names[:] = [name.replace("/attention/", "/attn/").replace("/query/", "/q_proj/").replace("/out/", "/o_proj/")
                        for name in names]
    onnx.save(file, tmp_path / "other.onnx")
    rows = annotated(tmp_path / "other.onnx", tmp_path / "model.safetensors", tmp_path)
    assert readers(rows) >= PRODUCTS - {("table", "matched")}
    assert not [row for row in rows if "attn" in row[1] or "q_proj" in row[1]]


class Wrapped(nn.Module):
    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.bert = encoder

    def forward(self, ids):
        return self.bert(ids)


@pytest.mark.parametrize("wrapper_in_file", [True, False])
def test_a_wrapper_in_the_file_or_in_the_checkpoint(model, wrapper_in_file, tmp_path):
    models = (Wrapped(model), model)[::1 if wrapper_in_file else -1]
    path = export(models[0].eval(), torch.randint(0, 50, (2, 7)), tmp_path, renamed=False)
    save_file(models[1].state_dict(), tmp_path / "model.safetensors")
    prefix = "" if wrapper_in_file else "bert."
    rows = annotated(path, tmp_path / "model.safetensors", tmp_path)
    assert {(module, word) for op_type, module, word in rows if op_type == "Relu"} == {
        (f"{prefix}layers.{i}.act", "inferred") for i in range(2)}


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_prefixes_of_wrappers_are_removed(model, renamed_file, prefix, tmp_path):
    """Wrappers like torch.nn.DataParallel and torch.compile put a prefix before the names in a checkpoint."""
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    save_file({prefix + name: tensor for name, tensor in model.state_dict().items()}, tmp_path / "wrapped.safetensors")
    wrapped, unwrapped = (annotated(renamed_file, tmp_path / f"{name}.safetensors", tmp_path) for name in ("wrapped", "model"))
    assert wrapped == unwrapped


def training_checkpoint(state: dict) -> dict:
    return {"state_dict": state, "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}}, "epoch": 3}


def save_scripted(model, path):
    torch.jit.script(model).save(path)


SAVE_FORMS = {
    "a state dict": lambda model, path: torch.save(model.state_dict(), path),
    "a checkpoint of a training run": lambda model, path: torch.save(training_checkpoint(model.state_dict()), path),
    "a pickled model": lambda model, path: torch.save(model, path),
    "a scripted model": save_scripted,
    "half precision": lambda model, path: torch.save({k: v.half() for k, v in model.state_dict().items()}, path),
    "not contiguous": lambda model, path: torch.save({k: v.t().contiguous().t() if v.ndim == 2 else v
                                                      for k, v in model.state_dict().items()}, path),
    "Parameters": lambda model, path: torch.save(dict(model.named_parameters()), path),
    "protocol 4": lambda model, path: torch.save(model.state_dict(), path, pickle_protocol=4),
}


@pytest.mark.parametrize("form", SAVE_FORMS)
def test_formats_of_torch_save(model, renamed_file, form, tmp_path):
    SAVE_FORMS[form](model, tmp_path / "pytorch_model.bin")
    assert readers(annotated(renamed_file, tmp_path, tmp_path)) == PRODUCTS  # --weights is the folder


def test_a_tensor_with_a_negative_size_is_ignored(model, renamed_file, tmp_path):
    """The size is -1 in one byte, which an unsigned reader would take for 255."""
    torch.save({**model.state_dict(), "odd": torch.zeros(211)}, tmp_path / "good.bin")
    with zipfile.ZipFile(tmp_path / "good.bin") as good, zipfile.ZipFile(tmp_path / "odd.bin", "w") as odd:
        for name in good.namelist():
            content = good.read(name)
            if name.endswith("data.pkl"):
                assert content.count(b"K\xd3\x85") == 1  # the tuple with the size 211
                content = content.replace(b"K\xd3\x85", b"\x8a\x01\xff\x85")
            odd.writestr(name, content)
    assert annotated(renamed_file, tmp_path / "odd.bin", tmp_path) == annotated(renamed_file, tmp_path / "good.bin", tmp_path)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_sharded_checkpoints(model, renamed_file, ending, tmp_path):
    state = model.state_dict()
    names = sorted(state)
    base = "model" if ending == "safetensors" else "pytorch_model"
    shards = {f"{base}-0000{i + 1}-of-00002.{ending}": names[i::2] for i in range(2)}
    for shard, members in shards.items():
        tensors = {name: state[name].clone() for name in members}
        save_file(tensors, tmp_path / shard) if ending == "safetensors" else torch.save(tensors, tmp_path / shard)
    index = tmp_path / f"{base}.{ending}.index.json"
    index.write_text(json.dumps({"weight_map": {name: shard for shard, members in shards.items() for name in members}}))
    assert readers(annotated(renamed_file, tmp_path, tmp_path)) == PRODUCTS
    assert readers(annotated(renamed_file, index, tmp_path)) == PRODUCTS
    index.write_text(json.dumps({"weight_map": {"a.weight": next(iter(shards)), "b.weight": "../other.safetensors"}}))
    assert "E0502" in command.run("annotate", renamed_file, "--weights", index, "-o", tmp_path / "new.onnx", code=6).stderr
    index.write_text(json.dumps({"weight_map": {"no.such.weight": next(iter(shards))}}))
    assert "no.such.weight" in command.run("annotate", renamed_file, "--weights", index, "-o", tmp_path / "new.onnx", code=3).stderr
    (tmp_path / next(iter(shards))).unlink()
    assert "E0102" in command.run("annotate", renamed_file, "--weights", index, "-o", tmp_path / "new.onnx", code=2).stderr
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize("tool", ["int8", "float16", "int4", "onnxslim"])
def test_weights_identify_modules_after_tools(model, renamed_file, tool, tmp_path):
    from match.test_changed_weights import block_quantiser
    from onnxruntime.quantization.matmul_nbits_quantizer import QuantFormat

    {"int8": tools.dynamic_int8, "float16": tools.float16, "onnxslim": tools.onnxslim,
     "int4": block_quantiser(QuantFormat.QOperator, symmetric=False)}[tool]("", renamed_file, tmp_path / "changed.onnx")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    assert readers(annotated(tmp_path / "changed.onnx", tmp_path / "model.safetensors", tmp_path)) == PRODUCTS


def quantise_parameters(file: onnx.ModelProto) -> None:
    """Stores every parameter, including biases, as int8 under its name. Inserts a DequantizeLinear before its readers."""
    for tensor in [tensor for tensor in file.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims)]:
        values = numpy_helper.to_array(tensor)
        scale = np.float32(np.abs(values).max() / 127)
        tensor.CopyFrom(numpy_helper.from_array(np.rint(values / scale).astype(np.int8), tensor.name))
        file.graph.initializer.append(numpy_helper.from_array(scale, f"{tensor.name}.scale"))
        for node in file.graph.node:
            node.input[:] = [f"{tensor.name}.wide" if name == tensor.name else name for name in node.input]
        file.graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", [tensor.name, f"{tensor.name}.scale"], [f"{tensor.name}.wide"]))


@pytest.mark.parametrize("training", [0, 1])
def test_quantised_weights_with_original_names(model, training, tmp_path):
    """Names match first, but the elements decide whether the file was exported with these weights."""
    torch.onnx.export(model, (torch.randint(0, 50, (2, 7)),), tmp_path / "model.onnx", dynamo=False, opset_version=16,
                      do_constant_folding=False)  # otherwise weights are stored transposed, under new names
    file = onnx.load(tmp_path / "model.onnx")
    quantise_parameters(file)
    onnx.save(file, tmp_path / "quantised.onnx")
    save_file({name: tensor + training * torch.randn_like(tensor) for name, tensor in model.state_dict().items()},
              tmp_path / "model.safetensors")
    if training:
        refused = command.run("annotate", tmp_path / "quantised.onnx", "--weights", tmp_path / "model.safetensors", "-o",
                              tmp_path / "new.onnx", code=3)
        assert "E0206" in refused.stderr and "names but other weights" in refused.stderr
    else:
        rows = annotated(tmp_path / "quantised.onnx", tmp_path / "model.safetensors", tmp_path)
        assert {module for module, _ in PRODUCTS} <= {module for module, _ in readers(rows, ("MatMul", "Gather"))}


def test_a_merged_product_has_all_modules(model, renamed_file, tmp_path):
    """`modules` lists query, key and value; `module` is the attention around them."""
    file = onnx.load(renamed_file)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in file.graph.initializer}
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    names = [f"layers.0.attention.{name}.weight" for name in ("query", "key", "value")]
    products = [next(node for node in file.graph.node if node.op_type == "MatMul" and node.input[1] in weights
                 and np.array_equal(weights[node.input[1]].T, state[name])) for name in names]
    file.graph.initializer.append(numpy_helper.from_array(np.concatenate([state[name].T for name in names], 1), "qkv"))
    position = min(list(file.graph.node).index(node) for node in products)
    results = [node.output[0] for node in products]
    source = products[0].input[0]
    for node in products:
        file.graph.node.remove(node)
    file.graph.node.insert(position, onnx.helper.make_node("MatMul", [source, "qkv"], ["all"]))
    file.graph.node.insert(position + 1, onnx.helper.make_node("Split", ["all"], results, axis=2))
    onnx.save(file, tmp_path / "merged.onnx")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    annotated(tmp_path / "merged.onnx", tmp_path / "model.safetensors", tmp_path)
    [merged] = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if "all" in node.output]
    assert (merged["module"], merged["confidence"]) == ("layers.0.attention", "matched")
    assert sorted(json.loads(merged["modules"])) == [f"layers.0.attention.{name}" for name in ("key", "query", "value")]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm, self.head = nn.Embedding(40, 24), nn.LayerNorm(24), nn.Linear(24, 40, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.norm(self.table(ids)))


def test_a_product_with_a_tied_weight_has_no_certain_module(tmp_path):
    """The checkpoint has only the embedding, so nothing identifies the module that multiplies by its weight."""
    torch.manual_seed(1)
    model = Tied().eval()
    path = export(model, torch.randint(0, 40, (2, 3)), tmp_path)
    state = model.state_dict()
    del state["head.weight"]
    save_file(state, tmp_path / "model.safetensors")
    rows = annotated(path, tmp_path / "model.safetensors", tmp_path)
    assert [(module, word) for op_type, module, word in rows if op_type == "Gather"] == [("table", "matched")]
    assert [(module, word) for op_type, module, word in rows if op_type == "MatMul"] == [("", "ancestor")]


class OldNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.LayerNorm, self.lin = nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, x):
        return self.LayerNorm(self.lin(x))


def test_old_parameter_names_of_norms(tmp_path):
    """Other weights match by name with --allow-different-weights."""
    torch.manual_seed(2)
    model = OldNames().eval()
    path = export(model, torch.randn(2, 3, 24), tmp_path, renamed=False)
    old_state = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
           for name, tensor in model.state_dict().items()}
    save_file(old_state, tmp_path / "old.safetensors")
    rows = annotated(path, tmp_path / "old.safetensors", tmp_path)
    assert {module for op_type, module, word in rows if word == "matched"} == {"LayerNorm", "lin"}
    save_file({name: torch.randn_like(tensor) for name, tensor in old_state.items()}, tmp_path / "other.safetensors")
    refused = command.run("annotate", path, "--weights", tmp_path / "other.safetensors", "-o", tmp_path / "new.onnx", code=3)
    assert "E0206" in refused.stderr and "--allow-different-weights" in refused.stderr
    rows = annotated(path, tmp_path / "other.safetensors", tmp_path, "--allow-different-weights")
    assert {(module, word) for _, module, word in rows if word != "ancestor"} >= {("LayerNorm", "inferred")}
    assert not [row for row in rows if row[2] in ("matched", "exact")]


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.head = nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(32, 8)

    def forward(self, x):
        return self.head(self.attn(x, x, x, need_weights=False)[0])


def test_multihead_attention_reads_the_weights_of_its_child(tmp_path):
    torch.manual_seed(3)
    model = SelfAttention().eval()
    path = export(model, torch.randn(2, 5, 32), tmp_path)
    torch.save(model.state_dict(), tmp_path / "model.pth")
    rows = annotated(path, tmp_path / "model.pth", tmp_path)
    assert readers(rows, ("MatMul", "Gemm")) == {("attn", "matched"), ("head", "matched"), ("attn", "inferred")}


def test_nodes_between_two_calls_do_not_belong_to_the_module(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared, self.head = nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 24)), nn.Linear(24, 3)

        def forward(self, x):
            return self.head(self.shared(torch.sin(self.shared(x))))

    torch.manual_seed(4)
    model = Twice().eval()
    path = export(model, torch.randn(2, 24), tmp_path)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    rows = annotated(path, tmp_path / "model.safetensors", tmp_path)
    assert [(module, word) for op_type, module, word in rows if op_type == "Sin"] == [("", "ancestor")]
    assert readers(rows) == {("shared.0", "matched"), ("shared.2", "matched"), ("head", "matched")}


def test_convolutions_with_folded_norms_have_both_modules(tmp_path):
    """safetensors sorts the parameters by name, so the norms do not follow their convolutions."""
    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16)
            self.conv2, self.bn2 = nn.Conv2d(16, 16, 3, bias=False), nn.BatchNorm2d(16)

        def forward(self, x):
            return self.bn2(self.conv2(torch.tanh(self.bn1(self.conv1(x)))))

    torch.manual_seed(5)
    model = Convolutions().eval()
    for norm in (model.bn1, model.bn2):
        for tensor in (norm.weight.data, norm.bias.data, norm.running_mean):
            nn.init.normal_(tensor)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    path = export(model, torch.randn(1, 3, 9, 9), tmp_path)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    annotated(path, tmp_path / "model.safetensors", tmp_path)
    results = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Conv"]
    assert [(sorted(json.loads(metadata["modules"])), metadata["confidence"]) for metadata in results] == [
        (["bn1", "conv1"], "inferred"), (["bn2", "conv2"], "inferred")]


def test_weights_of_another_model_are_refused(renamed_file, tmp_path):
    save_file({"other.weight": torch.randn(64, 64), "other.bias": torch.randn(64)}, tmp_path / "other.safetensors")
    refused = command.run("annotate", renamed_file, "--weights", tmp_path / "other.safetensors", "-o", tmp_path / "new.onnx", code=3)
    assert "E0206" in refused.stderr and "none of the 2 parameters" in refused.stderr
    assert not (tmp_path / "new.onnx").exists()


def header(entries: dict, data_bytes: int = 0) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data_bytes)


ONE = {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
INVALID_FILES = {
    "an empty file": (b"", "E0201"),
    "text": (b"no weights at all", "E0203"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "E0203"),
    "an ONNX file": (b"\x08\x08\x12\x07pytorch", "E0203"),
    "an old pickle": (b"\x80\x02}q\x00.", "E0303"),
    "a header that ends early": (header(ONE)[:20], "E0202"),
    "a tensor that ends past the file": (header(ONE, 15), "E0202"),
    "a size that exceeds the data": (header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 16]}}, 16), "E0204"),
    "sizes whose product overflows": (header({"a": {"dtype": "F32", "shape": [2**62, 8], "data_offsets": [0, 16]}}, 16),
                                      "E0204"),
    "a negative size": (header({"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}, 16), "E0204"),
    "a negative length": (header({"a": {"dtype": "F32", "shape": [0], "data_offsets": [16, 0]}}, 16), "E0204"),
    "no sizes": (header({"a": {"dtype": "F32", "data_offsets": [0, 16]}}, 16), "E0204"),
    "a header that is not an object": (struct.pack("<Q", 9) + b"{[1,2,3]]", "E0204"),
    "no tensor": (header({}), "E0203"),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_invalid_checkpoints_are_refused(renamed_file, name, tmp_path):
    content, code = INVALID_FILES[name]
    (tmp_path / "w.safetensors").write_bytes(content)
    result = command.run("annotate", renamed_file, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "new.onnx", code=3
                      if code != "E0303" else 4)
    assert code in result.stderr and not (tmp_path / "new.onnx").exists()


def test_missing_and_ambiguous_checkpoints(renamed_file, model, tmp_path):
    def refused(*arguments, code):
        return command.run("annotate", renamed_file, *arguments, "-o", tmp_path / "new.onnx", code=code).stderr

    (tmp_path / "empty").mkdir()
    assert "E0102" in refused("--weights", tmp_path / "empty", code=2)
    assert "E0102" in refused("--weights", tmp_path / "none.safetensors", code=2)
    save_file(model.state_dict(), tmp_path / "a.safetensors")
    save_file(model.state_dict(), tmp_path / "b.safetensors")
    assert "2 files" in refused("--weights", tmp_path, code=2)
    assert "E0101" in refused("--weights", tmp_path / "a.safetensors", "--from", renamed_file, code=2)
    before = (tmp_path / "a.safetensors").read_bytes()
    assert "E0101" in command.run("annotate", renamed_file, "--weights", tmp_path / "a.safetensors", "-o", tmp_path / "a.safetensors",
                                  code=2).stderr
    assert (tmp_path / "a.safetensors").read_bytes() == before


class Exploit:
    def __reduce__(self):
        import os
        return os.system, ("touch harmed",)


def test_code_in_a_pickle_is_not_run(renamed_file, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": model.state_dict(), "exploit": Exploit()}, tmp_path / "model.pt")
    assert readers(annotated(renamed_file, tmp_path / "model.pt", tmp_path)) == PRODUCTS
    assert not (tmp_path / "harmed").exists()


def test_annotating_is_idempotent_and_strip_undoes_it(renamed_file, model, tmp_path):
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    annotated(renamed_file, tmp_path / "model.safetensors", tmp_path)
    command.run("annotate", tmp_path / "out.onnx", "--weights", tmp_path / "model.safetensors", "-o", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    command.run("strip", tmp_path / "out.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == renamed_file.read_bytes()


def test_annotate_in_python(renamed_file, model, tmp_path):
    import whence

    save_file(model.state_dict(), tmp_path / "model.safetensors")
    report = whence.annotate(renamed_file, weights=tmp_path / "model.safetensors", output=tmp_path / "out.onnx")
    assert report.matched >= len(PRODUCTS) and readers(rows_of(tmp_path / "out.onnx")) == PRODUCTS
