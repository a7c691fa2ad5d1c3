"""``python -m whence``: the command, with the subcommands that need Python."""

import sys

from .command import main

sys.exit(main())
