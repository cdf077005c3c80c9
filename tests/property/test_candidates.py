"""Candidates, for any tree of files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.candidates import (
    diff_candidates,
    find_changes,
    load_candidate,
    read_tree,
    store_candidate,
    write_candidate,
)
from capevolve.ledger.store import open_ledger

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12
).filter(lambda name: name not in (".", "..", ".git", "__pycache__"))
CONTENTS = st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda t: t.encode("utf-8", "replace")))
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map(tuple), st.tuples(CONTENTS, st.booleans()), max_size=6
).filter(lambda tree: not any(a != b and b[: len(a)] == a for a in tree for b in tree))


def _write(folder: Path, tree: dict, order: list) -> Path:
    folder.mkdir(parents=True)
    for parts in order:
        data, executable = tree[parts]
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)
    return folder


@settings(max_examples=60, deadline=None)
@given(TREES, st.randoms())
def test_the_id_depends_on_the_files_and_on_nothing_else(tree, random):
    order = list(tree)
    with tempfile.TemporaryDirectory() as place:
        one = read_tree(_write(Path(place, "one"), tree, order))
        random.shuffle(order)
        two = read_tree(_write(Path(place, "two", "deeper"), tree, order))
    assert one == two
    assert {tuple(file.path.split("/")) for file in one.candidate.files} == set(tree)


@settings(max_examples=60, deadline=None)
@given(TREES, TREES)
def test_two_trees_have_one_id_exactly_when_they_are_equal(one, two):
    with tempfile.TemporaryDirectory() as place:
        a = read_tree(_write(Path(place, "a"), one, list(one))).candidate
        b = read_tree(_write(Path(place, "b"), two, list(two))).candidate
    assert (a.id == b.id) == (one == two)


@settings(max_examples=30, deadline=None)
@given(TREES, TREES)
def test_what_is_stored_is_written_as_it_was_and_a_diff_is_empty_exactly_for_equals(one, two):
    with tempfile.TemporaryDirectory() as place:
        ledger = open_ledger(f"sqlite:///{place}/ledger.db")
        trees = [
            read_tree(_write(Path(place, name), tree, list(tree))) for name, tree in (("a", one), ("b", two))
        ]
        shutil.rmtree(Path(place, "a"))
        with ledger.write() as connection:
            a, b = (store_candidate(connection, tree) for tree in trees)
        with ledger.read() as connection:
            assert load_candidate(connection, a.id) == a
            write_candidate(connection, a, Path(place, "again"))
            assert (diff_candidates(connection, a, b) == "") == (a.id == b.id)
        ledger.close()
        assert find_changes(Path(place, "again"), a) == []
        assert read_tree(Path(place, "again")) == trees[0]
