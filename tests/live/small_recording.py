"""``qflow record`` in a process of its own, and what it does in this one, for the tests."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from qflow.kit import INTERRUPTED
from qflow.live.recording import Recording, Upstream
from qflow.logs import ClientLog


class Recorder:
    """A recorder in front of a port; ``port`` is where clients connect."""

    def __init__(self, upstream, out, *options):
        command = [sys.executable, "-m", "qflow", "record", "--listen", "0"]
        command += ["--upstream", str(upstream), "--out", str(out), *options]
        pipe = subprocess.PIPE
        self.out = Path(out)
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        first = self.process.stdout.readline()
        assert first.startswith("recording: clients connect to 127.0.0.1:"), self.process.stderr.read()
        self.port = int(first.split(",")[0].rpartition(":")[2])
        self.words = self.said = ""

    def wait_for(self, words):
        """Wait until it has said something on standard error."""
        stream = self.process.stderr.fileno()
        while words not in self.said:
            assert select.select([stream], [], [], 60)[0], self.said
            more = os.read(stream, 4096)
            assert more, self.said
            self.said += more.decode()

    def stop(self):
        """End it by Ctrl-C, and return what it printed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.words, errors = self.process.communicate(timeout=120)
        assert "Traceback" not in errors, errors
        return self.words

    def rows(self):
        return ClientLog.load(self.out).rows


@contextmanager
def recording_here(upstream, out):
    """Yield a recording that this process makes, without statistics of the broker."""
    recording = Recording(Upstream(upstream), out, asks_statistics=False)
    recording.start("127.0.0.1", 0)
    try:
        yield recording
    finally:
        recording.stop()
    assert not recording.problem


@contextmanager
def recording(upstream, out, *options):
    recorder = Recorder(upstream, out, *options)
    try:
        yield recorder
    finally:
        recorder.stop()
    assert recorder.process.returncode == INTERRUPTED
