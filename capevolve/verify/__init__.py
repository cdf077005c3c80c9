"""Verification: what a run claims, computed again from its rows; bundles for those without its ledger."""

from capevolve.verify.bundle import write_bundle
from capevolve.verify.environment import read_environment
from capevolve.verify.rollouts import write_rollouts
from capevolve.verify.run import Verified, verify_run
from capevolve.verify.unbundle import verify_bundle

__all__ = [
    "Verified",
    "read_environment",
    "verify_bundle",
    "verify_run",
    "write_bundle",
    "write_rollouts",
]
