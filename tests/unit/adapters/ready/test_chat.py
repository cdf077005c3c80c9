"""The target `openai` against a server that misbehaves: what is an answer, what an outage, what it cost."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

from capevolve.adapters.ready.chat import describe_failure, price, read_reply
from capevolve.adapters.ready.prompts import Prompts, fill_template
from capevolve.adapters.records import Refusal
from capevolve.errors import AdapterError, CandidateError
from capevolve.model import Reason, Scored, Task, Unmeasured, task_seed
from capevolve.spec.ready import OpenaiTargetSpec

KEY = "sk-test-very-secret"


@pytest.fixture
def chat(ready, server, monkeypatch):
    """Makes an openai target of a model; the candidate has a prompt."""
    monkeypatch.setenv("MY_KEY", KEY)
    (ready.candidate / "prompt.md").write_text("Be short.\n")

    def make(model="ok", *, scoring="exact", tasks=None, **options):
        target = {
            "kind": "openai",
            "model": model,
            "base_url": server.url,
            "system": "prompt.md",
            "api_key_env": "MY_KEY",
            **options,
        }
        return ready.ref(target, scoring=scoring, tasks=tasks)

    return make


def payload(reply):
    return json.loads(reply.payload)


def test_the_prompts_the_settings_and_the_seed_reach_the_server(ready, server, chat):
    (ready.candidate / "user.md").write_text('Q: {input} {"a": {b}}')
    ref = chat(user="user.md", temperature=0.7, max_tokens=50, extra_body={"top_p": 0.5})
    ready.run(ref, [2])
    assert server.requests == [
        {
            "model": "ok",
            "messages": [
                {"role": "system", "content": "Be short.\n"},
                {"role": "user", "content": 'Q: word 2 {"a": {b}}'},
            ],
            "seed": task_seed(Task("t2"), 9),
            "temperature": 0.7,
            "max_tokens": 50,
            "top_p": 0.5,
        }
    ]
    assert server.keys == [f"Bearer {KEY}"]


def test_what_the_spec_leaves_out_is_left_to_the_server(ready, server, chat):
    ready.run(chat())
    assert server.requests[0].keys() == {"model", "messages", "seed"}
    assert server.requests[0]["messages"][1] == {"role": "user", "content": "word 0"}


def test_the_answer_its_tokens_and_its_cost_are_recorded(ready, chat):
    prices = {"usd_per_million_input_tokens": 2.0, "usd_per_million_output_tokens": 10.0}
    (ready.candidate / "prompt.md").write_text("Ticket: word 0\nQueue: 0\n")
    reply = ready.run(chat(**prices))[0]
    assert reply.outcome == Scored(1.0)
    assert (reply.tokens, reply.cost_usd) == (110, pytest.approx((100 * 2 + 10 * 10) / 1e6))
    assert payload(reply)["metadata"] == {
        "model": "ok",
        "finish_reason": "stop",
        "input_tokens": 100,
        "output_tokens": 10,
    }


def test_a_cost_that_is_not_known_is_none_and_not_0(ready, chat):
    prices = {"usd_per_million_input_tokens": 2.0, "usd_per_million_output_tokens": 10.0}
    reply = ready.run(chat("no-usage", **prices))[0]
    assert (reply.outcome, reply.tokens, reply.cost_usd) == (Scored(0.0), None, None)
    reply = ready.run(chat())[0]
    assert (reply.tokens, reply.cost_usd) == (110, None)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("429", ["RateLimitError 429", "(Retry-After: 2)"]),
        ("500", ["InternalServerError 500"]),
        ("503", ["InternalServerError 503"]),
        ("400", ["BadRequestError 400"]),
        ("401", ["AuthenticationError 401"]),
        ("reset", ["APIConnectionError: Connection error. (", "Error"]),
        ("truncated", ["JSON"]),
        ("no-choices", ["holds no message"]),
    ],
)
def test_whatever_keeps_the_answer_away_is_missing_data_by_name_without_the_key(
    ready, server, chat, model, words
):
    reply = ready.run(chat(model))[0]
    assert isinstance(reply.outcome, Unmeasured)
    assert reply.outcome.reason == Reason.INFRA
    assert all(word in reply.outcome.detail for word in words), reply.outcome.detail
    assert len(server.requests) == 1, "the client must not try again by itself"
    assert KEY not in reply.outcome.detail + reply.payload
    assert reply.cost_usd is None
    refusals = {"429": Refusal(True, 2.0), "400": Refusal(False), "401": Refusal(False)}
    assert reply.refusal == refusals.get(model)


def test_a_server_that_stalls_is_an_outage_after_the_requests_timeout(ready, chat):
    begun = time.monotonic()
    reply = ready.run(chat("stall", request_timeout_s=0.3))[0]
    assert reply.outcome.reason == Reason.INFRA
    assert reply.outcome.detail.startswith("APITimeoutError")
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("model", ["empty", "refusal"])
def test_an_empty_answer_and_a_refusal_are_answers(ready, chat, model):
    reply = ready.run(chat(model))[0]
    assert (reply.outcome, payload(reply)["output"]) == (Scored(0.0), "")
    assert reply.feedback == "The answer is empty."
    assert payload(reply)["metadata"].get("refusal") == ("I will not." if model == "refusal" else None)


def test_requests_of_one_host_run_at_once_and_are_told_apart(ready, server, chat):
    (ready.candidate / "prompt.md").write_text("".join(f"Ticket: {n}\nQueue: {n}\n" for n in range(4)))
    replies = ready.run(chat(), [0, 1, 2, 3], slots=4, trials_per_host=4)
    assert all(reply.outcome == Scored(1.0) for reply in replies.values())
    own = {task_seed(Task(f"t{n}"), 7 + n) for n in range(4)}
    assert {request["seed"] for request in server.requests} == own


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        ({}, {"system": "lost.md"}, "lost.md cannot be read"),
        ({"prompt.md": b"\xff"}, {}, "prompt.md is not UTF-8"),
        ({"user.md": b"Hello"}, {"user": "user.md"}, "no {input}"),
        ({"user.md": b"{input} {input.age}"}, {"user": "user.md"}, "{input.age}"),
    ],
)
def test_a_candidate_without_its_prompts_is_refused_before_a_call(
    ready, server, chat, files, options, problem
):
    for name, data in files.items():
        (ready.candidate / name).write_bytes(data)
    with pytest.raises(CandidateError, match="candidate's") as caught:
        ready.run(chat(**options))
    assert problem in caught.value.what
    assert server.requests == []


def test_keys_of_an_input_fill_the_template(ready, server, chat):
    ready.write("tasks.csv", "id,age,name,target\nt0,5,Ann,0\n")
    (ready.candidate / "user.md").write_text("{input.name} is {input.age}: {input}")
    tasks = {"file": "tasks.csv", "input": ["name", "age"]}
    ready.run(chat(user="user.md", tasks=tasks))
    assert server.requests[0]["messages"][1]["content"] == 'Ann is 5: {"name": "Ann", "age": "5"}'


def test_a_filled_in_text_is_not_filled_in_again():
    assert fill_template("<{input}>{x}{ input }", "{input}") == "<{input}>{x}{ input }"
    assert Prompts(None, None).messages({"a": 1}) == [{"role": "user", "content": '{"a": 1}'}]


def test_a_key_that_is_not_set_is_named_before_a_call(ready, server, chat, monkeypatch):
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(AdapterError, match="MY_KEY is not set"):
        ready.list(chat())


def test_a_base_url_gets_no_key_that_the_spec_does_not_name(ready, server, chat, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    ready.run(chat(api_key_env=None))
    assert server.keys == ["Bearer none"]


def test_without_a_base_url_the_environment_says_where_and_the_digest_knows(ready, server, chat, monkeypatch):
    ref = chat(base_url=None)
    elsewhere = ready.list(ref).facts.digest
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert ready.list(ref).facts.digest != elsewhere
    ready.run(ref)
    assert len(server.requests) == 1


def test_a_missing_client_is_named_with_the_extra(ready, chat, monkeypatch):
    monkeypatch.setattr("capevolve.adapters.ready.chat.importlib.util.find_spec", lambda name: None)
    from capevolve.adapters.ready.chat import ChatTarget

    with pytest.raises(AdapterError) as caught:
        ChatTarget(OpenaiTargetSpec(kind="openai", model="m", system="p.md"))
    assert caught.value.fix == "pip install 'capevolve[openai]'"


def test_the_users_modules_do_not_shadow_what_the_client_imports(ready, server, chat):
    for name in ("queue", "httpx2", "anyio", "json"):
        ready.write(f"{name}.py", "raise RuntimeError('the user has this')\n")
    ready.write("scorer.py", "def score(task, answer):\n    return 1.0\n")
    reply = ready.run(chat(scoring={"kind": "python", "function": "scorer:score"}))[0]
    assert reply.outcome == Scored(1.0)


def test_a_reply_that_leaves_things_out_is_read_as_far_as_it_goes():
    spec = OpenaiTargetSpec(kind="openai", model="m", system="p.md")
    message = SimpleNamespace(content="x")
    rollout = read_reply("t", SimpleNamespace(choices=[SimpleNamespace(message=message)]), spec)
    assert (rollout.output, rollout.tokens, rollout.cost_usd, rollout.metadata) == ("x", None, None, {})
    assert price(1, 1, spec) is None
    for choices in (None, [], [None], "x"):
        assert read_reply("t", SimpleNamespace(choices=choices), spec).error


def test_an_error_without_a_message_is_named_by_its_class():
    assert describe_failure(ValueError()) == "ValueError"
