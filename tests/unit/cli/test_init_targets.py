"""`capevolve init --target`: each kind is a project that passes its check and runs, in twelve lines of YAML."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from capevolve.cli.init import TargetKind
from capevolve.errors import SpecError, TamperError
from capevolve.finalize import finalize
from capevolve.runs import drive_run
from capevolve.spec import load_spec

READY = ("command", "openai", "python")


@pytest.fixture
def server(monkeypatch):
    """The fault server of the adapters' tests, which routes tickets as the examples in the prompt say."""
    path = Path(__file__).parent.parent / "adapters" / "ready" / "fault_server.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    with module.FaultServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
        yield running


@pytest.fixture
def make(capevolve, tmp_path, server):
    def init(kind):
        folder = tmp_path / kind
        said = capevolve("init", folder, "--target", kind)
        assert said.code == 0, said.err
        return folder

    return init


def driven(folder):
    """The folder as the fixtures that drive a project want it."""
    return SimpleNamespace(driven=lambda run_id: drive_run(folder, run_id))


def lines_of(folder):
    lines = (folder / "capevolve.yaml").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


@pytest.mark.parametrize("kind", READY)
def test_a_project_is_twelve_lines_and_no_class(make, kind):
    folder = make(kind)
    assert len(lines_of(folder)) == 12
    assert not any("class " in path.read_text() for path in folder.rglob("*.py"))
    assert load_spec(folder).spec.target.kind == kind
    assert load_spec(folder).spec.adapter is None


def test_the_three_say_the_same_but_for_what_runs_a_task(make):
    specs = {kind: yaml.safe_load((make(kind) / "capevolve.yaml").read_text()) for kind in READY}
    same = [
        {key: spec[key] for key in ("tasks", "seed_candidate", "splits", "proposer", "search")}
        for spec in specs.values()
    ]
    assert same[0] == same[1] == same[2]


@pytest.mark.parametrize("kind", ["class", *READY])
def test_a_new_project_passes_its_check(capevolve, make, kind):
    said = capevolve("check", make(kind))
    assert said.code == 0, said.out + said.err
    assert "fit to run" in said.out
    # The stand-in for a model answers tickets of this task alike with any prompt.
    proof = "the candidate's files are opened" if kind == "openai" else "candidate reaches the target"
    assert proof in said.out


@pytest.mark.parametrize("kind", READY)
def test_a_new_project_runs_to_its_sealed_number(make, server, search_only, kind):
    folder = make(kind)
    spec = folder / "capevolve.yaml"
    text = spec.read_text().replace("num_trials: 3", "num_trials: 1")
    spec.write_text(text.replace("max_iterations: 6", "max_iterations: 2"))

    search_only(driven(folder))
    with drive_run(folder, "r1") as run:
        result = asyncio.run(finalize(run))
    assert result.test.reward is not None
    assert result.test_delta is not None, "no proposal was accepted"
    assert result.test_delta.delta > 0
    secrets = b"".join(path.read_bytes() for path in (folder / ".capevolve").rglob("*") if path.is_file())
    assert b"sk-of-the-test" not in secrets
    if kind == "openai":
        assert {request["temperature"] for request in server.requests} == {0.7}
        assert set(server.keys) == {"Bearer sk-of-the-test"}


def test_an_unknown_target_is_refused(capevolve, tmp_path):
    said = capevolve("init", tmp_path / "p", "--target", "perl")
    assert said.code == 2
    assert not (tmp_path / "p").exists()


def test_the_kinds_are_those_of_the_spec_and_a_class():
    assert {kind.value for kind in TargetKind} == {"class", *READY}


def test_a_check_names_a_bad_line_of_the_tasks_before_a_call(capevolve, make, server):
    folder = make("openai")
    with (folder / "tasks.jsonl").open("a") as file:
        file.write('{"id": "x", "input":\n')
    said = capevolve("check", folder)
    assert said.code == 2
    assert "line 37 of tasks.jsonl is not JSON" in said.err
    assert server.requests == []


@pytest.mark.parametrize(
    ("kind", "old", "new", "named"),
    [
        ("command", "scoring: exact", "scoring: contains", "scoring.kind"),
        ("python", "splits:", "adapter: adapter.py\nsplits:", "adapter and tasks and target and scoring"),
    ],
)
def test_a_run_does_not_go_on_with_other_sections(make, search_only, kind, old, new, named):
    folder = make(kind)
    spec = folder / "capevolve.yaml"
    spec.write_text(spec.read_text().replace("max_iterations: 6", "max_iterations: 0"))

    search_only(driven(folder))
    spec.write_text(spec.read_text().replace(old, new))
    with pytest.raises(SpecError, match=named):
        search_only(driven(folder))


def test_the_env_of_a_command_is_not_stored_but_a_changed_one_is_noticed(make, search_only):
    folder = make("command")
    spec = folder / "capevolve.yaml"
    text = spec.read_text().replace("max_iterations: 6", "max_iterations: 0")
    spec.write_text(text.replace("scoring:", "  env: {TOKEN: very-secret-one}\nscoring:"))

    search_only(driven(folder))
    search_only(driven(folder))
    stored = b"".join(path.read_bytes() for path in (folder / ".capevolve").rglob("*") if path.is_file())
    assert b"very-secret-one" not in stored
    spec.write_text(
        spec.read_text()
        .replace("very-secret-one", "another-secret")
        .replace("iterations: 0", "iterations: 1")
    )
    with pytest.raises(TamperError, match="tasks, target, scoring"):
        search_only(driven(folder))
