"""Three moments: pages of their own, whose numbers are the engine's and the recordings'."""

import csv
import gzip
import json
import re

import pytest
from test_front_door import outside, unpacked

from qflow.labs import capacity_run
from qflow.launch import moments


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages at the top of a site, and what each of them holds."""
    top = tmp_path_factory.mktemp("site")
    chapter = top / moments.FOLDER / moments.CHAPTER
    chapter.parent.mkdir(parents=True)
    chapter.write_text('<nav aria-label="Before and after this page" class="on">')
    moments.write_moments(top)
    return {path.stem: path.read_text() for path in (*top.glob("*.html"), chapter)}


def held(page):
    return json.loads(re.search(r'class="qf-moment">(.*?)</script>', page, re.S)[1])


def test_each_is_a_link_of_its_own_with_a_picture(pages, root):
    for moment in moments.MOMENTS:
        page = pages[moment.name]
        assert f'content="book/{moment.picture}"' in page and (root / moment.picture).exists()
        assert len(page.encode()) < 300_000 and outside(page) == []
        assert f'href="../../{moment.name}.html"' in pages["04-capacity"]


def test_the_guess_shows_what_the_real_broker_reported(pages, root):
    path = root / "data" / "recordings" / "workloads" / "capacity-165.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        reports = [json.loads(row["label"])[0] for row in csv.DictReader(lines) if row["event"] == "stats"]
    assert held(pages["guess"])["real"] == {"deepest": max(reports), "reports": len(reports)}
    assert "165" not in re.sub(r"<script.*?</script>", "", pages["guess"], flags=re.S), (
        "the answer is not beside"
    )
    assert max(capacity_run().frames.column("queue.orders.depth")) == 165


def test_the_case_is_a_death_that_one_move_prevents(pages):
    case = held(pages["who"])
    runs = json.loads(unpacked(case["runs"]))
    begun, limit = case["settings"], case["settings"]["limit"]
    for name, run in runs.items():
        setting, value = name.split()
        settings = {**begun, setting: int(value)}
        # CAP-11: nothing can be refused where stop and window fit into the limit.
        if settings["stop"] + settings["capacity"] <= limit:
            assert not run["deaths"], name
    assert runs[f"stop {begun['stop']}"]["deaths"]


def test_a_cell_over_the_line_is_a_run_that_dies(pages):
    cliff = held(pages["cliff"])
    cells = unpacked(cliff["cells"])
    columns = len(cliff["stops"])
    kinds = cells[::8]
    assert len(kinds) == columns * len(cliff["windows"]) == len(cliff["safe"])
    assert all(kind != 3 for kind, safe in zip(kinds, cliff["safe"], strict=True) if safe)
    place = next(at for at, safe in enumerate(cliff["safe"]) if not safe and at % columns > 3)
    stop, window = cliff["stops"][place % columns], cliff["windows"][place // columns]
    run = capacity_run(stop=stop, resume=min(90, stop), capacity_1=window, messages=moments._MAP_MESSAGES)
    assert (kinds[place] == 3) == bool(run.frames.deaths)
