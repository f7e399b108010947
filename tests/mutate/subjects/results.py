"""What others hand on, damaged: sweeps, shards of plans, policies as one file, plans as pages, records."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import math
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml

import jaxvrp
from benchmarks.records import check, sets
from jaxvrp import show
from jaxvrp.envs import darp
from jaxvrp.policies.actors import build_actors
from jaxvrp.policies.networks import NetworkKeys
from jaxvrp.policies.policy import of_networks
from jaxvrp.policies.program import CARD, PROGRAM, write_program
from tests.mutate import material
from tests.mutate.mutators import WORDS, mutate_bytes, mutate_text, pick
from tests.mutate.subjects.episode_files import INJECTED
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import call, command
from train import solve, sweep
from train.solving import shards

RECORD = Path(__file__).parents[3] / "benchmarks" / "results" / "records" / "darp_10_requests_policy.json"

TRAINING = """
import json, pathlib, sys
for line in sys.stdin:
    _, *words = json.loads(line)
    words = dict(zip(words[::2], words[1::2]))
    folder = pathlib.Path(words["--run_dir"])
    folder.mkdir()
    record = {"update": 1, "env_steps": 10, "eval/return": float(words["--gamma"])}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\\n")
    print(0, flush=True)
"""
"""In the place of the process of a sweep's trainings."""

TRIALS = 3


class Results(Subject):
    """See the module."""

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        self._kinds: dict[str, Callable[[Case, np.random.Generator], None]] = {
            "shards": self._shards,
            "policy file": self._policy_file,
            "page": self._page,
            "record": self._record,
        }
        if importlib.util.find_spec("optuna"):
            self._kinds["sweep"] = self._sweep
            self._make_sweep()
        self._make_plans()
        self._make_policy()
        known = sets.known_sets()
        self._sound_record = json.loads(RECORD.read_text())
        problems = sets.generate(name := self._sound_record["set"]["name"], known[name])
        sets.known_sets = lambda: known
        check.generate = lambda name, known: problems

    def attempt(self, case: Case) -> Tally:
        """Whatever is damaged is refused in one line, or what it says holds."""
        random = case.random()
        name = pick(random, list(self._kinds))
        try:
            self._kinds[name](case, random)
        except Finding as finding:
            raise Finding(f"{name}: {finding.kind}", finding.details) from finding
        return NOTHING

    # --- a sweep's database, space and runs -------------------------------------------------------------------------

    def _make_sweep(self) -> None:
        (self.scratch / "training.py").write_text(TRAINING)
        sweep.POLL, sweep.draw = 0.01, lambda study, sweep: None
        sweep.command_of = lambda algorithm: [sys.executable, str(self.scratch / "training.py")]
        (self.scratch / "sweep").mkdir()
        (self.scratch / "sweep" / "space.yaml").write_text("gamma: {low: 0.9, high: 1.0}\n")
        ended = command(sweep.main, self._sweep_words(self.scratch / "sweep"))
        assert ended.status == 0, ended.stderr
        self._table = (self.scratch / "sweep" / "out" / "trials.csv").read_bytes()

    @staticmethod
    def _sweep_words(folder: Path) -> list[str]:
        space, out = str(folder / "space.yaml"), str(folder / "out")
        return ["--config", "truck_drone_basic", "--space", space, "--out", out, "--trials", str(TRIALS)]

    def _sweep(self, case: Case, random: np.random.Generator) -> None:
        folder = case.folder / "sweep"
        shutil.copytree(self.scratch / "sweep", folder)
        database = folder / "out" / "sweep.db"
        if random.random() < 0.7:
            database.write_bytes(mutate_bytes(random, database.read_bytes()))
        else:
            space = folder / "space.yaml"
            space.write_bytes(mutate_text(random, space.read_bytes()))
        ended = command(sweep.main, self._sweep_words(folder))
        table = folder / "out" / "trials.csv"
        if ended.status == 0 and table.read_bytes() != self._table:
            rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
            complete = [row for row in rows if row[1] == "complete"]
            wrong = [row for row in complete if row[2] and abs(float(row[2]) - float(row[3])) > 1e-3]
            if len({row[0] for row in rows}) != len(rows) or (wrong and len(complete) > TRIALS):
                raise Finding("a trial is counted twice, or with another return", table.read_text())

    # --- plans of shards --------------------------------------------------------------------------------------------

    def _make_plans(self) -> None:
        """Two shards of three files, with plans as `train.solve` writes them."""
        random, days, out = np.random.default_rng(0), self.scratch / "days", self.scratch / "plans"
        days.mkdir()
        out.mkdir()
        for number in range(3):
            darp.write_cordeau(days / f"day_{number}.txt", material.instance(random))
        problem = solve.open_problem(days / "day_0.txt")
        self._solution = solve.solved(problem, seconds=1.0, method="nearest neighbour")
        files = shards.files_of(str(days))
        for number in (1, 2):
            entries = []
            for file in files[number - 1 :: 2]:
                path = shards.plan_path(out, file, None)
                source = {"file": file.name, "problem": None, "sha256": shards.checksum(file), "settings": {}}
                path.write_text(json.dumps({**self._solution.plan, "source": source}))
                entries.append(shards.entry_of(path))
            shards.write_manifest(out, shards.Shard(number, 2), files, {}, entries)
        self._collected = shards.collect(out)
        self._plans = (out / shards.ALL).read_bytes()

    def _shards(self, case: Case, random: np.random.Generator) -> None:
        out = case.folder / "plans"
        shutil.copytree(self.scratch / "plans", out)
        (out / shards.ALL).unlink()
        paths = sorted(out.iterdir())
        path = pick(random, paths)
        if random.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(mutate_text(random, path.read_bytes()))
        ended = command(solve.main, ["--collect", str(out)])
        is_there = (out / shards.ALL).is_file()
        if is_there != (ended.status == 0):
            raise Finding("a table of what is refused, or none", ended.stderr)
        if is_there and path.name.startswith("day") and (out / shards.ALL).read_bytes() != self._plans:
            raise Finding("a damaged plan is in the table", (out / shards.ALL).read_text())

    # --- a policy as one file ---------------------------------------------------------------------------------------

    def _make_policy(self) -> None:
        values = {"env": {"name": "darp", "num_nodes": 4, "num_agents": 2}, "network": "mlp"}
        env = jaxvrp.make(**values["env"], observation="flat")
        actors = build_actors(NetworkKeys(network="mlp", hidden_sizes=(4,)), env)
        params = {name: actors.init(jax.random.key(0), name) for name in actors.names}
        policy = of_networks(env, actors, params, "a policy")
        self._state = jax.device_get(jax.jit(env.reset)(jax.random.key(0))[0])
        write_program(policy, self.scratch / "sound.jaxpolicy", values)
        loaded = jaxvrp.load_policy(self.scratch / "sound.jaxpolicy")
        self._action = jax.device_get(loaded.act(self._state))

    def _policy_file(self, case: Case, random: np.random.Generator) -> None:
        path, content = case.folder / "damaged.jaxpolicy", (self.scratch / "sound.jaxpolicy").read_bytes()
        how = random.random()
        if how < 0.5:
            path.write_bytes(mutate_bytes(random, content))
        else:
            with zipfile.ZipFile(io.BytesIO(content)) as file:
                parts = {CARD: file.read(CARD), PROGRAM: file.read(PROGRAM)}
            parts[CARD] = mutate_text(random, parts[CARD])
            with zipfile.ZipFile(path, "w") as file:
                for name, part in parts.items():
                    file.writestr(name, part)
        loaded = call(jaxvrp.load_policy, path)
        if loaded.refusal is None:
            acted = call(loaded.value.act, self._state)
            if acted.refusal is None and jax.device_get(acted.value) != self._action:
                raise Finding("plays otherwise", f"{acted.value}")

    # --- a plan as a page -------------------------------------------------------------------------------------------

    def _page(self, case: Case, random: np.random.Generator) -> None:
        """Whatever a problem calls its vehicles, stops and itself, no page holds it but as text."""
        del case
        solution = self._solution
        episode = show.export_episode(solution.episode)
        word = INJECTED if random.random() < 0.5 else pick(random, WORDS)
        episode["subtitle"] = word
        plan = _renamed(solution.plan, word, random)
        sheets = solution.problem.problems.sheets(solution.problem.problem, plan)
        outcome = call(lambda: show.write_page(episode, "plan.html", sheets=sheets))
        if outcome.refusal is None and INJECTED in Path("plan.html").read_text(encoding="utf-8"):
            raise Finding("a name is a script in the page", word)

    # --- a record ---------------------------------------------------------------------------------------------------

    def _record(self, case: Case, random: np.random.Generator) -> None:
        path, record = case.folder / "record.json", copy.deepcopy(self._sound_record)
        if random.random() < 0.5:
            part = record[pick(random, ("set", "figures", "plans"))]
            part = pick(random, part) if isinstance(part, list) else part
            name = pick(random, list(part))
            damaged = mutate_text(random, json.dumps(part[name]).encode())
            try:
                part[name] = yaml.safe_load(damaged)
            except (yaml.YAMLError, ValueError, RecursionError):
                del part[name]
            path.write_text(json.dumps(record, default=str))
        else:
            path.write_bytes(mutate_text(random, json.dumps(record).encode()))
        if command(check.main, [str(path)]).status:
            return
        said = json.loads(path.read_bytes().decode("utf-8-sig"))
        sound = self._sound_record["figures"]
        is_right = said["figures"].keys() == sound.keys() and all(
            math.isclose(said["figures"][name], value, rel_tol=check.TOLERANCE) for name, value in sound.items()
        )
        if said["set"] != self._sound_record["set"] or not is_right:
            raise Finding("another figure is right", f"{said['set']} {said['figures']}")


def _renamed(plan: dict[str, Any], word: str, random: np.random.Generator) -> dict[str, Any]:
    """The plan with a word in the place of something in its table."""
    stops = copy.deepcopy(plan["stops"])
    stop = pick(random, stops)
    stop[pick(random, list(stop))] = word
    return {**plan, "stops": stops}
