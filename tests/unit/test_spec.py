import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import make_url

from capevolve.errors import SpecError
from capevolve.spec import LoadedSpec, ProjectSpec, ledger_url, load_spec
from capevolve.splits import PerSplit, SplitSettings


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., LoadedSpec]:
    """Loads a spec given as text or as data, next to the files named."""

    def write_and_load(spec: str | dict[str, Any], *files: str) -> LoadedSpec:
        root = tmp_path / "my project"
        root.mkdir(exist_ok=True)
        for name in files:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        text = spec if isinstance(spec, str) else json.dumps(spec, indent=1)  # JSON is YAML
        (root / "capevolve.yaml").write_text(text, encoding="utf-8")
        return load_spec(root)

    return write_and_load


@pytest.fixture
def refusal(load: Callable[..., LoadedSpec]) -> Callable[..., str]:
    """The message with which a spec is refused."""

    def message(spec: str | dict[str, Any], *files: str) -> str:
        with pytest.raises(SpecError) as caught:
            load(spec, *files)
        text = str(caught.value)
        assert caught.value.where
        assert not {"pydantic", "validation error", "Input should", "https://"} & set(text.split())
        assert "pydantic" not in text
        assert "Input should" not in text
        return text

    return message


class TestDefaults:
    def test_a_name_is_enough(self, load: Callable[..., LoadedSpec]):
        loaded = load("name: demo\n")
        spec = loaded.spec
        assert (spec.name, spec.adapter, spec.seed_candidate, spec.ledger) == (
            "demo",
            "adapter.py",
            "seed",
            None,
        )
        assert spec.editable == ("**",)
        assert spec.proposer is None
        assert loaded.notes == ()
        assert loaded.split_settings() == SplitSettings()

    def test_every_default_is_the_documented_one(self, load: Callable[..., LoadedSpec]):
        assert load("name: demo\n").spec.model_dump(mode="json") == {
            "name": "demo",
            "adapter": "adapter.py",
            "seed_candidate": "seed",
            "ledger": None,
            "editable": ["**"],
            "splits": {
                "seed": 0,
                "ratios": None,
                "counts": None,
                "ids": None,
                "ids_file": None,
                "group_key": None,
                "stratify_key": None,
                "allow_no_holdout": False,
                "allow_small": False,
                "on_duplicate_content": "refuse",
                "near_duplicates": "warn",
            },
            "evaluation": {
                "num_trials": 1,
                "ks": None,
                "concurrency": 4,
                "timeout_s": 300.0,
                "timeout_is": "agent",
                "grace_s": 2.0,
                "retries": 2,
                "retry_wait_s": 0.5,
                "base_seed": None,
                "trials_per_host": None,
                "batch_size": 16,
                "memory_mb": None,
                "max_trace_kb": 1000,
                "deterministic": False,
                "max_interruptions": 5,
                "requests_per_minute": None,
                "tokens_per_minute": None,
                "prefect_limit": None,
                "adaptive": True,
                "rate_limit_retries": 20,
            },
            "gate": {
                "mode": "paired",
                "k_se": 1.0,
                "threshold": 0.0,
                "min_coverage": 0.6,
                "multiplier": "t",
                "no_regression": False,
                "aa_control": False,
                "confirm": None,
            },
            "tasks": None,
            "target": None,
            "scoring": None,
            "proposer": None,
            "search": {"kind": "hill_climb", "max_iterations": 10, "stall": 0},
            "budget": {"max_calls": None, "max_usd": None, "max_proposer_usd": None, "max_minutes": None},
            "seal": {"num_trials": None, "max_test_looks": None, "interrupted": "rerun"},
        }

    def test_the_name_is_the_directory_when_left_out(self, load: Callable[..., LoadedSpec]):
        assert load("gate: {}\n").spec.name == "my project"

    def test_a_section_with_nothing_under_it_has_its_defaults(self, load: Callable[..., LoadedSpec]):
        assert load("name:\nsplits:\ngate:\nproposer:\n").spec == load("name: my project\n").spec

    @pytest.mark.parametrize(
        ("files", "adapter", "noted"),
        [
            ((), "adapter.py", False),
            (("adapter.py",), "adapter.py", False),
            (("adapters/adapter.py",), "adapters/adapter.py", False),
            (("adapter.py", "adapters/adapter.py"), "adapter.py", True),
        ],
    )
    def test_the_adapter_is_the_file_that_is_there(
        self, load: Callable[..., LoadedSpec], files: tuple[str, ...], adapter: str, noted: bool
    ):
        loaded = load("name: demo\n", *files)
        assert loaded.spec.adapter == adapter
        assert bool(loaded.notes) is noted

    def test_every_field_is_described(self):
        def described(model: type[BaseModel]) -> None:
            for name, field in model.model_fields.items():
                assert field.description, f"{model.__name__}.{name}"
                assert field.description.endswith(".") or "JSON" in field.description

        from capevolve.spec import gating, models, ready, splitting
        from capevolve.spec.section import Section

        found = [kind for module in (gating, models, ready, splitting) for kind in vars(module).values()]
        sections = {kind for kind in found if isinstance(kind, type) and issubclass(kind, Section)} - {
            Section
        }
        assert len(sections) >= 13
        for section in sections:
            described(section)


class TestFinding:
    def test_the_file_the_directory_and_a_relative_path_are_the_same(
        self, load: Callable[..., LoadedSpec], monkeypatch: pytest.MonkeyPatch
    ):
        loaded = load("name: demo\n")
        assert load_spec(loaded.root / "capevolve.yaml") == loaded
        monkeypatch.chdir(loaded.root)
        assert load_spec(Path()) == load_spec(Path("capevolve.yaml")) == loaded
        assert loaded.root.is_absolute()

    def test_the_file_may_have_another_name(self, load: Callable[..., LoadedSpec]):
        loaded = load("name: demo\n")
        (loaded.root / "nightly.yaml").write_text("name: nightly\n")
        assert load_spec(loaded.root / "nightly.yaml").spec.name == "nightly"

    def test_a_missing_file_is_refused_with_a_way_out(self, tmp_path: Path):
        for path in (tmp_path, tmp_path / "capevolve.yaml"):
            with pytest.raises(SpecError, match=r"There is no capevolve\.yaml") as caught:
                load_spec(path)
            assert "capevolve init" in str(caught.value)
            assert caught.value.exit_code == 2

    def test_a_file_named_yml_is_pointed_at(self, tmp_path: Path):
        (tmp_path / "capevolve.yml").write_text("name: demo\n")
        with pytest.raises(SpecError, match=r"Rename capevolve\.yml to capevolve\.yaml"):
            load_spec(tmp_path)

    def test_a_directory_in_the_place_of_the_file_is_refused(self, tmp_path: Path):
        (tmp_path / "capevolve.yaml").mkdir()
        with pytest.raises(SpecError, match="There is no"):
            load_spec(tmp_path)

    def test_the_environment_does_not_change_the_encoding(
        self, load: Callable[..., LoadedSpec], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("LANG", "C")
        assert load("name: Prüfung 😀\n").spec.name == "Prüfung 😀"

    def test_a_byte_order_mark_is_skipped(self, tmp_path: Path):
        (tmp_path / "capevolve.yaml").write_bytes(b"\xef\xbb\xbfname: demo\n")
        assert load_spec(tmp_path).spec.name == "demo"


class TestYaml:
    @pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n"])
    def test_an_empty_file_is_refused(self, refusal: Callable[..., str], text: str):
        assert "is empty" in refusal(text)

    @pytest.mark.parametrize("text", ["- a\n", "hello\n", "3\n"])
    def test_a_file_that_is_no_mapping_is_refused(self, refusal: Callable[..., str], text: str):
        assert "is not a mapping" in refusal(text)

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("name: demo\ngate: {mode: paired\n", 3),
            ("name: demo\nsplits:\n  seed: 1\n seed: 2\n", 4),
            ("name: demo\n\tgate: 1\n", 2),
            ("name: [a\nb: 1\n", 2),
            ("name: demo\n---\nname: other\n", 2),
            ("name: demo\ngate: *nowhere\n", 2),
            ("name: demo\ngate: !!python/object:os.system {}\n", 2),
            ("name: demo\nx: a\x07b\n", 2),
            ("name: demo\n? [a, b]\n: 3\n", 2),
        ],
    )
    def test_a_syntax_error_is_refused_with_its_line(self, refusal: Callable[..., str], text: str, line: int):
        message = refusal(text)
        assert "is not valid YAML" in message
        assert f"capevolve.yaml, line {line}\n" in message

    def test_bytes_that_are_not_utf8_are_refused(self, tmp_path: Path):
        (tmp_path / "capevolve.yaml").write_bytes(b"name: Pr\xfcfung\n")
        with pytest.raises(SpecError, match="is not UTF-8"):
            load_spec(tmp_path)

    @pytest.mark.parametrize("text", ["x: " + "[" * 1500 + "]" * 1500, "x: " + "9" * 5000])
    def test_values_that_break_the_reader_are_refused(self, refusal: Callable[..., str], text: str):
        assert "cannot be read as YAML" in refusal(text)

    def test_keys_given_twice_are_refused_at_any_depth(self, refusal: Callable[..., str]):
        message = refusal(
            "name: a\nsplits:\n  seed: 1\n  seed: 2\nname: b\n"
            "proposer:\n  kind: script\n  file: f\n  file: g\n"
        )
        assert "name is given more than once (lines 1, 5)" in message
        assert "splits.seed is given more than once (lines 3, 4)" in message
        assert "proposer.file is given more than once (lines 8, 9)" in message

    def test_the_same_key_twice_with_the_same_value_is_refused_too(self, refusal: Callable[..., str]):
        assert "more than once" in refusal("name: a\nname: a\n")

    def test_anchors_and_merges_work(self, load: Callable[..., LoadedSpec]):
        text = "evaluation: &base\n  num_trials: 3\nseal:\n  <<: *base\n  max_test_looks: 2\n"
        assert load(text).spec.seal.num_trials == 3

    def test_an_alias_of_itself_is_refused_not_followed(self, refusal: Callable[..., str]):
        assert "splits.seed must be a whole number" in refusal("splits: &s\n  seed: *s\n")

    @pytest.mark.parametrize("key", ["1", "true", "null", "1.5"])
    def test_a_key_that_is_not_text_is_refused(self, refusal: Callable[..., str], key: str):
        assert "is not text, and a key must be" in refusal(f"name: a\n{key}: 3\n")

    def test_a_number_may_have_an_exponent_without_a_point(self, load: Callable[..., LoadedSpec]):
        spec = load("evaluation: {retry_wait_s: 1e-3, timeout_s: 2E2}\ngate: {threshold: -1e-2}\n").spec
        assert (spec.evaluation.retry_wait_s, spec.evaluation.timeout_s) == (0.001, 200.0)
        assert spec.gate.threshold == -0.01

    def test_a_date_is_text(self, load: Callable[..., LoadedSpec]):
        assert load("name: 2024-01-31\n").spec.name == "2024-01-31"
        assert load("name: 2024-13-77\n").spec.name == "2024-13-77"


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("text", "path", "near"),
        [
            ("evalution: {}\n", "evalution", "evaluation"),
            ("splits: {sed: 1}\n", "splits.sed", "seed"),
            (
                "splits: {ratios: {train: 0.5, vall: 0.25, val: 0.25, test: 0.25}}\n",
                "splits.ratios.vall",
                "val",
            ),
            ("gate: {k_ze: 1}\n", "gate.k_ze", "k_se"),
            ("proposer: {kind: command, command: x, timeout: 3}\n", "proposer.timeout", "timeout_s"),
            ("proposer: {kind: script, fil: x, file: y}\n", "proposer.fil", "file"),
            ("gate_mod: paired\n", "gate_mod", "gate_mode"),
            ("budget: {max_call: 3}\n", "budget.max_call", "max_calls"),
        ],
    )
    def test_an_unknown_key_is_refused_and_the_nearest_is_named(
        self, refusal: Callable[..., str], text: str, path: str, near: str
    ):
        message = refusal(text)
        assert f"{path} is not a known key" in message
        assert f"Did you mean {near}?" in message

    def test_the_nearest_key_is_of_the_same_level(self, refusal: Callable[..., str]):
        assert "Did you mean" not in refusal("gate: {concurency: 3}\n")

    def test_a_key_at_the_wrong_level_is_sent_home(self, refusal: Callable[..., str]):
        assert "Write it as evaluation.concurrency." in refusal("concurrency: 3\n")
        assert "Write it as name." in refusal("gate: {name: x}\n")

    def test_a_key_cannot_send_codes_to_the_terminal(self, refusal: Callable[..., str]):
        assert refusal('"\\e[31mred": 1\n').replace("\n", "").isprintable()

    def test_a_key_near_nothing_lists_what_is_known(self, refusal: Callable[..., str]):
        assert "Known here: kind, max_iterations, stall." in refusal("search: {qqqqqq: 1}\n")


NUMBERS = ["evaluation.num_trials", "evaluation.timeout_s", "gate.k_se", "search.stall", "budget.max_usd"]


def nest(path: str, value: object) -> dict[str, Any]:
    data: Any = value
    for part in reversed(path.split(".")):
        data = {part: data}
    return data


class TestStrictness:
    @pytest.mark.parametrize("path", NUMBERS)
    @pytest.mark.parametrize("value", [True, False])
    def test_a_boolean_is_not_a_number(self, refusal: Callable[..., str], path: str, value: bool):
        assert f"number, not {str(value).lower()}" in refusal(nest(path, value))

    @pytest.mark.parametrize("path", NUMBERS)
    @pytest.mark.parametrize("value", ["3", "3.5", "-1", "1e3"])
    def test_a_quoted_number_is_not_a_number_and_the_quotes_are_blamed(
        self, refusal: Callable[..., str], path: str, value: str
    ):
        message = refusal(nest(path, value))
        assert f"{path} must be a" in message
        assert f"number, not '{value}'" in message
        assert "Remove the quotation marks." in message

    def test_words_in_the_place_of_a_number_get_no_hint_about_quotes(self, refusal: Callable[..., str]):
        assert "quotation" not in refusal("evaluation: {num_trials: many}\n")

    @pytest.mark.parametrize(
        "path", ["evaluation.timeout_s", "gate.threshold", "gate.k_se", "budget.max_usd"]
    )
    @pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1.0e+999"])
    def test_numbers_are_finite(self, refusal: Callable[..., str], path: str, value: str):
        section, _, key = path.partition(".")
        assert f"{path} must be a finite number" in refusal(f"{section}:\n  {key}: {value}\n")

    def test_a_fraction_is_not_a_whole_number(self, refusal: Callable[..., str]):
        assert "a whole number, not 3.0" in refusal("evaluation: {num_trials: 3.0}\n")

    def test_a_whole_number_is_a_number(self, load: Callable[..., LoadedSpec]):
        assert load("gate: {k_se: 2}\n").spec.gate.k_se == 2.0

    @pytest.mark.parametrize("value", ["3", "yes", "2024", "1.5"])
    def test_text_is_quoted_where_yaml_reads_something_else(self, refusal: Callable[..., str], value: str):
        assert "Put it in quotation marks." in refusal(f"name: {value}\n")

    @pytest.mark.parametrize("value", ["'true'", "1", "null"])
    def test_only_true_and_false_are_true_and_false(self, refusal: Callable[..., str], value: str):
        assert "splits.allow_small must be true or false" in refusal(f"splits: {{allow_small: {value}}}\n")

    def test_null_in_a_section_says_how_to_get_the_default(self, refusal: Callable[..., str]):
        assert "Remove the line to get the default." in refusal("evaluation:\n  num_trials:\n")

    @pytest.mark.parametrize(
        "text", ["gate: [paired]\n", "splits: [1]\n", "splits: {ratios: 0.5}\n", "proposer: codex\n"]
    )
    def test_a_section_is_a_mapping(self, refusal: Callable[..., str], text: str):
        assert "must be a mapping, not" in refusal(text)

    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            ("splits.seed", -1, "at least 0, not -1"),
            ("splits.seed", 2**31, "at most 2147483647"),
            ("splits.counts", {"train": -1, "val": 2, "test": 1}, "at least 0"),
            ("evaluation.num_trials", 0, "at least 1"),
            ("evaluation.concurrency", 0, "at least 1"),
            ("evaluation.concurrency", 513, "at most 512"),
            ("evaluation.timeout_s", 0, "more than 0"),
            ("evaluation.timeout_s", 1e12, "at most"),
            ("evaluation.grace_s", -1, "at least 0"),
            ("evaluation.retries", -1, "at least 0"),
            ("evaluation.requests_per_minute", 0, "more than 0"),
            ("evaluation.tokens_per_minute", -1.5, "more than 0"),
            ("evaluation.prefect_limit", "", "must not be empty"),
            ("evaluation.retry_wait_s", -0.5, "at least 0"),
            ("evaluation.ks", [0], "at least 1"),
            ("evaluation.ks", ["1"], "a whole number"),
            ("evaluation.trials_per_host", 0, "at least 1"),
            ("evaluation.base_seed", -1, "at least 0"),
            ("gate.k_se", -1, "at least 0"),
            ("gate.min_coverage", 1.5, "at most 1"),
            ("gate.min_coverage", -0.1, "at least 0"),
            (
                "gate.mode",
                "simplicity_tiebreak",
                "one of paired, significant, threshold, strict, confirm, not",
            ),
            ("search.kind", "gepa", "hill_climb"),
            ("search.max_iterations", -1, "at least 0"),
            ("search.stall", -1, "at least 0"),
            ("budget.max_calls", -1, "at least 0"),
            ("budget.max_minutes", -1, "at least 0"),
            ("seal.num_trials", 0, "at least 1"),
            ("seal.max_test_looks", 0, "at least 1"),
            ("seal.interrupted", "retry", "one of rerun, missing, not 'retry'"),
            ("splits.on_duplicate_content", "drop", "one of refuse, group, not 'drop'"),
            ("splits.near_duplicates", "drop", "one of warn, refuse, ignore, not 'drop'"),
            ("name", "  ", "must not be empty"),
            ("name", "a\nb", "control characters"),
            ("name", "x" * 201, "is too long"),
            ("editable", [], "must not be empty"),
            ("editable", "**", "a list, not '**'"),
            ("editable", ["../x"], "inside the project"),
        ],
    )
    def test_values_out_of_range_are_refused(
        self, refusal: Callable[..., str], path: str, value: object, words: str
    ):
        message = refusal(nest(path, value))
        assert path in message
        assert words in message

    @pytest.mark.parametrize(
        ("path", "value"),
        [("search.max_iterations", 0), ("gate.min_coverage", 0), ("gate.k_se", 0), ("evaluation.retries", 0)],
    )
    def test_values_at_the_edge_are_accepted(self, load: Callable[..., LoadedSpec], path: str, value: int):
        load(nest(path, value))

    @pytest.mark.parametrize(
        "text",
        [
            'name: "a\\ud800"\n',
            'gate: {mode: "\\ud800"}\n',
            'editable: ["\\udfff"]\n',
            'splits: {ids: {train: ["\\ud800"], val: [], test: []}}\n',
            'proposer: {kind: command, command: "x \\ud800"}\n',
            'proposer: {kind: command, command: x, env: {A: "\\ud800"}}\n',
            'proposer: {kind: command, command: x, env: {"\\ud800": A}}\n',
            '"\\ud800": 3\n',
        ],
    )
    def test_half_a_character_is_refused_wherever_it_stands(self, refusal: Callable[..., str], text: str):
        refusal(text).encode("utf-8")

    def test_models_are_frozen(self, load: Callable[..., LoadedSpec]):
        spec = load("name: demo\n").spec
        with pytest.raises(ValueError, match="frozen"):
            spec.gate.k_se = 3.0
        with pytest.raises(ValueError, match="frozen"):
            spec.name = "x"


class TestPaths:
    @pytest.mark.parametrize("value", ["a/b.py", "adapter.py:Mine", "package.module:Mine", "module:Größe"])
    def test_adapters_are_files_or_modules(self, load: Callable[..., LoadedSpec], value: str):
        assert load({"adapter": value}).spec.adapter == value

    @pytest.mark.parametrize(
        "value", ["adapter", "package.module", "a.py:", "a.py:1x", "a b:C", "m:C.D", ":C"]
    )
    def test_other_adapters_are_refused(self, refusal: Callable[..., str], value: str):
        assert "adapter must be a file (adapter.py or adapter.py:ClassName)" in refusal({"adapter": value})

    @pytest.mark.parametrize("value", ["/srv/adapter.py", "C:\\x\\adapter.py"])
    def test_an_absolute_adapter_is_refused(self, refusal: Callable[..., str], value: str):
        assert "relative to capevolve.yaml" in refusal({"adapter": value})

    @pytest.mark.parametrize("value", ["/tmp/seed", "..", "../seed", "a/../../b", "C:\\seed"])
    def test_the_seed_candidate_is_inside_the_project(self, refusal: Callable[..., str], value: str):
        assert "seed_candidate must be a path inside the project" in refusal({"seed_candidate": value})

    @pytest.mark.parametrize("value", [".", "./", ".capevolve", ".capevolve/seed"])
    def test_the_seed_candidate_is_neither_the_project_nor_capevolves_own(
        self, refusal: Callable[..., str], value: str
    ):
        assert "seed_candidate must be a directory of its own" in refusal({"seed_candidate": value})


class TestProposer:
    @pytest.mark.parametrize(
        ("command", "argv"),
        [
            ("python improve.py --fast", ("python", "improve.py", "--fast")),
            ('claude -p "improve it"', ("claude", "-p", "improve it")),
            (["python", "a b.py"], ("python", "a b.py")),
        ],
    )
    def test_a_command_is_text_or_a_list(
        self, load: Callable[..., LoadedSpec], command: str | list[str], argv: tuple[str, ...]
    ):
        proposer = load({"proposer": {"kind": "command", "command": command}}).spec.proposer
        assert proposer is not None
        assert proposer.kind == "command"
        assert proposer.argv() == argv
        assert (proposer.timeout_s, proposer.env) == (600.0, {})

    def test_a_script_names_its_file(self, load: Callable[..., LoadedSpec]):
        proposer = load({"proposer": {"kind": "script", "file": "edits.yaml"}}).spec.proposer
        assert proposer is not None
        assert proposer.kind == "script"
        assert proposer.file == "edits.yaml"

    @pytest.mark.parametrize(
        ("proposer", "words"),
        [
            ({}, "proposer has no kind. Add `kind: command`"),
            ({"kind": "shell"}, "proposer.kind must be one of command, script, not 'shell'"),
            ({"kind": 3}, "proposer.kind must be one of command, script, not 3"),
            ({"kind": "command"}, "proposer.command is missing"),
            ({"kind": "command", "command": ""}, "proposer.command must name a program"),
            ({"kind": "command", "command": []}, "proposer.command must name a program"),
            ({"kind": "command", "command": 3}, "proposer.command must be text or a list of texts"),
            ({"kind": "command", "command": ["a", 3]}, "proposer.command must be text or a list of texts"),
            (
                {"kind": "command", "command": "a 'b"},
                "proposer.command has a quotation mark that is not closed",
            ),
            ({"kind": "command", "command": "a", "env": {"A": 1}}, "proposer.env.A must be text"),
            ({"kind": "command", "command": "a", "env": {"A=B": "1"}}, "proposer.env must map names"),
            ({"kind": "command", "command": "a", "file": "b"}, "proposer.file is not a known key"),
            ({"kind": "script"}, "proposer.file is missing"),
            ({"kind": "script", "file": ""}, "proposer.file must not be empty"),
        ],
    )
    def test_wrong_proposers_are_refused(
        self, refusal: Callable[..., str], proposer: dict[str, Any], words: str
    ):
        message = " ".join(refusal({"proposer": proposer}).split())
        assert words.partition(". ")[0] in message
        assert words.partition(". ")[2] in message


class TestCrossChecks:
    @pytest.mark.parametrize(
        ("ratios", "refused"),
        [
            ({"train": 0.5, "val": 0.25, "test": 0.25}, False),
            ({"train": 0.3333333, "val": 0.3333333, "test": 0.3333334}, False),
            ({"train": 0.5, "val": 0.25, "test": 0.2500005}, False),
            ({"train": 0.5, "val": 0.25, "test": 0.25001}, True),
            ({"train": 50, "val": 25, "test": 25}, True),
        ],
    )
    def test_ratios_add_up_to_one(
        self,
        load: Callable[..., LoadedSpec],
        refusal: Callable[..., str],
        ratios: dict[str, float],
        refused: bool,
    ):
        spec = {"splits": {"ratios": ratios}}
        if refused:
            assert "splits.ratios must add up to 1, not" in refusal(spec)
        else:
            assert load(spec).split_settings().ratios == PerSplit(**ratios)

    def test_only_one_way_to_split_is_given(self, refusal: Callable[..., str]):
        counts = {"train": 1, "val": 2, "test": 1}
        message = refusal({"splits": {"counts": counts, "ids_file": "ids.json"}})
        assert "splits gives counts and ids_file; give only one of them" in message
        assert message.count("give only one") == 1

    def test_two_ways_are_noticed_even_when_one_is_wrong_in_itself(self, refusal: Callable[..., str]):
        message = refusal({"splits": {"counts": {"train": "1"}, "ids": {"train": [1]}}})
        assert "splits gives counts and ids" in message
        assert "splits.counts.val is missing" in message
        assert "splits.ids.train[0] must be text, not 1" in message

    def test_a_k_that_is_never_measured_is_refused(
        self, load: Callable[..., LoadedSpec], refusal: Callable[..., str]
    ):
        assert "k = 3, but num_trials is 2" in refusal("evaluation: {num_trials: 2, ks: [1, 3]}\n")
        spec = load("evaluation: {num_trials: 2, ks: [1, 3]}\nseal: {num_trials: 3}\n").spec
        assert spec.evaluation.reported_ks(2) == (1,)
        assert spec.evaluation.reported_ks(3) == (1, 3)

    def test_every_k_is_reported_by_default(self, load: Callable[..., LoadedSpec]):
        assert load("evaluation: {num_trials: 3}\n").spec.evaluation.reported_ks(3) == (1, 2, 3)

    def test_all_problems_of_a_file_are_reported_at_once_in_line_order(self, refusal: Callable[..., str]):
        message = refusal(
            "name: 3\n"
            "splits:\n"
            "  sed: 1\n"
            "  ratios: {train: 0.5, val: 0.1, test: 0.1}\n"
            "num_trails: 3\n"
            "evaluation:\n"
            "  concurrency: true\n"
            "  timeout_s: .nan\n"
            "gate:\n"
            "  mode: best\n"
            "proposer: {kind: shell}\n"
        )
        assert "capevolve.yaml has 8 problems:" in message
        lines = [int(row.split()[1].rstrip(":")) for row in message.splitlines() if row.startswith("  line ")]
        assert lines == [1, 3, 4, 5, 7, 8, 10, 11]

    def test_a_single_problem_has_its_line_and_fix_in_their_places(self, load: Callable[..., LoadedSpec]):
        with pytest.raises(SpecError) as caught:
            load('name: a\nevaluation:\n  num_trials: "3"\n')
        assert caught.value.what == "capevolve.yaml: evaluation.num_trials must be a whole number, not '3'."
        assert caught.value.where is not None
        assert caught.value.where.endswith("capevolve.yaml, line 3")
        assert caught.value.fix == "Remove the quotation marks."


class TestSeedsAndTrials:
    def test_the_base_seed_is_the_split_seed_unless_given(self, load: Callable[..., LoadedSpec]):
        assert load("splits: {seed: 7}\n").spec.base_seed() == 7
        assert load("splits: {seed: 7}\nevaluation: {base_seed: 0}\n").spec.base_seed() == 0

    def test_the_seal_has_the_trials_of_the_evaluation_unless_given(self, load: Callable[..., LoadedSpec]):
        assert load("evaluation: {num_trials: 3}\n").spec.seal_trials() == 3
        assert load("evaluation: {num_trials: 3}\nseal: {num_trials: 5}\n").spec.seal_trials() == 5

    def test_a_cap_of_zero_is_told(self, load: Callable[..., LoadedSpec]):
        loaded = load("budget: {max_calls: 0, max_usd: 1}\n")
        assert loaded.spec.budget.max_calls == 0
        assert loaded.notes == ("budget.max_calls is 0: nothing may be spent",)


class TestSplitSettings:
    def test_every_setting_arrives(self, load: Callable[..., LoadedSpec]):
        loaded = load(
            "splits: {seed: 5, counts: {train: 1, val: 2, test: 3}, group_key: family, allow_small: true,\n"
            "  allow_no_holdout: true, on_duplicate_content: group, stratify_key: level,\n"
            "  near_duplicates: refuse}\n"
        )
        assert loaded.split_settings() == SplitSettings(
            seed=5,
            counts=PerSplit(1, 2, 3),
            group_key="family",
            stratify_key="level",
            allow_small=True,
            allow_no_holdout=True,
            on_duplicate_content="group",
            near_duplicates="refuse",
        )

    def test_pinned_ids_arrive_from_the_spec(self, load: Callable[..., LoadedSpec]):
        loaded = load("splits: {ids: {train: [a], val: [b, c], test: ['1']}}\n")
        assert loaded.split_settings().ids == PerSplit(("a",), ("b", "c"), ("1",))

    def test_pinned_ids_arrive_from_a_file(self, load: Callable[..., LoadedSpec]):
        loaded = load("splits: {ids_file: pins/ids.json}\n")
        (loaded.root / "pins").mkdir()
        pins = {"train": ["ä"], "val": ["b", "c"], "test": ["d"], "seed": 0, "test_used": False}
        (loaded.root / "pins/ids.json").write_text(json.dumps(pins), encoding="utf-8")
        settings = loaded.split_settings()
        assert settings.ids == PerSplit(("ä",), ("b", "c"), ("d",))
        assert settings.method == "ids"

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (None, "cannot be read: No such file"),
            ("{", "are not JSON"),
            ("[]", "are not a JSON object"),
            ('{"train": [], "val": []}', "test is missing"),
            ('{"train": [1], "val": [], "test": []}', "train must be text, not 1"),
            ('{"train": "a", "val": [], "test": []}', "train must be a list, not 'a'"),
            ('{"train": [], "train": ["a"], "val": [], "test": []}', "a key is given twice"),
            ("[" * 100_000, "are not JSON"),
        ],
    )
    def test_a_wrong_file_of_ids_is_refused(
        self, load: Callable[..., LoadedSpec], content: str | None, words: str
    ):
        loaded = load("splits: {ids_file: ids.json}\n")
        if content is not None:
            (loaded.root / "ids.json").write_text(content)
        with pytest.raises(SpecError, match="pinned ids") as caught:
            loaded.split_settings()
        assert words in str(caught.value)
        assert "ids.json" in str(caught.value.where)


class TestLedger:
    def test_the_ledger_is_a_file_of_the_project_by_default(self, load: Callable[..., LoadedSpec]):
        loaded = load("name: demo\n")
        assert ledger_url(loaded) == f"sqlite:///{loaded.root}/.capevolve/ledger.db"

    @pytest.mark.parametrize("name", ["a?b", "100%25", "50%", "a#b", "ü x", "a@b:c"])
    def test_any_directory_name_reaches_the_database(self, tmp_path: Path, name: str):
        (tmp_path / name).mkdir()
        (tmp_path / name / "capevolve.yaml").write_text("name: demo\n")
        loaded = load_spec(tmp_path / name)
        assert make_url(ledger_url(loaded)).database == str(loaded.root / ".capevolve/ledger.db")

    def test_a_relative_file_starts_at_the_project_not_at_the_working_directory(
        self, load: Callable[..., LoadedSpec]
    ):
        loaded = load("ledger: sqlite:///data/l.db\n")
        assert make_url(ledger_url(loaded)).database == str(loaded.root / "data/l.db")

    @pytest.mark.parametrize(
        "url", ["sqlite:////srv/l.db", "postgresql+psycopg://u:p@h/db", "postgresql://h/db"]
    )
    def test_other_urls_are_kept(self, load: Callable[..., LoadedSpec], url: str):
        assert ledger_url(load({"ledger": url})) == url

    @pytest.mark.parametrize("url", ["l.db", "mysql://h/db", "sqlite://", "sqlite:///:memory:", "sqlite:"])
    def test_urls_that_cannot_keep_a_ledger_are_refused(self, refusal: Callable[..., str], url: str):
        assert "ledger must be a" in refusal({"ledger": url})

    def test_a_password_is_neither_shown_nor_part_of_the_digest(
        self, load: Callable[..., LoadedSpec], refusal: Callable[..., str]
    ):
        one, two = (load({"ledger": f"postgresql://u:{word}@h/db"}) for word in ("hunter2", "other"))
        assert one.digest == two.digest
        assert "hunter2" not in repr(one)
        assert "hunter2" not in refusal({"ledger": "mysql://u:hunter2@h/db"})
        assert "hunter2" not in refusal({"ledger": ["postgresql://u:hunter2@h/db"]})

    def test_the_environment_of_a_proposer_is_not_shown(
        self, load: Callable[..., LoadedSpec], refusal: Callable[..., str]
    ):
        proposer = {"kind": "command", "command": "x", "env": {"KEY": "hunter2"}}
        assert "hunter2" not in repr(load({"proposer": proposer}))
        assert "12345678" not in refusal({"proposer": {**proposer, "env": {"KEY": 12345678}}})


class TestDigest:
    def test_comments_order_and_written_defaults_do_not_change_it(self, load: Callable[..., LoadedSpec]):
        one = load("name: demo\nsplits: {seed: 1}\n")
        two = load("# a comment\nsplits:\n  seed: 1\n  ratios: null\nname: demo\ngate: {mode: paired}\n")
        assert one.digest == two.digest
        assert one.digest.startswith("sha256:")

    def test_a_changed_value_changes_it(self, load: Callable[..., LoadedSpec]):
        digests = {load(text).digest for text in ("name: a\n", "name: b\n", "name: a\nsplits: {seed: 1}\n")}
        assert len(digests) == 3

    def test_a_spec_survives_its_own_json(self, load: Callable[..., LoadedSpec]):
        loaded = load(
            {
                "splits": {"ids": {"train": ["a"], "val": ["b"], "test": ["c"]}},
                "evaluation": {"num_trials": 2, "ks": [1, 2]},
                "proposer": {"kind": "command", "command": ["a", "b"], "env": {"A": "1"}},
                "editable": ["*.md", "tools/**"],
            }
        )
        assert ProjectSpec.model_validate_json(loaded.spec.model_dump_json()) == loaded.spec
