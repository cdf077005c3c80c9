"""`plan`: what a design can find and what it costs, from real projects, before any call of the target."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from capevolve.cli.preflight import look_ahead
from capevolve.design.document import PlanDocument
from capevolve.errors import UserError
from capevolve.spec import load_spec

# Even trials pass odd tasks and odd trials even ones: variance 0.5 over two trials. Every call costs 0.25.
NOISY = """
import os
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(24)]

    def run_target(self, task, ctx, *, seed):
        fd = os.open(os.environ["TARGET_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{task.id} {seed}\\n".encode())
        os.close(fd)
        marked = "MARK" in (ctx / "prompt.md").read_text()
        return Rollout(task_id=task.id, output=marked or (task.input + seed) % 2, cost_usd=0.25)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
COUNTS = {"train": 4, "val": 10, "test": 10}
TWICE = {"num_trials": 2, "concurrency": 2, "timeout_s": 20, "retries": 0}


@pytest.fixture
def make(make_project):
    def build(counts=None, evaluation=None, **spec):
        parts = {"splits": {"counts": counts or COUNTS}, "evaluation": evaluation or TWICE}
        return make_project(NOISY, {**parts, **spec})

    return build


@pytest.fixture
def plan(capevolve):
    """The design of a project as `plan --json` has it."""

    def read(project, *words):
        said = capevolve("plan", project.root, "--json", *words)
        assert said.code == 0, said.err
        PlanDocument.model_validate_json(said.out)
        return json.loads(said.out)["design"]

    return read


def effect_of(design, name):
    return next(effect for effect in design["effects"] if effect["name"] == name)


def test_a_project_that_never_ran_is_planned_by_the_bound_and_without_a_price(capevolve, make):
    project = make()
    said = capevolve("plan", project.root)
    assert said.code == 0
    assert said.out.startswith("marker: 4 train, 10 val, 10 test\n")
    assert "noise within tasks 0.250, bound (nothing was measured)" in said.out
    assert "time unknown, cost unknown" in said.out
    assert "to find +0.1: gate " in said.out
    assert "caps: none but the iterations" in said.out
    assert "There is no ledger" in said.err
    assert project.calls() == []
    assert not (project.root / ".capevolve").exists()


def test_the_lines_on_a_confirmation_name_every_stage(capevolve, make):
    said = capevolve("plan", make(gate="confirm").root, "--effect", "0.2")
    for words in (
        "screen +",
        "(10 tasks x 1 trial against 2, p <= 0.35)",
        "confirmation +0.250 (10 tasks x 8 trials, p <= 0.01)",  # 3.168 sqrt(0.25 / 4 / 10)
        "all stages together +",
        "to find +0.2: confirmation 16 trials per task and arm (look_trials 4)",  # 12.5 in units of 4
        "5 to 170 a candidate",
        "gate confirm: the chance that any edit that changes nothing is accepted is at most 20 %",
    ):
        assert words in said.out


def test_noise_and_price_are_those_of_the_newest_run(plan, make, baseline):
    project = make()
    baseline(project)
    calls = project.calls()
    design = plan(project)
    assert design["variance"]["within"] == pytest.approx(0.5)
    assert (design["variance"]["source"], design["variance"]["run_id"]) == ("measured", "r1")
    assert design["variance"]["mean"] == pytest.approx(0.5)
    assert design["price"]["usd"] == {"value": 0.25, "source": "measured", "run_id": "r1"}
    assert design["price"]["seconds"]["value"] > 0.0
    most = design["bill"]["most"]
    assert design["bill"]["usd"]["most"] == pytest.approx(0.25 * most)
    assert design["bill"]["seconds"]["most"] == pytest.approx(design["price"]["seconds"]["value"] * most / 2)
    assert project.calls() == calls


def test_one_trial_per_task_measures_the_bound_alone_and_an_older_run_may_know_more(plan, make, baseline):
    project = make(evaluation={**TWICE, "num_trials": 1})
    baseline(project)
    variance = plan(project)["variance"]
    x = variance["mean"]
    assert (variance["source"], variance["within"]) == ("bound", pytest.approx(x * (1 - x)))
    assert variance["between"] is None

    project = make()
    baseline(project, "old")
    text = (project.root / "capevolve.yaml").read_text()
    (project.root / "capevolve.yaml").write_text(text.replace('"num_trials": 2', '"num_trials": 1'))
    baseline(project, "new")
    assert plan(project)["variance"]["run_id"] == "old"
    assert plan(project)["price"]["usd"]["run_id"] == "new"


def test_runs_of_another_project_in_the_same_ledger_say_nothing_of_this_one(plan, make, baseline):
    project = make()
    baseline(project)
    text = (project.root / "capevolve.yaml").read_text()
    (project.root / "capevolve.yaml").write_text(text.replace('"name": "marker"', '"name": "other"'))
    design = plan(project)
    assert design["variance"]["run_id"] is None
    assert design["price"]["usd"]["source"] == "unknown"


def test_an_accepted_edit_shows_the_spread_of_effects(plan, make, complete):
    """Every task gains one half exactly: the delta has no spread beyond the noise, so only noise is left."""
    project = make()
    complete(project)
    design = plan(project)
    assert design["variance"]["spread"] == pytest.approx(0.0)
    assert effect_of(design, "test_new_tasks")["effect"] > effect_of(design, "test")["effect"]


def test_a_price_can_be_stated(plan, make, baseline):
    project = make()
    baseline(project)
    design = plan(project, "--seconds-per-rollout", "3", "--usd-per-rollout", "0")
    assert design["price"]["seconds"] == {"value": 3.0, "source": "stated", "run_id": None}
    assert design["bill"]["usd"]["most"] == 0.0
    assert design["bill"]["seconds"]["least"] == design["bill"]["least"] * 3 / 2


def test_the_wanted_effect_is_named_by_the_user(plan, make):
    design = plan(make(), "--effect", "0.05")
    assert design["wanted"] == 0.05
    need = next(need for need in design["needs"] if need["name"] == "test")
    assert need["trials"] == math.ceil(2 * 0.25 * 2.486474860**2 / (10 * 0.05**2))  # z_.95 + z_.8 of scipy


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--effect", "0"), "--effect"),
        (("--effect", "1"), "--effect"),
        (("--effect", "nan"), "--effect"),
        (("--seconds-per-rollout=-1",), "--seconds-per-rollout"),
        (("--usd-per-rollout", "nan"), "--usd-per-rollout"),
        (("--usd-per-rollout", "inf"), "--usd-per-rollout"),
    ],
)
def test_a_stated_figure_out_of_range_is_refused(capevolve, make, words, where):
    said = capevolve("plan", make().root, *words)
    assert said.code == 2
    assert where in said.err


@pytest.mark.parametrize("gate", ["paired", "confirm", "strict"])
def test_a_gate_that_can_never_accept_is_refused_before_any_call(capevolve, make, gate):
    small = {"counts": {"train": 4, "val": 1, "test": 4}, "allow_small": True}
    project = make(splits=small, gate=gate)
    said = capevolve("plan", project.root)
    assert said.code == 2
    assert said.out == ""
    assert "can never accept" in said.err
    assert "--allow-hopeless-gate" in said.err
    allowed = capevolve("plan", project.root, "--allow-hopeless-gate")
    assert allowed.code == 0
    assert "! This gate can never accept" in allowed.err
    assert project.calls() == []


def test_a_confirmation_out_of_reach_of_its_level_is_refused(capevolve, make):
    """Two val tasks x 2 trials: C(4, 2)^-2 = 0.028."""
    few = {"looks": [1], "look_split": [0.4], "look_futility": [], "look_trials": 2}
    project = make(counts={"train": 4, "val": 2, "test": 4}, gate={"confirm": few})
    said = capevolve("plan", project.root)
    assert (said.code, "0.028" in said.err) == (2, True)


def test_run_refuses_such_a_gate_before_anything_is_spent(capevolve, make, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # nothing may be started or asked
    project = make(splits={"counts": {"train": 4, "val": 1, "test": 4}, "allow_small": True})
    said = capevolve("run", project.root)
    assert said.code == 2
    assert "can never accept" in said.err
    assert project.calls() == []
    assert "no run yet" in capevolve("status", "-p", project.root).err


@pytest.mark.parametrize("words", [(), ("--allow-hopeless-gate",)])
def test_run_passes_on_what_it_was_allowed(capevolve, make, monkeypatch, words):
    asked = []

    async def look(loaded, run_id, *, allow_hopeless_gate):
        asked.append(allow_hopeless_gate)
        raise UserError("enough")

    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setattr("capevolve.cli.run.look_ahead", look)
    assert capevolve("run", make().root, *words).code == 2
    assert asked == [bool(words)]


def test_a_run_shows_the_same_lines_and_goes_on_with_a_hopeless_gate_when_told_to(capevolve, capfd, make):
    project = make(gate="confirm", budget={"max_usd": 5})
    loaded = load_spec(project.root)
    asyncio.run(look_ahead(loaded, "r1"))
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == "run r1: marker, 4 train, 10 val, 10 test"
    assert shown[4] == "  caps: max_usd 5"
    assert capevolve("plan", project.root).out.splitlines()[1:] == shown[1:]

    small = make(splits={"counts": {"train": 4, "val": 1, "test": 4}, "allow_small": True})
    asyncio.run(look_ahead(load_spec(small.root), "r1", allow_hopeless_gate=True))
    assert "! This gate can never accept" in capfd.readouterr().err
    assert project.calls() == small.calls() == []


def test_one_trial_per_task_is_said_once_and_loudly(capevolve, make):
    project = make(evaluation={**TWICE, "num_trials": 1})
    said = capevolve("plan", project.root)
    assert said.err.count("! one trial per task") == 1
    assert "one trial per task" not in capevolve("plan", make().root).err


def test_too_few_val_tasks_to_race_make_the_screen_the_least(plan, make):
    bill = plan(make(counts={"train": 4, "val": 7, "test": 4}, gate="confirm"))["bill"]
    assert (bill["candidate_least"], bill["candidate_most"]) == (7, 7 + 2 * 7 * 8)


def test_automatic_looks_are_sized_by_what_was_measured_else_by_the_bound(plan, make, baseline):
    """4 looks units: 2 v (z_.99 + z_.8)^2 / (n d^2) = 12.5 for v = 0.25, 25.1 for v = 0.5; d = 0.2, n = 10."""
    project = make(gate={"confirm": {"look_trials": "auto", "effect": 0.2}})
    assert plan(project)["look_trials"] == 4
    baseline(project)
    assert plan(project)["look_trials"] == 7


def test_no_iterations_need_no_gate_and_no_proposer(plan, make):
    design = plan(make(search={"max_iterations": 0}))
    assert [part["name"] for part in design["bill"]["parts"]] == ["baseline", "test"]
    assert design["gate_error"] is None


def test_no_holdout_makes_the_test_number_a_fit_metric(capevolve, make):
    ids = [f"t{i:02d}" for i in range(10)]
    pinned = {"ids": {"train": ids[:4], "val": ids, "test": ids}, "allow_no_holdout": True}
    said = capevolve("plan", make(splits=pinned).root)
    assert said.code == 0
    assert "fit metric +" in said.out
    assert "sealed test" not in said.out
    assert "No holdout" in said.err


@pytest.mark.parametrize(
    "proposer",
    [None, {"kind": "command", "command": ["no-such-program"]}, {"kind": "script", "file": "no.yaml"}],
)
def test_a_proposer_that_is_not_there_yet_is_no_obstacle(plan, make, proposer):
    parts = {part["name"]: part for part in plan(make(proposer=proposer))["bill"]["parts"]}
    least = 8 if proposer and proposer["kind"] == "command" else 0
    assert (parts["train_evidence"]["least"], parts["train_evidence"]["most"]) == (least, 16)


def test_a_missing_adapter_and_an_unreadable_ledger_are_named(capevolve, make):
    project = make()
    (project.root / ".capevolve").mkdir()
    (project.root / ".capevolve" / "ledger.db").write_text("not a database" * 20)
    said = capevolve("plan", project.root)
    assert said.code == 0
    assert "planned without measurements: The ledger is corrupt" in said.err
    (project.root / "adapter.py").unlink()
    said = capevolve("plan", project.root)
    assert (said.code, "adapter.py" in said.err) == (2, True)
