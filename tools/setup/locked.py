"""Prints the requirements of a lock file with their digests, for `pip install --require-hashes`.

    locked.py LOCK NAME...              the requirements with these names
    locked.py LOCK --without NAME...    all other requirements
"""

import sys


def blocks(text: str) -> dict[str, str]:
    """Returns the lines of each requirement, by its name."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if not line.startswith(("#", " ")):
            name = line.partition("==")[0]
            found[name] = ""
        if name:
            found[name] += line
    return found


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as lock:
        locked = blocks(lock.read())
    names = sys.argv[2:]
    if names[0] == "--without":
        names = [name for name in locked if name not in names]
    print("".join(locked[name] for name in names), end="")
