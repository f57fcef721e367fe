"""A packed file whose lines are longer than any record is refused before they are in memory."""

import gzip

import pytest

from qflow.logs import ClientLog, LogError
from qflow.trace.files import open_unpacked, read_trace
from qflow.trace.schema import TraceError

LETTERS = b"x" * (1 << 20)


def pack(path, head, count, end=b""):
    with gzip.open(path, "wb", compresslevel=1) as packed:
        packed.write(head)
        for _ in range(count):
            packed.write(LETTERS + end)
    return path


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("log.jsonl.gz", b'{"ts_us": "'),
        ("log.csv.gz", b"ts_us,client,event,queue,label,size,group\n1,"),
        ("log.csv.gz", b""),
    ],
)
def test_a_log_with_an_endless_line_is_refused(tmp_path, name, head):
    path = pack(tmp_path / name, head, 200)
    assert path.stat().st_size < 2 << 20
    with pytest.raises(LogError, match="a line has more than 33,554,432 bytes"):
        ClientLog.load(path)


def test_a_trace_with_an_endless_line_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"trace.jsonl.gz: a line has more than 33,554,432 bytes"):
        read_trace(pack(tmp_path / "trace.jsonl.gz", b'{"qflow": "', 200))


def test_many_lines_are_no_endless_line(tmp_path):
    with open_unpacked(pack(tmp_path / "many.jsonl.gz", b"", 60, b"\n")) as file:
        assert sum(len(line) for line in file) == 60 * (len(LETTERS) + 1)
