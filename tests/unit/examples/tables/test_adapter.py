import re

import pytest

from capevolve import AgentFailure, Rollout, Task


@pytest.fixture(scope="module")
def adapter(tables):
    return tables.adapter.Adapter()


def score(adapter, output, target="SELECT state FROM airports WHERE iata IN ('SEA', 'ORD')"):
    task = Task(id="t", input="", target=target)
    return adapter.score(task, Rollout(task_id="t", output=output))


def test_the_seed_answers_about_one_question_in_twenty(tables, adapter):
    rewards = [
        adapter.score(task, adapter.run_target(task, tables.folder / "seed", seed=0)).reward
        for task in adapter.tasks("all")
    ]
    assert 0.03 <= sum(rewards) / len(rewards) <= 0.08


def test_the_agent_sees_the_question_and_nothing_else_of_the_task(tables, adapter):
    for task in adapter.tasks("all"):
        bare = Task(id="other", input=task.input)
        rollouts = [adapter.run_target(t, tables.folder / "seed", seed=s) for t, s in ((task, 0), (bare, 1))]
        assert rollouts[0].output == rollouts[1].output
        assert rollouts[0].cost_usd is None


def test_other_sql_with_the_same_rows_is_right(adapter):
    assert score(adapter, "SELECT state FROM airports WHERE iata = 'ORD' OR iata = 'SEA'").reward == 1.0


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (None, "No answer"),
        ("SELECT state FROM airports WHERE iata = 'SEA'", "1 where 2 were expected"),
        ("SELECT state, iata FROM airports WHERE iata IN ('SEA', 'ORD')", "2 columns where 1 were expected"),
        ("SELECT city FROM airports WHERE iata IN ('SEA', 'ORD')", "other values"),
        ("SELECT stat FROM airports", "no such column"),
        ("DROP TABLE airports", "not authorized"),
        ("INSERT INTO airports (iata) VALUES ('XXX')", "not authorized"),
        ("ATTACH DATABASE ':memory:' AS other", "not authorized"),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n FROM r", "rows|steps"),
    ],
)
def test_a_wrong_query_scores_zero_and_the_feedback_says_why(adapter, output, word):
    wrong = score(adapter, output)
    assert wrong.reward == 0.0
    assert re.search(word, wrong.feedback)
    assert score(adapter, "SELECT state FROM airports WHERE iata IN ('ORD', 'SEA')").reward == 1.0


def test_order_counts_when_the_gold_query_orders(adapter):
    gold = "SELECT iata FROM airports WHERE iata IN ('SEA', 'ORD') ORDER BY iata"
    assert score(adapter, gold, gold).reward == 1.0
    assert score(adapter, gold + " DESC", gold).reward == 0.0
    assert score(adapter, gold + " DESC", gold.removesuffix(" ORDER BY iata")).reward == 1.0


@pytest.mark.parametrize("text", [None, "{", "\udcff"])
def test_a_candidate_that_the_agent_cannot_read_is_the_agents_failure(adapter, tmp_path, text):
    if text is not None:
        (tmp_path / "skill.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(AgentFailure):
        adapter.run_target(Task(id="t", input="q"), tmp_path, seed=0)
