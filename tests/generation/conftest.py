"""Uses the package from the source tree and the built command, as in tests/python."""

import os
import sys
import warnings

import pytest

import command

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
