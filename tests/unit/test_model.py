"""The values that users write and read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import capevolve
from capevolve.model import Task, task_seed


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 2**63))
def test_a_tasks_seed_is_a_number_of_31_bits_and_depends_on_nothing_but_id_and_seed(task_id, seed):
    own = task_seed(Task(task_id), seed)
    assert 0 <= own < 2**31
    assert own == task_seed(Task(task_id, input="else", metadata={"a": 1}), seed)


def test_tasks_and_trials_have_seeds_of_their_own_and_candidates_share_them():
    seeds = {task_seed(Task(f"t{n}"), k) for n in range(100) for k in range(20)}
    assert len(seeds) == 2000
    assert task_seed(Task("t1"), 3) == 1_357_275_143, "the same on every machine, today and tomorrow"
    assert capevolve.task_seed is task_seed
