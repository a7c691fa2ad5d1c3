"""Tests that each error has a code, an exit code and a remedy, and leaves the target unchanged."""

import json
import os
import resource
import subprocess
import zipfile

import numpy
import onnx
import pytest
import torch

import command
from cli import broken_files

EXITS = {"E01": 2, "E02": 3, "E03": 4, "E04": 5, "E05": 6}


def refused(arguments, folder, expected: str, target="target", trailing=()) -> dict:
    """Runs whence, which must fail with the code `expected` and leave the folder unchanged. Returns the diagnostic.
    `trailing`: arguments after the options."""
    target = folder / target
    target.write_text("as it was")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    result = command.run(*arguments, *trailing, code=EXITS[expected[:3]])
    assert result.stderr.startswith(expected), result.stderr
    assert "; try: " in result.stderr
    assert result.stdout == ""

    first = json.loads(command.run(*arguments, "--json", *trailing, code=EXITS[expected[:3]]).stdout)["diagnostics"][0]
    assert first["code"] == expected
    assert first["message"] and first["remedy"] and first["severity"] == "error"

    assert target.read_text() == "as it was"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    return first


# ---- invalid files ------------------------------------------------------------------------------------------------

ARCHIVES = [
    ("missing", "E0102"),
    ("empty", "E0201"),
    ("truncated", "E0202"),
    ("text", "E0203"),
    ("state_dict", "E0203"),
    ("corrupt_archive", "E0204"),
    ("saves_files", "E0501"),
]


def broken(kind: str, folder, good):
    return folder / f"missing{good.suffix}" if kind == "missing" else getattr(broken_files, kind)(folder, good)


@pytest.mark.parametrize("kind, code", ARCHIVES)
@pytest.mark.parametrize("subcommand", ["record", "export"])
def test_invalid_archives_are_refused(subcommand, kind, code, small_archive, tmp_path):
    archive = broken(kind, tmp_path, small_archive)
    inputs = ["--input", "x=float32[2]"] if kind == "saves_files" else []
    refused([subcommand, archive, "-o", tmp_path / "target", *inputs], tmp_path, code)
    assert not (tmp_path / "written_by_the_model").exists()


def test_a_plain_zip_is_not_an_archive(small_archive, tmp_path):
    archive = broken_files.plain_zip(tmp_path, small_archive)
    assert command.run("record", archive, "-o", tmp_path / "out", code=3).stderr.startswith("E0203")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["class", 'a"b'])
def test_module_names_that_torchscript_cannot_store_have_a_remedy(name, tmp_path):
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4)})

        def forward(self, x):
            return self.layers[name](x)

    torch.jit.trace(Named(), torch.ones(2, 4)).save(str(tmp_path / "m.pt"))
    error = refused(["export", tmp_path / "m.pt", "-o", tmp_path / "target"], tmp_path, "E0204")
    assert "LibTorch cannot read the archive: expected " in error["message"]
    assert "torch.export.save" in error["remedy"]


@pytest.mark.parametrize("arguments", [["show", "no.pt"], ["export", "no.pt", "-o", "x"], ["record", "no.pt", "-o", "x"],
                                       ["export", "m.pt", "-o", "x", "--library", "no.pt"]])
def test_a_missing_file_has_one_message(arguments, small_archive, tmp_path):
    arguments = [small_archive if word == "m.pt" else tmp_path / word if word in ("no.pt", "x") else word
                 for word in arguments]
    assert refused(arguments, tmp_path, "E0102")["message"] == f"no such file: {tmp_path / 'no.pt'}"


@pytest.mark.parametrize("name, remedy", [("loop.onnx", "symbolic link"), ("n" * 300, "a shorter path"),
                                          ("target/m.onnx", "check the name")],
                         ids=["loop", "long name", "file as a folder"])
@pytest.mark.parametrize("subcommand", ["show", "validate"])
def test_a_path_that_cannot_be_followed_has_a_remedy(subcommand, name, remedy, tmp_path):
    loop = tmp_path / "loop.onnx"
    loop.symlink_to(tmp_path / "back.onnx")
    (tmp_path / "back.onnx").symlink_to(loop)
    assert command.run(subcommand, tmp_path / name, code=2).stderr.startswith("E0102")
    (tmp_path / "target").write_text("")
    error = command.run_json(subcommand, tmp_path / name, code=2)["diagnostics"][0]
    assert remedy in error["remedy"], error


MODELS = [("missing", "E0102"), ("empty", "E0201"), ("truncated", "E0202"), ("text", "E0203"), ("plain_zip", "E0203")]
READERS = {
    "annotate": lambda model, sidecar, target: [model, "--sidecar", sidecar, "-o", target],
    "strip": lambda model, sidecar, target: [model, "-o", target],
    "validate": lambda model, sidecar, target: [model],
    "show": lambda model, sidecar, target: [model],
    "explain": lambda model, sidecar, target: [model, "/first/Gemm"],
    "diff": lambda model, sidecar, target: [model, model],
    "report": lambda model, sidecar, target: [model, "-o", target, "--format", "html"],
    "dot": lambda model, sidecar, target: [model, "-o", target],
    "graphml": lambda model, sidecar, target: [model, "-o", target],
    "model-explorer": lambda model, sidecar, target: [model, "-o", target],
    "profile": lambda model, sidecar, target: [model, "--ort-profile", sidecar, "-o", target],
}


@pytest.mark.parametrize("kind, code", MODELS)
@pytest.mark.parametrize("subcommand", READERS)
def test_invalid_onnx_files_are_refused(subcommand, kind, code, small_export, tmp_path):
    model, sidecar = small_export
    arguments = READERS[subcommand](broken(kind, tmp_path, model), sidecar, tmp_path / "target")
    refused([subcommand, *arguments], tmp_path, code)


# (content that users pass instead of a model, its kind in the message, a word of the remedy)
UNSUPPORTED = [
    (b"PK\x03\x04" + bytes(40), "a zip archive", "torch.export.save"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a pointer of Git LFS", "git lfs pull"),
    (b"<!DOCTYPE html><html><body>404</body></html>", "a web page", "download"),
    (b"<?xml version='1.0'?><net name='m'/>", "XML", ".onnx"),
    (b'{"format": 1}', "JSON", "--sidecar"),
    (b"dear reader,\n\tno model here\n", "text", ".onnx"),
    ("schöne Grüße, kein Modell".encode(), "text", ".onnx"),
    (b"\x80\x02}q\x00.", "a pickle", "Python"),
    (b"\x40\0\0\0\0\0\0\0" + b'{"w": {}}', "safetensors", ".onnx"),
    (b"\x1c\0\0\0ORTM" + bytes(20), "ONNX Runtime's own format", "made from"),
    (b"\x1c\0\0\0TFL3" + bytes(20), "TensorFlow Lite", ".onnx"),
    (b"\x1f\x8b\x08" + bytes(20), "gzip", "decompress"),
    (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5", ".onnx"),
    (b"\x7fELF" + bytes(60), "a program or library", ".onnx"),
    (b"\xff\xfe\x00\x01" * 20, "does not begin as one", ".onnx"),
]


@pytest.mark.parametrize("content, kind, remedy", UNSUPPORTED,
                         ids=lambda value: value if isinstance(value, str) else "")
def test_the_error_names_the_kind_of_an_unsupported_file(content, kind, remedy, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    error = refused(["validate", path], tmp_path, "E0203")
    assert "is not an ONNX model: " in error["message"] and kind in error["message"] and remedy in error["remedy"]


@pytest.mark.parametrize("subcommand", READERS)
def test_a_length_that_is_too_large_is_corruption(subcommand, small_export, tmp_path):
    model, sidecar = small_export
    arguments = READERS[subcommand](broken_files.corrupt_onnx(tmp_path, model), sidecar, tmp_path / "target")
    text = command.run(subcommand, *arguments, code=3).stderr
    assert text.startswith(("E0202", "E0204")), text
    assert not (tmp_path / "target").exists()


SIDECARS = [("missing", "E0102"), ("empty", "E0201"), ("truncated", "E0202"), ("text", "E0203"), ("newer_sidecar", "E0205")]


@pytest.mark.parametrize("kind, code", SIDECARS)
@pytest.mark.parametrize("subcommand", ["annotate", "validate"])
def test_invalid_sidecars_are_refused(subcommand, kind, code, small_export, tmp_path):
    model, sidecar = small_export
    invalid = broken(kind, tmp_path, sidecar)
    target = ["-o", tmp_path / "target"] if subcommand == "annotate" else []
    refused([subcommand, model, "--sidecar", invalid, *target], tmp_path, code)


def test_a_sidecar_that_reads_an_undefined_value_is_refused(small_export, tmp_path):
    model, sidecar = small_export
    document = json.loads(sidecar.read_text())
    at = document["operations"]["columns"].index("outputs")
    first, last = document["operations"]["rows"][0], document["operations"]["rows"][-1]
    assert first[at] != last[at]
    first[at], last[at] = last[at], first[at]
    invalid = tmp_path / "invalid.json"
    invalid.write_text(json.dumps(document))
    found = refused(["annotate", model, "--sidecar", invalid, "-o", tmp_path / "target"], tmp_path, "E0204")
    assert "is read before it is defined" in found["message"]


def test_a_sidecar_with_a_duplicate_value_is_refused(small_export, tmp_path):
    model, sidecar = small_export
    document = json.loads(sidecar.read_text())
    at = document["operations"]["columns"].index("outputs")
    first, last = document["operations"]["rows"][0], document["operations"]["rows"][-1]
    last[at] += first[at]
    invalid = tmp_path / "invalid.json"
    invalid.write_text(json.dumps(document))
    found = refused(["annotate", model, "--sidecar", invalid, "-o", tmp_path / "target"], tmp_path, "E0204")
    assert "is defined a second time" in found["message"]


def test_a_sidecar_with_a_branch_with_inputs_is_refused(small_export, tmp_path):
    model, _ = small_export
    invalid = tmp_path / "invalid.json"
    invalid.write_bytes((command.ROOT / "tests" / "fuzz" / "findings" / "sidecar" / "branch-with-inputs").read_bytes())
    error = refused(["annotate", model, "--sidecar", invalid, "-o", tmp_path / "target"], tmp_path, "E0204")
    assert "two branches" in error["message"]


def test_a_sidecar_of_another_program_is_refused(small_export, tmp_path):
    model, _ = small_export
    torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(3, 3)), torch.ones(1, 3)).save(str(tmp_path / "other.pt"))
    command.run("record", tmp_path / "other.pt", "-o", tmp_path / "other.whence.json")
    refused(["annotate", model, "--sidecar", tmp_path / "other.whence.json", "-o", tmp_path / "target"], tmp_path, "E0206")


def test_a_sidecar_of_another_model_does_not_suggest_stripping(small_export, tmp_path):
    """Stripping the annotated file would help only with another recording of the same model."""
    model, sidecar = small_export
    annotated = tmp_path / "annotated.onnx"
    command.run("annotate", model, "--sidecar", sidecar, "-o", annotated)
    torch.manual_seed(8)
    other = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.Tanh(), torch.nn.Conv2d(5, 7, 3)).eval()
    torch.jit.trace(other, torch.ones(1, 3, 9, 9)).save(str(tmp_path / "other.pt"))
    command.run("record", tmp_path / "other.pt", "-o", tmp_path / "other.whence.json")
    arguments = ["annotate", annotated, "--sidecar", tmp_path / "other.whence.json", "-o", tmp_path / "target"]
    error = refused(arguments, tmp_path, "E0206")
    assert "describes another model" in error["message"] and "strip" not in error["remedy"]


# ---- example inputs from numpy files --------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_npz_inputs_are_read(save, small_archive, tmp_path):
    save(tmp_path / "a.npz", x=numpy.asfortranarray(numpy.zeros((700, 4), numpy.float32)))
    command.run("export", small_archive, "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "a.npz")
    shape = onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [700, 4]


def test_damaged_npz_inputs_are_refused(small_archive, tmp_path):
    numpy.savez_compressed(tmp_path / "a.npz", x=numpy.arange(800, dtype=numpy.float32).reshape(200, 4))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    refused(["export", small_archive, "-o", tmp_path / "target", "--inputs", tmp_path / "a.npz"], tmp_path, "E0204")


def npy(shape: str, descr: str = "'<f4'") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48)


@pytest.mark.parametrize("content", [
    npy("(99999999999999999999,)"), npy("(4294967296, 4294967296)"), npy("(0, 9223372036854775807, 9)"), npy("(-3, 4)"),
    npy("(3 4"), npy("(3;4)"), npy("(3, 5)"), npy("(3, 4)", "'>f4'"), npy("(3, 4)", "[('a', '<f4')]"), npy("(3, 4)")[:30],
    npy("(" + "1, " * 70 + ")"), b"\x93NUMPY\x02\x00\xff\xff\xff\xff", b"no array"],
    ids=["long", "product", "product with 0", "negative", "open", "list", "short", "big-endian", "record", "cut", "axes",
         "header", "text"])
def test_npz_inputs_without_a_valid_array_are_refused(content, small_archive, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    refused(["export", small_archive, "-o", tmp_path / "target", "--inputs", tmp_path / "a.npz"], tmp_path, "E0204")


# ---- inputs that do not match the model -----------------------------------------------------------------------------

INPUTS = [
    (["--input", "y=float32[3,4]"], "E0104", "x"),
    (["--input", "x=int64[3,4]"], "E0104", "float32"),
    (["--input", "x=float32[3,4,5]"], "E0104", "2 dimensions"),
    (["--input", "x=float32[3,4]", "--input", "z=float32[3,4]"], "E0104", "x"),
    (["--input", "x=float32[3,5]"], "E0207", "inputs"),
    (["--input", "x=flaot32[3,4]"], "E0103", "float32"),
    (["--input", "x"], "E0103", "int64[1,16]"),
    (["--inputs", "/nowhere/inputs.npz"], "E0102", "name"),
    (["--input", "x=float32[2000000000,1000000]"], "E0306", "smaller"),
    (["--inputs", "a.npz", "--input", "x=float32[3,4]"], "E0101", "SPEC"),
]


@pytest.mark.parametrize("options, code, remedy", INPUTS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
@pytest.mark.parametrize("subcommand", ["record", "export"])
def test_invalid_inputs_are_refused(subcommand, options, code, remedy, small_archive, tmp_path):
    error = refused([subcommand, small_archive, "-o", tmp_path / "target", *options], tmp_path, code)
    assert remedy in error["remedy"]


EXPORT_OPTIONS = [
    (["--dynamic", "y:0=batch"], "E0104", "x"),
    (["--dynamic", "x:7=batch"], "E0104", "rank"),
    (["--dynamic", "x"], "E0103", "input_ids:0=batch"),
    (["--opset", "12"], "E0101", "13 to 28"),
    (["--operators", "new"], "E0101", "'plain'"),
    (["--opset", "new"], "E0101", "a whole number"),
    (["--on-unsupported=skip"], "E0101", "domain"),
    (["--input-names", "a,b"], "E0101", "one name"),
    (["--ouput", "x"], "E0101", "--output"),
    (["another.pt"], "E0101", "usage: whence export"),
]


@pytest.mark.parametrize("options, code, remedy", EXPORT_OPTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_invalid_export_options_are_refused(options, code, remedy, small_archive, tmp_path):
    error = refused(["export", small_archive, "-o", tmp_path / "target", *options], tmp_path, code)
    assert remedy in error["remedy"]


def test_two_outputs_may_not_be_the_same_file(small_archive, tmp_path):
    refused(["export", small_archive, "-o", tmp_path / "target", "--sidecar-out", f"{tmp_path}/./target"], tmp_path,
            "E0101")


def test_outputs_may_be_devices(small_archive):
    command.run("record", small_archive, "-o", "/dev/null")
    command.run("export", small_archive, "-o", "/dev/null")


def test_the_output_may_not_be_the_input(small_archive, tmp_path):
    archive = tmp_path / "copy.pt"
    archive.write_bytes(small_archive.read_bytes())
    for subcommand in ("record", "export"):
        refused([subcommand, archive, "-o", archive], tmp_path, "E0101")
    assert archive.read_bytes() == small_archive.read_bytes()


def test_unsupported_operators_have_a_source_line_and_count(small_archive, tmp_path):
    archive = broken_files.unknown_operator(tmp_path, small_archive)
    error = refused(["export", archive, "-o", tmp_path / "target"], tmp_path, "E0301")
    assert "aten::linalg_eigvalsh" in error["message"]
    assert error["count"] == 2
    assert error["where"]["module"] == "solver"
    assert "broken_files.py" in error["where"]["source"]


def trace(forward, example, path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return forward(x)

    torch.jit.trace(Model(), example, check_trace=False).save(str(path))
    return path


def test_a_size_that_tracing_fixed_is_reported(tmp_path):
    archive = trace(lambda x: x.reshape(int(x.shape[0]), 2, 2), torch.ones(3, 4), tmp_path / "m.pt")
    error = refused(["export", archive, "-o", tmp_path / "target", "--dynamic", "x:0=batch"], tmp_path, "E0304")
    assert "test_errors.py" in error["where"]["source"]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_size_that_fits_only_by_broadcasting_is_reported(rows, tmp_path):
    archive = trace(lambda x: x + torch.zeros(3, 4), torch.ones(rows, 4), tmp_path / "m.pt")
    refused(["export", archive, "-o", tmp_path / "target", "--dynamic", "x:0=batch"], tmp_path, "E0304")


def test_an_operator_that_needs_a_later_opset_is_reported(tmp_path):
    archive = trace(lambda x: torch.nn.functional.grid_sample(x, x[:, :1, :, :2].expand(-1, 4, -1, -1).transpose(1, 2)),
                     torch.rand(1, 2, 4, 4), tmp_path / "m.pt")
    error = refused(["export", archive, "-o", tmp_path / "target", "--opset", "15"], tmp_path, "E0302")
    assert "--opset" in error["remedy"]


def test_dynamic_axes_need_example_inputs(tmp_path):
    torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 2))).save(str(tmp_path / "scripted.pt"))
    refused(["export", tmp_path / "scripted.pt", "-o", tmp_path / "target", "--dynamic", "input:0=batch"], tmp_path, "E0305")


def test_weights_outside_the_models_folder_are_refused(tmp_path):
    import onnx

    archive = trace(lambda x: x @ torch.arange(64.0 * 64).reshape(64, 64), torch.ones(2, 64), tmp_path / "m.pt")

    (tmp_path / "inner").mkdir()
    (tmp_path / "outer").mkdir()
    model, sidecar = tmp_path / "inner" / "m.onnx", tmp_path / "inner" / "m.whence.json"
    command.run("export", archive, "-o", model, "--sidecar-out", sidecar, "--external-data")
    content = onnx.load(model, load_external_data=False)
    locations = [entry for weight in content.graph.initializer for entry in weight.external_data if entry.key == "location"]
    assert locations
    for entry in locations:
        entry.value = "../outer/weights"
    onnx.save(content, model)
    refused(["annotate", model, "--sidecar", sidecar, "-o", tmp_path / "outer" / "target"], tmp_path / "outer", "E0502")


# ---- outputs that cannot be written -------------------------------------------------------------------------------


def write_commands(small_archive, small_export):
    model, sidecar = small_export
    return {
        "record": ["record", small_archive, "-o"],
        "export": ["export", small_archive, "-o"],
        "export --annotate": ["export", small_archive, "--annotate", "-o"],
        "export --sidecar-out": ["export", small_archive, "-o", "{folder}/target.onnx", "--sidecar-out"],
        "annotate": ["annotate", model, "--sidecar", sidecar, "-o"],
        "strip": ["strip", model, "-o"],
    }


WRITERS = ["record", "export", "export --annotate", "export --sidecar-out", "annotate", "strip"]


@pytest.mark.parametrize("name", WRITERS)
def test_an_output_in_a_missing_folder_is_an_error(name, small_archive, small_export, tmp_path):
    arguments = [str(a).replace("{folder}", str(tmp_path)) for a in write_commands(small_archive, small_export)[name]]
    error = refused([*arguments, tmp_path / "nowhere" / "out"], tmp_path, "E0401")
    assert "nowhere" in json.dumps(error)


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_as_output_is_an_error(name, small_archive, small_export, tmp_path):
    (tmp_path / "folder").mkdir()
    arguments = [str(a).replace("{folder}", str(tmp_path)) for a in write_commands(small_archive, small_export)[name]]
    refused([*arguments, tmp_path / "folder"], tmp_path, "E0401")


@pytest.mark.parametrize("name", WRITERS)
def test_an_empty_output_path_is_an_error(name, small_archive, small_export, tmp_path):
    arguments = [str(a).replace("{folder}", str(tmp_path)) for a in write_commands(small_archive, small_export)[name]]
    error = refused([*arguments, ""], tmp_path, "E0101")
    assert error["message"].startswith("--") and error["message"].endswith("is empty")


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_over_the_size_limit_is_an_error(name, small_archive, small_export, tmp_path):
    """A write fails partway, as on a full disk."""
    arguments = [str(a).replace("{folder}", str(tmp_path)) for a in write_commands(small_archive, small_export)[name]]
    (tmp_path / "target").write_text("as it was")
    result = subprocess.run(
        [str(command.BINARY), *map(str, arguments), str(tmp_path / "target")], capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert result.returncode == 5, result
    assert result.stderr.startswith("E0401"), result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (tmp_path / "target").read_text() == "as it was"


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 64 KiB with 4 KiB left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root; "
                    "test_a_file_over_the_size_limit_is_an_error covers the other cases")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    (disk / "filler").write_bytes(b"x" * 56 * 1024)
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("name", ["record", "export", "export --annotate"])
def test_a_full_disk_is_an_error(name, full_disk, small_export, tmp_path):
    wide = tmp_path / "wide.pt"
    torch.jit.trace(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(30)]), torch.ones(1, 64)).save(str(wide))
    arguments = [*write_commands(wide, small_export)[name], full_disk / "target"]
    refused(arguments, full_disk, "E0401")


def test_standard_output_that_cannot_be_written_is_an_error(small_export):
    model, _ = small_export
    with open("/dev/full", "w") as full:
        result = subprocess.run([str(command.BINARY), "show", str(model)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 5
    assert result.stderr.startswith("E0401")


# ---- the recorder and LibTorch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", [
    {"WHENCE_RECORDER": "/nowhere/libwhence_recorder.so"},
    {"WHENCE_TORCH_DIR": "/nowhere/torch"},
    {"TORCH_DIR": "/nowhere/torch", "WHENCE_TORCH_DIR": ""},
], ids=lambda environment: next(iter(environment)))
def test_only_recording_needs_libtorch(environment, small_archive, small_export, tmp_path):
    result = command.run("record", small_archive, "-o", tmp_path / "out", code=4, env=environment)
    assert result.stderr.startswith("E0307")
    assert next(iter(environment.values())) in result.stderr
    model, sidecar = small_export
    command.run("annotate", model, "--sidecar", sidecar, "-o", tmp_path / "out.onnx", env=environment)
    command.run("validate", tmp_path / "out.onnx", env=environment)
    command.run("show", tmp_path / "out.onnx", env=environment)


def test_a_recorder_of_another_build_is_refused(small_archive, tmp_path):
    source, library = tmp_path / "other.cpp", tmp_path / "libother.so"
    source.write_text('extern "C" const void* whence_open_recorder() { static const char* abi[2] = {"another", ""}; return abi; }')
    subprocess.run(["c++", "-shared", "-fPIC", "-o", library, source], check=True)
    result = command.run("record", small_archive, "-o", tmp_path / "out", code=4, env={"WHENCE_RECORDER": str(library)})
    assert result.stderr.startswith("E0307") and "another build" in result.stderr
