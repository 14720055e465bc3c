"""``python -m ltgcd`` is the command ``ltgcd``."""

from ltgcd.cli import main

main()
