"""Tests that the workflows, the pre-commit hook and the conda recipe refer to existing files and targets, and that
their tools accept them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import yaml

import command

WORKFLOWS = sorted((command.ROOT / ".github" / "workflows").glob("*.yml"))
PRE_COMMIT = ["pre-commit==4.7.0", "cfgv==3.5.0", "identify==2.6.20", "nodeenv==1.12.0", "virtualenv==21.15.11",
              "distlib==0.4.4", "platformdirs==4.14.8", "python-discovery==1.9.6"]
REGISTRY = re.compile(r"pypi|pythonhosted|anaconda\.org|conda\.io|ghcr|docker\.io|npmjs", re.IGNORECASE)


def runs(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_existing_files(workflow):
    lines = runs(workflow)
    targets = set(re.findall(r"^([a-z-]+):", (command.ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for line in lines for target in re.findall(r"\bmake ([a-z-]+)", line)}
    assert "test" in named and named <= targets
    assert not [path for line in lines for path in re.findall(r"tools/[\w/.]+", line) if not (command.ROOT / path).exists()]
    for line in lines:
        subprocess.run(["bash", "-n", "-c", line], check=True)
    assert "permissions" in yaml.safe_load(workflow.read_text())


def test_ci_and_releases_have_a_workflow():
    assert {path.stem for path in WORKFLOWS} == {"ci", "release"}


def test_no_registry_is_mentioned():
    files = [*WORKFLOWS, command.ROOT / "action.yml", command.ROOT / ".pre-commit-hooks.yaml", *(command.ROOT / "tools/conda").iterdir(),
             *(command.ROOT / "tools/action").iterdir()]
    assert REGISTRY.search("https://pypi.org/simple")
    assert not [path.name for path in files if REGISTRY.search(path.read_text())]


@pytest.fixture(scope="module")
def pre_commit() -> list[str]:
    """Returns the command line of pre-commit, which is installed once into a folder in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whence"
    folder = cache / PRE_COMMIT[0].replace("==", "-")
    if not folder.exists():
        partial = cache / f"{folder.name}.{os.getpid()}"
        result = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                                 "--target", partial, *PRE_COMMIT], capture_output=True, text=True, timeout=300, check=False)
        if result.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            pytest.skip(f"pip could not fetch pre-commit: {result.stderr.strip().splitlines()[-1]}")
        partial.rename(folder)
    return ["env", f"PYTHONPATH={folder}", sys.executable, "-m", "pre_commit"]


def git(folder, *arguments) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main", *arguments],
                   cwd=folder, check=True, capture_output=True)


def repository(folder: Path, files: dict[str, Path | str]) -> Path:
    folder.mkdir()
    git(folder, "init")
    for name, source in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / name) if isinstance(source, Path) else (folder / name).write_text(source)
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "files")
    git(folder, "tag", "v1")
    return folder


def test_pre_commit_accepts_the_list_of_hooks(pre_commit):
    subprocess.run([*pre_commit, "validate-manifest", command.ROOT / ".pre-commit-hooks.yaml"], check=True)


def test_the_hook_checks_files_of_a_repository(pre_commit, small_archive, tmp_path):
    hook = repository(tmp_path / "hook", {name: command.ROOT / name
                                          for name in (".pre-commit-hooks.yaml", "tools/action/pre_commit.sh")})
    command.run("export", small_archive, "-o", tmp_path / "good model.onnx", "--annotate")
    model = onnx.load(tmp_path / "good model.onnx")
    for node in model.graph.node:
        del node.metadata_props[:]
        node.name = ""
    onnx.save(model, tmp_path / "lost.onnx")
    settings = yaml.safe_dump({"repos": [{"repo": str(hook), "rev": "v1", "hooks": [
        {"id": "whence-validate", "args": ["--min=covered=99"]}]}]})
    mine = repository(tmp_path / "mine", {".pre-commit-config.yaml": settings, "README.md": "text\n",
                                          "good model.onnx": tmp_path / "good model.onnx"})

    def run(**variables: str) -> subprocess.CompletedProcess:
        path = os.pathsep.join([str(command.BINARY.parent), os.environ["PATH"]])
        return subprocess.run([*pre_commit, "run", "--all-files"], cwd=mine, capture_output=True, text=True,
                              env={**os.environ, "PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "home"), **variables})

    passed = run()
    assert passed.returncode == 0 and "whence validate" in passed.stdout and "Passed" in passed.stdout, passed.stdout
    shutil.copy(tmp_path / "lost.onnx", mine)
    git(mine, "add", "-A")
    failed = run()
    assert failed.returncode == 1 and "lost.onnx" in failed.stdout and "V501" in failed.stdout
    assert "good model.onnx" not in failed.stdout
    absent = run(PATH="/usr/bin:/bin")
    assert absent.returncode == 1 and "pip install whence-onnx" in absent.stdout


def test_the_conda_recipe_has_the_version():
    recipe = (command.ROOT / "tools/conda/recipe.yaml").read_text()
    assert f'version: "{command.run("--version").stdout.split()[1]}"' in recipe


@pytest.mark.matrix
@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64"])
def test_the_conda_recipe_is_rendered(platform):
    python = command.ROOT / "build" / "tools" / "conda" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment of conda: tools/setup/tool_environments.sh")
    script = """
import json, sys
from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig
variants = VariantConfig({"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"], "cxx_compiler": ["gxx"]})
(found,) = Stage0Recipe.from_file(sys.argv[1]).render(variants, RenderConfig(platform=PlatformConfig(target_platform=sys.argv[2])))
print(json.dumps(found.recipe.to_dict(), default=str))
"""
    done = subprocess.run([python, "-c", script, command.ROOT / "tools/conda/recipe.yaml", platform], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version = command.run("--version").stdout.split()[1]
    assert f'"{version}"' in done.stdout and f"gxx_{platform}" in done.stdout and "nlohmann_json" in done.stdout
