"""The sections that stand in for an adapter: what they accept, and how a mistake is named."""

from __future__ import annotations

import pytest

from capevolve.adapters.ready import refer_to_adapter
from capevolve.errors import SpecError
from capevolve.spec import ReadySpec, load_spec
from capevolve.spec.resume import parse_spec, restore_secrets, resume_spec, spec_json

COMMAND = "tasks: {file: tasks.jsonl}\ntarget: {kind: command, command: [python, agent.py]}\nscoring: exact\n"
OPENAI = "{kind: openai, model: m, system: prompt.md}"


@pytest.fixture
def load(tmp_path):
    def go(text):
        (tmp_path / "capevolve.yaml").write_text(text)
        return load_spec(tmp_path)

    return go


def test_the_sections_stand_in_for_the_adapter(load, tmp_path):
    (tmp_path / "adapter.py").write_text("")
    loaded = load(COMMAND)
    assert loaded.spec.adapter is None
    assert loaded.spec.target.argv() == ("python", "agent.py")
    assert loaded.spec.scoring.kind == "exact"
    assert (loaded.spec.tasks.id, loaded.spec.tasks.input, loaded.spec.tasks.target) == (
        None,
        "input",
        "target",
    )
    ref = refer_to_adapter(loaded.root, loaded.spec)
    assert ref.target == "capevolve.yaml"
    assert ReadySpec.model_validate_json(ref.ready) == loaded.spec.ready()


def test_without_them_the_adapter_is_as_before(load):
    loaded = load("name: x\n")
    assert loaded.spec.ready() is None
    ref = refer_to_adapter(loaded.root, loaded.spec)
    assert (ref.target, ref.ready) == ("adapter.py", "")


@pytest.mark.parametrize(
    "scoring",
    [
        "regex",
        "{kind: regex, pattern: 'a(b)', ignore_case: true}",
        "{kind: number, tolerance: 1e-3, relative_tolerance: 0.1}",
        "{kind: contains, show_expected: true}",
        "{kind: json_subset, partial: true}",
        "{kind: python, function: pkg.scorer:score}",
    ],
)
@pytest.mark.parametrize(
    "target",
    [
        "{kind: command, command: 'python agent.py --fast', env: {A: b}}",
        "{kind: openai, model: m, user: user.md, temperature: 0, max_tokens: 5, request_timeout_s: 3}",
        "{kind: openai, model: m, system: s.md, base_url: 'http://127.0.0.1:1/v1', api_key_env: K, "
        "usd_per_million_input_tokens: 1, usd_per_million_output_tokens: 2, extra_body: {top_p: 0.5, stop: [a]}}",
        "{kind: python, function: agent:answer}",
    ],
)
def test_every_kind_survives_the_way_to_a_host_and_into_the_ledger(load, target, scoring):
    tasks = "{file: data/tasks.csv, id: number, input: [a, b], target: null, metadata: [family]}"
    spec = load(f"tasks: {tasks}\ntarget: {target}\nscoring: {scoring}\n").spec
    assert ReadySpec.model_validate_json(spec.ready().model_dump_json()) == spec.ready()
    stored = parse_spec(spec_json(spec))
    assert restore_secrets(stored, spec) == spec
    assert resume_spec("r", spec_json(spec), spec) == spec


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (COMMAND + "adapter: adapter.py\n", "gives adapter and tasks and target and scoring"),
        ("tasks: {file: t.jsonl}\n", "gives tasks without target and scoring"),
        (COMMAND.replace("scoring: exact\n", ""), "gives tasks and target without scoring"),
        (COMMAND.replace("tasks.jsonl", "tasks.json"), "tasks.file must end in .jsonl or .csv"),
        (COMMAND.replace("tasks.jsonl", "../t.csv"), "tasks.file must be a path inside the project"),
        (COMMAND.replace("file: tasks.jsonl", "id: a"), "tasks.file is missing"),
        (COMMAND.replace("{file", "{inptu: x, file"), "tasks.inptu is not a known key"),
        (COMMAND.replace("{file", "{input: 3, file"), "tasks.input"),
        (COMMAND.replace("{file", "{input: [], file"), "tasks.input"),
        (COMMAND.replace("exact", "exakt"), "scoring.kind must be one of exact, contains, regex"),
        (COMMAND.replace("exact", "{tolerance: 1}"), "`kind: number`"),
        (COMMAND.replace("exact", "3"), "scoring must be a mapping"),
        (COMMAND.replace("exact", "{kind: number, tolerance: -1}"), "scoring.tolerance must be at least 0"),
        (COMMAND.replace("exact", "{kind: number, tolerance: .nan}"), "scoring.tolerance must be"),
        (COMMAND.replace("exact", "{kind: exact, pattern: x}"), "scoring.pattern is not a known key"),
        (COMMAND.replace("exact", "{kind: regex, pattern: '('}"), "scoring.pattern is not a regular expression"),
        (COMMAND.replace("exact", "{kind: regex, pattern: '(a)(b)'}"), "scoring.pattern must have one group"),
        (COMMAND.replace("exact", "{kind: python, function: score}"), "scoring.function must be package"),
        (COMMAND.replace("kind: command", "kind: shell"), "target.kind must be one of command, openai, python"),
        (COMMAND.replace("kind: command, ", ""), "`kind: openai`"),
        (COMMAND.replace("[python, agent.py]", "[]"), "target.command must name a program"),
        (COMMAND.replace("command: [python, agent.py]", "env: {A: b}"), "target.command is missing"),
        (COMMAND.replace("agent.py]", "agent.py], env: {A: 5}"), "target.env.A must be text"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_key(load, text, problem):
    with pytest.raises(SpecError) as caught:
        load(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ((", system: prompt.md", ""), "target names no file of the candidate"),
        (("prompt.md", "/etc/passwd"), "target.system must be a path inside"),
        (("}", ", api_key_env: sk-12345}"), "target.api_key_env must be the name of an environment variable"),
        (("}", ", base_url: 'ftp://x'}"), "target.base_url must be a URL"),
        (("}", ", base_url: 'http://me:pass@x/v1'}"), "target.base_url must hold no user, password"),
        (("}", ", usd_per_million_input_tokens: 1}"), "target gives one price"),
        (("}", ", temperature: 3}"), "target.temperature must be at most 2"),
        (("}", ", request_timeout_s: 0}"), "target.request_timeout_s must be more than 0"),
        (("model: m, ", ""), "target.model is missing"),
    ],
)
def test_a_mistake_in_an_openai_target_is_named_by_its_key(load, change, problem):
    with pytest.raises(SpecError) as caught:
        load(f"tasks: {{file: t.jsonl}}\ntarget: {OPENAI.replace(*change)}\nscoring: exact\n")
    assert problem in str(caught.value)
    assert "sk-12345" not in str(caught.value)
    assert "me:pass" not in str(caught.value)


def test_the_sections_do_not_change_on_resume_and_the_env_is_no_part_of_the_stored_spec(load):
    spec = load(COMMAND.replace("agent.py]", "agent.py], env: {A: secret}")).spec
    assert "secret" not in spec_json(spec)
    for old, new in (("exact", "contains"), ("agent.py", "other.py"), ("tasks.jsonl", "t.csv")):
        other = load(COMMAND.replace(old, new)).spec
        with pytest.raises(SpecError, match="differs from the one run r"):
            resume_spec("r", spec_json(spec), other)
