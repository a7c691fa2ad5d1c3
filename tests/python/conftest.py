"""Uses the package from the source tree and the built command."""

import os
import sys
import warnings

import pytest

import command

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))


@pytest.fixture
def quiet():
    """Silences PyTorch's many warnings, and whence's warnings that these tests do not check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
