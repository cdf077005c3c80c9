"""Seeds of a confirmation's trials, and the names of its evaluations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capevolve.gate.confirm.seeds import (
    AA,
    CONTROL,
    StageTag,
    fresh_seed,
    parse_tag,
    stage_seed,
)

STAGES = ["race", "screen", "look-1", "look-2", "look-12", CONTROL]


@given(st.integers(0, 2**31 - 1), st.text(max_size=80), st.sampled_from(STAGES))
def test_a_fresh_seed_leaves_room_for_trials_in_32_bits_and_is_always_the_same(run_seed, subject, stage):
    seed = fresh_seed(run_seed, subject, stage)
    assert type(seed) is int
    assert 0 <= seed < 2**30
    assert seed == fresh_seed(run_seed, subject, stage)


def test_the_seeds_on_record_never_change():
    """An old ledger verifies for ever: these numbers are part of its format."""
    assert fresh_seed(0, "c1", "look-1") == 913_423_068
    assert fresh_seed(0, AA, CONTROL) == 674_568_523


def test_seeds_differ_by_run_by_candidate_and_by_stage():
    seen = {
        fresh_seed(run_seed, subject, stage)
        for run_seed in range(20)
        for subject in ("c1", "c2", AA, "")
        for stage in STAGES
    }
    assert len(seen) == 20 * 4 * len(STAGES)


def test_seeds_use_the_whole_range():
    seeds = [fresh_seed(n, "c", "look-1") for n in range(2_000)]
    assert sum(seed < 2**29 for seed in seeds) == pytest.approx(1_000, abs=150)
    assert min(seeds) < 2**30 / 100
    assert max(seeds) > 2**30 * 0.99


def test_no_field_runs_into_the_next():
    assert fresh_seed(1, "1c", "look-1") != fresh_seed(11, "c", "look-1")
    assert fresh_seed(1, "c", "1look-1") != fresh_seed(1, "c1", "look-1")


def test_race_and_screen_share_the_seeds_of_the_record_they_are_compared_with():
    for stage in ("race", "screen"):
        assert stage_seed(5, "c1", stage) == 5
    assert stage_seed(5, "c1", "look-1") == fresh_seed(5, "c1", "look-1") != 5


def test_every_stage_of_a_control_is_fresh():
    for stage in STAGES:
        assert stage_seed(5, AA, stage) == fresh_seed(5, AA, stage) != 5


def test_a_tag_reads_back_as_it_was():
    for stage in STAGES:
        for arm in ("candidate", "incumbent"):
            for subject in (AA, "sha256:0f", "a/b", " ", "/"):
                tag = StageTag(stage, arm, subject)
                assert parse_tag(tag.text) == tag


def test_the_text_of_a_tag_is_part_of_the_ledgers_format():
    assert StageTag("look-2", "incumbent", "sha256:0f").text == "look-2/incumbent/sha256:0f"


HOSTILE = [
    "",
    "/",
    "//",
    "race",
    "race/",
    "race//",
    "race/candidate",
    "race/candidate/",
    "race//sha256:0",
    "race/both/sha256:0",
    "race/Candidate/sha256:0",
    "race /candidate/sha256:0",
    "Race/candidate/sha256:0",
    "racey/candidate/sha256:0",
    "/race/candidate/sha256:0",
    "race\n/candidate/sha256:0",
    "val/candidate/sha256:0",
    "FINAL",
    "FINAL_seed",
    "my look-1",
    "look/candidate/sha256:0",
    "look-1\\candidate\\sha256:0",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_tag_of_anybody_else_says_nothing(text: str):
    assert parse_tag(text) is None


@pytest.mark.parametrize("number", ["", "x", "-1", "0", "01", "1.5", " 1", "1 ", "+1", "²", "١", "1e3"])
def test_a_look_has_a_number_from_one(number: str):
    assert parse_tag(f"look-{number}/candidate/sha256:0") is None


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from(["race", "look-1", "candidate", "/", "aa", ""])).map("/".join)
    )
)
def test_whatever_text_is_read_as_a_tag_is_that_tags_text(text: str):
    tag = parse_tag(text)
    assert tag is None or tag.text == text
