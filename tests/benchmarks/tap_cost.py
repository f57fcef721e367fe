"""What the recorder costs a client: its rate with and without the tap between it and a server.

    python tests/benchmarks/tap_cost.py [MESSAGES] [RATE]

The peer is a server of raw frames that does nothing but answer, in a process of its own, so that what is
measured is the tap; the client sends 100-byte messages with a window of 500, at RATE messages a second if
that is given, else as fast as it can.  Direct and tapped runs alternate.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from proton import Data, Described, uint, ulong

HEADER = b"AMQP\x00\x01\x00\x00"
WINDOW, BATCH = 500, 50


def encoded(value):
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def frame(code, *fields, payload=b""):
    body = encoded(Described(ulong(code), list(fields))) + payload
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body


def attach(role):
    node = [Described(ulong(0x28), ["q"]), Described(ulong(0x29), ["q"])]
    return frame(0x12, "link", uint(0), role, None, None, *node, None, None, uint(0))


def begin(answers=None):
    return frame(0x11, answers, uint(0), uint(1 << 30), uint(1 << 30))


def frames_of(buffer):
    place, found = 0, []
    while len(buffer) - place >= 8:
        size = int.from_bytes(buffer[place : place + 4], "big")
        if len(buffer) - place < size:
            break
        found.append(buffer[place : place + size])
        place += size
    del buffer[:place]
    return found


def serve(listener):
    """Accept every transfer, in dispositions of up to BATCH."""
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer, is_first, seen = bytearray(), True, 0
        accepted = Described(ulong(0x24), [])
        while data := client.recv(1 << 16):
            buffer += data
            if is_first and len(buffer) >= 8:
                del buffer[:8]
                is_first = False
            codes = [one[10] for one in frames_of(buffer)]
            if 0x12 in codes:
                credit = (uint(n) for n in (0, 1 << 30, 0, 1 << 30, 0, 0, 1 << 30))
                opened = HEADER + frame(0x10, "server") + begin(0) + attach(True)
                client.sendall(opened + frame(0x13, *credit))
            count = codes.count(0x14)
            if count:
                client.sendall(frame(0x15, True, uint(seen), uint(seen + count - 1), True, accepted))
                seen += count
        client.close()


def run(port, messages, rate):
    """Return messages a second, from the first transfer to the last outcome."""
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    payload = b"\x00\x53\x77\xa0\x64" + bytes(100)
    parts = [
        frame(0x14, uint(0), uint(n), b"%d" % n, uint(0), False, payload=payload) for n in range(messages)
    ]
    client.sendall(HEADER + frame(0x10, "bench") + begin() + attach(False))
    buffer, is_first, sent, done = bytearray(), True, 0, 0
    time.sleep(0.3)
    start = time.perf_counter()
    client.setblocking(False)
    while done < messages:
        due = messages if not rate else min(messages, int((time.perf_counter() - start) * rate) + 1)
        room = min(due, done + WINDOW) - sent
        if room >= BATCH or (room > 0 and sent + room == messages) or (rate and room > 0):
            client.setblocking(True)
            client.sendall(b"".join(parts[sent : sent + room]))
            client.setblocking(False)
            sent += room
        try:
            data = client.recv(1 << 16)
        except BlockingIOError:
            time.sleep(0.0005)
            continue
        buffer += data
        if is_first and len(buffer) >= 8:
            del buffer[:8]
            is_first = False
        data = Data()
        for one in map(bytes, frames_of(buffer)):
            if one[10] == 0x15:
                data.clear()
                data.decode(one[8:])
                data.rewind()
                data.next()
                done = int(data.get_object().value[2]) + 1
    seconds = time.perf_counter() - start
    client.close()
    return messages / seconds


def main(messages=50_000, rate=0):
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
    server.start()
    port = listener.getsockname()[1]
    rates = {"direct": [], "tapped": []}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "cost.parquet"
        command = [sys.executable, "-m", "qflow", "record", "--no-statistics", "--listen", "0"]
        command += ["--upstream", f"127.0.0.1:{port}", "--out", str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tap:
            tapped = int(tap.stdout.readline().split(",")[0].rsplit(":", 1)[1])
            for _ in range(5):
                rates["direct"].append(run(port, messages, rate))
                rates["tapped"].append(run(tapped, messages, rate))
                print(
                    f"direct {rates['direct'][-1]:8.0f}/s   tapped {rates['tapped'][-1]:8.0f}/s", flush=True
                )
                if os.environ.get("SETTLE"):
                    time.sleep(float(os.environ["SETTLE"]))
            begin = time.perf_counter()
            tap.send_signal(signal.SIGINT)
            words, _ = tap.communicate()
            print(words, end="")
            print(f"read the rest in {time.perf_counter() - begin:.1f} s")
    server.terminate()
    direct, through = (statistics.median(rates[name]) for name in ("direct", "tapped"))
    print(f"median: direct {direct:.0f}/s, tapped {through:.0f}/s, cost {1 - through / direct:.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
