"""Runs the steps of action.yml like GitHub's runner."""

import json
import os
import re
import subprocess

import onnx
import pytest
import yaml

import command

ACTION = yaml.safe_load((command.ROOT / "action.yml").read_text())


def fill_in(text: str, inputs: dict[str, str]) -> str:
    """Replaces `${{ inputs.name }}` with the input and `${{ github.action_path }}` with the folder."""
    def value(match: re.Match) -> str:
        name = match[1].strip()
        return str(command.ROOT) if name == "github.action_path" else inputs[name.removeprefix("inputs.")]
    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def run_steps(folder, models: str, **options: str) -> tuple[int, str, dict[str, str]]:
    """Runs the script steps until one fails. Returns (exit code, printed text, the step's outputs)."""
    inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | {"models": models, **options}
    outputs = folder / "outputs"
    outputs.write_text("")
    environment = {**os.environ, "PATH": os.pathsep.join([str(command.BINARY.parent), os.environ["PATH"]]),
                   "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    shown, code = "", 0
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue
        variables = {name: fill_in(text, inputs) for name, text in step["env"].items()}
        done = subprocess.run([step["shell"], "-e", "-o", "pipefail", "-c", fill_in(step["run"], inputs)], cwd=folder,
                              env={**environment, **variables}, capture_output=True, text=True)
        shown, code = shown + done.stdout + done.stderr, done.returncode
        if code:
            break
    return code, shown, dict(line.split("=", 1) for line in outputs.read_text().splitlines())


@pytest.fixture
def folder(small_export, small_archive, tmp_path):
    """model.onnx is annotated, lost.onnx has one node without metadata, plain.onnx has no metadata."""
    command.run("export", small_archive, "-o", tmp_path / "model.onnx", "--annotate", "--sidecar-out", tmp_path / "model.whence.json")
    model = onnx.load(tmp_path / "model.onnx")
    del model.graph.node[-1].metadata_props[:]
    model.graph.node[-1].name = "n"
    onnx.save(model, tmp_path / "lost.onnx")
    command.run("strip", tmp_path / "model.onnx", "-o", tmp_path / "plain.onnx")
    return tmp_path


def test_inputs_and_outputs_are_declared_and_used():
    text = (command.ROOT / "action.yml").read_text()
    used = set(re.findall(r"inputs\.(\w+)", text))
    assert used == set(ACTION["inputs"]) and len(used) > 7
    written = set(re.findall(r"steps\.check\.outputs\.(\w+)", text))
    script = (command.ROOT / "tools/action/check.sh").read_text()
    assert written == set(ACTION["outputs"]) and all(f"{name}=" in script for name in written)


def test_the_page_uses_existing_inputs():
    page = (command.ROOT / "docs/ci.md").read_text()
    workflow, hook = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    (step,) = [each for each in workflow["steps"] if "/whence@" in each.get("uses", "")]
    named = set(re.findall(r"^\| `(\w+)", page, re.MULTILINE)) | {"sidecar"}
    assert set(step["with"]) <= set(ACTION["inputs"]) == named
    assert set(re.findall(r"outputs\.(\w+)", page)) <= set(ACTION["outputs"])
    hooks = yaml.safe_load((command.ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["repos"][0]["hooks"][0]["id"] in {each["id"] for each in hooks}


def test_a_file_without_findings_passes(folder):
    code, shown, outputs = run_steps(folder, "model.onnx", options="--min=covered=99\n--require=first")
    assert code == 0 and outputs["findings"] == "false" and "::error" not in shown
    assert json.loads((folder / outputs["sarif"] / "0.sarif").read_text())["runs"][0]["results"] == []
    comment = (folder / outputs["comment"]).read_text()
    assert "### `model.onnx`: nothing found" in comment and "<details>" in comment
    assert (folder / "summary.md").read_text() == comment


def test_lost_provenance_fails(folder):
    code, shown, outputs = run_steps(folder, "lost.onnx", baseline="model.onnx")
    assert code == 1 and outputs["findings"] == "true" and re.search(r"^::(error|warning) .*V503", shown, re.MULTILINE)
    (result,) = json.loads((folder / outputs["sarif"] / "0.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "V503"
    comment = (folder / outputs["comment"]).read_text()
    assert "### `lost.onnx`: findings" in comment and "V503 1 more node" in comment and comment.count("```") % 2 == 0


def test_findings_may_be_allowed_to_pass(folder):
    code, _, outputs = run_steps(folder, "lost.onnx", baseline="model.onnx", fail="false")
    assert code == 0 and outputs["findings"] == "true"


def test_several_files_and_globs_are_checked(folder):
    (folder / "a folder").mkdir()
    (folder / "model.onnx").rename(folder / "a folder" / "m.onnx")
    code, _, outputs = run_steps(folder, "a folder/*.onnx\nlost.onnx\n", options="--min=covered=99")
    assert code == 1 and len(list((folder / outputs["sarif"]).iterdir())) == 2
    comment = (folder / outputs["comment"]).read_text()
    assert "`a folder/m.onnx`: nothing found" in comment and "`lost.onnx`: findings" in comment


def test_two_stars_match_any_number_of_folders(folder):
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("a/1.onnx", "a/b/2.onnx", "a/b/[3].onnx"):
        (folder / name).write_bytes((folder / "model.onnx").read_bytes())
    comment = (folder / run_steps(folder, "a/**/*.onnx\na/b/[3].onnx")[2]["comment"]).read_text()
    assert comment.count("\n### `") == 4 and all(f"`a/{name}.onnx`" in comment for name in ("1", "b/2", "b/[3]"))


def test_each_line_must_match_a_file(folder):
    """Otherwise a gate would pass silently without checking the files of that line."""
    code, shown, _ = run_steps(folder, "model.onnx\nnone/*.onnx")
    assert code == 2 and "::error title=whence::no ONNX file is called none/*.onnx\n" in shown
    code, shown, _ = run_steps(folder, "\n")
    assert code == 2 and "models names no ONNX file" in shown


def test_annotating_needs_a_source(folder):
    code, shown, _ = run_steps(folder, "plain.onnx", annotate="true")
    assert code == 2 and "::error title=whence::annotate: true needs a sidecar or a baseline\n" in shown


@pytest.mark.parametrize("source", [{"sidecar": "model.whence.json"}, {"baseline": "model.onnx"}])
def test_a_plain_file_is_annotated_first(folder, source):
    before = (folder / "plain.onnx").read_bytes()
    code, shown, _ = run_steps(folder, "plain.onnx", annotate="true", options="--min=covered=99", **source)
    assert code == 0, shown
    assert command.run_json("validate", folder / "whence-results" / "plain.onnx")["coverage"]["covered"] == 3
    assert (folder / "plain.onnx").read_bytes() == before


def test_a_failed_annotation_does_not_use_an_earlier_result(folder):
    assert run_steps(folder, "plain.onnx", annotate="true", sidecar="model.whence.json")[0] == 0
    (folder / "plain.onnx").write_bytes(b"\x0a\xff")
    code, shown, outputs = run_steps(folder, "plain.onnx", annotate="true", sidecar="model.whence.json")
    assert code == 3 and re.search("^::error .*plain.onnx could not be annotated, exit code 3", shown, re.MULTILINE) and not outputs


def test_a_file_outside_the_folder_is_not_overwritten(folder):
    (folder / "work").mkdir()
    before = (folder / "plain.onnx").read_bytes()
    code, shown, _ = run_steps(folder / "work", "../plain.onnx", annotate="true", sidecar="../model.whence.json")
    assert code == 0, shown
    assert (folder / "plain.onnx").read_bytes() == before
    assert command.run_json("validate", folder / "work" / "whence-results" / "_" / "plain.onnx")["coverage"]["covered"] == 3


@pytest.mark.parametrize("models, options, words", [("none.onnx", {}, "could not be checked"), ("*.none", {}, "no ONNX file"),
                                                    ("", {}, "no ONNX file"), ("model.onnx", {"options": "--mim=3"}, "exit code 2")])
def test_an_unchecked_file_is_not_a_finding(folder, models, options, words):
    code, shown, outputs = run_steps(folder, models, **options)
    assert code == 2 and re.search(rf"^::error .*{words}", shown, re.MULTILINE) and not outputs


def test_the_requested_version_is_installed(tmp_path):
    """pip installs the command only if it is missing."""
    (tmp_path / "python3").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.asked"\nprintf "#!/bin/sh\\n" > "${0%/*}/whence"\n'
                                      'chmod +x "${0%/*}/whence"\n')
    (tmp_path / "python3").chmod(0o755)
    for version, expected in (("", "whence-onnx"), ("0.1.0", "whence-onnx==0.1.0")):
        (tmp_path / "whence").unlink(missing_ok=True)
        subprocess.run(["/bin/sh", command.ROOT / "tools/action/install.sh"], check=True,
                       env={"PATH": f"{tmp_path}:/usr/bin:/bin", "WHENCE_VERSION": version})
        assert (tmp_path / "python3.asked").read_text().splitlines()[-1] == expected
