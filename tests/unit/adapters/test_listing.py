from __future__ import annotations

import asyncio

import pytest

from capevolve.adapters.listing import list_tasks
from capevolve.adapters.records import AdapterRef, TaskListing
from capevolve.errors import AdapterError


def _list(project, source: str, target: str | None = None, timeout_s: float = 20.0) -> TaskListing:
    ref = project.adapter(source)
    return asyncio.run(list_tasks(AdapterRef(ref.root, target or ref.target), timeout_s=timeout_s))


def test_tasks_are_listed_in_the_order_of_their_ids_with_content_and_cluster(project) -> None:
    listing = _list(
        project,
        """
        class Adapter(Plain):
            def tasks(self, split):
                return [
                    Task("b", {"q": "é"}, [1], {"cluster": "x", "level": 2}),
                    Task("a/../ü", 1),
                ]
        """,
    )
    first, second = listing.tasks
    assert (listing.source, first.id, second.id) == ("all", "a/../ü", "b")
    assert first.digest == project.digest_of(1)
    assert (second.input, second.target) == ({"q": "é"}, [1])
    assert (second.metadata, second.cluster, first.cluster) == ({"cluster": "x", "level": 2}, "x", None)
    assert listing.facts.class_name == "Adapter"


def test_the_order_of_the_adapters_list_means_nothing(project) -> None:
    source = """
    class Adapter(Plain):
        def tasks(self, split):
            return sorted(Plain.tasks(self, split), key=lambda task: {sign}task.input)
    """
    assert _list(project, source.format(sign="+")).tasks == _list(project, source.format(sign="-")).tasks


@pytest.mark.parametrize(
    ("change", "words"),
    [("Task('t0', time.monotonic_ns())", "task 't0'"), ("Task(f't-{time.monotonic_ns()}')", "task 't-")],
)
def test_tasks_that_do_not_hold_still_are_refused_by_name(project, change: str, words: str) -> None:
    with pytest.raises(AdapterError, match="differs from one call to the next") as caught:
        _list(
            project,
            f"""
            class Adapter(Plain):
                def tasks(self, split):
                    return [{change}]
            """,
        )
    assert words in caught.value.what


def test_many_large_tasks_arrive_complete(project) -> None:
    listing = _list(
        project,
        """
        class Adapter(Plain):
            def tasks(self, split):
                return [Task(f"t{i:03d}", f"{i}" * 50_000) for i in range(100)]
        """,
    )
    assert [task.id for task in listing.tasks] == [f"t{i:03d}" for i in range(100)]
    assert listing.tasks[42].input == "42" * 50_000


def test_noise_is_not_listed(project) -> None:
    assert len(_list(project, "print('[]' * 100000)\nclass Adapter(Plain): pass").tasks) == 12


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise OSError('no file')", "fails in tasks\\(\\): OSError: no file"),
        ("return [Task('a', float('nan'))]", "task 'a': input is nan"),
        ("return [Task('a'), Task('a')]", "two tasks have the id 'a'"),
        ("os._exit(7)", "exited with code 7 before it had listed"),
        ("sys.exit('bye')", "SystemExit: bye"),
    ],
)
def test_what_is_wrong_with_the_tasks_is_said(project, body: str, words: str) -> None:
    with pytest.raises(AdapterError, match=words) as caught:
        _list(project, f"class Adapter(Plain):\n    def tasks(self, split):\n        {body}")
    assert caught.value.fix


def test_a_listing_that_hangs_ends_at_its_limit(project) -> None:
    with pytest.raises(AdapterError, match=r"within 0\.3 s"):
        _list(project, "time.sleep(600)", timeout_s=0.3)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("adapter.py", "Adapter"),
        ("adapter.py:Other", "Other"),
        ("adapter.py:make", "Other"),
        ("adapter.py:ready", "Other"),
        ("adapter:Other", "Other"),
        ("pkg.inner.mod:Cls", "Cls"),
    ],
)
def test_an_adapter_is_found_by_every_form_of_its_name(project, target: str, name: str) -> None:
    inner = project.root / "pkg" / "inner"
    inner.mkdir(parents=True)
    (project.root / "pkg" / "__init__.py").touch()
    (inner / "__init__.py").touch()
    (inner / "mod.py").write_text(project.head + "class Cls(Plain): pass")
    source = """
    class Adapter(Plain): pass
    class Other(Plain): pass
    def make(): return Other()
    ready = Other()
    """
    assert _list(project, source, target).facts.class_name == name


def test_the_imported_base_class_is_not_taken_for_the_users_adapter(project) -> None:
    ref = AdapterRef(project.root, "adapter.py")
    (project.root / "adapter.py").write_text(
        "from capevolve import Adapter, Rollout, Score, Task\n"
        "class Mine(Adapter):\n"
        "    def tasks(self, split): return [Task('a')]\n"
        "    def run_target(self, task, ctx, *, seed): ...\n"
        "    def score(self, task, rollout): ...\n"
    )
    assert asyncio.run(list_tasks(ref, timeout_s=20)).facts.class_name == "Mine"
