"""Writes the ledger of a finished run as SQL text, to keep as a fixture that must open for ever.

    python tests/unit/ledger/old/dump.py LEDGER.db > tests/unit/ledger/old/ledger-v1.sql

Do this once for each released schema version, with that version's capevolve; never write one again.
"""

from __future__ import annotations

import sqlite3
import sys


def main() -> None:
    connection = sqlite3.connect(sys.argv[1])
    for line in connection.iterdump():
        sys.stdout.write(f"{line}\n")
    connection.close()


if __name__ == "__main__":
    main()
