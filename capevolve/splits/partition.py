"""The arithmetic of splitting: sizes by largest remainder, sets that stay together, a seeded fill.

Works on ids alone. Deterministic: no random generator, no dependence on the order of the input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from capevolve.canonical import canonical_json
from capevolve.model import SPLITS, Split

Ties = Mapping[str, Iterable[tuple[str, str]]]
"""For each id, the marks it carries; ids that share a mark stay together."""

FAVOURED: tuple[Split, ...] = ("val", "test", "train")
_MIN_FILL = 2


def largest_remainder(n: int, ratios: Mapping[Split, float]) -> dict[Split, int]:
    """Returns sizes that add up to n, each within 1 of its share (Hamilton's method).

    Ties favour val, then test. A ratio of 0 gets nothing. At least one ratio is above 0.
    """
    # The decimals as written: 0.29 of 100 is 29, which binary floating point misses.
    exact = {split: Fraction(str(ratio)) for split, ratio in ratios.items()}
    shares = {split: n * ratio / sum(exact.values()) for split, ratio in exact.items()}
    sizes = {split: int(share) for split, share in shares.items()}
    by_remainder = sorted(FAVOURED, key=lambda split: sizes[split] - shares[split])
    for split in by_remainder[: n - sum(sizes.values())]:
        sizes[split] += 1
    return sizes


def bind_together(seed: int, ties: Ties) -> list[list[str]]:
    """Returns the sets of ids that stay together, shuffled by the seed.

    Ids are ordered by `sha256(seed, id)`; a set stands where its first id stands.
    """
    order = sorted(ties, key=lambda name: rank(seed, name))
    parent = {name: name for name in order}
    first_with: dict[tuple[str, str], str] = {}
    for name in order:
        for tie in ties[name]:
            parent[_root(parent, name)] = _root(parent, first_with.setdefault(tie, name))
    units: dict[str, list[str]] = {}
    for name in order:
        units.setdefault(_root(parent, name), []).append(name)
    return list(units.values())


def fill(units: Sequence[Sequence[str]], targets: Mapping[Split, int]) -> dict[Split, list[str]]:
    """Gives each unit, in order, to the split that lacks most; units beyond all targets go nowhere.

    Units of one id meet the targets exactly. When large units leave a split short, the fill is done again
    with the largest unit first: less random, better filled. A split may still be empty.
    """
    parts = _fill_in_order(units, targets)
    if is_filled(parts, targets):
        return parts
    return _fill_in_order(sorted(units, key=len, reverse=True), targets)


def is_filled(parts: Mapping[Split, Sequence[str]], targets: Mapping[Split, int]) -> bool:
    """Returns whether no split that is to have tasks is left without the first two of them."""
    return all(len(parts[split]) >= min(targets[split], _MIN_FILL) for split in SPLITS)


def _fill_in_order(units: Iterable[Sequence[str]], targets: Mapping[Split, int]) -> dict[Split, list[str]]:
    parts: dict[Split, list[str]] = {split: [] for split in SPLITS}
    for unit in units:
        lacking = max(FAVOURED, key=lambda split: targets[split] - len(parts[split]))
        if len(parts[lacking]) < targets[lacking]:
            parts[lacking].extend(unit)
    return parts


def rank(seed: int, name: str | None) -> bytes:
    """Returns what a name is ordered by: an order that the seed shuffles."""
    return hashlib.sha256(canonical_json([seed, name]).encode("utf-8")).digest()


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name
