"""The arguments of ``qflow spark``; reading them loads neither Spark nor the engine."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(subparsers: Any) -> None:
    """Add ``spark`` to the rooms of the command line; neither Spark nor the engine is loaded for that."""
    spark = subparsers.add_parser(
        "spark",
        help="audit a fleet's logs, sweep settings, follow a stream, make a synthetic fleet",
        description="The engine over a fleet's recorded logs, on Apache Spark: on this machine or a cluster.",
    )
    actions = spark.add_subparsers(dest="action", metavar="ACTION", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--master", metavar="URL", help="local[4], yarn, k8s://...; default: local[2]")
    common.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark's own"
    )
    _add_audit(actions, common)
    _add_sweep(actions, common)
    _add_stream(actions, common)
    _add_synth(actions, common)
    bench = actions.add_parser("bench", parents=[common], help="measure the audit: ratios in one run")
    bench.add_argument("--json", action="store_true", help="print one JSON object")


def _add_audit(actions: Any, common: argparse.ArgumentParser) -> None:
    audit = actions.add_parser(
        "audit",
        parents=[common],
        help="say which queues were ON, whose completions they held, and for how long",
        description="Audit client logs, or a lake that was made of them before. Killed while it audits "
        "--lake to --out, the same command goes on where it was.",
    )
    audit.add_argument("logs", nargs="*", metavar="LOG", help=".parquet, .csv, .csv.gz, or a folder of them")
    audit.add_argument(
        "--workloads", metavar="DIR", help="where NAME.json is for the log NAME; default: beside"
    )
    audit.add_argument("--lake", metavar="DIR", help="keep the lake there; without LOG: audit the lake there")
    audit.add_argument("--buckets", type=_count, default=8, metavar="N", help="files of the lake; default: 8")
    audit.add_argument("--out", metavar="DIR", help="write all results there, as Parquet")
    audit.add_argument("--json", action="store_true", help="print one JSON object")


def _add_sweep(actions: Any, common: argparse.ArgumentParser) -> None:
    sweep = actions.add_parser(
        "sweep",
        parents=[common],
        help="run each component's workload again under each of some settings",
        description="Simulate every component of a lake under every setting. Killed at any moment, the same "
        "command goes on where it was.",
    )
    sweep.add_argument("--lake", required=True, metavar="DIR", help="a lake")
    sweep.add_argument("--settings", required=True, metavar="GRID.json", help="a map of names to settings")
    sweep.add_argument("--out", required=True, metavar="DIR", help="where finished cells are kept")
    sweep.add_argument(
        "--most-rows", type=_count, default=5_000_000, metavar="N", help="leave larger components out"
    )
    sweep.add_argument("--json", action="store_true", help="print one JSON object")


def _add_stream(actions: Any, common: argparse.ArgumentParser) -> None:
    stream = actions.add_parser(
        "stream",
        parents=[common],
        help="audit a folder of events that grows",
        description="Audit a folder of Parquet files with a lake's columns, as they come. Killed at any "
        "moment, the same command goes on where it was.",
    )
    stream.add_argument("incoming", metavar="DIR", help="where files appear")
    stream.add_argument("--out", required=True, metavar="DIR", help="results and checkpoint")
    stream.add_argument("--once", action="store_true", help="take what is there, then end")
    stream.add_argument("--files", type=_count, metavar="N", help="most files of one step")
    stream.add_argument("--patience", type=_count, default=10_000, metavar="N",
                        help="events that may wait for a missing one; default: 10000")  # fmt: skip


def _add_synth(actions: Any, common: argparse.ArgumentParser) -> None:
    synth = actions.add_parser(
        "synth",
        parents=[common],
        help="make a synthetic fleet, like the recorded one",
        description="Write a lake of a synthetic fleet; the same numbers give the same fleet anywhere. "
        "Killed at any moment, the same command goes on where it was.",
    )
    synth.add_argument("--queues", type=_count, required=True, metavar="N", help="components")
    synth.add_argument("--events", type=_count, required=True, metavar="M", help="events in all")
    synth.add_argument("--out", required=True, metavar="DIR", help="where the lake is written")


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
