"""What the tree must look like: directions, sizes, and who may touch the sealed split."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = sorted(
    path
    for folder in ("capevolve", "tasks", "flows")
    for path in (ROOT / folder).rglob("*.py")
    if "scaffold/project" not in path.as_posix()
)
MAX_FILE = 310
MAX_FUNCTION = 60


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_imports_go_downward_only():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(linter)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "module",
    ["capevolve", "capevolve.finalize", "capevolve.report", "capevolve.cli.evaluate", "capevolve.cli.show",
     "capevolve.cli.check"],
)  # fmt: skip
def test_importing_the_domain_or_a_verb_without_flows_does_not_import_prefect(module):
    assert run_python(f"import {module}, sys; print('prefect' in sys.modules)") == "False"


def test_importing_capevolve_imports_neither_the_database_nor_numpy():
    loaded = run_python(
        "import capevolve, sys; print(sorted({'sqlalchemy', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    assert loaded == "[]"


def test_a_host_loads_no_database_no_numpy_and_no_pydantic():
    loaded = run_python(
        "import capevolve.adapters.host, sys;"
        "print(sorted({'sqlalchemy', 'numpy', 'pydantic', 'asyncio', 'psutil'} & set(sys.modules)))"
    )
    assert loaded == "[]"


def test_files_and_functions_stay_small():
    too_large = []
    for path in PRODUCT:
        source = path.read_text()
        lines = source.count("\n")
        if lines > MAX_FILE:
            too_large.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                if size > MAX_FUNCTION:
                    too_large.append(f"{path.relative_to(ROOT)}: {node.name} has {size} lines")
    assert too_large == []


def test_no_module_is_called_utils_helpers_or_manager():
    assert [p for p in PRODUCT if p.stem in {"utils", "util", "helpers", "manager", "common", "misc"}] == []


def test_only_the_seal_reads_the_sealed_split():
    readers = {
        path.relative_to(ROOT).as_posix() for path in PRODUCT if "read_sealed_split" in path.read_text()
    }
    assert readers == {"capevolve/ledger/runs.py", "capevolve/seal.py"}


def test_only_the_ledger_writes_sql():
    allowed = "capevolve/ledger/"
    pattern = re.compile(r"from sqlalchemy import (?!Connection\n)|import sqlite3|exec_driver_sql")
    writers = [
        path.relative_to(ROOT).as_posix()
        for path in PRODUCT
        if pattern.search(path.read_text()) and not path.relative_to(ROOT).as_posix().startswith(allowed)
    ]
    assert writers == []


def test_honesty_errors_are_never_caught():
    catchers = []
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
                if names & {"HonestyError", "TestSealError", "TrainGateError", "TamperError"}:
                    catchers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert catchers == []


def test_the_project_names_no_registry_and_no_machines_path():
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    pattern = re.compile(r"(/work/|/root/|/opt/pypi|pypi\.org|pythonhosted|index-url|deb\.debian)")
    found = []
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".csv", ".jsonl"} or path == Path(__file__) or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert found == []
    assert "uv.lock" not in tracked
