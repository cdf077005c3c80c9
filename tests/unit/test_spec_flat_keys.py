from collections.abc import Callable
from pathlib import Path

import pytest

from capevolve.errors import SpecError
from capevolve.spec import LoadedSpec, load_spec
from capevolve.spec.flat_keys import FLAT_KEYS, IGNORED
from capevolve.splits import PerSplit

# A whole file of a cap-evolve project, as its interview would leave it.
FULL = """\
# what is optimised
capabilities:       [system-prompt, tools]
capability_path:    seed_capability
actions:            [edit]
capability_sources: [seed_capability/reference/data_model.py]

# who edits
optimizer_skill:        claude-code
optimizer_model:        some-large-model
optimizer_max_turns:    400
optimizer_usd_per_iter: 40.0
optimizer_instructions_file: optimizer/INSTRUCTIONS.md
provider:               ""
provider_base_url:      ""
provider_credential_env: ""
target_model:           some-small-model
target_profile_file:    ""
runner_repo_path:       ""

# how
algorithm_skill:    hill-climb
algorithm_focus:    all
orchestration_mode: deterministic

# data
dataset_source:     tasks.jsonl
split_seed:         3
split_train:        0.6
split_val:          0.2
split_test:         0.2
split_ids_file:     ""

# scoring
num_trials:         10
metrics_display:    []
metric_primary:     ""
metric_directions:  []

github_integration: false
stop_condition:     ""

gate_mode:          significant
gate_k_se:          0.2

max_iterations:     7
stall:              2
max_metric_calls:   0
max_usd:            400.0
max_optimizer_usd:  0.0

store:              git
store_commit_cmd:   "publish {dir}"
run_name:           airline nightly
protected_paths:    [adapters]
observers:
  - backend: mlflow
    tracking_uri: some-server
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., LoadedSpec]:
    """Loads a spec given as text, in a project that has the files named."""

    def write_and_load(text: str, *files: str) -> LoadedSpec:
        for name in files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        (tmp_path / "capevolve.yaml").write_text(text, encoding="utf-8")
        return load_spec(tmp_path)

    return write_and_load


@pytest.fixture
def refusal(load: Callable[..., LoadedSpec]) -> Callable[[str], str]:
    """The message with which a spec is refused."""

    def message(text: str) -> str:
        with pytest.raises(SpecError) as caught:
            load(text)
        return str(caught.value)

    return message


class TestAWholeFile:
    def test_it_loads_with_every_value_in_its_place(self, load: Callable[..., LoadedSpec]):
        spec = load(FULL, "adapters/adapter.py", "seed_capability/prompt.md").spec
        assert (spec.name, spec.adapter, spec.seed_candidate) == (
            "airline nightly",
            "adapters/adapter.py",
            "seed_capability",
        )
        assert spec.splits.seed == 3
        assert spec.splits.ids_file is None
        assert spec.evaluation.num_trials == 10
        assert (spec.gate.mode, spec.gate.k_se) == ("significant", 0.2)
        assert (spec.search.max_iterations, spec.search.stall) == (7, 2)
        assert (spec.budget.max_calls, spec.budget.max_usd, spec.budget.max_proposer_usd) == (
            None,
            400.0,
            None,
        )
        assert spec.proposer is None

    def test_its_ratios_reach_the_splitter(self, load: Callable[..., LoadedSpec]):
        settings = load(FULL).split_settings()
        assert settings.ratios == PerSplit(0.6, 0.2, 0.2)
        assert settings.seed == 3

    def test_every_key_of_it_is_in_a_note_unless_it_was_empty(self, load: Callable[..., LoadedSpec]):
        notes = "\n".join(load(FULL).notes)
        keys = {line.partition(":")[0] for line in FULL.splitlines() if line[:1].isalpha()}
        assert len(keys) == 42
        assert {key for key in keys if key not in notes} == {"split_ids_file"}

    def test_a_flat_file_equals_its_nested_twin(self, load: Callable[..., LoadedSpec]):
        flat = load("num_trials: 3\ngate_k_se: 0.5\nmax_usd: 7\ncapability_path: s\nrun_name: x\n")
        nested = load(
            "evaluation: {num_trials: 3}\ngate: {k_se: 0.5}\nbudget: {max_usd: 7}\n"
            "seed_candidate: s\nname: x\nadapter: adapters/adapter.py\n"
        )
        assert flat.spec == nested.spec
        assert flat.digest == nested.digest


class TestPlaces:
    @pytest.mark.parametrize(
        ("files", "adapter"),
        [
            ((), "adapters/adapter.py"),
            (("adapters/adapter.py",), "adapters/adapter.py"),
            (("adapter.py",), "adapter.py"),
            (("adapter.py", "adapters/adapter.py"), "adapters/adapter.py"),
        ],
    )
    def test_the_adapter_is_first_looked_for_where_cap_evolve_has_it(
        self, load: Callable[..., LoadedSpec], files: tuple[str, ...], adapter: str
    ):
        assert load("num_trials: 3\n", *files).spec.adapter == adapter

    @pytest.mark.parametrize(
        ("files", "seed"),
        [
            ((), "seed_capability"),
            (("seed/a",), "seed"),
            (("seed/a", "seed_capability/a"), "seed_capability"),
        ],
    )
    def test_the_seed_candidate_is_first_looked_for_where_cap_evolve_has_it(
        self, load: Callable[..., LoadedSpec], files: tuple[str, ...], seed: str
    ):
        assert load("num_trials: 3\n", *files).spec.seed_candidate == seed


class TestMapping:
    @pytest.mark.parametrize(
        ("text", "path", "value"),
        [
            ("max_metric_calls: 500", "budget.max_calls", 500),
            ("max_metric_calls: 0", "budget.max_calls", None),
            ("max_usd: 0", "budget.max_usd", None),
            ("max_usd: 0.0", "budget.max_usd", None),
            ("max_usd: 12", "budget.max_usd", 12.0),
            ("max_optimizer_usd: 0.0", "budget.max_proposer_usd", None),
            ("max_optimizer_usd: 3.5", "budget.max_proposer_usd", 3.5),
            ("split_ids_file: pins.json", "splits.ids_file", "pins.json"),
            ("split_ids_file: ''", "splits.ids_file", None),
            ("split_ids_file:", "splits.ids_file", None),
            ("stall: 0", "search.stall", 0),
            ("max_iterations: 0", "search.max_iterations", 0),
            ("gate_mode: ''", "gate.mode", "paired"),
            ("gate_mode: strict", "gate.mode", "strict"),
            ("split_seed: 0", "splits.seed", 0),
        ],
    )
    def test_a_key_is_mapped(self, load: Callable[..., LoadedSpec], text: str, path: str, value: object):
        found: object = load(f"{text}\n").spec
        for part in path.split("."):
            found = getattr(found, part)
        assert (found, type(found)) == (value, type(value))

    def test_a_note_says_where_a_key_went(self, load: Callable[..., LoadedSpec]):
        notes = load("num_trials: 3\nmax_usd: 0\nsplit_seed: 1\n").notes
        assert "num_trials is read as evaluation.num_trials" in notes
        assert "max_usd is read as budget.max_usd, where 0 is no cap" in notes
        assert any(
            note.startswith("split_seed is read as splits.seed; it draws other splits") for note in notes
        )

    def test_a_key_joins_the_nested_section(self, load: Callable[..., LoadedSpec]):
        spec = load("num_trials: 3\nevaluation: {timeout_s: 9}\n").spec
        assert (spec.evaluation.num_trials, spec.evaluation.timeout_s) == (3, 9.0)

    def test_pinned_ids_win_over_ratios_and_a_note_says_so(self, load: Callable[..., LoadedSpec]):
        loaded = load("split_ids_file: ids.json\nsplit_train: 0.5\nsplit_val: 0.25\nsplit_test: 0.25\n")
        assert loaded.spec.splits.ratios is None
        assert loaded.spec.splits.ids_file == "ids.json"
        assert "ignored, because split_ids_file decides: split_train, split_val, split_test" in loaded.notes

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("split_train: 60\nsplit_val: 20\nsplit_test: 20\n", (0.6, 0.2, 0.2)),
            ("split_train: 1.5\n", (0.75, 0.125, 0.125)),
        ],
    )
    def test_ratios_are_scaled_as_in_cap_evolve_and_a_note_says_so(
        self, load: Callable[..., LoadedSpec], text: str, expected: tuple[float, float, float]
    ):
        loaded = load(text)
        assert loaded.split_settings().ratios == PerSplit(*expected)
        assert any("divided by their sum" in note for note in loaded.notes)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("split_train: -1\n", "split_train must be at least 0, not -1"),
            ("split_val: '0.25'\n", "split_val must be a number, not '0.25'"),
            ("split_test: true\n", "split_test must be a number, not true"),
            ("split_test: .nan\n", "split_test must be a finite number"),
            ("split_train: 0\nsplit_val: 0\nsplit_test: 0\n", "split_train must add up to 1, not 0"),
        ],
    )
    def test_wrong_ratios_are_reported_under_their_flat_names(
        self, refusal: Callable[[str], str], text: str, words: str
    ):
        assert words in refusal(text)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("num_trials: true\n", "num_trials must be a whole number, not true"),
            ("num_trials: '3'\n", "num_trials must be a whole number, not '3'"),
            ("num_trials: 0\n", "num_trials must be at least 1"),
            ("max_usd: false\n", "max_usd must be a number, not false"),
            ("max_iterations: 2.5\n", "max_iterations must be a whole number"),
            ("capability_path: ../other\n", "capability_path must be a path inside the project"),
        ],
    )
    def test_wrong_values_are_reported_under_their_flat_names_with_the_line(
        self, refusal: Callable[[str], str], text: str, words: str
    ):
        message = refusal(f"# first line\n{text}")
        assert words in message
        assert "line 2" in message
        assert "evaluation." not in message

    def test_a_gate_mode_that_capevolve_lacks_names_those_it_has(self, refusal: Callable[[str], str]):
        message = refusal("gate_mode: simplicity_tiebreak\n")
        assert "gate_mode must be one of paired, significant, threshold, strict" in message
        assert "simplicity_tiebreak" in message


class TestIgnored:
    @pytest.mark.parametrize("key", sorted(IGNORED))
    @pytest.mark.parametrize("value", ["''", "[a, {b: c}]", "7"])
    def test_a_key_without_a_meaning_here_is_accepted_and_named(
        self, load: Callable[..., LoadedSpec], key: str, value: str
    ):
        loaded = load(f"{key}: {value}\n")
        (note,) = loaded.notes
        assert note.startswith("ignored, because ")
        assert note.endswith(f": {key}")

    def test_every_known_key_of_cap_evolve_is_known_here(self):
        named = (
            "capabilities actions optimizer_skill optimizer_model optimizer_max_turns optimizer_usd_per_iter "
            "provider provider_base_url provider_credential_env target_model target_profile_file "
            "algorithm_focus orchestration_mode optimizer_instructions_file runner_repo_path "
            "capability_sources metrics_display metric_primary metric_directions github_integration "
            "stop_condition store store_commit_cmd observers protected_paths"
        )
        assert set(named.split()) <= set(IGNORED)
        assert {"algorithm_skill", "dataset_source"} <= FLAT_KEYS

    @pytest.mark.parametrize("skill", ["hill-climb", "gepa", "skillopt", "agent-optimize"])
    def test_the_algorithm_is_named_with_what_runs_instead(self, load: Callable[..., LoadedSpec], skill: str):
        assert load(f"algorithm_skill: {skill}\n").notes == (
            f"algorithm_skill is {skill!r}; capevolve runs hill_climb",
        )

    def test_a_dataset_file_is_left_to_the_adapter(self, load: Callable[..., LoadedSpec]):
        (note,) = load("dataset_source: tasks.jsonl\n").notes
        assert "which has to read 'tasks.jsonl' itself" in note
        (note,) = load("dataset_source: adapter\n").notes
        assert note == "dataset_source: tasks come from the adapter's tasks()"

    def test_a_key_of_neither_is_still_refused(self, refusal: Callable[[str], str]):
        message = refusal(FULL + "optimiser_skill: x\nfuture_key: 1\n")
        assert "Did you mean optimizer_skill?" in message
        assert "future_key is not a known key" in message


class TestConflicts:
    @pytest.mark.parametrize(
        ("text", "flat", "nested"),
        [
            ("num_trials: 3\nevaluation: {num_trials: 5}\n", "num_trials is 3", "evaluation.num_trials is 5"),
            ("capability_path: a\nseed_candidate: b\n", "capability_path is 'a'", "seed_candidate is 'b'"),
            ("run_name: a\nname: b\n", "run_name is 'a'", "name is 'b'"),
            ("max_usd: 0\nbudget: {max_usd: 5}\n", "max_usd is 0", "budget.max_usd is 5"),
            ("gate_mode: strict\ngate: {mode: paired}\n", "gate_mode is 'strict'", "gate.mode is 'paired'"),
            (
                "split_train: 0.5\nsplits: {ratios: {train: 0.4, val: 0.3, test: 0.3}}\n",
                "split_train is 0.5",
                "splits.ratios is",
            ),
        ],
    )
    def test_two_keys_with_different_values_are_refused_and_both_named(
        self, refusal: Callable[[str], str], text: str, flat: str, nested: str
    ):
        message = refusal(text)
        assert flat in message
        assert nested in message
        assert f"Remove {flat.split()[0]}." in message

    @pytest.mark.parametrize(
        "text",
        [
            "num_trials: 3\nevaluation: {num_trials: 3}\n",
            "max_usd: 5\nbudget: {max_usd: 5.0}\n",
            "split_train: 0.4\nsplit_val: 0.3\nsplit_test: 0.3\n"
            "splits: {ratios: {train: 0.4, val: 0.3, test: 0.3}}\n",
        ],
    )
    def test_two_keys_with_the_same_value_are_fine(self, load: Callable[..., LoadedSpec], text: str):
        load(text)

    def test_a_flat_and_a_nested_way_to_split_exclude_each_other(self, refusal: Callable[[str], str]):
        text = "split_ids_file: ids.json\nsplits: {counts: {train: 1, val: 2, test: 1}}\n"
        assert "splits gives counts and split_ids_file; give only one of them" in refusal(text)

    def test_flat_ratios_with_nested_pins_are_two_ways(self, refusal: Callable[[str], str]):
        assert "splits gives split_train and ids_file" in refusal(
            "split_train: 0.5\nsplits: {ids_file: a.json}\n"
        )

    def test_the_data_as_read_is_not_changed_by_mapping(self, load: Callable[..., LoadedSpec]):
        # Both sections are one YAML object here: setting a key in one must not set it in the other.
        text = "num_trials: 3\nevaluation: &shared {}\nseal: *shared\n"
        assert load(text).spec.seal.num_trials is None
