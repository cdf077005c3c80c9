"""docs/statistics.md: its entries are those the code makes, and what it says in numbers is computed again."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from capevolve.gate import GateSettings, chance_of_any_false_accept, false_accept_rate, judge
from capevolve.model import Decision, Measurement, TaskOutcomes
from capevolve.result import TestDelta, TestScore
from capevolve.stats import minimal_effect, planning_se, wilson
from capevolve.stats.reference import fill_document, list_functions

DOCUMENT = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
PROSE = " ".join(DOCUMENT.split())


def test_the_document_is_the_one_the_code_makes():
    """If it fails: python -m capevolve.stats.reference docs/statistics.md."""
    assert fill_document(DOCUMENT) == DOCUMENT


def test_every_public_function_has_exactly_one_entry():
    entries = re.findall(r"^\*\*`(\w+)\(", DOCUMENT, re.MULTILINE)
    assert sorted(entries) == list(list_functions())


def test_every_figure_of_the_final_result_is_explained():
    (table,) = re.findall(r"^\| figure \|.*?\n\n", DOCUMENT, re.MULTILINE | re.DOTALL)
    explained = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row)}
    stored = {*TestScore.model_fields, *TestDelta.model_fields} - {"candidate"}
    assert stored - explained == set()
    assert explained - stored == set()


@pytest.mark.parametrize(
    "said",
    [
        "If only the final reward counts, a lenient gate earns more.",
        "Screening spends no alpha.",
        "The winner's curse.",
        "These tasks, or new ones.",
        "One trial per task.",
        "Nothing measured on val can tell; only new tasks or the sealed test do.",
    ],
)
def test_the_caveats_are_said(said: str):
    assert said in PROSE


def test_the_cost_of_the_uncontrolled_modes_is_the_computed_one():
    settings = GateSettings(mode="paired", k_se=1.0)
    for share, words in (
        (false_accept_rate(settings), "changes nothing {} of the time, per look"),
        (
            chance_of_any_false_accept(settings, 10),
            "a run with 10 such edits accepts at least one of them in {}",
        ),
        (chance_of_any_false_accept(settings, 20), "a run with 20 in {}"),
    ):
        assert words.format(f"{100 * share:.0f} %") in PROSE


def test_twenty_tests_at_five_percent_are_two_of_three_runs():
    chance = 1 - 0.95**20
    assert chance == pytest.approx(2 / 3, abs=0.03)


def test_wilson_on_twenty_of_twenty_starts_where_it_says():
    assert f"starts at {wilson(20, 20).low:.2f}".replace("0.", ".") in PROSE


def test_the_designs_resolve_what_the_readers_were_told():
    for n, effect in ((20, 0.172), (50, 0.109), (100, 0.077), (300, 0.044)):
        assert minimal_effect(planning_se(0.143, 3, 3, n)) == pytest.approx(effect, abs=5e-4)
        assert re.search(rf"\| {n} tasks \| \+\S+ \| \+{effect:.3f} \|", DOCUMENT)


N_TASKS, TRIALS, RUNS = 50, 3, 100
EFFECTS = (0.0,) * 10 + (0.05,) * 5 + (-0.05,) * 5
GATES = {
    "strict": GateSettings(mode="strict"),
    "paired, k_se 1": GateSettings(mode="paired", k_se=1.0),
    "paired, k_se 1.645": GateSettings(mode="paired", k_se=1.645),
}


def _measure(rng: random.Random, rates: list[float]) -> Measurement:
    tasks = tuple(
        TaskOutcomes(f"t{i:02d}", tuple(float(rng.random() < rate) for _ in range(TRIALS)))
        for i, rate in enumerate(rates)
    )
    return Measurement("e", "c", "val", TRIALS, 0, tasks)


def _search(seed: int, settings: GateSettings) -> tuple[float, int]:
    """One run: the true gain, and how many accepted edits do not help."""
    rng = random.Random(seed)
    rates = [rng.betavariate(0.9, 0.9) for _ in range(N_TASKS)]
    start, useless = sum(rates), 0
    incumbent = _measure(rng, rates)
    for effect in rng.sample(EFFECTS, len(EFFECTS)):
        edited = [min(1.0, max(0.0, rate + effect)) for rate in rates]
        candidate = _measure(rng, edited)
        if judge(candidate, incumbent, settings).decision is Decision.ACCEPT:
            useless += effect <= 0.0
            rates, incumbent = edited, candidate
    return (sum(rates) - start) / N_TASKS, useless


def test_a_lenient_gate_earns_more_and_claims_what_is_not_so_as_often_as_it_says():
    gains, shares = [], []
    for name, settings in GATES.items():
        runs = [_search(seed, settings) for seed in range(RUNS)]
        gain, useless = sum(run[0] for run in runs) / RUNS, sum(run[1] for run in runs) / RUNS
        share = sum(run[1] > 0 for run in runs) / RUNS
        assert f"| {name} | {gain:+.3f} | {useless:.2f} | {100 * share:.0f} % |" in DOCUMENT
        gains.append(gain)
        shares.append(share)
    assert gains == sorted(gains, reverse=True)
    assert shares == sorted(shares, reverse=True)
