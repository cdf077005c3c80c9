from pathlib import Path

import pytest

from capevolve.gate import GateSettings, judge
from capevolve.model import Measurement, TaskOutcomes
from capevolve.proposers.script import load_script
from capevolve.spec import load_spec


def rate(marker, folder: Path) -> dict[str, float]:
    adapter = marker.adapter.Adapter()
    tasks = adapter.tasks("all")
    return {t.id: adapter.score(t, adapter.run_target(t, folder, seed=0)).reward for t in tasks}


@pytest.fixture
def prompts(marker, tmp_path):
    """The seed's folder and those of the two edits."""
    folders = [marker.folder / "seed"]
    for number, entry in enumerate(load_script(marker.folder / "edits.yaml").entries):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "prompt.md").write_text(entry.edits["prompt.md"], encoding="utf-8")
        folders.append(folder)
    return folders


def test_only_the_prompt_with_the_marker_is_answered(marker, prompts):
    assert [set(rate(marker, folder).values()) for folder in prompts] == [{0.0}, {0.0}, {1.0}]


def test_the_gate_learns_nothing_of_the_first_edit_and_accepts_the_second_on_four_tasks(marker, prompts):
    def measure(folder):
        rewards = list(rate(marker, folder).items())[:4]
        return Measurement("e", "c", "val", 1, 0, tuple(TaskOutcomes(i, (r,)) for i, r in rewards))

    seed, useless, useful = map(measure, prompts)
    assert judge(useless, seed, GateSettings()).decision == "indecisive"
    assert judge(useful, seed, GateSettings()).decision == "accept"


def test_the_spec_loads_and_uses_every_task_and_edit(marker, prompts):
    spec = load_spec(marker.folder).spec
    counts = spec.splits.counts
    assert (counts.train, counts.val, counts.test) == (4, 4, 4)
    assert len(marker.adapter.Adapter().tasks("all")) == 12
    assert spec.search.max_iterations == len(prompts) - 1 == 2
