"""Documentation that is executed or compared, so that it cannot rot."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from capevolve.model import Task
from capevolve.proposers.brief import Brief
from capevolve.proposers.script import ScriptEdit
from capevolve.spec.models import CommandProposerSpec, ScriptProposerSpec
from capevolve.spec.reference import render_reference

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CAPEVOLVE = [sys.executable, "-c", "from capevolve.cli import main; main()"]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands() -> list[list[str]]:
    """Every command of the README's shell blocks, comments dropped."""
    lines = [line for block in blocks(README, "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if shlex.split(line, comments=True)]


def test_the_readme_has_exactly_two_set_up_commands_and_the_makefile_knows_them():
    made = [words for words in commands() if words[0] == "make"]
    assert made == [["make", "demo"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for _, target in made)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_every_command_of_the_readme_works_in_order(tmp_path):
    """Beside `make`, which CI runs itself. One project, from `init` to `finalize`."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    environment.pop("PREFECT_API_URL", None)
    ran = []
    for words in commands():
        if words[0] == "make":
            continue
        assert words[0] == "capevolve"
        done = subprocess.run(
            [*CAPEVOLVE, *words[1:]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert "Traceback" not in done.stderr
        ran.append(words[1])
        if words[1] == "evaluate":
            assert json.loads(done.stdout)["split"] == "train"
        if words[1] == "run":
            assert "test delta" in done.stdout
        if words[1] == "verify":
            assert done.stdout.startswith("PASS")
    assert ran[:4] == ["init", "check", "plan", "run"]
    assert {"aa", "finalize", "verify", "export"} <= set(ran)


def test_the_readmes_adapter_runs():
    (source,) = blocks(README, "python")
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)
    adapter = names["MyAdapter"]()  # type: ignore[operator]
    (task,) = adapter.tasks("all")
    assert isinstance(task, Task)


def test_the_exit_codes_of_the_readme_are_those_of_the_code():
    from capevolve import errors

    table = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    known = {
        errors.UserError,
        errors.HonestyError,
        errors.LedgerError,
        errors.OutsideError,
        errors.BudgetExhaustedError,
    }
    assert {kind.exit_code for kind in known} | {0, 130} == table


def test_the_reference_of_the_spec_is_the_one_the_code_makes():
    assert (ROOT / "docs" / "spec.md").read_text() == render_reference()


def test_the_examples_of_proposers_are_valid():
    text = (ROOT / "docs" / "proposers.md").read_text()
    (brief,) = blocks(text, "json")
    raw = json.loads(brief)
    raw["schema_version"] = raw.pop("schema")
    parsed = Brief.model_validate(raw)
    assert set(json.loads(parsed.to_json())) == set(json.loads(brief))
    command, script, edits = (yaml.safe_load(block) for block in blocks(text, "yaml"))
    CommandProposerSpec.model_validate(command["proposer"])
    ScriptProposerSpec.model_validate(script["proposer"])
    assert [ScriptEdit.model_validate(entry) for entry in edits]


def test_every_link_between_documents_leads_somewhere():
    broken = []
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if "://" not in target and not (document.parent / target).exists():
                broken.append(f"{document.relative_to(ROOT)} -> {target}")
    assert broken == []


@pytest.mark.parametrize(
    "verb",
    ["", "init", "check", "plan", "aa", "run", "evaluate", "finalize", "report", "status", "diff", "verify", "export",
     "up", "down"],
)  # fmt: skip
def test_every_verb_explains_itself(verb):
    words = [verb] if verb else []
    done = subprocess.run([*CAPEVOLVE, *words, "--help"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert "Usage" in done.stdout
