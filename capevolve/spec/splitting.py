"""What the spec says of splits."""

from __future__ import annotations

from typing import Self

from pydantic import AliasChoices, Field, model_validator

from capevolve.spec.fields import Count, NotNegative, Seed, Text, Texts
from capevolve.spec.section import Section
from capevolve.splits import OnDuplicate, OnNear, PerSplit, SplitSettings, ratio_fault


class Ratios(Section):
    """Shares of the tasks; together 1."""

    train: NotNegative = Field(description="Share of the tasks the proposer learns from.")
    val: NotNegative = Field(description="Share of the tasks the gate judges on.")
    test: NotNegative = Field(description="Share of the tasks that estimate the final number.")

    @model_validator(mode="after")
    def _together_one(self) -> Self:
        fault = ratio_fault(PerSplit(self.train, self.val, self.test))
        if fault:
            raise ValueError(fault)
        return self


class Counts(Section):
    """Numbers of tasks; tasks beyond their sum stay unused."""

    train: Count = Field(description="Tasks the proposer learns from.")
    val: Count = Field(description="Tasks the gate judges on.")
    test: Count = Field(description="Tasks that estimate the final number.")


class PinnedIds(Section):
    """Task ids by split."""

    train: Texts = Field(description="Ids of the tasks the proposer learns from.")
    val: Texts = Field(description="Ids of the tasks the gate judges on.")
    test: Texts = Field(description="Ids of the tasks that estimate the final number.")


SPLIT_WAYS = ("ratios", "counts", "ids", "ids_file")


def ways_fault(given: list[str]) -> str | None:
    """Returns what is wrong with giving these ways to split, or None."""
    return f"gives {' and '.join(given)}; give only one of them" if len(given) > 1 else None


class SplitsSpec(Section):
    """How tasks are split into train, val and test."""

    seed: Seed = Field(0, description="Decides which task goes where.")
    ratios: Ratios | None = Field(
        None, description="Shares per split; 0.5 / 0.25 / 0.25 when no way is given."
    )
    counts: Counts | None = Field(None, description="Tasks per split, instead of ratios.")
    ids: PinnedIds | None = Field(None, description="Task ids per split, instead of ratios.")
    ids_file: Text | None = Field(
        None, description='JSON file {"train": [ids], "val": [ids], "test": [ids]}, instead of ratios.'
    )
    group_key: Text | None = Field(
        None,
        validation_alias=AliasChoices("group_key", "group_by"),
        description="Metadata key; tasks that share its value stay in one split. Values are compared as "
        "text. `group_by` is its old name.",
    )
    stratify_key: Text | None = Field(
        None,
        description="Metadata key; the tasks of each of its values are spread over train, val and test in "
        "the shares asked for. Tasks without it are one more stratum; tasks that stay together count with "
        "the stratum most of them have. Not with pinned ids.",
    )
    allow_no_holdout: bool = Field(
        False, description="Let splits share tasks or content; every report then says so."
    )
    allow_small: bool = Field(
        False, description="Let val have fewer than 2 tasks, and pinned ids fewer than 4 in all."
    )
    on_duplicate_content: OnDuplicate = Field(
        "refuse",
        description='Equal content under different ids: "refuse" it across splits, or "group" it in one. '
        "Content is equal when the input is, but for case and white space; an input that is empty, or the "
        "same in all tasks, is compared together with target and metadata.",
    )
    near_duplicates: OnNear = Field(
        "warn",
        description='Inputs in two splits that share most of their words, "warn" of them, "refuse" them, or '
        '"ignore" them: a Jaccard similarity of at least 0.8 of their shingles of 5 words. They never decide '
        "where a task goes.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        fault = ways_fault([way for way in SPLIT_WAYS if getattr(self, way) is not None])
        if fault:
            raise ValueError(fault)
        if self.stratify_key is not None and (self.ids is not None or self.ids_file is not None):
            pinned = "ids" if self.ids_file is None else "ids_file"
            raise ValueError(f"gives stratify_key beside {pinned}, and pinned ids leave nothing to spread")
        return self

    def to_settings(self, pinned: PinnedIds | None = None) -> SplitSettings:
        """Returns the settings for `make_splits`.

        Args:
            pinned: What `ids_file` holds, when it is set.
        """
        ids = self.ids or pinned
        return SplitSettings(
            seed=self.seed,
            ratios=PerSplit(self.ratios.train, self.ratios.val, self.ratios.test) if self.ratios else None,
            counts=PerSplit(self.counts.train, self.counts.val, self.counts.test) if self.counts else None,
            ids=PerSplit(ids.train, ids.val, ids.test) if ids else None,
            group_key=self.group_key,
            stratify_key=self.stratify_key,
            allow_no_holdout=self.allow_no_holdout,
            allow_small=self.allow_small,
            on_duplicate_content=self.on_duplicate_content,
            near_duplicates=self.near_duplicates,
        )
