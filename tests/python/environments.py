"""Creates virtual environments with only selected packages of the running environment."""

import importlib.metadata
import os
import re
import venv
from pathlib import Path


def with_dependencies(package: str, names: set[str]) -> set[str]:
    """Adds the names of a distribution and of its installed dependencies to `names`; returns `names`."""
    name = re.split(r"[^\w.-]", package, maxsplit=1)[0]
    try:
        requirements = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return names
    if name.lower() not in names:
        names.add(name.lower())
        for requirement in requirements:
            if "extra ==" not in requirement:
                with_dependencies(requirement, names)
    return names


def create_linked_environment(environment: Path, packages: set[str]) -> Path:
    """Creates an environment with links to only these distributions. Returns its Python."""
    venv.create(environment, with_pip=False)
    folder = next((environment / "lib").glob("python3*")) / "site-packages"
    for name in packages:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            source = Path(file.locate()).parents[len(file.parts) - 2] if len(file.parts) > 1 else Path(file.locate())
            if top != ".." and source.exists() and not (folder / top).exists():
                (folder / top).symlink_to(source)
    return environment / "bin" / "python"


def clean_environment() -> dict[str, str]:
    """Returns the environment without the variables that locate whence or PyTorch."""
    return {key: value for key, value in os.environ.items()
            if not key.startswith("WHENCE") and key not in ("PYTHONPATH", "TORCH_DIR", "VIRTUAL_ENV")}
