"""The gate at work on a run in mode confirm: what it asks for, when it judges, and what a cap leaves behind."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, replace

import pytest

from capevolve.errors import BudgetExhaustedError, LedgerError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.gate.confirm.case import Ask
from capevolve.gate.confirm.history import count_failures
from capevolve.gate.confirm.seeds import AA, CONTROL, fresh_seed, parse_tag
from capevolve.gate.decide import FULL, Judgement, Match, ask_full, locate
from capevolve.gate.record import find_ask, measure_ask, read_incumbent, read_past, record_verdict, step_gate
from capevolve.ledger.evaluations import find_evaluation, finish_evaluation, list_evaluations, open_evaluation
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.runs import read_split
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, count_finished, record_results
from capevolve.model import Decision, Reason, Scored, Unmeasured
from capevolve.proposers.proposal import make_proposal
from capevolve.search.planning import plan_next
from capevolve.start import start_run

EDITS = [{"summary": f"edit {n}", "edits": {"prompt.md": f"{n}\n"}} for n in range(1, 6)]
# Val of 10 tasks, one trial each: a race of 5, a screen of 5, looks of 1, 1 and 2 trials.
SPEC = {
    "splits": {"counts": {"train": 1, "val": 10, "test": 1}, "seed": 4},
    "gate": {"confirm": {"look_futility": [1.0, 1.0], "peek_frac": 1.0}},
    "search": {"max_iterations": 9},
}
OPEN = {"peek_frac": 1.0, "look_futility": [1.0, 1.0], "race_kill_p": 1.0, "screen_p": 1.0}
"""Every candidate comes to its looks."""


class Bench:
    """A driven run whose trials are written by hand; `world` says what a trial gives."""

    def __init__(self, run):
        self.run = run
        self.seed = asyncio.run(start_run(run)).record.seed_candidate
        with run.ledger.read() as connection:
            self.ids = [task.ref.id for task in read_split(connection, run.id, "val")]

    def write(self, key, world, *, finished=True) -> int:
        """Records the trials of an evaluation; `world(number of the task, trial)` is a reward or a reason."""
        ids = [i for i in self.ids if key.subset is None or i in key.subset]
        pairs = [(i, k) for i in ids for k in range(key.num_trials)]
        with self.run.ledger.write() as connection:
            fence = open_evaluation(connection, self.run.driver, key, 0.0)
            if not count_finished(connection, fence.evaluation_id):
                claim_trials(connection, fence, [Claim(i, k, key.base_seed + k) for i, k in pairs], 0.0)
                results = [TrialResult(i, k, self._outcome(world(self.ids.index(i), k))) for i, k in pairs]
                record_results(connection, fence, results, 0.0)
            if finished:
                finish_evaluation(connection, fence, 0.0)
        return fence.evaluation_id

    @staticmethod
    def _outcome(value):
        return Unmeasured(value) if isinstance(value, Reason) else Scored(float(value))

    def baseline(self) -> int:
        return self.write(self.run.key(self.seed, "val"), half)

    def propose(self, iteration: int, parent: str | None = None) -> str:
        return asyncio.run(make_proposal(self.run, iteration, parent or self.seed)).candidate_id

    def answer(self, iteration: int, mine, theirs=None, **options) -> str:
        """Writes the trials that are asked for; returns the stage."""
        match, ask = find_ask(self.run, iteration)
        self.write(locate(self.run.id, match, ask, "candidate"), mine, **options)
        if ask.both:
            self.write(locate(self.run.id, match, ask, "incumbent"), theirs or half, **options)
        return ask.stage

    def settle(self, iteration: int, mine, theirs=None):
        """Answers until nothing is asked for, then records the verdict."""
        stages = []
        while find_ask(self.run, iteration)[1] is not None:
            stages.append(self.answer(iteration, mine, theirs))
        return stages, record_verdict(self.run, iteration)


def half(number, trial):
    """Every other task passes, whatever the trial."""
    return number % 2


def better(number, trial):
    return 1.0


def worse(number, trial):
    return 0.0


@pytest.fixture
def begin(make_project):
    """Begins a run of the project, with this gate if one is given."""
    with ExitStack() as stack:
        yield lambda gate=SPEC["gate"]: Bench(
            stack.enter_context(make_project(spec={**SPEC, "gate": gate}, edits=EDITS).driven())
        )


@pytest.fixture
def bench(begin):
    return begin()


def without_rows(record) -> dict[str, object]:
    """A verdict without the ids of evaluations, which depend on how often something else was measured."""
    verdict = asdict(record.verdict)
    for stage in verdict["stages"]:
        del stage["candidate_evaluation"], stage["incumbent_evaluation"]
    return verdict


# --- what is asked --------------------------------------------------------------------------------


def test_a_candidate_cannot_be_judged_before_the_baseline(bench):
    bench.propose(1)
    with pytest.raises(LedgerError, match="incumbent's val evaluation"):
        find_ask(bench.run, 1)
    bench.write(bench.run.key(bench.seed, "val"), half, finished=False)
    with pytest.raises(LedgerError, match="incumbent's val evaluation"):
        find_ask(bench.run, 1)


@pytest.mark.parametrize("iteration", [0, 2])
def test_an_iteration_without_a_candidate_asks_nothing(bench, iteration: int):
    bench.baseline()
    bench.propose(1)
    with pytest.raises(LedgerError, match="no candidate to judge"):
        find_ask(bench.run, iteration)


def test_the_stages_are_asked_one_after_the_other_each_until_it_is_finished(bench):
    bench.baseline()
    candidate = bench.propose(1)
    match, race = find_ask(bench.run, 1)
    assert match == Match(candidate, candidate, bench.seed)
    assert not match.is_control
    assert (race.stage, race.num_trials, race.base_seed, len(race.task_ids)) == ("race", 1, 4, 5)
    assert find_ask(bench.run, 1) == (match, race), "asked again, it is the same"
    bench.answer(1, better, finished=False)
    assert find_ask(bench.run, 1)[1] == race
    bench.answer(1, better)
    screen = find_ask(bench.run, 1)[1]
    assert screen.stage == "screen"
    assert set(screen.task_ids) == set(bench.ids) - set(race.task_ids)
    bench.answer(1, better)
    look = find_ask(bench.run, 1)[1]
    assert (look.stage, look.task_ids, look.num_trials, look.both) == ("look-1", None, 1, True)
    assert look.base_seed == fresh_seed(4, candidate, "look-1")


@pytest.mark.parametrize("arm", ["candidate", "incumbent"])
def test_a_look_is_asked_for_until_both_its_arms_are_finished(bench, arm: str):
    bench.baseline()
    bench.propose(1)
    bench.answer(1, better)
    bench.answer(1, better)
    match, look = find_ask(bench.run, 1)
    bench.write(locate(bench.run.id, match, look, arm), better)
    assert find_ask(bench.run, 1)[1] == look
    with pytest.raises(LedgerError, match="look-1 trials"):
        record_verdict(bench.run, 1)


def test_a_full_evaluation_of_a_candidate_is_no_stage_of_its_confirmation(bench):
    bench.baseline()
    candidate = bench.propose(1)
    before = find_ask(bench.run, 1)
    bench.write(bench.run.key(candidate, "val"), better)
    assert find_ask(bench.run, 1) == before


@pytest.mark.both_ledgers
def test_nothing_is_recorded_before_everything_asked_is_finished_and_then_once(begin, backend):
    bench = begin()
    run = bench.run
    bench.baseline()
    candidate = bench.propose(1)
    stages = []
    while (ask := find_ask(run, 1)[1]) is not None:
        with pytest.raises(LedgerError, match=f"before its {ask.stage} trials are finished"):
            record_verdict(run, 1)
        stages.append(bench.answer(1, better))
    assert stages == ["race", "screen", "look-1", "look-2"]
    record = record_verdict(run, 1)
    assert record.verdict.decision is Decision.ACCEPT
    assert (record.candidate_id, record.incumbent_id) == (candidate, bench.seed)
    assert record_verdict(run, 1) == record
    assert find_ask(run, 1)[1] is None
    with run.ledger.read() as connection:
        assert read_verdicts(connection, run.id) == (record,)
        evaluations = {e.id: e.key for e in list_evaluations(connection, run.id)}
    assert '"confirm":{"alpha_run":0.2' in record.settings
    last = record.verdict.stages[-1]
    mine, theirs = int(last.candidate_evaluation), int(last.incumbent_evaluation)
    assert (record.candidate_evaluation, record.incumbent_evaluation) == (mine, theirs)
    assert parse_tag(evaluations[mine].tag).stage == "look-2"
    assert (evaluations[mine].candidate_id, evaluations[theirs].candidate_id) == (candidate, bench.seed)
    assert [int(stage.candidate_evaluation) for stage in record.verdict.stages] == sorted(
        e for e, key in evaluations.items() if key.candidate_id == candidate
    )


def test_a_verdict_once_recorded_outlives_what_is_measured_later(bench):
    bench.baseline()
    bench.propose(1)
    _, record = bench.settle(1, worse)
    assert record.verdict.rule == "race"
    match, _ = find_ask(bench.run, 1)
    with bench.run.ledger.read() as connection:
        assert find_evaluation(connection, bench.run.key(match.candidate_id, "val")) is None
    bench.write(bench.run.key(match.candidate_id, "val"), better)
    assert record_verdict(bench.run, 1) == record


def test_a_candidate_lost_at_the_race_rests_on_its_race_and_the_baseline(bench):
    baseline = bench.baseline()
    bench.propose(1)
    stages, record = bench.settle(1, worse)
    assert stages == ["race"]
    assert record.incumbent_evaluation == baseline
    assert record.candidate_evaluation == int(record.verdict.stages[0].candidate_evaluation)
    assert record.verdict.stages[0].incumbent_evaluation is None


# --- over several iterations ----------------------------------------------------------------------


def test_after_an_acceptance_the_next_candidate_meets_the_fresh_trials_that_confirmed_it(bench):
    """The accepted candidate passed race and screen by luck alone; its record knows nothing of that."""
    bench.baseline()
    first = bench.propose(1)
    while (ask := find_ask(bench.run, 1)[1]) is not None:
        fresh = lambda number, trial: float(number != 0)  # noqa: E731
        bench.answer(1, better if not ask.both else fresh)
    assert record_verdict(bench.run, 1).verdict.decision is Decision.ACCEPT
    with bench.run.ledger.read() as connection:
        record = read_incumbent(connection, bench.run, first)
        seeds = read_incumbent(connection, bench.run, bench.seed)
    assert [task.rewards for task in record.tasks] == [(0.0,) * 2] + [(1.0,) * 2] * 9
    assert {len(task.rewards) for task in seeds.tasks} == {3}  # the baseline and two looks of one trial
    bench.propose(2, first)
    match, _ = find_ask(bench.run, 2)
    assert match.incumbent_id == first
    _, ask = find_ask(bench.run, 2)
    _, verdict = bench.settle(2, worse)
    assert verdict.verdict.rule == "race"
    assert (verdict.verdict.worse, verdict.verdict.same) == (
        (4, 1) if bench.ids[0] in ask.task_ids else (5, 0)
    )  # against trials that passed all tasks but the first


def test_failures_use_slots_up_and_an_acceptance_gives_its_slot_back(begin):
    bench = begin({"confirm": OPEN})
    bench.baseline()
    best, slots, failures = bench.seed, [], []
    for iteration, mine in enumerate((half, half, better, half), start=1):
        candidate = bench.propose(iteration, best)
        _, record = bench.settle(iteration, mine)
        slots.append({stage.slot for stage in record.verdict.stages if stage.slot})
        if record.verdict.decision is Decision.ACCEPT:
            best = candidate
        with bench.run.ledger.read() as connection:
            failures.append(count_failures(read_verdicts(connection, bench.run.id)))
    assert best == record.incumbent_id
    assert slots == [{1}, {2}, {3}, {3}]
    assert failures == [1, 2, 2, 3]


def test_verdicts_of_later_iterations_do_not_change_what_an_earlier_one_asks(bench):
    """`verify` asks again when the whole run is there."""
    bench.baseline()
    bench.propose(1)
    _, first = bench.settle(1, half)
    best = bench.propose(2)
    bench.settle(2, better)
    assert best
    with bench.run.ledger.read() as connection:
        match = Match(first.candidate_id, first.candidate_id, first.incumbent_id)
        again = step_gate(connection, bench.run, match, 1)
        assert isinstance(again, Judgement)
        assert again.verdict == first.verdict
        assert read_past(connection, bench.run, 1).verdicts == ()
        assert len(read_past(connection, bench.run).verdicts) == 2


def test_without_a_slot_there_is_nothing_to_measure_and_nothing_to_record(begin):
    bench = begin({"confirm": {**OPEN, "max_failed_confirmations": 1}})
    bench.baseline()
    bench.propose(1)
    _, record = bench.settle(1, half)
    assert record.verdict.decision is Decision.REJECT
    bench.propose(2)  # as if it had been made before
    assert find_ask(bench.run, 2)[1] is None
    with pytest.raises(LedgerError, match="nothing to record: confirmation budget exhausted"):
        record_verdict(bench.run, 2)
    with bench.run.ledger.read() as connection:
        assert len(read_verdicts(connection, bench.run.id)) == 1


def test_an_indecisive_confirmation_keeps_its_slot_and_says_nothing_of_the_edit(bench):
    bench.baseline()
    bench.propose(1)
    bench.answer(1, better)
    bench.answer(1, better)
    lost = lambda number, trial: Reason.INFRA if number < 6 else 1.0  # noqa: E731
    bench.answer(1, lost, lost)
    record = record_verdict(bench.run, 1)
    assert (record.verdict.decision, record.verdict.rule) == (Decision.INDECISIVE, "coverage")
    with bench.run.ledger.read() as connection:
        assert count_failures(read_verdicts(connection, bench.run.id)) == 0
    assert plan_next(bench.run).iteration == 2


# --- the other modes ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["paired", "strict"])
def test_the_other_modes_ask_for_one_full_evaluation_with_the_runs_seeds(begin, mode: str):
    bench = begin({"mode": mode})
    baseline = bench.baseline()
    candidate = bench.propose(1)
    match, ask = find_ask(bench.run, 1)
    assert ask == Ask(FULL, None, 1, 4, both=False)
    key = locate(bench.run.id, match, ask, "candidate")
    assert key == bench.run.key(candidate, "val")
    mine = bench.write(key, better)
    assert find_ask(bench.run, 1)[1] is None
    record = record_verdict(bench.run, 1)
    assert (record.candidate_evaluation, record.incumbent_evaluation) == (mine, baseline)
    assert record.verdict.stages == ()


def test_a_control_of_the_other_modes_has_fresh_seeds_and_a_name_of_its_own(bench):
    with bench.run.ledger.read() as connection:
        past = read_past(connection, bench.run)
    control = Match(AA, bench.seed, bench.seed)
    assert control.is_control
    ask = ask_full(past, control)
    assert (ask.stage, ask.base_seed, ask.both) == (CONTROL, fresh_seed(4, AA, CONTROL), False)
    key = locate(bench.run.id, control, ask, "candidate")
    assert key.tag == "control/candidate/aa"
    assert key != bench.run.key(bench.seed, "val")
    ordinary = ask_full(past, Match("c", "c", bench.seed))
    assert (ordinary.stage, ordinary.base_seed) == (FULL, 4)


# --- with a real target ---------------------------------------------------------------------------


MARKER = {"gate": "confirm", "evaluation": {"num_trials": 1, "concurrency": 1, "retries": 0}}


async def search(run, asked: list[tuple[int, Ask]]) -> None:
    """The pilot's search, with what was asked written down."""
    from capevolve.search.planning import read_remaining

    started = await start_run(run)
    request = EvaluationRequest(started.record.seed_candidate, "val")
    await evaluate(run, request, remaining=read_remaining(run))
    while (step := plan_next(run)).iteration is not None:
        proposal = await make_proposal(run, step.iteration, step.parent_id)
        if proposal.status == "proposed":
            while (found := find_ask(run, step.iteration))[1] is not None:
                asked.append((step.iteration, found[1]))
                await measure_ask(run, *found, remaining=read_remaining(run))
            record_verdict(run, step.iteration)


def drive(project, run_id: str, asked: list[tuple[int, Ask]]) -> tuple[list[str], list[dict[str, object]]]:
    """Drives the search to its end; returns the val tasks, and the verdicts."""
    with project.driven(run_id) as run:
        asyncio.run(search(run, asked))
        with run.ledger.read() as connection:
            ids = [task.ref.id for task in read_split(connection, run.id, "val")]
            return ids, [without_rows(record) for record in read_verdicts(connection, run.id)]


def check_calls(calls: list[str], ids: list[str], looks: list[Ask]) -> None:
    """The baseline and two screens of 4 tasks, then looks: both arms with the same seeds, interleaved."""
    expected = [(task, 0) for _ in range(3) for task in ids]
    for look in looks:
        expected += [(task, look.base_seed) for task in ids for _ in range(2)]
    assert Counter(calls) == Counter(f"{task} {seed}" for task, seed in expected)
    for number in range(len(looks)):
        part = calls[12 + 8 * number : 20 + 8 * number]
        assert part[0::2] == part[1::2], "each trial of the one is followed by the same trial of the other"


def test_a_search_asks_stage_by_stage_and_a_cap_inside_a_look_is_continued_inside_it(make_project):
    project = make_project(spec=MARKER)
    asked: list[tuple[int, Ask]] = []
    ids, (first, second) = drive(project, "uncapped", asked)
    # Val of 4 tasks has no race. A first edit like the seed candidate shows no variation; p of the second
    # is 1/16 after one fresh trial, 1/1296 after two.
    assert [(iteration, ask.stage) for iteration, ask in asked] == [
        (1, "screen"), (2, "screen"), (2, "look-1"), (2, "look-2"),
    ]  # fmt: skip
    assert (first["decision"], first["rule"]) == (Decision.INDECISIVE, "no_variation")
    assert second["decision"] is Decision.ACCEPT
    assert [stage["p_value"] for stage in second["stages"]] == pytest.approx([1 / 16, 1 / 16, 1 / 1296])
    check_calls(project.calls(), ids, [ask for _, ask in asked if ask.both])
    project.calls_path.unlink()

    text = (project.root / "capevolve.yaml").read_text()
    final = 2 * 4  # what finalize will take is set aside
    for calls, stage in ((15, "look-1"), (23, "look-2")):
        capped = {**json.loads(text), "budget": {"max_calls": calls + final}}
        project.write("capevolve.yaml", json.dumps(capped))
        asked.clear()
        with project.driven("capped") as run:
            with pytest.raises(BudgetExhaustedError, match="cap on calls"):
                asyncio.run(search(run, asked))
            assert asked[-1][1].stage == stage
            assert find_ask(run, 2)[1] == asked[-1][1]
            with pytest.raises(LedgerError, match=f"{stage} trials"):
                record_verdict(run, 2)
        assert len(project.calls()) == calls
    project.write("capevolve.yaml", text)
    asked.clear()
    assert drive(project, "capped", asked) == (ids, [first, second])
    assert [ask.stage for _, ask in asked] == ["look-2"]
    assert len(project.calls()) == 28


def test_the_incumbents_record_and_its_arms_in_other_confirmations_are_different_evaluations(bench):
    bench.baseline()
    match = Match("c1", "c1", bench.seed)
    look = Ask("look-1", None, 1, 9, both=True)
    mine, theirs = (locate(bench.run.id, match, look, arm) for arm in ("candidate", "incumbent"))
    other = locate(bench.run.id, Match("c2", "c2", bench.seed), look, "incumbent")
    assert len({mine.digest, theirs.digest, other.digest, bench.run.key(bench.seed, "val").digest}) == 4
    assert replace(theirs, tag="") != bench.run.key(bench.seed, "val")


def test_trials_that_the_gate_would_not_find_again_end_the_run_and_not_in_a_loop(make_project, monkeypatch):
    project = make_project(spec=MARKER)
    with project.driven("r1") as run:

        async def lose() -> None:
            started = await start_run(run)
            await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))
            await make_proposal(run, 1, started.record.seed_candidate)
            match, ask = find_ask(run, 1)
            monkeypatch.setattr("capevolve.gate.record.find_evaluation", lambda connection, key: None)
            await measure_ask(run, match, ask)

        with pytest.raises(LedgerError, match="screen trials of run r1 are measured and cannot be found"):
            asyncio.run(lose())
