"""Prints the requirements of a file that this environment does not meet. Much faster than pip."""

import importlib.metadata
import sys


def missing(lines):
    for line in lines:
        name, _, version = line.strip().partition("==")
        if not name or name.startswith("#"):
            continue
        try:
            found = importlib.metadata.version(name).partition("+")[0]  # "2.13.0+cpu" is 2.13.0
        except importlib.metadata.PackageNotFoundError:
            found = None
        if found != version:
            yield f"{name}=={version}"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as requirements:
        print(*missing(requirements))
