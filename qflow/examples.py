"""Examples: two lines for each command, to be typed as they are; its help ends with them.

The files they read come with a checkout of the kit, and they are typed at its top; only app.csv is yours.
"""

from __future__ import annotations

_WORKLOADS = "data/recordings/workloads"
_SLOW = f"{_WORKLOADS}/slow-consumer"
_RING = f"{_WORKLOADS}/ring"
_CLIENT = "python data/clients/proton_blocking_cured.py"

EXAMPLES: dict[str, tuple[str, str]] = {
    "lab": ("lab", "lab --dir my-chapters --no-browser --port 8899"),
    "exercises": ("exercises --json", "exercises solutions"),
    "rules": ("rules FC-14 FC-16", "rules --json"),
    "config add queue": (
        "config add queue orders --max-queue-count=1000",
        "config add queue orders --flow-stop-count=90 --flow-resume-count=60 --json",
    ),
    "config address": (
        "config address 'orders; {create: always}'",
        "config address orders --broker-option=default-queue-limit=0 --json",
    ),
    "run": (f"run {_RING}.json", f"run {_SLOW}.json --seed 7 --trace slow.jsonl.gz"),
    "design": (
        f"design {_SLOW}.json --max-count 1000 --messages 500",
        f"design {_SLOW}.json --max-count orders=500 --slo 'p99 wait < 2s' --slo 'loss 0'",
    ),
    "record": (
        "record --listen 5673 --upstream localhost:5672 --out log.parquet",
        "record --listen 0.0.0.0:5673 --upstream amqps://broker:5671 --out log.parquet --ca ca.pem",
    ),
    "trace info": ("trace info slow.jsonl.gz", "trace info slow.jsonl.gz --json"),
    "trace replay": ("trace replay slow.jsonl.gz", "trace replay slow.jsonl.gz -o again.jsonl.gz --json"),
    "trace import": (
        f"trace import {_SLOW}.csv.gz -o slow.jsonl",
        "trace import app.csv --map 'time=when:ms,client=host,event=action:{sent=transfer,acked=complete}' "
        "--like app.map",
    ),
    "trace why": (
        "trace why slow.jsonl.gz 9.5s queue:orders",
        "trace why slow.jsonl.gz 1200 producer:p1 --json",
    ),
    "predict": (
        f"predict {_RING}.json {_RING}.csv.gz --replays 3",
        f"predict {_SLOW}.json {_SLOW}.csv.gz --capacity p1=20 --json",
    ),
    "spark audit": (
        f"spark audit {_SLOW}.csv.gz",
        f"spark audit {_WORKLOADS}/fleet.parquet --lake lake --out audited --json",
    ),
    "spark report": (
        "spark report audited --page day.html",
        "spark report audited --day 2026-11-27 --page day.html",
    ),
    "spark sweep": (
        "spark sweep --lake lake --settings grid.json --out swept",
        "spark sweep --lake lake --settings grid.json --out swept --replays 19 --json",
    ),
    "spark stream": (
        "spark stream incoming --out audited --once",
        "spark stream incoming --out audited --files 4 --wait 120",
    ),
    "spark synth": (
        "spark synth --queues 100 --events 1000000 --out lake",
        "spark synth --queues 8 --events 20000 --out small --master local[4]",
    ),
    "conform": (
        "conform data/recordings/scenarios/random-ring.jsonl",
        "conform data/recordings/scenarios/*.jsonl --json",
    ),
    "serve": (
        "serve --queue 'orders --flow-stop-count=10 --flow-resume-count=5'",
        "serve --host 0.0.0.0 --port 5673 --trace served.jsonl",
    ),
    "check-client": (
        f"check-client --short -- {_CLIENT}",
        f"check-client --require stops,loses-nothing --json -- {_CLIENT}",
    ),
    "site build": ("site build", "site build --out my-site"),
    # It has no options; the second is what comes after it, without network.
    "site fetch": ("site fetch", "site build"),
    "class": ("class", "class --site qflow-workshop/site --port 8080"),
    "workshop": ("workshop --for linux --python 3.12", "workshop --with spark,live --out room --no-site"),
    "doctor": ("doctor", "doctor --spark --json"),
    "completion": (
        "completion bash > ~/.local/share/bash-completion/completions/qflow",
        "completion fish > ~/.config/fish/completions/qflow.fish",
    ),
}


def fold_line(line: str, width: int = 78) -> str:
    r"""Return a command on lines of a width, which a shell reads as one.

    >>> print(fold_line("qflow run data/orders.json --seed 7", 32))
    qflow run data/orders.json \
          --seed 7
    """
    words = line.split(" ")
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def examples_of(command: str) -> list[str]:
    """Return two examples of a command; of one with commands in it, the first ones of these."""
    program, _, name = command.partition(" ")
    if program != "qflow":
        return []
    inner = [pair for known, pair in EXAMPLES.items() if known.startswith(f"{name} ".lstrip())]
    pair = EXAMPLES.get(name) or [line for lines in zip(*inner, strict=True) for line in lines][:2]
    return [f"qflow {line}" for line in pair]
