from pathlib import Path

import pytest

from capevolve.gate import GateSettings, judge
from capevolve.model import Measurement, TaskOutcomes
from capevolve.proposers.script import load_script
from capevolve.spec import load_spec


@pytest.fixture(scope="module")
def project(examples) -> Path:
    return examples / "capevolve_style"


@pytest.fixture
def prompts(project, tmp_path):
    """The folders of the seed and of each edit."""
    folders = [project / "seed_capability"]
    for number, entry in enumerate(load_script(project / "edits.yaml").entries):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "prompt.md").write_text(entry.edits["prompt.md"], encoding="utf-8")
        folders.append(folder)
    return folders


def measure(style, folder, seeds=range(5)):
    adapter = style.adapter.Adapter()
    outcomes = tuple(
        TaskOutcomes(
            task.id,
            tuple(adapter.score(task, adapter.run_target(task, folder, seed=s)).reward for s in seeds),
        )
        for task in adapter.tasks("all")
    )
    return Measurement("e", "c", "val", len(seeds), 0, outcomes)


def mean(measurement):
    rewards = [reward for task in measurement.tasks for reward in task.rewards]
    return sum(rewards) / len(rewards)


def test_the_flat_keys_load_and_find_the_adapter_in_its_folder(project):
    loaded = load_spec(project)
    assert loaded.notes
    assert loaded.spec.adapter == "adapters/adapter.py"
    assert loaded.spec.seed_candidate == "seed_capability"
    assert loaded.spec.evaluation.num_trials == 5
    assert loaded.spec.search.max_iterations == 4
    assert loaded.spec.budget.max_usd is None


def test_a_trial_depends_on_its_seed_and_on_nothing_else(style, prompts):
    assert measure(style, prompts[0]) == measure(style, prompts[0])
    assert measure(style, prompts[0]) != measure(style, prompts[0], range(5, 10))
    assert len(style.adapter.Adapter().tasks("all")) == 24


def test_each_instruction_makes_a_right_answer_likelier(style, prompts):
    means = [mean(measure(style, folder, range(40))) for folder in prompts]
    assert means == pytest.approx([0.25, 0.25, 0.55, 0.80, 0.95], abs=0.05)


def test_the_gate_rejects_the_idle_edit_and_accepts_the_working_one(style, prompts):
    seed, friendly, steps, *_ = (measure(style, folder) for folder in prompts)
    assert judge(friendly, seed, GateSettings()).decision == "reject"
    assert judge(steps, seed, GateSettings()).decision == "accept"
