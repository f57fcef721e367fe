"""``qflow predict``: a prediction of recorded clients under other settings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qflow.arguments import add_columns, add_json, add_seed, add_several, named_number, named_rate
from qflow.colour import paint_states
from qflow.kit import RefusalError


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``predict`` to a parser's commands, without importing the engine."""
    parser = rooms.add_parser(
        "predict",
        description="Run the workload behind a client log again. Prints, for each queue, producer and "
        "consumer, the recorded measures, the predicted ones, and the difference.",
    )
    parser.add_argument("workload", metavar="WORKLOAD.json", nargs="?", help="the recorded workload")
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="the log of its clients: .parquet, .csv or .csv.gz"
    )
    such = (
        'queue arguments to change, such as \'{"orders": {"qpid.flow_stop_count": 300}}\'; null removes one'
    )
    add_several(parser, "--queue-arguments", "JSON", such)
    add_several(parser, "--capacity", "CLIENT=N", "a producer's window, in messages", type=named_number)
    add_several(parser, "--prefetch", "CLIENT=N", "a consumer's window, in messages", type=named_number)
    add_several(
        parser,
        "--demand",
        "CLIENT=N/s",
        "the rate at which a producer wants to send, in messages/s",
        type=named_rate,
    )
    parser.add_argument(
        "--settings",
        metavar="OTHER.json",
        help="take queue arguments, capacities and prefetch from another workload file",
    )
    parser.add_argument(
        "--infer", action="store_true", help="read the recorded thresholds from the log's held completions"
    )
    parser.add_argument(
        "--model",
        choices=("open", "closed"),
        help="how blocked producers behave; default: inferred from the log",
    )
    parser.add_argument(
        "--detail",
        choices=("constants", "full"),
        default="full",
        help="which of the clients' costs are estimated: constants only, or also how they vary (default)",
    )
    parser.add_argument(
        "--replays",
        type=int,
        metavar="N",
        help="replay the log N times with different seeds, and print an interval for each measure; default: "
        "19 (fewer for a very long log; up to 57 if a session ends in only some of the replays)",
    )
    add_seed(parser, 0)
    parser.add_argument(
        "--processes", type=int, metavar="N", help="processes that share the replays; default: all cores"
    )
    add_columns(parser)
    parser.add_argument("--receipt", metavar="FILE", help="write the prediction and its inputs, as JSON")
    parser.add_argument(
        "--score",
        nargs=2,
        metavar=("FILE", "LOG"),
        help="score a receipt against a later log: print which measures are inside their intervals",
    )
    add_json(parser)


def run(namespace: argparse.Namespace) -> int:
    """Predict and print the report, or score a receipt; return the exit status."""
    from qflow.logs.workload_file import unseen_capacities
    from qflow.prediction.report import report_text
    from qflow.prediction.summary import receipt_of
    from qflow.workload import Workload
    from qflow.workload.cli import look_over
    from qflow.writing import require_apart, write_file

    if namespace.score:
        file, later = namespace.score
        return _score(file, later, namespace)
    if namespace.log is None:
        given = namespace.workload or "nothing"
        raise RefusalError(f"qflow predict needs WORKLOAD.json and LOG, got {given}")
    require_apart([namespace.receipt], [namespace.workload, namespace.log, namespace.settings])
    workload = Workload.load(namespace.workload)
    settings = _settings(namespace, workload)
    look_over(settings.apply(workload), "qflow predict")
    report = _predict(namespace, workload, settings)
    if namespace.receipt:
        write_file(namespace.receipt, json.dumps(receipt_of(report), indent=1) + "\n")
    found = unseen_capacities(namespace.workload)
    unseen = {name: words for name, words in found.items() if name not in settings.capacity}
    if namespace.json:
        print(json.dumps(report | ({"capacity_not_seen": unseen} if unseen else {})))
        return 0
    if unseen:
        print(_unseen_text(unseen))
    print(paint_states(report_text(report)))
    return 0


def _predict(namespace: argparse.Namespace, workload: Any, settings: Any) -> Any:
    from qflow.logs.client_log import ClientLog
    from qflow.prediction.predict import predict
    from qflow.progress import progress

    with progress("predicting", unit="s") as shown:
        log = ClientLog.load(namespace.log, namespace.map)
        shown(0, round(workload.duration), f"reading the evidence in {Path(namespace.log).name}")
        return predict(
            workload,
            log,
            settings,
            namespace.model,
            infer=namespace.infer,
            detail=namespace.detail,
            demand=dict(namespace.demand),
            replays=namespace.replays,
            seed=namespace.seed,
            processes=namespace.processes,
            progress=shown,
        )


def _score(file: str, path: str, namespace: argparse.Namespace) -> int:
    from qflow.logs.client_log import ClientLog
    from qflow.prediction.summary import score, score_text

    try:
        receipt = json.loads(Path(file).read_text("utf-8"))
    except ValueError as error:
        raise RefusalError(f"{Path(file).name}: a receipt must be JSON: {error}") from None
    found = score(receipt, ClientLog.load(path, namespace.map))
    print(json.dumps(found) if namespace.json else score_text(found))
    return 0


def _unseen_text(unseen: Mapping[str, str]) -> str:
    names = ", ".join(unseen)
    first, words = next(iter(unseen.items()))
    return (
        f"capacity of {names}: not seen in the log, so the prediction of blocks is a guess; give it with "
        f"--capacity {first}=N ({words.partition(': ')[2]})"
    )


def _settings(namespace: argparse.Namespace, workload: Any) -> Any:
    from qflow.prediction.predict import Settings
    from qflow.workload import Workload

    settings = Settings()
    if namespace.settings:
        settings = Settings.of(Workload.load(namespace.settings), workload)
    for text in namespace.queue_arguments:
        settings = settings.and_then(Settings(_queue_arguments(text)))
    return settings.and_then(Settings(capacity=dict(namespace.capacity), prefetch=dict(namespace.prefetch)))


def _queue_arguments(text: str) -> dict[str, dict[str, Any]]:
    from qflow.workload import WorkloadError

    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(isinstance(value, dict) for value in given.values()):
        raise WorkloadError(
            f"--queue-arguments: must be a JSON map of queue names to maps of arguments, got {text!r}"
        )
    return given
