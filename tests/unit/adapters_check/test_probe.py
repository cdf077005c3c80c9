"""The stand-in that watches a user's adapter."""

from __future__ import annotations

import functools

import pytest

from capevolve.adapters.probe import _reads_seed


class _Ways:
    def by_name(self, task, ctx, *, seed):
        return seed

    def by_place(self, task, ctx, seed):
        return [task, seed]

    def in_a_closure(self, task, ctx, *, seed):
        return lambda: seed

    def in_a_comprehension(self, task, ctx, *, seed):
        return [seed + i for i in range(2)]

    def deleted(self, task, ctx, *, seed):
        del task, ctx
        return seed

    def by_any_name(self, task, ctx, **options):
        return options

    def never(self, task, ctx, *, seed):
        return "seed"

    def only_stored(self, task, ctx, *, seed):
        seed = 5  # noqa: F841

    async def in_a_coroutine(self, task, ctx, *, seed):
        return seed

    async def never_in_a_coroutine(self, task, ctx, *, seed):
        return ctx


def _wrap(method):
    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        return method(*args, **kwargs)

    return wrapped


@pytest.mark.parametrize("name", [name for name in vars(_Ways) if not name.startswith("_")])
def test_whether_a_target_looks_at_its_seed(name):
    expected = not name.startswith(("never", "only"))
    method = getattr(_Ways(), name)
    assert _reads_seed(method) is expected
    assert _reads_seed(_wrap(method)) is expected


def test_what_cannot_be_looked_into_is_not_accused():
    assert _reads_seed(len)
    assert _reads_seed(functools.partial(_Ways().never, 1))
