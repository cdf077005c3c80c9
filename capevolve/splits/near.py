"""Near duplicates: inputs in two splits that share most of their word shingles.

Two inputs are nearly the same when the sets of their shingles (5 words in a row) have a Jaccard similarity of
at least 0.8: of all shingles that either has, both have four in five (Broder 1997). Words are normalised as
`content` does it. Signs beside words count as words, but for punctuation: `7 + 2` is not `7 - 2`. A letter of
a script that is written without spaces is a word. An input of fewer than 5 words has one shingle, all its
words. Of long inputs the first and the last words count: 200 of each input always, and more while all inputs
together have less than 4 million.

What is found is exact, and everything is found unless it says that the search was cut short.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capevolve.model import SPLITS, Split
from capevolve.splits.plan import NearDuplicates, NearPair, TaskRow

SHINGLE = 5
LEAST_WORDS = 200
ALL_WORDS = 4_000_000
LISTED = 20
"""Pairs that are named, at most."""

_LEAST = (4, 5)
"""The least similarity, as a fraction of whole numbers so that a tie is a tie."""
_COMPARED = 1_000_000
_COMPARED_EACH = 100
"""Comparisons in all, about, and those that each task may make however many tasks there are."""
_LOOKED_AT = 10
"""Entries of the index looked at for each comparison that is allowed."""

_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+|[^\w\s.,;:!?'\"()\[\]{{}}‘’“”«»…、。・]")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_PAIRS: tuple[tuple[Split, Literal["train", "val"]], ...] = (
    ("test", "train"),
    ("test", "val"),
    ("val", "train"),
)

_Ranks = NDArray[np.int64]


def find_near(parts: Mapping[Split, Sequence[TaskRow]]) -> NearDuplicates | None:
    """Returns the tasks that are nearly the same as one of another split; None when there are none.

    Tasks with the same content are left out, because those are refused, grouped or told of elsewhere.

    Args:
        parts: The tasks of each split, ordered by id.
    """
    rows = [row for split in SPLITS for row in parts[split]]
    longest = max(LEAST_WORDS, ALL_WORDS // max(1, len(rows)))
    shingles = _Shingles(list_words(row.text or "", longest) for row in rows)
    places: dict[Split, range] = {}
    for split in SPLITS:
        start = sum(map(len, places.values()))
        places[split] = range(start, start + len(parts[split]))
    most = max(_COMPARED_EACH, _COMPARED // max(1, sum(len(places[split]) for split, _ in _PAIRS)))
    searches = {other: _Search(rows, shingles, places[other], most) for other in ("train", "val")}
    found: dict[tuple[Split, Split], list[NearPair]] = {}
    for split, other in _PAIRS:
        partners = [searches[other].find_partner(task) for task in places[split]]
        pairs = [pair for pair in partners if pair is not None]
        found |= {(split, other): pairs} if pairs else {}
    cut = any(search.cut for search in searches.values())
    if not (found or cut):
        return None
    listed = [pair for pairs in found.values() for pair in pairs[: LISTED // len(found)]]
    counts = tuple((*splits, len(pairs)) for splits, pairs in found.items())
    return NearDuplicates(tuple(listed), counts, cut)


def list_words(text: str, longest: int) -> list[str]:
    """Returns the words of normalised text; of more than `longest` the first and the last ones."""
    words = _WORD.findall(text)
    half = longest // 2
    return words if len(words) <= longest else words[:half] + words[-half:]


class _Shingles:
    """The shingles of each text as whole numbers, the rarest first.

    Attributes:
        ranks: One ascending array for each text.
        shared: Lower numbers are shingles that one text alone has.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        hashes = _WordHashes()
        sets = [_hash_shingles(hashes, words) for words in texts]
        _, inverse, counts = np.unique(
            np.concatenate([np.empty(0, np.uint64), *sets]), return_inverse=True, return_counts=True
        )
        rank = np.empty(len(counts), np.int64)
        rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
        self.shared = int((counts == 1).sum())
        ends = np.cumsum([len(some) for some in sets])[:-1]
        self.ranks: list[_Ranks] = [np.sort(part) for part in np.split(rank[inverse], ends)]

    def count_early(self, text: int) -> int:
        """Returns within how many shingles the first is that a similar text, not shorter, shares."""
        size = len(self.ranks[text])
        part, whole = _LEAST
        return size + (-2 * part * size) // (whole + part) + 1

    def rarest(self, text: int) -> Iterator[tuple[int, int]]:
        """Yields places and shingles of which similar texts share one, without those no other text has.

        Of two sets with similarity t both have a common element among the first `n - ceil(t n) + 1` of their
        n, in any order that is the same for all (prefix filter; Chaudhuri, Ganti and Kaushik 2006).
        """
        ranks = self.ranks[text]
        part, whole = _LEAST
        first = ranks[: len(ranks) + (-part * len(ranks)) // whole + 1]
        start = int(np.searchsorted(first, self.shared))
        yield from enumerate(first[start:].tolist(), start)


class _WordHashes(dict[str, int]):
    """64 bits for each word, the same in every process."""

    def __missing__(self, word: str) -> int:
        self[word] = value = int.from_bytes(hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest())
        return value


def _hash_shingles(hashes: _WordHashes, words: Sequence[str]) -> NDArray[np.uint64]:
    """The distinct shingles of a text, ascending. Two differ with all but certainty: 64 bits."""
    values = np.fromiter(map(hashes.__getitem__, words), np.uint64, len(words))
    size = min(SHINGLE, len(words))
    count = len(words) - size + 1 if words else 0
    total = np.zeros(count, np.uint64)
    for start in range(size):
        total = total * _MULTIPLIER + values[start : start + count]
    return np.unique(total)


class _Search:
    """Looks for partners among the tasks of one split."""

    def __init__(self, rows: Sequence[TaskRow], shingles: _Shingles, among: range, most: int) -> None:
        self.rows, self.shingles, self.most, self.cut = rows, shingles, most, False
        self.early: dict[int, list[tuple[int, int]]] = {}
        self.late: dict[int, list[tuple[int, int]]] = {}
        for other in among:
            early = shingles.count_early(other)
            for place, shingle in shingles.rarest(other):
                index = self.early if place < early else self.late
                index.setdefault(shingle, []).append((other, place))

    def find_partner(self, task: int) -> NearPair | None:
        """Returns the first task found that is nearly the same, the rarest shingles first."""
        mine = set(self.shingles.ranks[task].tolist())
        compared = 0
        seen: set[int] = set()
        for looked, (place, other, its_place) in enumerate(self._candidates(task)):
            if looked >= _LOOKED_AT * self.most or compared >= self.most:
                self.cut = True
                break
            if other in seen:
                continue
            seen.add(other)
            if self._may_match(task, other, place, its_place):
                compared += 1
                similarity = _compare(mine, self.shingles.ranks[other])
                if similarity is not None:
                    return NearPair(other, task, similarity)
        return None

    def _candidates(self, task: int) -> Iterator[tuple[int, int, int]]:
        """Yields tasks that share a rare shingle, each with its place here and there.

        One that is early in neither of two sets is not the first that similar sets share.
        """
        early = self.shingles.count_early(task)
        for place, shingle in self.shingles.rarest(task):
            indices = (self.early, self.late) if place < early else (self.early,)
            for index in indices:
                for other, its_place in index.get(shingle, ()):
                    yield place, other, its_place

    def _may_match(self, task: int, other: int, place: int, its_place: int) -> bool:
        """Whether two tasks are not the same anyway, and can have enough in common.

        The rarest shingle that they share is at these places, so nothing before them is shared (positional
        filter; Xiao, Wang, Lin and Yu 2008).
        """
        sizes = len(self.shingles.ranks[task]), len(self.shingles.ranks[other])
        both = min(sizes[0] - place, sizes[1] - its_place)
        one, two = self.rows[task], self.rows[other]
        return _suffices(both, sum(sizes) - both) and one.id != two.id and one.content != two.content


def _compare(mine: set[int], theirs: _Ranks) -> float | None:
    """The similarity, rounded down to hundredths; None when it is too low."""
    both = len(mine.intersection(theirs.tolist()))
    union = len(mine) + len(theirs) - both
    return (100 * both // union) / 100 if _suffices(both, union) else None


def _suffices(both: int, union: int) -> bool:
    part, whole = _LEAST
    return whole * both >= part * union > 0
