"""`python -m gradc` and the script `gradc`."""

from __future__ import annotations

import sys

__all__ = ["run"]


def run() -> None:
    """The command line; whoever interrupts it while it starts sees no traceback either."""
    try:
        from gradc.cli import app

        app.run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("error: interrupted [interrupted]\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
