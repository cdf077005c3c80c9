"""The flat keys of cap-evolve: an existing `capevolve.yaml` loads, and notes say what became of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capevolve.spec.problems import Problem, name_key
from capevolve.spec.source import KeyPath
from capevolve.splits.plan import RATIO_TOLERANCE

MAPPED: Mapping[str, tuple[str, ...]] = {
    "run_name": ("name",),
    "capability_path": ("seed_candidate",),
    "split_seed": ("splits", "seed"),
    "split_ids_file": ("splits", "ids_file"),
    "num_trials": ("evaluation", "num_trials"),
    "gate_mode": ("gate", "mode"),
    "gate_k_se": ("gate", "k_se"),
    "max_iterations": ("search", "max_iterations"),
    "stall": ("search", "stall"),
    "max_metric_calls": ("budget", "max_calls"),
    "max_usd": ("budget", "max_usd"),
    "max_optimizer_usd": ("budget", "max_proposer_usd"),
}
RATIOS: Mapping[str, float] = {"split_train": 0.5, "split_val": 0.25, "split_test": 0.25}
"""cap-evolve's defaults, which stand in when only some of the three are given."""

_ZERO_IS_NO_CAP = frozenset({"max_metric_calls", "max_usd", "max_optimizer_usd"})
_EMPTY_IS_UNSET = frozenset({"run_name", "capability_path", "split_ids_file", "gate_mode"})
_IGNORED_FOR = {
    "the proposer section says who edits": (
        "optimizer_skill optimizer_model optimizer_max_turns optimizer_usd_per_iter "
        "optimizer_instructions_file provider provider_base_url provider_credential_env "
        "runner_repo_path capability_sources"
    ),
    "`editable` says what a proposal may touch": "capabilities actions protected_paths",
    "the adapter runs the target": "target_model target_profile_file runner_model model",
    "the search section says what is tried": (
        "algorithm_focus algorithm_args orchestration_mode stop_condition stop_at_reward reuse_baseline"
    ),
    "the reward decides, the adapter's metrics are shown": "metrics_display metric_primary metric_directions",
    "the ledger keeps every candidate": "store store_commit_cmd",
    "Prefect shows runs": "github_integration observers telemetry",
}
IGNORED: Mapping[str, str] = {key: reason for reason, keys in _IGNORED_FOR.items() for key in keys.split()}
FLAT_KEYS = frozenset({*MAPPED, *RATIOS, *IGNORED, "dataset_source", "algorithm_skill"})


@dataclass(frozen=True, slots=True)
class Nested:
    """A spec with its flat keys moved to where they belong.

    Attributes:
        flat: Whether any flat key was given.
        origins: For each path that a flat key filled, that key.
    """

    data: dict[Any, Any]
    flat: bool
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]
    origins: Mapping[KeyPath, str]


def nest_flat_keys(data: dict[Any, Any]) -> Nested:
    """Returns a spec without flat keys.

    Args:
        data: A spec as read, with flat keys, nested keys or both. It is not changed.
    """
    mover = _Mover(data)
    for key in MAPPED:
        if not (mover.flat.get(key) == "" and key in _EMPTY_IS_UNSET):
            mover.move(key)
    mover.move_ratios()
    notes = [*mover.notes, *_unmapped_notes(mover.flat)]
    return Nested(mover.data, bool(mover.flat), tuple(notes), tuple(mover.problems), mover.origins)


class _Mover:
    """Moves values into sections, and remembers what it did."""

    def __init__(self, data: dict[Any, Any]) -> None:
        self.flat = {key: value for key, value in data.items() if key in FLAT_KEYS and value is not None}
        self.data = {key: value for key, value in data.items() if key not in FLAT_KEYS}
        self.notes: list[str] = []
        self.problems: list[Problem] = []
        self.origins: dict[KeyPath, str] = {}

    def move(self, key: str) -> None:
        """Moves the value of one key, if it was given."""
        if key not in self.flat:
            return
        value = self.flat[key]
        note = f"{key} is read as {name_key(MAPPED[key])}"
        if key in _ZERO_IS_NO_CAP and value == 0 and not isinstance(value, bool):
            value = None
            note += ", where 0 is no cap"
        if key == "split_seed":
            note += "; it draws other splits than in cap-evolve, so pin ids to keep those"
        self._set(key, MAPPED[key], value, note)

    def move_ratios(self) -> None:
        """Moves the three ratios, unless pinned ids decide."""
        keys = [key for key in RATIOS if key in self.flat]
        if not keys:
            return
        names = ", ".join(keys)
        if ("splits", "ids_file") in self.origins:
            self.notes.append(f"ignored, because split_ids_file decides: {names}")
            return
        ratios = {key.removeprefix("split_"): self.flat.get(key, default) for key, default in RATIOS.items()}
        note = f"{names}: read as splits.ratios"
        total = _total(list(ratios.values()))
        if total is not None and abs(total - 1) > RATIO_TOLERANCE:
            ratios = {split: value / total for split, value in ratios.items()}
            note += f", each divided by their sum {total:g} as in cap-evolve"
        self._set(keys[0], ("splits", "ratios"), ratios, note)
        self.origins.update({("splits", "ratios", key.removeprefix("split_")): key for key in keys})

    def _set(self, key: str, path: tuple[str, ...], value: object, note: str) -> None:
        """Sets a nested key, unless it is there with another value."""
        section = self.data
        for part in path[:-1]:
            inner = section.get(part, {})
            if not isinstance(inner, dict):
                return  # The section itself is wrong, which is reported.
            section[part] = section = dict(inner)
        if path[-1] in section and not _same(section[path[-1]], value):
            text = f"is {self.flat[key]!r}, but {name_key(path)} is {section[path[-1]]!r}"
            self.problems.append(Problem((key,), text, f"Remove {key}."))
            return
        section[path[-1]] = value
        self.origins[path] = key
        self.notes.append(note)


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _total(values: list[Any]) -> float | None:
    """Returns the sum of ratios that can be scaled; None when they cannot."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    total = sum(values)
    return total if min(values) >= 0 and 0 < total < float("inf") else None


def _unmapped_notes(flat: Mapping[str, Any]) -> list[str]:
    notes = []
    if "dataset_source" in flat:
        source = flat["dataset_source"]
        itself = "" if source in ("adapter", "") else f", which has to read {source!r} itself"
        notes.append(f"dataset_source: tasks come from the adapter's tasks(){itself}")
    if "algorithm_skill" in flat:
        notes.append(f"algorithm_skill is {flat['algorithm_skill']!r}; capevolve runs hill_climb")
    for reason in _IGNORED_FOR:
        keys = [key for key in flat if IGNORED.get(key) == reason]
        if keys:
            notes.append(f"ignored, because {reason}: {', '.join(keys)}")
    return notes
