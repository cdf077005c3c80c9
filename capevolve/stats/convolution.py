"""Exact upper tails of sums of independent discrete terms.

Two ways, both exact up to rounding: convolution when all terms lie on one integer lattice, and sorting the
sums of two halves when there are few enough of them.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from capevolve.stats.moments import TOLERANCE

Floats = NDArray[np.float64]

MAX_DENOMINATOR = 10_000
MAX_STEPS = 1_000_000
MAX_ADDITIONS = 400_000_000
"""Lattice size times term values: about a fifth of a second of work."""
MAX_HALF = 1 << 17
NARROW = 32
"""Up to this many steps a term is added as a dense row, and equal ones by repeated squaring."""


@dataclass(frozen=True, slots=True)
class Term:
    """One independent term of a sum: the values it takes, all at least 0, and their probabilities."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...]


def upper_tail(terms: Sequence[Term], observed: float) -> float | None:
    """Returns P(sum of the terms >= observed), ties included, or None where no exact way is affordable.

    Sums within `TOLERANCE` times the largest sum of each other are ties.

    Args:
        terms: Independent terms; constants may be among them.
        observed: A value the sum can take.
    """
    top = math.fsum(max(term.values) for term in terms)
    if top == 0.0:
        return 1.0
    scale = _find_lattice(terms)
    if scale is not None:
        return clip_p(_lattice_tail(terms, scale, round(observed * scale)))
    halves = _split_terms(terms)
    if halves is None:
        return None
    return clip_p(_halves_tail(*halves, observed - TOLERANCE * top))


def clip_p(p: float) -> float:
    """Keeps a p-value in (0, 1]: rounding must not pass 1, and what underflows is not impossible."""
    return min(1.0, max(p, sys.float_info.min))


def _find_lattice(terms: Sequence[Term]) -> float | None:
    """Returns the factor that makes all values integers, None when there is none of an affordable size.

    Values are compared with the largest one, so the lattice does not depend on their unit.
    """
    values = {value for term in terms for value in term.values}
    largest = max(values)
    steps = 1
    for value in values:
        ratio = value / largest
        fraction = Fraction(ratio).limit_denominator(MAX_DENOMINATOR)
        if abs(float(fraction) - ratio) > TOLERANCE:
            return None
        steps = math.lcm(steps, fraction.denominator)
        if steps > MAX_STEPS:
            return None
    scale = steps / largest
    size = sum(max(term.values) for term in terms) * scale
    additions = size * sum(len(term.values) for term in terms)
    return scale if additions <= MAX_ADDITIONS else None


def _lattice_tail(terms: Sequence[Term], scale: float, observed: int) -> float:
    chances: Floats = np.ones(1)
    # Small terms first: every addition costs the length reached so far.
    for term, count in sorted(Counter(terms).items(), key=lambda item: max(item[0].values)):
        positions = [round(value * scale) for value in term.values]
        if max(positions) < NARROW:
            chances = np.convolve(chances, self_convolve(_spread(positions, term.probabilities), count))
            continue
        for _ in range(count):
            chances = add_sparse(chances, positions, term.probabilities)
    return float(np.sum(chances[observed:]))


def _spread(positions: Sequence[int], probabilities: Sequence[float]) -> Floats:
    kernel: Floats = np.zeros(max(positions) + 1)
    for position, probability in zip(positions, probabilities, strict=True):
        kernel[position] += probability
    return kernel


def self_convolve(kernel: Floats, count: int) -> Floats:
    """Returns the distribution of the sum of `count` independent copies."""
    result: Floats = np.ones(1)
    while count:
        if count & 1:
            result = np.convolve(result, kernel)
        count >>= 1
        if count:
            kernel = np.convolve(kernel, kernel)
    return result


def add_sparse(chances: Floats, positions: Sequence[int], probabilities: Sequence[float] | Floats) -> Floats:
    """Returns the distribution of a sum and one more term, which takes few, widely spread positions."""
    grown: Floats = np.zeros(len(chances) + max(positions))
    for position, probability in zip(positions, probabilities, strict=True):
        grown[position : position + len(chances)] += probability * chances
    return grown


def _split_terms(terms: Sequence[Term]) -> tuple[list[Term], list[Term]] | None:
    """Returns two halves with at most `MAX_HALF` sums each, None when they would have more."""
    halves: tuple[list[Term], list[Term]] = ([], [])
    sizes = [1, 1]
    for term in sorted(terms, key=lambda term: len(term.values), reverse=True):
        smaller = 0 if sizes[0] <= sizes[1] else 1
        halves[smaller].append(term)
        sizes[smaller] *= len(term.values)
    return halves if max(sizes) <= MAX_HALF else None


def _halves_tail(left: Sequence[Term], right: Sequence[Term], floor: float) -> float:
    left_sums, left_chances = _all_sums(left)
    right_sums, right_chances = _all_sums(right)
    order = np.argsort(right_sums)
    # above[i]: the chance of the i-th smallest right sum or a larger one; nothing is above the last.
    above = np.append(np.cumsum(right_chances[order][::-1])[::-1], 0.0)
    starts = np.searchsorted(right_sums[order], floor - left_sums)
    return float(np.sum(left_chances * above[starts]))


def _all_sums(terms: Sequence[Term]) -> tuple[Floats, Floats]:
    sums: Floats = np.zeros(1)
    chances: Floats = np.ones(1)
    for term in terms:
        sums = np.add.outer(sums, np.array(term.values)).ravel()
        chances = np.multiply.outer(chances, np.array(term.probabilities)).ravel()
    return sums, chances
