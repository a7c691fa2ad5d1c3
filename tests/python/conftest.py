"""The package from the source tree, with the command that was built."""

import os
import sys

import command

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))
