"""``python -m ltgcd`` is the command ``ltgcd``."""

import sys


def main() -> None:
    """Entry point of the command: Ctrl-C while it is still being imported is no traceback either."""
    try:
        from ltgcd.cli import main as command  # noqa: PLC0415

        command()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
