"""The ledger: the only module that talks to the database.

Everything that must survive is a row here. Functions take an open `Connection`, so that a caller decides
what is one transaction; `Ledger.read()` and `Ledger.write()` begin one.
"""

from capevolve.ledger.leases import Driver
from capevolve.ledger.store import Ledger, open_ledger

__all__ = ["Driver", "Ledger", "open_ledger"]
