"""Tests that no data is lost: outputs never replace inputs, weights or unrelated files, and if one of several files
cannot be written, none of them changes."""

import hashlib
import os
import resource
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import command

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def tensor(name: str, value: np.ndarray, folder, location: str) -> TensorProto:
    """Appends the bytes of a weight to a data file. Returns the weight with its location."""
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    with (folder / location).open("ab") as file:
        offset = file.tell()
        file.write(value.tobytes())
    weight = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=value.shape, data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(value.nbytes))):
        weight.external_data.add(key=key, value=text)
    return weight


def save(path, nodes, initializers, functions=(), opsets=()):
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])], initializers)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18), *opsets],
                              functions=list(functions))
    path.write_bytes(model.SerializeToString())
    return path


def write_model(folder, seed: int, name: str = "model.onnx", first: str = "w.bin", second: str | None = None):
    """Writes y = relu(x @ w) @ v with the node names of PyTorch's older exporter."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    weights = [tensor(each, random.standard_normal((4, 4), dtype=np.float32), folder, location)
               for each, location in (("w", first), ("v", second or first))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="/up/MatMul"),
             helper.make_node("Relu", ["a"], ["b"], name="/act/Relu"),
             helper.make_node("MatMul", ["b", "v"], ["y"], name="/down/MatMul")]
    return save(folder / name, nodes, weights)


def result(path) -> np.ndarray:
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]


def files(folder) -> dict:
    """Returns the hash of every file in a folder, by path."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def locations(path) -> set:
    model = onnx.load(path, load_external_data=False)
    return {entry.value for weight in model.graph.initializer for entry in weight.external_data
            if entry.key == "location"}


WRITERS = {
    "annotate": ["annotate"],
    "annotate --functions": ["annotate", "--functions", "modules=*"],
    "strip": ["strip"],
    "inline": ["inline"],
    "functions": ["functions", "--depth", "1"],
    "extract": ["extract", "--module", ""],
    "place": ["place", "--rule", "cpu=**", "--default", "cpu"],
}


def prepare(model, writer: str):
    """Annotates the model if the command works on modules."""
    if writer in ("functions", "extract", "place"):
        command.run("annotate", model, "-o", model)
    return model


# ---- data files ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("data", ["w.bin", "model.onnx_data", "sub/w.bin"])
def test_two_models_with_equally_named_weights_stay_separate(writer, data, tmp_path):
    one, two = (prepare(write_model(tmp_path / name, seed, first=data), writer) for seed, name in enumerate("ab"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "w.bin").write_text("unrelated")
    (out / "model.onnx_data").write_text("unrelated")
    command.run(*WRITERS[writer], one, "-o", out / "one.onnx")
    command.run(*WRITERS[writer], two, "-o", out / "two.onnx")
    for name, before in (("one", one), ("two", two)):
        np.testing.assert_array_equal(result(out / f"{name}.onnx"), result(before))
        onnx.checker.check_model(str(out / f"{name}.onnx"))
        ending = "_data" if data == "model.onnx_data" else ".data"
        assert locations(out / f"{name}.onnx") == {f"{name}.onnx{ending}"}
    assert (out / "w.bin").read_text() == (out / "model.onnx_data").read_text() == "unrelated"
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("two.onnx", *locations(out / "two.onnx")):
        os.rename(out / name, moved / name)
    np.testing.assert_array_equal(result(moved / "two.onnx"), result(two))


@pytest.mark.parametrize("writer", WRITERS)
def test_weights_in_the_models_folder_are_not_copied(writer, tmp_path):
    model = prepare(write_model(tmp_path, 1), writer)
    write_model(tmp_path, 2, "neighbour.onnx", first="n.bin")
    expected, before = result(model), files(tmp_path)
    for output in ("other.onnx", *([] if writer == "extract" else ["model.onnx"])):
        command.run(*WRITERS[writer], tmp_path / "model.onnx", "-o", tmp_path / output)
        np.testing.assert_array_equal(result(tmp_path / output), expected)
        assert locations(tmp_path / output) == {"w.bin"}
    after = files(tmp_path)
    assert set(after) == {*before, "other.onnx"}
    assert {name: after[name] for name in before if name != "model.onnx"} == {
        name: before[name] for name in before if name != "model.onnx"}


@pytest.mark.parametrize("writer", WRITERS)
def test_copied_data_is_a_separate_file(writer, tmp_path):
    model = prepare(write_model(tmp_path, 1), writer)
    expected, before = result(model), files(tmp_path)
    shared = command.run_json(*WRITERS[writer], model, "-o", tmp_path / "shared.onnx")["diagnostics"]
    notes = [each for each in shared if "not copied" in each["message"]]
    assert [each["severity"] for each in notes] == ["note"] and "--copy-data" in notes[0]["remedy"]
    assert "w.bin" in notes[0]["message"] and "shared.onnx" in notes[0]["message"]
    copied = command.run_json(*WRITERS[writer], model, "-o", tmp_path / "other.onnx", "--copy-data")["diagnostics"]
    assert not [each for each in copied if "not copied" in each["message"]]
    assert locations(tmp_path / "other.onnx") == {"other.onnx.data"}
    assert files(tmp_path)["other.onnx.data"] == before["w.bin"]
    if writer != "extract":
        in_place = command.run_json(*WRITERS[writer], model, "-o", model, "--copy-data")["diagnostics"]
        assert locations(model) == {"w.bin"} and not [each for each in in_place if "not copied" in each["message"]]
    (tmp_path / "w.bin").unlink()
    np.testing.assert_array_equal(result(tmp_path / "other.onnx"), expected)


def test_strip_copies_the_data_on_request(tmp_path):
    """Without --copy-data, strip restores the old location of the weights if that file contains them."""
    write_model(tmp_path, 1)
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "copy.onnx", "--copy-data")
    command.run("strip", tmp_path / "copy.onnx", "-o", tmp_path / "stripped.onnx", "--copy-data")
    assert locations(tmp_path / "stripped.onnx") == {"stripped.onnx.data"}
    for folder, options, expected in (("a", [], "w.bin"), ("b", ["--copy-data"], "w.bin")):
        (tmp_path / folder).mkdir()
        command.run("strip", tmp_path / "copy.onnx", "-o", tmp_path / folder / "model.onnx", *options)
        assert locations(tmp_path / folder / "model.onnx") == {expected}


def test_sparse_data_files_stay_sparse(tmp_path):
    """The weights are a sparse file of a gigabyte: the file system stores only a few pages."""
    folder = tmp_path / "a"
    folder.mkdir()
    size = 1 << 30
    with (folder / "w.bin").open("wb") as data:
        data.write(b"front")
        data.seek(size // 2)
        data.write(b"middle")
        data.truncate(size)
    weight = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[size], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    model = save(folder / "model.onnx", [helper.make_node("Relu", ["x"], ["y"], name="/act/Relu")], [weight])
    if os.stat(folder / "w.bin").st_blocks * 512 > size // 16:
        pytest.skip("the file system does not support sparse files")
    (tmp_path / "out").mkdir()
    for output in (tmp_path / "out" / "one.onnx", folder / "one.onnx"):
        command.run("annotate", model, "-o", output, "--copy-data")
        copied = os.stat(f"{output}.data")
        assert copied.st_size == size and copied.st_blocks * 512 < size // 16
        with open(f"{output}.data", "rb") as data:
            assert data.read(6) == b"front\0"
            data.seek(size // 2 - 1)
            assert data.read(8) == b"\0middle\0"
        # The second run compares both data files, and skips their holes: reading would allocate pages for them.
        command.run("annotate", model, "-o", output, "--copy-data")
        for compared in (folder / "w.bin", f"{output}.data"):
            assert os.stat(compared).st_blocks * 512 < size // 16
        with open(f"{output}.data", "r+b") as data:
            data.seek(size // 4)
            data.write(b"other")
        command.run("annotate", model, "-o", output, "--copy-data", code=5)


@pytest.mark.parametrize("writer", WRITERS)
def test_weights_replace_an_unrelated_file_only_on_request(writer, tmp_path):
    model = prepare(write_model(tmp_path / "a", 1), writer)
    out = tmp_path / "out"
    out.mkdir()
    (out / "one.onnx.data").write_text("unrelated")
    (out / "one.onnx").write_text("before")
    before = files(tmp_path)
    failure = command.run_json(*WRITERS[writer], model, "-o", out / "one.onnx", code=5)["diagnostics"][0]
    assert failure["code"] == "E0401" and "--overwrite" in failure["remedy"]
    assert "one.onnx.data" in failure["message"]
    assert files(tmp_path) == before and len(os.listdir(out)) == 2
    command.run(*WRITERS[writer], model, "-o", out / "one.onnx", "--overwrite")
    np.testing.assert_array_equal(result(out / "one.onnx"), result(model))
    modified = os.stat(out / "one.onnx.data").st_mtime_ns
    command.run(*WRITERS[writer], model, "-o", out / "one.onnx")  # does not rewrite equal bytes
    assert os.stat(out / "one.onnx.data").st_mtime_ns == modified


def test_a_link_in_place_of_the_weights_is_not_followed(tmp_path):
    model = write_model(tmp_path / "a", 1)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "target").write_text("unrelated")
    (out / "one.onnx.data").symlink_to("../target")
    for more in ([], ["--overwrite"]):
        command.run("annotate", model, "-o", out / "one.onnx", *more, code=5)
    assert (tmp_path / "target").read_text() == "unrelated" and os.listdir(out) == ["one.onnx.data"]


def test_weights_do_not_replace_an_input(tmp_path, small_export):
    out = tmp_path / "out"
    out.mkdir()
    os.link(small_export[1], out / "one.onnx.data")
    before = files(out)
    failure = command.run("annotate", write_model(tmp_path / "a", 1), "--sidecar", out / "one.onnx.data", "-o",
                          out / "one.onnx", "--overwrite", "--allow-different-weights", code=None)
    assert failure.returncode in (2, 3) and files(out) == before


def test_several_data_files_and_nested_tensors_are_copied(tmp_path):
    """The tensors are in an initializer, an attribute, a branch of an If and the body of a function."""
    folder = tmp_path / "a"
    folder.mkdir()
    w, v, b, c = (np.random.default_rng(seed).standard_normal((4, 4), dtype=np.float32) for seed in range(4))

    def constant(location, value, name):
        return helper.make_node("Constant", [], [name], value=tensor(name, value, folder, location))

    branches = [helper.make_graph([constant(f"{side}.bin", value, f"{side}_c"),
                                   helper.make_node("MatMul", ["m", f"{side}_c"], [f"{side}_y"])], side, [],
                                  [helper.make_tensor_value_info(f"{side}_y", TensorProto.FLOAT, [2, 4])])
                for side, value in (("then", b), ("else", w))]
    function = helper.make_function("local", "Times", ["a"], ["z"],
                                    [constant("s/function.bin", c, "k"), helper.make_node("MatMul", ["a", "k"], ["z"])],
                                    [helper.make_opsetid("", 18)])
    nodes = [constant("attribute.bin", v, "v"), helper.make_node("MatMul", ["x", "v"], ["l"], name="/l/MatMul"),
             helper.make_node("Times", ["l"], ["m"], domain="local", name="/t/Times"),
             helper.make_node("ReduceSum", ["m"], ["total"], name="/s/ReduceSum", keepdims=0),
             helper.make_node("Cast", ["total"], ["flag"], to=TensorProto.BOOL, name="/s/Cast"),
             helper.make_node("If", ["flag"], ["i"], then_branch=branches[0], else_branch=branches[1], name="/b/If"),
             helper.make_node("MatMul", ["i", "w"], ["y"], name="/o/MatMul")]
    model = save(folder / "model.onnx", nodes, [tensor("w", w, folder, "model.onnx.w")], [function],
                 [helper.make_opsetid("local", 1)])
    out = tmp_path / "out"
    out.mkdir()
    for writer in ("annotate", "inline"):
        command.run(*WRITERS[writer], model, "-o", out / f"{writer}.onnx", *(["--all"] if writer == "inline" else []))
        np.testing.assert_array_equal(result(out / f"{writer}.onnx"), result(model))
    names = {"w", "attribute.bin", "else.bin", "then.bin", "s_function.bin"}
    assert set(os.listdir(out)) == {f"{writer}.onnx{end}" for writer in ("annotate", "inline")
                                    for end in ["", *(f".{name}" for name in names)]}


def test_strip_restores_the_bytes_in_another_folder(tmp_path):
    model = write_model(tmp_path / "a", 1, first="w.bin", second="model.onnx_v")
    for folder in ("out", "further", "back", "taken"):
        (tmp_path / folder).mkdir()
    command.run("annotate", model, "-o", tmp_path / "out/one.onnx")
    command.run("annotate", tmp_path / "out/one.onnx", "-o", tmp_path / "further/two.onnx")
    assert locations(tmp_path / "further/two.onnx") == {"two.onnx.w.bin", "two.onnx_v"}
    command.run("strip", tmp_path / "further/two.onnx", "-o", tmp_path / "back/three.onnx")
    assert (tmp_path / "back/three.onnx").read_bytes() == model.read_bytes()
    np.testing.assert_array_equal(result(tmp_path / "back/three.onnx"), result(model))
    (tmp_path / "taken/w.bin").write_text("unrelated")
    command.run("strip", tmp_path / "further/two.onnx", "-o", tmp_path / "taken/three.onnx")
    assert (tmp_path / "taken/w.bin").read_text() == "unrelated"
    np.testing.assert_array_equal(result(tmp_path / "taken/three.onnx"), result(model))


def test_strip_leaves_no_key_if_the_weights_stay(tmp_path):
    model = write_model(tmp_path / "a", 1)
    (tmp_path / "out").mkdir()
    command.run("annotate", model, "-o", tmp_path / "out/one.onnx")
    command.run("strip", tmp_path / "out/one.onnx", "-o", tmp_path / "out/two.onnx")
    assert locations(tmp_path / "out/two.onnx") == {"one.onnx.data"}
    stripped = onnx.load(tmp_path / "out/two.onnx", load_external_data=False)
    assert not stripped.metadata_props
    np.testing.assert_array_equal(result(tmp_path / "out/two.onnx"), result(model))


def test_former_names_cannot_refer_to_other_folders(tmp_path):
    model = write_model(tmp_path / "a", 1)
    command.run("annotate", model, "-o", model)
    content = onnx.load(model, load_external_data=False)
    content.metadata_props.add(key="pkg.whence.data_files", value='{"w.bin": "../../stolen", "x": 3}')
    model.write_bytes(content.SerializeToString())
    (tmp_path / "out").mkdir()
    command.run("strip", model, "-o", tmp_path / "out" / "one.onnx")
    assert sorted(os.listdir(tmp_path)) == ["a", "out"] and locations(tmp_path / "out/one.onnx") == {"one.onnx.data"}


@pytest.mark.parametrize("name", ["modèle 模型.onnx", "n" * 240 + ".onnx", "a;b'c\"d.onnx", "no_ending"])
def test_unusual_file_names_work(name, tmp_path):
    model = write_model(tmp_path / "a ü", 1, first="gewichte ä.bin")
    (tmp_path / "out").mkdir()
    command.run("annotate", model, "-o", tmp_path / "out" / name)
    np.testing.assert_array_equal(result(tmp_path / "out" / name), result(model))


def test_a_name_too_long_for_its_data_file_is_an_error(tmp_path):
    model = write_model(tmp_path / "a", 1)
    (tmp_path / "out").mkdir()
    failure = command.run("annotate", model, "-o", tmp_path / "out" / ("n" * 248 + ".onnx"), code=5)
    assert "shorter name" in failure.stderr and os.listdir(tmp_path / "out") == []


# ---- links: the rules of ONNX Runtime apply ---------------------------------------------------------------------

def plain(root):
    return write_model(root / "m", 1)


def link_out(root):
    model = write_model(root / "m", 1)
    (root / "o").mkdir()
    os.rename(root / "m/w.bin", root / "o/w.bin")
    (root / "m/w.bin").symlink_to("../o/w.bin")
    return model


def link_to_a_device(root):
    model = write_model(root / "m", 1)
    (root / "m/w.bin").unlink()
    (root / "m/w.bin").symlink_to("/dev/zero")
    return model


def link_within(root):
    model = write_model(root / "m", 1)
    os.rename(root / "m/w.bin", root / "m/real.bin")
    (root / "m/w.bin").symlink_to("real.bin")
    return model


def linked_subfolder_out(root):
    model = write_model(root / "m", 1, first="s/w.bin")
    os.rename(root / "m/s", root / "s")
    (root / "m/s").symlink_to("../s")
    return model


def linked_subfolder_within(root):
    model = write_model(root / "m", 1, first="s/w.bin")
    os.rename(root / "m/s", root / "m/t")
    (root / "m/s").symlink_to("t")
    return model


def hard_link(root):
    model = write_model(root / "m", 1)
    os.link(root / "m/w.bin", root / "w.bin")
    return model


def parents_out(root):
    (root / "m").mkdir()
    return write_model(root / "m", 1, first="../w.bin")


def parents_within(root):
    (root / "m/s").mkdir(parents=True)
    return write_model(root / "m", 1, first="s/../w.bin")


def absolute(root):
    return write_model(root / "m", 1, first=str(root / "m/w.bin"))


def a_folder(root):
    model = write_model(root / "m", 1)
    (root / "m/w.bin").unlink()
    (root / "m/w.bin").mkdir()
    return model


def a_pipe(root):
    model = write_model(root / "m", 1)
    (root / "m/w.bin").unlink()
    os.mkfifo(root / "m/w.bin")
    return model


def missing_file(root):
    model = write_model(root / "m", 1)
    (root / "m/w.bin").unlink()
    return model


def no_name(root):
    model = write_model(root / "m", 1)
    content = onnx.load(model, load_external_data=False)
    for weight in content.graph.initializer:
        weight.external_data[0].value = ""
    model.write_bytes(content.SerializeToString())
    return model


def linked_model(root):
    """The data is in the folder of the model, not in the folder of the link."""
    model = write_model(root / "m", 1)
    (root / "l").mkdir()
    (root / "l/model.onnx").symlink_to(model)
    return root / "l/model.onnx"


def linked_folder(root):
    write_model(root / "m", 1)
    (root / "l").symlink_to("m")
    return root / "l/model.onnx"


def hugging_face_cache(root):
    """The model and its data are links to files that are named by their content."""
    model = write_model(root / "m", 1, first="model.onnx_data")
    for name, blob in (("model.onnx", "aa"), ("model.onnx_data", "bb")):
        (root / "blobs").mkdir(exist_ok=True)
        os.rename(root / "m" / name, root / "blobs" / blob)
        (root / "m" / name).symlink_to(f"../blobs/{blob}")
    return model


LAYOUTS = [plain, link_out, link_to_a_device, link_within, linked_subfolder_out, linked_subfolder_within, hard_link,
           parents_out, parents_within, absolute, a_folder, a_pipe, missing_file, no_name, linked_model, linked_folder,
           hugging_face_cache]
OUTSIDE = [link_out, link_to_a_device, linked_subfolder_out, parents_out, absolute]


def runs(path) -> bool:
    try:
        return result(path) is not None
    except Exception:  # noqa: BLE001: ONNX Runtime has a class of errors for each kind of failure
        return False


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_that_onnx_runtime_refuses_are_refused(layout, tmp_path):
    model, out = layout(tmp_path), tmp_path / "out"
    out.mkdir()
    loads = runs(model)
    findings = {each["code"] for each in command.run_json("validate", model, code=None)["findings"]}
    assert bool({"V201", "V202", "V203"} & findings) != loads
    done = command.run("annotate", model, "-o", out / "one.onnx", code=None)
    assert (done.returncode == 0) == loads, done.stderr
    if loads:
        np.testing.assert_array_equal(result(out / "one.onnx"), result(model))
        command.run("annotate", model, "-o", model.parent / "next.onnx")
        np.testing.assert_array_equal(result(model.parent / "next.onnx"), result(model))
        return
    assert os.listdir(out) == []
    if layout in OUTSIDE:
        assert done.returncode == 6 and done.stderr.startswith("E0502"), done.stderr
        assert command.run("annotate", model, "-o", model.parent / "next.onnx", code=6)
        assert "V203" in findings


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_copies_data_outside(writer, tmp_path):
    model = prepare(write_model(tmp_path / "m", 1), writer)
    (tmp_path / "secret").mkdir()
    os.rename(tmp_path / "m/w.bin", tmp_path / "secret/w.bin")
    (tmp_path / "m/w.bin").symlink_to("../secret/w.bin")
    (tmp_path / "out").mkdir()
    for output in (tmp_path / "out/one.onnx", tmp_path / "m/one.onnx"):
        assert command.run(*WRITERS[writer], model, "-o", output, code=6).stderr.startswith("E0502")
    assert os.listdir(tmp_path / "out") == [] and not (tmp_path / "m/one.onnx").exists()


@pytest.mark.parametrize("writer", WRITERS)
def test_truncated_weights_are_not_copied(writer, tmp_path):
    model = prepare(write_model(tmp_path / "m", 1), writer)
    data = tmp_path / "m/w.bin"
    data.write_bytes(data.read_bytes()[:-1])
    (tmp_path / "out").mkdir()
    error = command.run(*WRITERS[writer], model, "-o", tmp_path / "out/one.onnx", code=3).stderr
    assert error.startswith("E0202") and "w.bin" in error
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("key, text", [("offset", "x"), ("length", "4 bytes"),
                                       ("length", "18446744073709551615")])
@pytest.mark.parametrize("writer", WRITERS)
def test_weights_at_an_invalid_range_are_not_copied(writer, key, text, tmp_path):
    model = prepare(write_model(tmp_path / "a", 1), writer)
    content = onnx.load(model, load_external_data=False)
    for entry in content.graph.initializer[-1].external_data:
        entry.value = text if entry.key == key else "8" if entry.key == "offset" else entry.value
    model.write_bytes(content.SerializeToString())
    (tmp_path / "out").mkdir()
    failure = command.run(*WRITERS[writer], model, "-o", tmp_path / "out" / "one.onnx", code=3)
    assert failure.stderr.startswith("E020") and text in failure.stderr
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("output", ["/dev/null", "-"])
def test_an_output_that_is_not_a_file_is_refused(output, tmp_path, monkeypatch):
    model = write_model(tmp_path / "m", 1)
    monkeypatch.chdir(tmp_path)
    error = command.run("annotate", model, "-o", output, code=2, own_process=True).stderr
    assert error.startswith("E0101") and "file" in error
    assert os.listdir(tmp_path) == ["m"] and not os.path.exists("/dev/null.data")


def test_copied_weights_keep_their_file_mode(tmp_path):
    model = write_model(tmp_path / "m", 1)
    (tmp_path / "m/w.bin").chmod(0o600)
    (tmp_path / "out").mkdir()
    command.run("annotate", model, "-o", tmp_path / "out/one.onnx")
    assert (tmp_path / "out/one.onnx.data").stat().st_mode & 0o777 == 0o600


def test_an_output_link_stays_a_link(small_export, tmp_path):
    for folder in ("real", "named"):
        (tmp_path / folder).mkdir()
    (tmp_path / "real/file.onnx").write_text("before")
    (tmp_path / "named/one.onnx").symlink_to("../real/file.onnx")
    command.run("annotate", small_export[0], "-o", tmp_path / "named/one.onnx")
    assert os.readlink(tmp_path / "named/one.onnx") == "../real/file.onnx"
    onnxruntime.InferenceSession(tmp_path / "real/file.onnx")


def test_weights_do_not_follow_a_link_to_another_folder(tmp_path):
    """Otherwise the weights would be missing next to the link or next to its target."""
    model, other = write_model(tmp_path / "a", 1), write_model(tmp_path / "b", 2)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "model.onnx").symlink_to(other)
    before = files(tmp_path)
    failure = command.run("annotate", model, "-o", tmp_path / "links" / "model.onnx", code=2)
    assert "is a link into another folder" in failure.stderr and str(other) in failure.stderr
    assert files(tmp_path) == before
    (tmp_path / "a" / "link.onnx").symlink_to("one.onnx")
    command.run("annotate", model, "-o", tmp_path / "a" / "one.onnx")
    command.run("annotate", other, "-o", tmp_path / "a" / "link.onnx")
    np.testing.assert_array_equal(result(tmp_path / "a" / "one.onnx"), result(other))


def test_the_output_folder_may_be_a_link_to_the_models_folder(tmp_path):
    model = write_model(tmp_path / "a", 1)
    (tmp_path / "link").symlink_to("a")
    command.run("annotate", model, "-o", tmp_path / "link/one.onnx")
    assert sorted(os.listdir(tmp_path / "a")) == ["model.onnx", "one.onnx", "w.bin"]
    np.testing.assert_array_equal(result(tmp_path / "a/one.onnx"), result(model))


# ---- outputs that are inputs ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("use", ["annotate", "strip", "report", "dot"])
def test_the_output_is_not_the_weights_of_another_model(use, tmp_path):
    model, neighbour = write_model(tmp_path / "a", 1), write_model(tmp_path / "b", 2)
    before = files(tmp_path)
    result = command.run(use, model, "-o", neighbour.parent / "w.bin", code=2)
    assert "E0101" in result.stderr and "the weights of" in result.stderr and "b/model.onnx" in result.stderr
    assert files(tmp_path) == before


@pytest.mark.parametrize("writer", [*WRITERS, "export"])
def test_an_onnx_file_is_not_written_under_a_sidecars_name(writer, small_archive, tmp_path):
    source = small_archive if writer == "export" else prepare(write_model(tmp_path / "m", 1), writer)
    before = files(tmp_path)
    words = WRITERS.get(writer, ["export"])
    error = command.run(*words, source, "-o", tmp_path / "model.whence.json", code=2).stderr
    assert error.startswith("E0101") and "sidecar" in error and "model.onnx" in error
    assert files(tmp_path) == before


@pytest.mark.parametrize("use", ["record", "export"])
def test_a_sidecar_does_not_replace_a_model(use, small_archive, tmp_path):
    model = write_model(tmp_path / "m", 1)
    before = files(tmp_path)
    words = {"record": ["-o", model], "export": ["-o", tmp_path / "out.onnx", "--sidecar-out", model]}[use]
    error = command.run(use, small_archive, *words, code=2).stderr
    assert error.startswith("E0101") and "sidecar" in error and "model.whence.json" in error
    assert files(tmp_path) == before


def test_strip_counts_the_nodes_of_a_file_that_was_not_annotated(tmp_path):
    model = write_model(tmp_path / "m", 1)
    assert "0 of 3 nodes stripped" in command.run("strip", model, "-o", tmp_path / "out.onnx").stdout


def path_by(kind: str, path, folder):
    """Returns the file itself, a link or a hard link to it."""
    if kind == "itself":
        return path
    (folder / "names").mkdir(exist_ok=True)
    other = folder / "names" / f"{kind}.onnx"
    other.symlink_to(path) if kind == "link" else os.link(path, other)
    return other


VIEWS = {
    "report": ["report", "--format", "html"], "dot": ["dot"], "graphml": ["graphml"],
    "model-explorer": ["model-explorer"],
}


@pytest.mark.parametrize("kind", ["itself", "link", "hard_link"])
@pytest.mark.parametrize("name", [*WRITERS, *VIEWS])
def test_the_output_is_not_the_models_weights(name, kind, tmp_path):
    model = prepare(write_model(tmp_path / "a", 1), name)
    output = path_by(kind, tmp_path / "a/w.bin", tmp_path)
    before = files(tmp_path)
    failure = command.run(*{**WRITERS, **VIEWS}[name], model, "-o", output, code=2)
    assert failure.stderr.startswith("E0101") and "weights" in failure.stderr
    assert files(tmp_path) == before


@pytest.mark.parametrize("writer", WRITERS)
def test_a_model_may_be_named_like_its_weights(writer, tmp_path):
    model = prepare(write_model(tmp_path / "a", 1), writer)
    (tmp_path / "other").mkdir()
    command.run(*WRITERS[writer], model, "-o", tmp_path / "other/w.bin")
    np.testing.assert_array_equal(result(tmp_path / "other/w.bin"), result(model))


@pytest.fixture(scope="module")
def wide_archive(tmp_path_factory):
    import torch

    path = tmp_path_factory.mktemp("wide") / "wide.pt2"
    torch.manual_seed(0)
    torch.export.save(torch.export.export(torch.nn.Linear(64, 64), (torch.zeros(1, 64),)), path)
    return path


def export_inputs(archive, folder) -> dict:
    """Writes the inputs of an export that uses every option. Returns their paths by option."""
    import torch

    torch.save((torch.ones(2, 4),), folder / "inputs.pt")
    body = [helper.make_node("Relu", ["x"], ["y"])]
    function = helper.make_function("whence.mylib", "op", ["x"], ["y"], body, [helper.make_opsetid("", 18)])
    converters = onnx.ModelProto(ir_version=10)
    converters.functions.add().CopyFrom(function)
    (folder / "converters.onnx").write_bytes(converters.SerializeToString())
    (folder / "small.pt").write_bytes(archive.read_bytes())
    return {"the archive": folder / "small.pt", "--inputs": folder / "inputs.pt",
            "--converters": folder / "converters.onnx"}


@pytest.mark.parametrize("kind", ["itself", "link", "hard_link"])
@pytest.mark.parametrize("option", ["--output", "--sidecar-out", "--report"])
def test_no_output_of_export_is_an_input(option, kind, small_archive, tmp_path):
    inputs = export_inputs(small_archive, tmp_path)
    outputs = {"--output": tmp_path / "m.onnx", "--sidecar-out": tmp_path / "m.json", "--report": tmp_path / "m.md"}
    for label, path in inputs.items():
        name = path_by(kind, path, tmp_path)
        before = files(tmp_path)
        words = [word for each, file in ({**outputs, option: name}).items() for word in (each, file)]
        failure = command.run("export", inputs["the archive"], "--inputs", inputs["--inputs"], "--converters",
                              inputs["--converters"], *words, code=2)
        assert failure.stderr.startswith("E0101") and label in failure.stderr and option in failure.stderr
        assert files(tmp_path) == before
        if kind != "itself":
            name.unlink()


def test_two_outputs_may_not_be_the_same_file(wide_archive, tmp_path):
    (tmp_path / "m.json").write_text("before")
    (tmp_path / "link.md").symlink_to("m.json")
    before = files(tmp_path)
    for words in (["-o", "m.onnx", "--report", "m.onnx"], ["-o", "m.onnx", "--sidecar-out", "./m.onnx"],
                  ["-o", "m.onnx", "--sidecar-out", "m.json", "--report", "link.md"],
                  ["-o", "m.onnx", "--external-data", "--external-data-threshold", "0", "--sidecar-out", "m.onnx.data"]):
        paths = [tmp_path / word if "." in word and not word.startswith("-") else word for word in words]
        refused = command.run("export", wide_archive, *paths, code=2)
        assert refused.stderr.startswith("E0101") and "would be one file" in refused.stderr
        assert files(tmp_path) == before


@pytest.mark.parametrize("before", [None, "unrelated", "the same"])
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("data, words", [("m.onnx.data", ["--external-data"]),
                                         ("m.onnx.weight", ["--external-data-per-tensor"])])
@pytest.mark.parametrize("option", ["--sidecar-out", "--report"])
def test_no_output_of_export_is_its_weights(option, data, words, overwrite, before, wide_archive, tmp_path):
    if before == "the same":  # written by an earlier export
        command.run("export", wide_archive, "-o", tmp_path / "m.onnx", *words)
        (tmp_path / "m.onnx").unlink()
        assert (tmp_path / data).exists()
    elif before:
        (tmp_path / data).write_text(before)
    before_export = files(tmp_path)
    failure = command.run("export", wide_archive, "-o", tmp_path / "m.onnx", *words, *overwrite, option, tmp_path / data,
                          code=2)
    assert failure.stderr.startswith("E0101") and "would be one file" in failure.stderr and data in failure.stderr
    assert files(tmp_path) == before_export


@pytest.mark.parametrize("option", ["--sidecar", "--from"])
def test_annotate_does_not_replace_its_inputs(option, small_export, tmp_path):
    model, sidecar = tmp_path / "m.onnx", tmp_path / "m.whence.json"
    model.write_bytes(small_export[0].read_bytes())
    sidecar.write_bytes(small_export[1].read_bytes())
    command.run("annotate", model, "-o", tmp_path / "before.onnx")
    source = sidecar if option == "--sidecar" else tmp_path / "before.onnx"
    before = files(tmp_path)
    assert option in command.run("annotate", model, option, source, "-o", source, code=2).stderr
    assert "sidecar" in command.run("annotate", model, "-o", sidecar, code=2).stderr  # found next to the model
    assert files(tmp_path) == before


# ---- several files, all or none ------------------------------------------------------------------------------------

@pytest.mark.parametrize("option", ["--sidecar-out", "--report"])
def test_an_export_whose_second_file_cannot_be_written_writes_nothing(option, wide_archive, tmp_path):
    """/dev/full acts as a full disk."""
    for name in ("m.onnx", "m.json", "m.md"):
        (tmp_path / name).write_text("before")
    before = files(tmp_path)
    others = {"--sidecar-out": tmp_path / "m.json", option: "/dev/full"}
    words = [word for pair in others.items() for word in pair]
    failure = command.run("export", wide_archive, "-o", tmp_path / "m.onnx", "--external-data", *words, code=5)
    assert failure.stderr.startswith("E0401") and "No space" in failure.stderr
    assert files(tmp_path) == before and len(os.listdir(tmp_path)) == 3


def test_a_report_explains_why_an_export_was_refused(wide_archive, tmp_path):
    (tmp_path / "m.onnx.data").write_text("unrelated")
    command.run("export", wide_archive, "-o", tmp_path / "m.onnx", "--external-data", "--report", tmp_path / "m.onnx.md",
                code=5)
    assert "Nothing was written" in (tmp_path / "m.onnx.md").read_text()
    assert (tmp_path / "m.onnx.data").read_text() == "unrelated" and not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("annotate", [[], ["--annotate"]])
def test_an_export_replaces_an_unrelated_file_only_on_request(annotate, wide_archive, tmp_path):
    (tmp_path / "m.onnx.data").write_text("unrelated")
    (tmp_path / "m.onnx").write_text("before")
    before = files(tmp_path)
    words = ["export", wide_archive, "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json",
             "--external-data", *annotate]
    failure = command.run(*words, code=5)
    assert failure.stderr.startswith("E0401") and ".whence-" not in failure.stderr
    assert files(tmp_path) == before
    command.run(*words, "--overwrite")
    command.run(*words)  # equal bytes need no --overwrite
    assert sorted(os.listdir(tmp_path)) == ["m.json", "m.onnx", "m.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def limited(size: int):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [100, 3000])
def test_weights_that_do_not_fit_on_the_disk_are_an_error(size, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    large = np.ones((4, 4096), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="/up/MatMul"),
             helper.make_node("MatMul", ["h", "v"], ["y"], name="/down/MatMul")]
    model = save(folder / "model.onnx", nodes,
                 [tensor("w", large, folder, "w.bin"), tensor("v", large.T.copy(), folder, "w.bin")])
    out = tmp_path / "out"
    out.mkdir()
    (out / "one.onnx").write_text("before")
    for writer in ("annotate", "strip", "inline"):
        done = subprocess.run([str(command.BINARY), *WRITERS[writer], model, "-o", out / "one.onnx"], text=True,
                              capture_output=True, preexec_fn=limited(size), stdin=subprocess.DEVNULL)
        assert done.returncode == 5 and done.stderr.startswith("E0401"), done.stderr
        assert files(out) == {"one.onnx": hashlib.sha256(b"before").hexdigest()}


def test_a_killed_run_leaves_matching_files(tmp_path):
    """After a kill at any of several moments, the model and its weights match."""
    folder = tmp_path / "a"
    one = write_model(folder, 1)
    with (folder / "w.bin").open("ab") as file:
        file.truncate(200_000_000)  # makes the copy slow
    out = tmp_path / "out"
    out.mkdir()
    old = write_model(tmp_path / "old", 2)
    command.run("annotate", old, "-o", out / "one.onnx")
    (out / "one.onnx.data").unlink()
    (out / "one.onnx").unlink()
    expected = result(one)
    for milliseconds in (1, 3, 6, 10, 20, 40, 80):
        process = subprocess.Popen([str(command.BINARY), "annotate", one, "-o", out / "one.onnx"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(milliseconds / 1000)
        process.kill()
        process.wait()
        if (out / "one.onnx").exists():
            np.testing.assert_array_equal(result(out / "one.onnx"), expected)
    command.run("annotate", one, "-o", out / "one.onnx")
    np.testing.assert_array_equal(result(out / "one.onnx"), expected)
