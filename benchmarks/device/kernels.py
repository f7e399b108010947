"""What a GPU does in one call of a program: its kernels, by the time that they take."""

from __future__ import annotations

import collections
import gzip
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from benchmarks.device.rows import Program, Row

MOST = 20
"""Kernels that are kept, those that take longest."""


def kernels(build: Callable[[], Program]) -> Row:
    """Those of the program that `build` compiles, in its third call, by JAX's profiler."""
    call = build().call
    call()
    call()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call()
        (file,) = pathlib.Path(folder).rglob("*.trace.json.gz")
        return kernels_of(json.loads(gzip.decompress(file.read_bytes()))["traceEvents"])


def kernels_of(events: Iterable[Mapping[str, Any]]) -> Row:
    """Names of kernels, how often each ran, and microseconds of all its runs; and the share of time in which any ran.

    `events` are those of a trace in Chrome's format. Other devices than GPUs have no such streams: a note says so.
    """
    streams, ran = set(), []
    for event in events:
        if event.get("name") == "thread_name" and str(event["args"].get("name", "")).startswith("Stream"):
            streams.add((event["pid"], event["tid"]))
        elif event.get("ph") == "X":
            ran.append(event)
    ran = [event for event in ran if (event["pid"], event["tid"]) in streams]
    if not ran:
        return {"note": "the profiler tells of no kernels"}
    calls, microseconds = collections.Counter[str](), collections.Counter[str]()
    for event in ran:
        calls[event["name"]] += 1
        microseconds[event["name"]] += event["dur"]
    span = max(event["ts"] + event["dur"] for event in ran) - min(event["ts"] for event in ran)
    longest = [{"kernel": name, "calls": calls[name], "us": total} for name, total in microseconds.most_common(MOST)]
    return {"us": span, "busy": microseconds.total() / span, "kernels": longest}
