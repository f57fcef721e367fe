"""Frames of AMQP 1.0 as the tap reads them: whole, in pieces, too long, and not AMQP at all."""

import random
from contextlib import suppress

import pytest

pytest.importorskip("proton")

from proton import UNDESCRIBED, Array, Data, Described, symbol, uint, ulong

from qflow.live.amqp_frames import (
    MOST_KEPT,
    Attach,
    Begin,
    Codec,
    Disposition,
    FrameError,
    FrameReader,
    Transfer,
    outcome_of,
    terminus_of,
)

HEADER = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"


def encoded(value):
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def frame(body=b"", kind=0, channel=0):
    return (8 + len(body)).to_bytes(4, "big") + bytes((2, kind)) + channel.to_bytes(2, "big") + body


def described(code, *fields):
    return Described(ulong(code), list(fields))


def performative(code, *fields):
    return encoded(described(code, *fields))


TRANSFER = performative(0x14, uint(1), uint(7), b"tag", uint(0), False, False)
STREAM = (
    SASL
    + frame(performative(0x41, symbol("PLAIN"), b"\x00user\x00secret"), kind=1)
    + HEADER
    + frame(performative(0x11, None, uint(0), uint(100), uint(100)), channel=3)
    + frame()
    + frame(TRANSFER + b"message", channel=3)
    + frame(performative(0x15, True, uint(7), uint(9), True, described(0x24)), channel=3)
)


def test_frames_are_the_same_in_whatever_pieces_they_come():
    whole = list(FrameReader().feed(STREAM))
    assert [type(each.performative) for each in whole] == [Begin, Transfer, Disposition]
    assert whole[1].payload == b"message" and whole[1].length == 7 and whole[1].channel == 3
    assert whole[1].performative.handle == 1 and whole[1].performative.delivery_id == 7
    assert outcome_of(whole[2].performative.state) == "accepted"
    for seed in range(20):
        chance, reader, seen, place = random.Random(seed), FrameReader(), [], 0
        while place < len(STREAM):
            length = chance.randint(1, 40)
            seen += [str(each) for each in reader.feed(STREAM[place : place + length])]
            place += length
        assert seen == list(map(str, whole))


def test_a_frame_too_long_to_be_kept_is_counted_and_passed_over():
    body = TRANSFER + b"x" * (3 * MOST_KEPT)
    reader, seen = FrameReader(), []
    stream = HEADER + frame(body) + frame(TRANSFER + b"next")
    for place in range(0, len(stream), 100_000):
        seen += reader.feed(stream[place : place + 100_000])
    assert [each.length for each in seen] == [3 * MOST_KEPT, 4]
    assert len(seen[0].payload) < MOST_KEPT


def test_a_frame_of_two_gigabytes_that_is_announced_needs_no_memory():
    reader = FrameReader()
    announced = (2_000_000_000).to_bytes(4, "big") + b"\x02\x00\x00\x00" + TRANSFER
    assert list(reader.feed(HEADER + announced)) == []
    for _ in range(40):
        list(reader.feed(b"\x00" * 100_000))
    assert len(reader._rest) <= MOST_KEPT


def test_a_source_and_a_target_have_their_fields_by_name():
    source = described(0x28, "orders", None, None, None, None, None, symbol("copy"))
    target = described(0x29, "orders", None, None, None, True, {symbol("a"): 1}, symbol("queue"))
    attach = Attach("link", 0, False, None, None, source, target)
    assert terminus_of(attach.source).distribution_mode == "copy"
    assert terminus_of(attach.target).capabilities == "queue" and terminus_of(attach.target).dynamic
    assert terminus_of(None).address is None


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b"AMQP\x01\x01\x00\x0a", "got AMQP, 1.1.0.10"),
        (b"AMQP\x00\x00\x09\x01", "got AMQP, 0.0.9.1"),
        (b"GET / HTTP/1.1\r\n", "a connection must begin with AMQP"),
        (HEADER + b"\x00\x00\x00\x04\x02\x00\x00\x00", "at least 8 bytes; got 4"),
        (HEADER + frame(b"\x40", kind=7), "type must be 0 (AMQP) or 1 (SASL); got 7"),
        (HEADER + b"\x00\x00\x00\x08\x09\x00\x00\x00", "data must begin at byte 8 or later"),
        (HEADER + frame(b"\x40"), "body must be a performative"),
        (HEADER + frame(b"\x00\x53\x14\xc0"), "cannot decode this as an AMQP 1.0 value"),
    ],
)
def test_what_is_no_amqp_1_0_is_said_in_words(stream, words):
    with pytest.raises(FrameError) as refused:
        list(FrameReader().feed(stream))
    assert words in str(refused.value)


def test_random_and_mutated_bytes_give_frames_or_a_frame_error():
    chance = random.Random(19)
    for _ in range(3_000):
        stream = bytearray(STREAM)
        for _ in range(chance.randint(1, 6)):
            stream[chance.randrange(len(stream))] = chance.randrange(256)
        for given in (bytes(stream), HEADER + chance.randbytes(chance.randint(0, 80))):
            with suppress(FrameError):
                list(FrameReader().feed(given))


def test_a_value_is_decoded_with_its_length_and_an_array_is_a_list():
    symbols = Array(UNDESCRIBED, Data.SYMBOL, symbol("queue"), symbol("create-on-demand"))
    for value, plain in (([1, "two"], [1, "two"]), (symbols, ["queue", "create-on-demand"])):
        assert Codec().decode(encoded(value) + b"rest") == (len(encoded(value)), plain)
