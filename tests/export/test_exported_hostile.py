"""torch.export archives that are broken, hostile, or cannot be expressed in ONNX: each is refused with a code, a
location and a remedy, and the output file stays unchanged."""

import json
import struct
import zipfile
from pathlib import Path

import pytest
import torch

import command
from function_module import FunctionModule
from models import writing

CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def save(path, model, inputs, **options) -> Path:
    torch.export.save(torch.export.export(model.eval(), inputs, strict=False, **options), path)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return save(tmp_path_factory.mktemp("hostile") / "good.pt2", Net(), (torch.randn(2, 4),))


def assert_refused(path, *words, code) -> str:
    target = path.parent / "out.onnx"
    target.write_text("before")
    stderr = command.run("export", path, "-o", target, code=code).stderr
    assert target.read_text() == "before"
    assert all(word in stderr for word in words) and "try:" in stderr, stderr
    return stderr


# ---- the zip ------------------------------------------------------------------------------------------------------


def entries(content: bytes) -> dict:
    """Maps each member's name to the offset of its entry in the central directory."""
    offsets, at = {}, struct.unpack_from("<I", content, content.rfind(END) + 16)[0]
    while content[at:at + 4] == CENTRAL:
        name, extra, comment = struct.unpack_from("<HHH", content, at + 28)
        offsets[content[at + 46:at + 46 + name].decode()] = at
        at += 46 + name + extra + comment
    return offsets


def patch(good, target, change) -> Path:
    """Applies `change` to a copy without the ZIP64 directory that PyTorch always adds."""
    content = bytearray(rewrite(good, target, "none", None).read_bytes())
    change(content, entries(bytes(content)))
    target.write_bytes(content)
    return target


def weight(offsets: dict, number: int) -> str:
    return next(name for name in offsets if name.endswith(f"weights/weight_{number}"))


def encrypt(content, offsets):
    struct.pack_into("<H", content, offsets[weight(offsets, 0)] + 8, 1)


def overlap(content, offsets):
    """Gives the first weight a size that reaches into the second."""
    at = offsets[weight(offsets, 0)]
    size = struct.unpack_from("<I", content, at + 24)[0]
    struct.pack_into("<II", content, at + 20, size + 2000, size + 2000)


def share(content, offsets):
    """Points two names at one offset, so that their local headers disagree."""
    struct.pack_into("<I", content, offsets[weight(offsets, 1)] + 42,
                     struct.unpack_from("<I", content, offsets[weight(offsets, 0)] + 42)[0])


def point_past_the_end(content, offsets):
    struct.pack_into("<I", content, offsets[weight(offsets, 0)] + 42, 0x7FFFFFF0)


def overstate_entry_count(content, offsets):
    struct.pack_into("<H", content, content.rfind(END) + 10, 60000)


@pytest.mark.parametrize("change, code, words", [
    (encrypt, 4, ["E0303", "encrypted"]), (overlap, 3, ["E0204", "two members overlap"]), (share, 3, ["E0204"]),
    (point_past_the_end, 3, ["E020"]), (overstate_entry_count, 3, ["E0204", "directory"]),
])
def test_malformed_zips_are_refused(good, tmp_path, change, code, words):
    assert_refused(patch(good, tmp_path / "m.pt2", change), *words, code=code)


def test_disagreeing_zip_directories_are_refused(good, tmp_path):
    content = bytearray(good.read_bytes())
    struct.pack_into("<H", content, content.rfind(END) + 10, 3)
    (tmp_path / "m.pt2").write_bytes(content)
    assert_refused(tmp_path / "m.pt2", "E0204", "disagree", code=3)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "c:evil"])
def test_names_outside_the_folder_are_refused(good, tmp_path, name):
    path = tmp_path / "m.pt2"
    path.write_bytes(good.read_bytes())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        info = zipfile.ZipInfo("placeholder" if "\\" in name else name)
        info.filename = name
        archive.writestr(info, b"x")
    assert_refused(path, "E0502", code=6)


def test_every_truncation_is_an_error(good, tmp_path):
    content, path = good.read_bytes(), tmp_path / "m.pt2"
    for end in range(1, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:end])
        assert_refused(path, "E020", code=3)


def test_random_bytes_never_crash(good, tmp_path):
    generator = torch.Generator().manual_seed(1)
    content, path = good.read_bytes(), tmp_path / "m.pt2"
    for _ in range(60):
        broken = bytearray(content)
        for _ in range(6):
            position = int(torch.randint(0, len(content), (1,), generator=generator))
            broken[position] = int(torch.randint(0, 256, (1,), generator=generator))
        path.write_bytes(broken)
        result = command.run("export", path, "-o", tmp_path / "out.onnx", code=None)
        assert result.returncode in (0, 3, 4, 6), result.stderr


# ---- the JSON -----------------------------------------------------------------------------------------------------


def rewrite(good, target, member: str, change) -> Path:
    """Copies an archive; `change` maps the member's content to the new one, or to None to drop the member."""
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = change(old.read(name)) if name.endswith(member) else old.read(name)
            if content is not None:
                new.writestr(name, content)
    return target


def edit_json(change):
    def apply(content: bytes) -> str:
        document = json.loads(content)
        change(document)
        return json.dumps(document)
    return apply


PROGRAM, WEIGHTS = "models/model.json", "model_weights_config.json"


@pytest.mark.parametrize("change", [
    lambda text: text[:-10], lambda text: text + b"}", lambda text: b"\xff" + text, lambda text: b"[" * 100_000,
    lambda text: text.replace(b'"relu"', b'"re\xc0\xaflu"'), lambda text: text.replace(b'"target"', b'"tar\\ud800get"'),
    lambda text: text.replace(b'"opset_version"', b'"graph_module"'), lambda text: text.replace(b"null", b"nul"),
    lambda text: text.replace(b'"nodes": [', b'"nodes": [0123, '), lambda text: b"",
])
def test_invalid_json_is_refused(good, tmp_path, change):
    assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, change), "E0204", "JSON", code=3)


def test_deeply_nested_graphs_are_refused(tmp_path):
    """A thousand nested conditions exceed the allowed nesting depth of the JSON."""
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    def nest(document):
        node = next(node for node in document["graph_module"]["graph"]["nodes"] if "cond" in node["target"])
        inner = next(item["arg"]["as_graph"] for item in node["inputs"] if "as_graph" in item["arg"])
        text = json.dumps(node)
        nested = json.dumps(inner["graph"]["nodes"][0])
        document["graph_module"]["graph"]["nodes"] = ["@"]
        template = json.dumps(document)
        for _ in range(1000):
            text = json.dumps(node).replace(nested, text)
            if len(text) > 30_000_000:
                break
        return template.replace('"@"', text)

    good = save(tmp_path / "good.pt2", Branch(), (torch.randn(3),))
    assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, lambda text: nest(json.loads(text))), "E0204", code=3)


def set_meta(**fields):
    def change(document):
        next(iter(document["config"].values()))["tensor_meta"].update(fields)
    return change


def sizes(*numbers) -> list:
    return [{"as_int": number} for number in numbers]


@pytest.mark.parametrize("change, code, words", [
    (set_meta(sizes=sizes(4, 400)), 3, ["E0204", "shorter"]),
    (set_meta(strides=sizes(400, 1)), 3, ["E0204", "shorter"]),
    (set_meta(strides=sizes(4)), 3, ["E0204", "strides"]),
    (set_meta(sizes=sizes(-4, 4)), 3, ["E0204", "negative"]),
    (set_meta(sizes=sizes(2**62, 2**62), strides=sizes(0, 0)), 3, ["E0204"]),
    (set_meta(sizes=sizes(2**40), strides=sizes(0)), 3, ["E0204", "larger than the whole archive"]),
    (set_meta(strides=sizes(2**62, 2**62)), 3, ["E0204"]),
    (set_meta(storage_offset={"as_int": 2**60}), 3, ["E0204"]),
    (set_meta(storage_offset={"as_int": -4}), 3, ["E0204"]),
    (set_meta(dtype=14), 4, ["E0303", "first.weight", "dtype"]),
    (set_meta(layout=1), 4, ["E0303", "first.weight", "dense"]),
    (lambda document: next(iter(document["config"].values())).update(use_pickle=True), 4, ["E0303", "Python object"]),
    (lambda document: next(iter(document["config"].values())).update(path_name="weight_99"), 3, ["E0204", "weight_99"]),
    (lambda document: document["config"].popitem(), 3, ["E0204", "its bytes"]),
])
def test_invalid_weights_are_refused(good, tmp_path, change, code, words):
    assert_refused(rewrite(good, tmp_path / "m.pt2", WEIGHTS, edit_json(change)), *words, code=code)


def test_weights_on_the_meta_device_are_refused(tmp_path):
    with torch.device("meta"):
        path = save(tmp_path / "m.pt2", torch.nn.Linear(3, 2), (torch.randn(1, 3),))
    assert_refused(path, "E0303", "weight' is on the meta device", "load its weights", code=4)


def test_missing_weights_are_refused(good, tmp_path):
    assert_refused(rewrite(good, tmp_path / "m.pt2", "weights/weight_1", lambda content: None), "E0204", "missing", code=3)
    assert_refused(rewrite(good, tmp_path / "n.pt2", WEIGHTS, lambda content: None), "E0204", "bytes", code=3)


def test_archives_of_older_pytorch_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt2", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("version", "5.1")
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("serialized_state_dict.pt", b"")
    assert_refused(tmp_path / "m.pt2", "E0303", "before 2.9", "export it again", code=4)
    with zipfile.ZipFile(tmp_path / "n.pt2", "w", zipfile.ZIP_STORED) as archive:  # PyTorch 2.8
        archive.writestr("n/archive_format", "pt2")
        archive.writestr("n/models/model.json", "{}")
        archive.writestr("n/data/weights/model.pt", b"PK")
    assert_refused(tmp_path / "n.pt2", "E0303", "before 2.9", "export it again", code=4)


# ---- programs without an ONNX form --------------------------------------------------------------------------------


def test_an_unsupported_complex_operator_is_refused_with_its_node(tmp_path):
    class Spectrum(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(torch.complex(x, x))

    stderr = assert_refused(save(tmp_path / "m.pt2", Spectrum(), (torch.randn(3, 3),)), "E030", code=4)
    assert "linalg_eigvals" in stderr and "test_exported_hostile.py" in stderr


def test_all_missing_operators_are_reported_in_one_run(good, tmp_path):
    def rename(document):
        nodes = document["graph_module"]["graph"]["nodes"]
        for node, target in zip(nodes, ("acme.first", "acme.second", "acme.first"), strict=False):
            node["target"] = f"torch.ops.{target}.default"
    stderr = assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, edit_json(rename)), "acme::first (x2)",
                            "acme::second", code=4)
    assert stderr.count("E0301") == 2


def test_an_unknown_function_of_sizes_is_refused(tmp_path):
    class Repeat(torch.nn.Module):
        def forward(self, x):
            return x.new_ones(x.shape[0] // 2 + 3)

    length = torch.export.Dim("n", min=4)
    good = save(tmp_path / "good.pt2", Repeat(), (torch.randn(8),), dynamic_shapes=({0: length},))

    def unknown(document):
        for node in document["graph_module"]["graph"]["nodes"]:
            if node["target"].endswith("floordiv"):
                node["target"] = "torch._sym_acosh"
    assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, edit_json(unknown)), "E0303", "_sym_acosh", "floordiv",
                   code=4)


# ---- invalid sizes and names -------------------------------------------------------------------------------------


def graph_of(document):
    return document["graph_module"]["graph"]


def first_size(number):
    def change(document):
        values = graph_of(document)["tensor_values"]
        values["relu"]["sizes"][0] = {"as_int": number}
    return change


def name_twice(document):
    nodes = graph_of(document)["nodes"]
    nodes[1]["name"] = nodes[0]["name"]


def value_twice(document):
    nodes = graph_of(document)["nodes"]
    nodes[1]["outputs"][0]["as_tensor"]["name"] = nodes[0]["outputs"][0]["as_tensor"]["name"]


def number_for_a_tensor(argument):
    def change(document):
        graph_of(document)["nodes"][0]["inputs"][argument]["arg"] = {"as_int": 5}
    return change


def no_result(document):
    inputs = [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}, {"name": "size", "arg": {"as_ints": [2, 4]}}]
    graph_of(document)["nodes"][0] |= {"target": "torch.ops.aten.view.default", "outputs": [], "inputs": inputs}


def writes_to(argument):
    def change(document):
        graph_of(document)["nodes"][1]["target"] = "torch.ops.aten.relu_.default"
        graph_of(document)["nodes"][1]["inputs"][0]["arg"] = argument
    return change


def marks_in_names(document):  # whence uses these characters internally while it assigns names
    graph_of(document)["nodes"][1]["inputs"][0]["arg"]["as_tensor"]["name"] = "\x017\x02 \x01"


@pytest.mark.parametrize("change, words", [
    (number_for_a_tensor(0), "'input' is not a tensor"), (number_for_a_tensor(1), "'weight' is not a tensor"),
    (no_result, "its result is missing"), (writes_to({"as_float": 2.0}), "something that is not a tensor"),
    (writes_to({"as_ints": [1, 2]}), "node 1 'relu': it writes to something that is not a tensor"),
    (writes_to({"as_tensors": []}), "something that is not a tensor"),
    (marks_in_names, "is read before it is defined"),
    (first_size(2**62), "larger than any memory"), (first_size(-1), "negative"), (first_size(-2**63), "negative"),
    (name_twice, "another node has this name"), (value_twice, "two values are called"),
])
def test_invalid_sizes_and_names_are_refused(good, tmp_path, change, words):
    assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, edit_json(change)), "E0204", words, code=3)


def layer(module):  # (model, inputs) of a layer
    return lambda: (module, (torch.randn(2, 4, 6),))


def function(body):
    return lambda: (FunctionModule(body), (torch.randn(2, 4, 6),))


INT64_MAX = 2**63 - 1


@pytest.mark.parametrize("make, argument, value, code, words", [
    (function(lambda x: torch.tensordot(x, x, dims=([2], [2]))), "dims_other", {"as_ints": []}, 4, "same length"),
    (function(lambda x: x.expand(3, 2, 4, 6)), "size", {"as_ints": [6]}, 4, "size must have an entry"),
    (function(lambda x: x.as_strided((2, 3), (6, 1), 1)), "stride", {"as_ints": []}, 4, "a stride for each size"),
    (function(lambda x: torch.cat([x, x])), "tensors", {"as_tensors": []}, 4, "must not be empty"),
    (function(lambda x: torch.stack([x, x])), "tensors", {"as_tensors": []}, 4, "must not be empty"),
    (function(lambda x: x.chunk(2)[0]), "chunks", {"as_int": 0}, 4, "chunks must be at least 1"),
    (function(lambda x: x.split([1, 3], 1)[0]), "split_sizes", {"as_ints": [4]}, 3, "1 of 2 list elements"),
    (function(lambda x: torch.nn.functional.pad(x, (1, 1))), "pad", {"as_ints": [1] * 20}, 4, "more axes than self"),
    (function(lambda x: x.clone().fill_(2.0)), "value", None, 3, "missing"),
    (function(lambda x: x.movedim((0, 1), (1, 2))), "source", {"as_ints": [0, 0]}, 4, "each axis once"),
    (function(lambda x: x.movedim((0, 1), (1, 2))), "destination", {"as_ints": [0]}, 4, "the same length"),
    (function(lambda x: x.roll(1, 2)), "shifts", {"as_ints": []}, 4, "the same length"),
    (function(lambda x: x.unfold(2, 2, 2)), "step", {"as_int": 0}, 4, "step > 0"),
    (function(lambda x: x.unfold(2, 2, 2)), "size", {"as_int": INT64_MAX}, 4, "windows must fit into the axis"),
    (function(lambda x: x.permute(2, 0, 1)), "dims", {"as_ints": [2, 0, 0]}, 4, "each axis once"),
    (function(lambda x: x.transpose(1, 2)), "dim1", None, 3, "'dim1' is missing"),
    (layer(torch.nn.AdaptiveAvgPool1d(3)), "output_size", {"as_ints": []}, 4, "for each spatial axis"),
    (layer(torch.nn.AdaptiveAvgPool1d(3)), "output_size", {"as_ints": [INT64_MAX]}, 4, "use a smaller number"),
    (layer(torch.nn.MaxPool2d(2)), "kernel_size", {"as_ints": [2, 2, 2]}, 3, "3 elements instead of 2"),
    (layer(torch.nn.GroupNorm(2, 4)), "num_groups", {"as_int": 3}, 4, "a multiple of the number of groups"),
    (layer(torch.nn.LSTM(6, 3, batch_first=True)), "hx", {"as_tensors": []}, 4, "for each kind of state"),
    (layer(torch.nn.LSTM(6, 3, batch_first=True)), "num_layers", {"as_int": -1}, 4, "weights for each layer"),
    (layer(torch.nn.RNN(6, 3)), "num_layers", {"as_int": 2**40}, 4, "weights for each layer"),
    (layer(torch.nn.Unfold((2, 3))), "stride", {"as_ints": [0, 1]}, 4, "'stride' must be at least 1"),
    (layer(torch.nn.Unfold((2, 3))), "padding", {"as_ints": [-1, 0]}, 4, "'padding' must be at least 0"),
    (layer(torch.nn.Unfold((2, 3))), "kernel_size", {"as_ints": [2**40, 1]}, 4, "use a smaller number"),
    (layer(torch.nn.Unfold((2, 3))), "dilation", {"as_ints": [2**30, 1]}, 4, "windows must fit into the axis"),
    (layer(torch.nn.AvgPool1d(2)), "kernel_size", {"as_ints": []}, 4, "'kernel_size' must have one number"),
    (layer(torch.nn.AvgPool1d(2, 2, 1)), "padding", {"as_ints": []}, 4, "'padding' must have one number"),
    (layer(torch.nn.Conv1d(4, 3, 3, stride=2)), "stride", {"as_ints": [0]}, 4, "'stride' must be at least 1"),
    (function(lambda x: x.rot90(1, (0, 2))), "dims", {"as_ints": [1]}, 4, "two different axes"),
    (function(lambda x: x.as_strided((2, 3), (6, 1), 1)), "size", {"as_ints": [4, 2**62]}, 4, "more than 16,777,216"),
    (function(lambda x: x.as_strided((2, 3), (6, 1), 1)), "stride", {"as_ints": [INT64_MAX] * 2}, 4, "within memory"),
    (layer(torch.nn.ChannelShuffle(2)), "groups", {"as_int": 0}, 4, "'groups' must be at least 1"),
    (function(lambda x: x.tensor_split(2, 1)[0]), "sections", {"as_int": 7}, 4, "one piece for each section"),
    (function(lambda x: x.split(2, 1)[0]), "split_size", {"as_int": INT64_MAX}, 4, "the pieces must fit into the axis"),
    (function(lambda x: x.repeat_interleave(3, 1)), "repeats", {"as_int": -1}, 4, "must not be negative"),
    (layer(torch.nn.AdaptiveAvgPool1d(5)), "output_size", {"as_ints": [2**30]}, 4, "more than 16,777,216 elements"),
    (function(lambda x: x + torch.linspace(0, 1, 6)), "steps", {"as_int": -1}, 4, "must not be negative"),
    (function(lambda x: torch.fft.fft(x, norm="ortho").real), "norm", {"as_int": 3}, 4, "aten::fft_fft"),
    (function(lambda x: torch.fft.fft(x, dim=1).real), "dim", {"as_int": 2**20}, 4, "aten::fft_fft"),
    (function(lambda x: torch.fft.fft(x, 5).real), "n", {"as_int": 2**40}, 4, "use a smaller number"),
    (function(lambda x: torch.linalg.matrix_norm(x, 1, (0, 1))), "dim", {"as_ints": [1]}, 4, "dim must name two axes"),
    (layer(torch.nn.Upsample(scale_factor=2.5)), "scale_factors", {"as_floats": ["Infinity"]}, 4, "scale factor"),
    (function(lambda x: x + torch.fft.fftfreq(6)), "n", {"as_int": 2**33}, 4, "use a smaller number"),
    (function(lambda x: torch.nn.functional.pad(x, (1, 1))), "pad", {"as_none": True}, 4, "'pad' is None"),
    (function(lambda x: torch.add(x, x, out=torch.zeros(2, 4, 6))), "out", {"as_int": 3}, 3, "not a tensor"),
])
def test_contradictory_arguments_are_refused(make, argument, value, code, words, tmp_path):
    model, inputs = make()

    def change(document):
        (entry,) = [entry for node in graph_of(document)["nodes"] for entry in node["inputs"]
                    if entry["name"] == argument]
        entry |= {"name": "other_name"} if value is None else {"arg": value}
    path = save(tmp_path / "good.pt2", model, inputs)
    stderr = assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_json(change)), words, code=code)
    assert "E0901" not in stderr


@pytest.mark.parametrize("model", [torch.nn.LSTM(6, 3, batch_first=True), torch.nn.GRU(6, 3),
                                   torch.nn.InstanceNorm1d(4), torch.nn.GroupNorm(2, 4), torch.nn.Linear(6, 5),
                                   torch.nn.ConstantPad1d(1, 2.0), torch.nn.Upsample(scale_factor=2, mode="linear"),
                                   FunctionModule(lambda x: x.index_fill(1, torch.tensor([0, 2]), 9.0)),
                                   torch.nn.Sequential(torch.nn.Conv1d(4, 3, 3), torch.nn.BatchNorm1d(3)).eval()])
@pytest.mark.parametrize("wrong", [[], [0, 0, 0], [INT64_MAX], [1] * 9])
def test_contradictory_sizes_end_cleanly(model, wrong, tmp_path):
    """Changes one tensor of the graph at a time; each archive may be exported or refused."""
    path = save(tmp_path / "good.pt2", model, (torch.randn(2, 4, 6),))
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read(next(name for name in archive.namelist() if name.endswith(PROGRAM))))
    for name in graph_of(document)["tensor_values"]:
        def change(document):
            tensor = graph_of(document)["tensor_values"][name]
            tensor["sizes"] = [{"as_int": size} for size in wrong]
            tensor["strides"] = [{"as_int": 1}] * len(wrong)
        assert_ends_cleanly(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_json(change)), name)


@pytest.mark.parametrize("make, name, sizes, code, words", [
    (function(lambda x: torch.stack([x, x]).transpose(2, 3)), "stack", [4, 6], 4, "out of range for rank 2"),
    (function(lambda x: x + torch.arange(6.)), "arange", [], 3, "a tensor of 0 axes"),
    (function(lambda x: torch.conv_tbc(x, torch.ones(1, 6, 4), torch.ones(4))), "x", [2, 4], 3, "a tensor of 2 axes"),
    (function(lambda x: x.cummax(2)[1]), "x", [2, 4, 2**40], 4, "more than 16,777,216 elements"),
    (function(lambda x: torch.nn.functional.scaled_dot_product_attention(
        x.unsqueeze(0), x.unsqueeze(0) + 1, x.unsqueeze(0), enable_gqa=True)), "add", [1, 3, 4, 6], 4, "number of key heads"),
])
def test_contradictory_ranks_and_sizes_are_refused(make, name, sizes, code, words, tmp_path):
    path = save(tmp_path / "good.pt2", *make())

    def change(document):
        graph_of(document)["tensor_values"][name] |= {"sizes": [{"as_int": size} for size in sizes],
                                                      "strides": [{"as_int": 1}] * len(sizes)}
    assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_json(change)), words, code=code)


@pytest.mark.parametrize("columns", [[0, 1], [[0, 1], [1, 2]]])
def test_more_indices_than_axes_are_refused(columns, tmp_path):
    path = save(tmp_path / "good.pt2", *function(lambda x: x[:, 1:, columns])())

    def change(document):
        (indices,) = [entry["arg"]["as_optional_tensors"] for node in graph_of(document)["nodes"]
                      for entry in node["inputs"] if entry["name"] == "indices"]
        indices[:0] = [{"as_none": True}] * 3
    assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_json(change)), "an axis for each index", code=4)


def assert_ends_cleanly(broken, description):
    """Asserts that the archive is exported or refused by a check, without an internal error."""
    result = command.run("export", broken, "-o", broken.with_suffix(".onnx"), code=None)
    assert result.returncode in (0, 3, 4), (description, result.returncode, result.stderr)
    assert "E0901" not in result.stderr, description


@pytest.mark.parametrize("model", [
    torch.nn.Sequential(torch.nn.Conv1d(4, 3, 3), torch.nn.BatchNorm1d(3), torch.nn.LayerNorm(4)).eval(),
    torch.nn.Sequential(torch.nn.ConvTranspose1d(4, 6, 3, groups=2), torch.nn.BatchNorm1d(6)).eval(),
    torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.PReLU(4), torch.nn.GroupNorm(2, 4)).eval(),
    torch.nn.Sequential(torch.nn.LSTM(6, 3, batch_first=True))])
def test_swapped_weights_end_cleanly(model, tmp_path):
    path = save(tmp_path / "good.pt2", model, (torch.randn(2, 4, 6),))
    weights = [f"p_{name.replace('.', '_')}" for name, _ in model.named_parameters()]
    weights += [f"b_{name.replace('.', '_')}" for name, _ in model.named_buffers()]
    for first in weights:
        for second in weights:
            def change(text):
                head, nodes, rest = text.partition('"nodes": [')
                body, end, inputs = rest.partition('"tensor_values"')
                return head + nodes + body.replace(f'"name": "{first}"', f'"name": "{second}"') + end + inputs
            assert_ends_cleanly(rewrite(path, tmp_path / "m.pt2", PROGRAM, lambda text: change(text.decode()).encode()),
                                (first, second))


def test_a_name_of_many_nested_modules_is_refused(good, tmp_path):
    def change(document):
        for entry in document["graph_module"]["signature"]["input_specs"][:1]:
            entry["tensor_constant"] = {"arg": entry.pop("parameter")["arg"], "tensor_constant_name": "a." * 100000}
    assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, edit_json(change)), "E0204", code=3)


@pytest.mark.parametrize("make", [lambda x: torch.vander(x, 5), lambda x: torch.linalg.vander(x, N=5)])
def test_operators_that_need_too_much_memory_are_refused(make, tmp_path):
    class Vander(torch.nn.Module):
        def forward(self, x):
            return make(x)

    path = save(tmp_path / "good.pt2", Vander(), (torch.rand(5),))

    def enlarge(document):
        inputs = graph_of(document)["nodes"][0]["inputs"]
        next(entry for entry in inputs if entry["arg"] == {"as_int": 5})["arg"] = {"as_int": 10**12}

    command.run("export", path, "-o", tmp_path / "good.onnx")
    assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_json(enlarge)), "E0306", "more memory than 4 GiB",
                   "smaller numbers", code=4)


def test_long_names_and_control_characters_are_printed_safely(tmp_path):
    class Relu(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    good = save(tmp_path / "good.pt2", Relu(), (torch.rand(5),))
    long_name, coloured = "B" * 1000000, "x\x1b[31mred\x07"

    def with_input_name(name):
        return rewrite(good, tmp_path / "m.pt2", PROGRAM,
                       lambda content: content.replace(b'"x"', json.dumps(name).encode()))

    def with_operator(name):
        def change(document):
            graph_of(document)["nodes"][0]["target"] = f"torch.ops.aten.{name}.default"
        return rewrite(good, tmp_path / "m.pt2", PROGRAM, edit_json(change))

    for name, printed in ((long_name, "[... 9996"), (coloured, "x\\x1b[31mred\\x07")):
        exported = command.run("export", with_input_name(name), "-o", tmp_path / "o.onnx")
        listed = command.run("show", with_operator(name))
        for output in (exported.stdout, listed.stdout, assert_refused(with_operator(name), "E0301", code=4)):
            assert printed in output and "\x1b" not in output and len(output) < 3000


def test_side_effects_are_refused_by_name(good, tmp_path):
    def add_token(document):
        signature = document["graph_module"]["signature"]
        signature["input_specs"].insert(0, {"token": {"arg": {"name": "token"}}})

    stderr = assert_refused(rewrite(good, tmp_path / "m.pt2", PROGRAM, edit_json(add_token)), "E0303", "side effects",
                     code=4)
    assert "kind token" not in stderr


def test_associative_scan_suggests_scan(tmp_path):
    class Relu(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    path = save(tmp_path / "good.pt2", Relu(), (torch.randn(3, 2),))

    def as_scan(document):
        graph_of(document)["nodes"][0]["target"] = "torch.ops.higher_order.associative_scan"

    assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_json(as_scan)), "E0303", "associative_scan",
                   "torch._higher_order_ops.scan", code=4)


def test_vmap_suggests_decompositions(tmp_path):
    """torch.export leaves vmap in the program; decompositions replace it with ATen operators."""
    class Mapped(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(torch.sum)(x)

    program = torch.export.export(Mapped(), (torch.randn(3, 2),))
    torch.export.save(program, tmp_path / "m.pt2")
    assert_refused(tmp_path / "m.pt2", "E0303", "torch.vmap", "run_decompositions()", code=4)
    torch.export.save(program.run_decompositions(), tmp_path / "decomposed.pt2")
    command.run("export", tmp_path / "decomposed.pt2", "-o", tmp_path / "m.onnx")


def test_invalid_functionalized_operators_are_refused(tmp_path):
    program = writing.program()
    torch.export.save(program, tmp_path / "undecomposed.pt2")
    assert_refused(tmp_path / "undecomposed.pt2", "E0303", "whence_writing_lib::add_into", "run_decompositions()", code=4)
    torch.export.save(program.run_decompositions(), path := tmp_path / "good.pt2")

    def edit_inputs(change):
        return edit_json(lambda document: change(graph_of(document)["nodes"][1]["inputs"]))

    def base(index):
        def change(inputs):
            next(entry for entry in inputs if entry["name"] == "_x_base_index")["arg"] = {"as_int": index}
        return edit_inputs(change)

    assert_refused(path, "E0301", "whence_writing_lib::add_into", code=4)
    for index in (1, -1, 2**62):
        assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, base(index)), "E0204", "there is no base", code=3)
    assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_inputs(lambda inputs: inputs.pop(0))), "E0204",
                   "the operator is missing", code=3)
    length = {"name": "_x_length", "arg": {"as_int": 1}, "kind": 2}
    assert_refused(rewrite(path, tmp_path / "m.pt2", PROGRAM, edit_inputs(lambda inputs: inputs.append(length))),
                   "E0303", "whence_writing_lib::add_into, which writes to a list of tensors", code=4)


def test_big_endian_weights_are_refused(good, tmp_path):
    archive = rewrite(good, tmp_path / "big.pt2", "byteorder", lambda _: b"big")
    assert "E0303" in (stderr := command.run("export", archive, "-o", tmp_path / "o.onnx", code=4).stderr)
    assert "big-endian" in stderr and not (tmp_path / "o.onnx").exists()
