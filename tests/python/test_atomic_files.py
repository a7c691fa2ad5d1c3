"""The package replaces files atomically and leaves no temporary files."""

import os
import subprocess
import sys

import pytest

import command
from whence.files import atomic_files


def write_a_drawing(model, folder):
    command.run("dot", model, "-o", folder / "drawing.dot")


def test_drafts_of_a_running_process_are_kept(small_export, tmp_path):
    def write(path):
        path.write_text("new")
        write_a_drawing(small_export[0], tmp_path)
        assert path.exists()

    with atomic_files.draft_folder(tmp_path) as folder:
        atomic_files.write_atomically(tmp_path / "target", write)
        assert folder.is_dir()
    assert sorted(os.listdir(tmp_path)) == ["drawing.dot", "target"] and (tmp_path / "target").read_text() == "new"


def test_drafts_of_a_dead_process_are_removed(small_export, tmp_path):
    code = ("import os, sys; from pathlib import Path; from whence.files import atomic_files\n"
            "target = Path(sys.argv[1]) / 'target'\n"
            "with atomic_files.draft_folder(target.parent) as drafts:\n"
            "    (drafts / 'weights').write_text('half')\n"
            "    atomic_files.write_atomically(target, lambda path: os.kill(os.getpid(), 9))\n")
    environment = {**os.environ, "PYTHONPATH": str(command.ROOT / "python")}
    assert subprocess.run([sys.executable, "-c", code, tmp_path], env=environment).returncode == -9
    assert len(os.listdir(tmp_path)) == 2
    write_a_drawing(small_export[0], tmp_path)
    assert os.listdir(tmp_path) == ["drawing.dot"]


@pytest.mark.parametrize("failing", ["model.onnx.data", "model.onnx"])
def test_model_and_weights_are_both_kept_if_one_cannot_be_replaced(failing, tmp_path, monkeypatch):
    target, replace = tmp_path / "model.onnx", os.replace
    for name in ("model.onnx", "model.onnx.data"):
        (tmp_path / name).write_text(f"old {name}")

    def failing_once(source, name):
        if os.path.basename(name) == failing and not os.path.basename(source).startswith(".old"):
            raise OSError(28, "No space left on device")
        replace(source, name)

    monkeypatch.setattr(os, "replace", failing_once)
    with pytest.raises(OSError), atomic_files.draft_folder(tmp_path) as drafts:
        for name in ("model.onnx", "model.onnx.data"):
            (drafts / name).write_text(f"new {name}")
        atomic_files.place(drafts, target, overwrite=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        name: f"old {name}" for name in ("model.onnx", "model.onnx.data")}
