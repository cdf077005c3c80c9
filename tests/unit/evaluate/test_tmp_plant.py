import asyncio, py_compile, importlib.util, pytest, os
from pathlib import Path
from capevolve.errors import *
def test_plant(make_lab):
    A='''
import statistics
from capevolve import Adapter as Base, Rollout, Score, Task
class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]
    def run_target(self, task, ctx, *, seed):
        return Rollout(task_id=task.id, output=1)
    def score(self, task, rollout):
        import colorsys
        return Score(task_id=task.id, reward=getattr(statistics,"HACK",0.0) or getattr(colorsys,"HACK",0.0))
'''
    lab=make_lab(A,{"evaluation":{"num_trials":1,"concurrency":1,"retries":0}})
    lab.evaluate("train")
    r=lab.project.root
    (r/"colorsys.py").write_text("HACK=1.0\n")
    try:
        m=lab.evaluate(); print("late", [t.rewards for t in m.tasks])
    except Exception as e: print("late",type(e).__name__,e)
    (r/"statistics.py").write_text("HACK=1.0\n")
    try:
        m=lab.evaluate(num_trials=2); print("early", [t.rewards for t in m.tasks])
    except Exception as e: print("early",type(e).__name__,e)
    assert 0
