"""Loads a user's adapter into a host: finds the file, the class, and what it was made of."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

import capevolve
from capevolve.adapters.contract import Adapter
from capevolve.adapters.imports import find_imports
from capevolve.adapters.late import keep_modules, load_late
from capevolve.adapters.records import AdapterFacts
from capevolve.canonical import digest, digest_bytes
from capevolve.errors import AdapterError

MODULE_NAME = "_capevolve_adapter"
"""The name under which an adapter's file is loaded, so that `adapter.py` collides with nobody."""

SETTINGS = "tasks, target, scoring"
"""What stands where the class of an adapter is named, for a ready one."""

_METHODS = ("tasks", "run_target", "score")
_HOOKS = ("run_trials", "run_batch", "score_batch")
_NOT_THE_USERS = {".capevolve", ".venv", "site-packages", "dist-packages", "node_modules"}
_PACKAGE = Path(capevolve.__file__).resolve().parent

# What capevolve itself may import later, or any library is likely to: loaded first when the adapter's
# directory has a module of a standard name.
_LATE_IMPORTS = (
    "asyncio", "concurrent.futures.thread", "datetime", "email.message", "email.utils", "http.client",
    "linecache", "logging", "multiprocessing.context", "subprocess", "tempfile", "traceback",
    "urllib.request", "uuid", "capevolve.adapters.eventloop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    """An adapter in its host.

    Attributes:
        instance: The user's object.
        file: Where its class is defined.
        seed_by_name: False when `run_target` takes the seed as its third positional argument.
        sources: For a ready adapter the user's files that it names; they define it in place of `file`.
        settings: For a ready adapter the digest of its sections.
    """

    instance: Any
    file: Path
    is_async: bool
    seed_by_name: bool
    sources: tuple[Path, ...] = ()
    settings: str = ""

    @property
    def hook(self) -> str:
        """The batch hook that runs its trials: the first of those it has, or empty."""
        return next((name for name in _HOOKS if callable(getattr(self.instance, name, None))), "")


class _FreshLoader(SourceFileLoader):
    """Compiles the source it finds: a planted or stale `.pyc` beside it is never read."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load_adapter(
    root: Path, target: str, candidate_dir: Path | None = None, *, ready: str = ""
) -> LoadedAdapter:
    """Loads an adapter and makes its object.

    The adapter's directory comes first on `sys.path`, the root last.

    Args:
        root: The project's directory.
        target: See `AdapterRef`.
        candidate_dir: Its modules, like those under the root, are compiled afresh.
        ready: See `AdapterRef`.

    Raises:
        AdapterError: There is no such file or class, or a method of the contract is missing.
        BaseException: Whatever the user's code raised while it was loaded.
    """
    if ready:
        load_ready = load_late("capevolve.adapters.ready.loading").load_ready  # it needs pydantic
        return cast("LoadedAdapter", load_ready(root, target, candidate_dir, ready))
    place, _, class_name = target.partition(":")
    read_sources_only([root] if candidate_dir is None else [root, candidate_dir])
    module = _load_file(root, place) if place.endswith(".py") else _load_module(root, place)
    maker = _find_class(module, class_name, target)
    instance: Any = maker() if inspect.isclass(maker) or inspect.isfunction(maker) else maker
    file = Path(module.__file__ or place).resolve()
    _check_methods(instance, file)
    is_async = inspect.iscoroutinefunction(instance.run_target)
    return LoadedAdapter(instance, file, is_async, _takes_seed_by_name(instance, file))


def describe_adapter(loaded: LoadedAdapter, root: Path) -> AdapterFacts:
    """Returns the facts of an adapter, with a digest of each of the user's modules.

    Those loaded so far, and those that an `import` anywhere in them names: a scorer may be imported only
    when it is first called. A name that is computed (`importlib.import_module(x)`) is not followed.
    """
    top = root.resolve()
    own = loaded.sources if loaded.settings else (loaded.file,)
    files: dict[str, str] = {_relative(path, top): digest_bytes(path.read_bytes()) for path in own}
    for module in list(sys.modules.values()):
        source = getattr(module, "__file__", None)
        if not isinstance(source, str):
            continue
        path = Path(source).resolve()
        if is_users(path, top) and path.is_file():
            files[_relative(path, top)] = digest_bytes(path.read_bytes())
    folders = [*dict.fromkeys(path.parent for path in own), top]
    for path in find_imports([top / name for name in files], folders):
        if is_users(path, top):
            files[_relative(path, top)] = digest_bytes(path.read_bytes())
    kind = SETTINGS if loaded.settings else type(loaded.instance).__name__
    rows = tuple(sorted(files.items()))
    parts = {"settings": loaded.settings} if loaded.settings else {}
    mark = digest({"class": kind, "files": [list(row) for row in rows], **parts})
    return AdapterFacts(kind, loaded.is_async, _relative(loaded.file, top), rows, mark, loaded.hook)


def _load_file(root: Path, place: str) -> ModuleType:
    path = root / place
    if not path.is_file():
        raise AdapterError(
            f"there is no adapter at {place}", where=str(path), fix="set `adapter` in the spec"
        )
    _give_way(path.parent)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.path.append(str(root.resolve()))
    loader = _FreshLoader(MODULE_NAME, str(path))
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path, loader=loader)
    if spec is None or spec.loader is None:
        raise AdapterError(f"{place} is not a Python file", where=str(path), fix="name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    return module


def _load_module(root: Path, place: str) -> ModuleType:
    open_root(root)
    return import_named(root, place)


def open_root(root: Path) -> None:
    """Puts the project's directory first on `sys.path`."""
    _give_way(root)
    sys.path.insert(0, str(root.resolve()))


def import_named(root: Path, place: str) -> ModuleType:
    """Imports a module of the user.

    Raises:
        AdapterError: There is none of that name.
    """
    try:
        found = importlib.util.find_spec(place)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise AdapterError(
            f"there is no module {place!r}", where=str(root), fix="name a .py file or a module on the path"
        )
    return importlib.import_module(place)


def read_sources_only(directories: list[Path]) -> None:
    """Has the modules under these directories compiled afresh, whatever `.pyc` lies beside them."""
    tops = [directory.resolve() for directory in directories]

    def finder(path: str) -> FileFinder:
        directory = Path(path).resolve()
        if not any(is_users(directory / "x.py", top) for top in tops):
            raise ImportError(path)
        return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FreshLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()


def _give_way(directory: Path) -> None:
    """Lets the user's modules have their names even where the standard library has the same.

    The host has loaded modules such as `queue` already; without this, `import queue` beside a `queue.py`
    would find the wrong one. Those who need the standard ones are loaded first and keep theirs.
    """
    names = {path.stem for path in directory.glob("*.py")}
    names |= {path.parent.name for path in directory.glob("*/__init__.py")}
    clashes = {name for name in names & sys.stdlib_module_names if not _is_built_in(name)}
    if not clashes:
        return
    keep_modules(_LATE_IMPORTS)
    for name in clashes:
        sys.modules.pop(name, None)


def _is_built_in(name: str) -> bool:
    """True for what the interpreter loads at its own start: no script could replace that either."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return name in sys.builtin_module_names or getattr(spec, "origin", None) in ("frozen", "built-in")


def _find_class(module: ModuleType, class_name: str, target: str) -> Any:
    chosen = getattr(module, class_name or "Adapter", None)
    if chosen is not None and chosen is not Adapter:
        return chosen
    if class_name:
        raise AdapterError(
            f"there is no {class_name!r} in {target.partition(':')[0]}",
            where=module.__file__,
            fix="name the adapter's class after the colon",
        )
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and hasattr(value, "run_target")
    ]
    if len(own) == 1:
        return own[0]
    names = ", ".join(sorted(value.__name__ for value in own)) or "none"
    raise AdapterError(
        f"{target} has no class `Adapter` (classes with run_target: {names})",
        where=module.__file__,
        fix=f"name the class: {target}:YourAdapter",
    )


def _check_methods(instance: Any, file: Path) -> None:
    missing = [name for name in _METHODS if not callable(getattr(instance, name, None))]
    if missing:
        raise AdapterError(
            f"the adapter {type(instance).__name__} has no {', '.join(missing)}",
            where=str(file),
            fix="an adapter has tasks(split), run_target(task, ctx, *, seed) and score(task, rollout)",
        )


def _takes_seed_by_name(instance: Any, file: Path) -> bool:
    try:
        parameters = inspect.signature(instance.run_target).parameters
    except (TypeError, ValueError):
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    seed = parameters.get("seed")
    if inspect.Parameter.VAR_KEYWORD in kinds or (
        seed and seed.kind is not inspect.Parameter.POSITIONAL_ONLY
    ):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    room = sum(parameter.kind in positional for parameter in parameters.values())
    if room >= 3 or inspect.Parameter.VAR_POSITIONAL in kinds:
        return False
    raise AdapterError(
        "run_target takes no seed: trials could not differ, nor be repeated",
        where=str(file),
        fix="write `def run_target(self, task, ctx, *, seed=0)`",
    )


def is_users(path: Path, top: Path) -> bool:
    """True for a file below `top` that is neither capevolve's, nor installed, nor a run's."""
    if not path.is_relative_to(top) or path.is_relative_to(_PACKAGE):
        return False
    for prefix in (Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()):
        if path.is_relative_to(prefix) and not top.is_relative_to(prefix):
            return False
    return _NOT_THE_USERS.isdisjoint(path.relative_to(top).parts)


def _relative(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else str(path)
