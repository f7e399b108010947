"""What each part of a configuration is worth: the same training with one part changed at a time, several seeds each.

python -m benchmarks.ablation --out result.json --plot curves.png
python -m benchmarks.ablation --config truck_drone_scarce --only 'as it is' 'no imitation' --num_seeds 3

Every other key of `python -m train.mappo --help` is given to all of them.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxvrp
from benchmarks import learning, measure
from jaxvrp import pictures
from jaxvrp.io.command_line import Parser, check_picture_path, positive
from jaxvrp.pictures import STILLS, save_still, series_look
from train.algorithms import ALGORITHMS
from train.running import command_line
from train.running.records import METRICS, TIMING, read_records
from train.running.tables import aligned

AS_IT_IS = "as it is"

PARTS = {
    AS_IT_IS: "",
    "no imitation": "--imitate null --imitate_steps 0 --imitate_coef 0",
    "no pull after imitation": "--imitate_coef 0",
    "decisions at every step": "--env.decide steps",
    "MLP": "--network mlp",
    "encoded by every agent": "--attention_encode agent",
    "encoded once an instance": "--attention_encode instance",
    "no attention between entities": "--attention_layers 0",
    "a policy for every drone": "--share_drone_policy false",
    "local critics (IPPO)": "--critic local",
    "no value normalisation": "--value_norm false",
    "no entropy bonus": "--entropy_coef 0",
    "four times the entropy bonus": "--entropy_coef 0.02",
    "gradients clipped at 5": "--max_grad_norm 5",
    "constant learning rate": "--lr_decay false",
    "learning rate no lower than a tenth": "--lr_floor 0.1",
    "updates that end at a KL of 0.01": "--target_kl 0.01",
    "no masks": "--mask_actions false",
    "forced decisions learned, too": "--skip_forced false",
    "group baseline": "--rollout episodes --rollout_length 200 --baseline group --group_size 16 --eval_interval 4 "
    "--save_interval 4",
}
"""Words of the command line that change a part, by what the part is then called."""

Record = dict[str, Any]


def replaced(words: Sequence[str], changes: Sequence[str]) -> list[str]:
    """Words `--key value ...` with those of `changes`, which take the place of the same keys."""
    keys = {key for key in changes if key.startswith("--")}
    starts = [place for place, word in enumerate(words) if word.startswith("--")]
    kept = [words[start:end] for start, end in itertools.pairwise([*starts, len(words)])]
    return [*itertools.chain.from_iterable(given for given in kept if given[0].split("=")[0] not in keys), *changes]


def measured(words: Sequence[str]) -> Record:
    """The figures of a training, `seconds` of the whole run, and its curve of return against seconds of training."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        summary, seconds = learning.trained("mappo", words, run)
        return {"figures": summary["policy"], "seconds": seconds, "curve": curve(run), "baselines": summary}


def curve(run: pathlib.Path) -> list[list[float]]:
    """`[seconds, mean return]` of each evaluation of a run; the seconds of its updates, without compilation."""
    metrics, timing = read_records(run / METRICS), read_records(run / TIMING)
    # The first update compiles.
    paces = [record["time/seconds"] for record in timing[1:]] or [0.0]
    first = min(timing[0]["time/seconds"], float(np.median(paces)))
    clock = np.cumsum([first, *paces])
    return [
        [float(seconds), float(np.mean(record["eval/return"]))]
        for record, seconds in zip(metrics, clock, strict=False)
        if "eval/return" in record
    ]


def table(records: dict[str, Record], titles: dict[str, str]) -> learning.Table:
    """A head and a row for each part that was changed; of several seeds, the mean and the range."""
    figures = {name: record["figures"] for name, record in records.items()}
    head, *rows = learning.table(figures, titles)
    seconds = [f"{record['curve'][-1][0]:.0f}" for record in records.values()]
    rows = [[*row, taken] for row, taken in zip(rows, seconds, strict=True)]
    return [["changed", *head[1:], "seconds"], *rows]


def draw(records: dict[str, Record], *, ax: Any = None) -> Any:
    """The curves of all, return against seconds of training; in `ax`, or the axes of a new figure, which it returns."""
    axes = pictures.axes_of(ax, 8.3, 4.4, 120, (0.7, 0.5))
    others = (name for name in records if name != AS_IT_IS)
    looks = {AS_IT_IS: {"color": "black", "linewidth": 2.5}}
    looks |= {name: {**series_look(number), "linewidth": 1.2} for number, name in enumerate(others)}
    for name, record in records.items():
        axes.plot(*zip(*record["curve"], strict=True), **looks[name], label=name)
    axes.set(xlabel="seconds of training", ylabel="return, mean over seeds")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    return axes


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args, words = _parser().parse_known_args(argv)
    measure.check_result_file(args.out, [args.config])
    if args.plot:
        check_picture_path(args.plot, STILLS, "--plot")
    words = ["--config", args.config, "--num_seeds", str(args.num_seeds), *words]
    records: dict[str, Record] = {}
    with measure.progress(args.only, "training") as bar:
        for name in bar:
            bar.set_postfix_str(name)
            records[name] = measured(replaced(words, PARTS[name].split()))
    config = command_line.parse(ALGORITHMS["mappo"].config_class, words, prog="benchmarks.ablation", description="")
    env = jaxvrp.make(**config.config.env)
    header = measure.machine(["python", "-m", "benchmarks.ablation", *argv], measure.device_name())
    how = {
        "training": f"mappo, {args.config}: {config.config.total_steps} decisions of each of {args.num_seeds} seeds in "
        "one program, one part changed at a time",
        "figures": f"means over {config.config.eval_episodes} fixed instances, whole episodes, deterministic policy, "
        "after the last update; of the seeds: mean (least to largest)",
        "seconds": "seconds of all updates, of all seeds together, without compilation and evaluation",
    }
    titles = learning.titles_of(env)
    print(f"{measure.described(header, how)}\n\n{aligned(table(records, titles))}")
    if args.out:
        measure.write_result(args.out, {"machine": header, "protocol": how, "titles": titles, "records": records})
        print(f"wrote {args.out}")
    if args.plot:
        save_still(draw(records).figure, args.plot, dpi=120)
        print(f"drew {args.plot}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.ablation", "What each part of a configuration is worth.")
    parser.epilog = "Any key of python -m train.mappo --help can be given: --total_steps 100000"
    parser.add_argument("--config", default="truck_drone_basic", help="as of train.mappo (default: the main job)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="what is changed (default: each)")
    parser.add_argument("--num_seeds", type=positive, default=3, help="independent trainings of each (default: 3)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--plot", type=pathlib.Path, help="picture of the curves of return against seconds")
    return parser


if __name__ == "__main__":
    command_line.entry(main)
