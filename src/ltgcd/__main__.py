"""``python -m ltgcd`` is the command ``ltgcd``."""

import sys


def main() -> None:
    """Entry point of the command: Ctrl-C while it is still being imported is no traceback either."""
    try:
        from ltgcd.cli import main as command  # noqa: PLC0415

        command()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 makes a RuntimeError of a Ctrl-C that comes while a class is being made, as in an import.
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        sys.stderr.write("Stopped.\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
