"""The portable generator of every resampling method here: the same seed gives the same draws everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def splitmix64(seed: int, start: int, count: int) -> NDArray[np.uint64]:
    """Returns outputs `start` to `start + count - 1` of splitmix64: the same numbers on every machine.

    Any range can be made on its own.

    Formula: output j mixes the counter seed + (j + 1) * GAMMA modulo 2^64

    Args:
        seed: Any integer; its low 64 bits count.
        start: Index of the first output, from 0.
        count: How many outputs.

    Returns:
        Whole numbers from 0 to 2^64 - 1, shape (count,).

    Undefined: never.

    Caution: Good for resampling; not for secrets.

    Source: Steele, Lea and Flood (2014).
    """
    first = (seed + (start + 1) * GAMMA) & _MASK
    z = np.arange(count, dtype=np.uint64)
    z *= np.uint64(GAMMA)
    z += np.uint64(first)
    # In place: the temporary arrays, not the arithmetic, are what large draws would pay for.
    shifted = z >> np.uint64(30)
    z ^= shifted
    z *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(z, np.uint64(27), out=shifted)
    z ^= shifted
    z *= np.uint64(0x94D049BB133111EB)
    np.right_shift(z, np.uint64(31), out=shifted)
    z ^= shifted
    return z


def scale_draws(draws: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Returns draws scaled to indices 0 to n - 1: ((z >> 32) * n) >> 32.

    Args:
        draws: Outputs z of `splitmix64`, shape (m,).
        n: Number of indices, below 2^32. The chances of two indices differ by at most 2^-32.

    Returns:
        Shape (m,).
    """
    scaled = draws >> np.uint64(32)
    scaled *= np.uint64(n)
    scaled >>= np.uint64(32)
    return scaled
