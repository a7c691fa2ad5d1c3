"""`whence doctor` reports what is installed, which uses are ready, and what to install for the other uses."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata

import onnxruntime
import pytest
import torch

import command

CLEAN = {"WHENCE_TORCH_DIR": "", "TORCH_DIR": ""}


def doctor(*arguments, code: int = 0, **env: str) -> dict:
    """Runs doctor as a separate process: the path of the command determines its recorder."""
    return json.loads(command.run("doctor", "--json", *arguments, code=code, env=CLEAN | env, own_process=True).stdout)


def environment(folder, packages: dict[str, str], modules: dict[str, str]) -> str:
    """Creates a Python that has only these distributions and modules."""
    site = folder / "site"
    for name, version in packages.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for name, text in modules.items():
        (site / name).mkdir(parents=True, exist_ok=True)
        (site / name / "__init__.py").write_text(text)
    python = folder / "python with a space"
    python.write_text(f"#!/bin/sh\nexport PYTHONPATH={site}\nexec {sys.executable} -S \"$@\"\n")
    python.chmod(0o755)
    return str(python)


def use(report: dict, title: str) -> dict:
    (entry,) = [each for each in report["uses"] if title in each["use"]]
    return entry


def test_this_environment_is_reported():
    report = doctor("--python", sys.executable)
    assert report["command"] == {"version": command.run("--version").stdout.split()[1], "file": str(command.BINARY.resolve()),
                                 "kind": "build tree"}
    assert report["python"]["version"] == sys.version.split()[0]
    assert report["torch"]["version"] == torch.__version__ and report["torch"]["folder"] == torch.__path__[0]
    assert report["recorder"] == {"state": "fits", "torch": torch.__version__.split("+")[0], "why": "", "remedy": ""}
    assert report["package"]["folder"] == str(command.ROOT / "python" / "whence")
    packages = {each["name"]: each for each in report["packages"]}
    assert packages["onnxruntime"]["devices"] == onnxruntime.get_available_providers()
    for name in ("onnx", "onnxruntime", "openvino", "transformers", "onnxslim"):
        assert packages[name]["version"] == metadata.version(name)
    assert use(report, "TorchScript")["ready"] and use(report, "accuracy, sens")["ready"]
    for each in report["uses"]:
        assert each["ready"] == (not each["missing"]) == (not each["install"])


def test_the_text_matches_the_documentation():
    text = command.run("doctor", "--python", sys.executable, own_process=True).stdout
    assert f"torch       {torch.__version__}, {torch.__path__[0]}\n" in text
    assert f"onnxruntime {onnxruntime.__version__} (" in text and "\nready\n" in text
    page = (command.ROOT / "docs/doctor.md").read_text()
    page = page[page.index("$ whence doctor\n"):].split("```")[0]
    titles = re.compile(r"^(\w+)  +\S", re.MULTILINE)
    assert len(titles.findall(page)) > 5 and set(titles.findall(page)) <= set(titles.findall(text))
    assert set(re.findall(r"^  (\w.*)$", page, re.MULTILINE)) <= set(re.findall(r"^  (\w.*)$", text, re.MULTILINE))


def test_an_empty_environment_lists_what_to_install(tmp_path):
    python = environment(tmp_path, {}, {"nothing": ""})
    report = doctor("--python", python)
    assert report["torch"] is None and report["packages"] == [] and report["package"] is None
    assert use(report, "annotate, validate")["ready"]
    missing = use(report, "accuracy, sens")
    assert missing["missing"] == ["torch", "whence", "onnx", "onnxruntime"]
    assert missing["install"].endswith(" -m pip install torch whence-onnx onnx onnxruntime")
    assert use(report, "accuracy --values")["missing"][-1] == "safetensors"
    text = command.run("doctor", "--python", python, own_process=True, env=CLEAN).stdout
    assert "torch       not installed\n" in text and missing["install"] in text


def test_another_version_of_pytorch_is_a_finding(tmp_path):
    modules = {"torch": "", "torch/lib": ""}
    python = environment(tmp_path, {"torch": "2.9.1"}, modules)
    folder = tmp_path / "site" / "torch"
    (folder / "version.py").write_text("__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n")
    source = "unsigned long long aoti_torch_abi_version(void) { return 2ull << 56 | 9ull << 48 | 1ull << 40; }"
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so"):
        subprocess.run(["cc", "-shared", f"-Wl,-soname,{name}", "-o", folder / "lib" / name, "-x", "c", "-"], check=True,
                       input=source, text=True)
    report = doctor("--python", python, code=1)
    assert report["torch"]["version"] == "2.9.1+cu128" and report["torch"]["cuda"] == "12.8"
    assert report["recorder"]["state"] == "does not load" and report["recorder"]["torch"] is None
    (finding,) = report["diagnostics"]
    assert finding["code"] == "E0307" and finding["severity"] == "warning" and "2.9.1" in finding["message"]
    assert not use(report, "TorchScript")["ready"] and use(report, "TorchScript")["missing"] == ["recorder"]
    assert "whence recorder build" in command.run("doctor", "--python", python, code=1, own_process=True, env=CLEAN).stdout


def test_doctor_needs_no_folder_for_temporary_files(tmp_path, monkeypatch):
    """Temporary files go to the working directory and are removed."""
    python = environment(tmp_path, {}, {"nothing": ""})
    monkeypatch.chdir(tmp_path / "site")
    assert doctor("--python", python, TMPDIR=str(tmp_path / "none"))["torch"] is None
    assert [each.name for each in tmp_path.joinpath("site").iterdir()] == ["nothing"]


def test_a_runtime_that_does_not_load_is_a_finding(tmp_path):
    python = environment(tmp_path, {"onnxruntime": "1.30.0"}, {"onnxruntime": "raise ImportError('libcuda.so.1 is missing')\n"})
    report = doctor("--python", python, code=1)
    (package,) = report["packages"]
    assert package["devices"] == [] and "libcuda.so.1 is missing" in package["problem"]
    assert [each["code"] for each in report["diagnostics"]] == ["E0210"]
    assert "onnxruntime" in use(report, "accuracy, sens")["missing"]


def test_another_version_of_the_package_is_a_finding(tmp_path):
    python = environment(tmp_path, {}, {"whence": '__version__ = "0.0.7"\n'})
    report = doctor("--python", python, code=1)
    assert report["package"]["version"] == "0.0.7" and [each["code"] for each in report["diagnostics"]] == ["E0311"]


@pytest.mark.parametrize("text, code, label", [(None, 2, "E0102"), ("#!/bin/sh\necho too old >&2; exit 3\n", 3, "E0210")])
def test_an_invalid_python_is_an_error(tmp_path, text, code, label):
    python = tmp_path / "python"
    if text:
        python.write_text(text)
        python.chmod(0o755)
    assert [each["code"] for each in doctor("--python", python, code=code)["diagnostics"]] == [label]


def test_the_command_reports_without_python(tmp_path):
    report = doctor(code=0, WHENCE_PYTHON=str(tmp_path / "python"), PATH=str(tmp_path))
    assert report["python"] is None and report["packages"] == [] and use(report, "annotate, validate")["ready"]


def test_the_package_reports_its_own_python(tmp_path):
    other = environment(tmp_path, {"netron": "9.0"}, {"netron": ""})
    for options, names in (([], {"onnx", "onnxruntime"}), ([f"--python={other}"], {"netron"}), (["--python", other], {"netron"})):
        done = subprocess.run([sys.executable, "-m", "whence", "doctor", "--json", *options], capture_output=True, text=True,
                              env={**os.environ, "WHENCE": str(command.BINARY), "WHENCE_PYTHON": "/nowhere/python"})
        assert done.returncode == 0, done.stderr
        assert names <= {each["name"] for each in json.loads(done.stdout)["packages"]}
