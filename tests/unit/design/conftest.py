"""Specs and designs in a short form."""

from __future__ import annotations

import pytest

from capevolve.design import Price, Sizes, Variance, design_of
from capevolve.spec import ProjectSpec

DEFAULTS = {"evaluation": {"num_trials": 3, "concurrency": 4}, "search": {"max_iterations": 10}}


@pytest.fixture(scope="session")
def make_spec():
    def make(gate: object = "confirm", **parts: object) -> ProjectSpec:
        return ProjectSpec.model_validate({"name": "x", **DEFAULTS, "gate": gate, **parts})

    return make


@pytest.fixture(scope="session")
def make_sizes():
    def make(val: int = 20, test: int = 20, train: int = 10, **changes: object) -> Sizes:
        return Sizes(
            **{"train": train, "val": val, "test": test, "val_units": val, "test_units": test, **changes}
        )

    return make


@pytest.fixture(scope="session")
def draw(make_spec, make_sizes):
    """Designs of (gate, val tasks, test tasks), measured noise 0.143 unless told otherwise."""

    def make(gate="confirm", val=20, test=20, *, within=0.143, variance=None, price=None, wanted=None,
             needs_evidence=None, sizes=None, **parts):  # fmt: skip
        return design_of(
            make_spec(gate, **parts),
            sizes or make_sizes(val, test),
            variance or Variance(within, "measured", "r1", 0.5, 0.08, 0.02),
            price or Price(),
            wanted=wanted,
            needs_evidence=needs_evidence,
        )

    return make


@pytest.fixture(scope="session")
def effect_of():
    def find(design, name):
        return next(effect for effect in design.effects if effect.name == name)

    return find
