"""Every sentence of the original documents that claims a behaviour is run somewhere."""

import os
from collections import Counter
from pathlib import Path

import pytest
from sentence_map import fingerprint, listed, missing, targets

DOCUMENTS = os.environ.get("QFLOW_DOCUMENTS", "")


def test_every_claim_is_run_and_every_place_exists(root):
    known = targets(root)
    for sentence in listed():
        assert bool(sentence.where) == sentence.is_claim, sentence
        assert set(sentence.where) <= known, sentence
        assert sentence.says


def test_every_sentence_is_listed_once():
    found = listed()
    assert len({sentence.id for sentence in found}) == len(found)
    assert len({sentence.fingerprint for sentence in found}) == len(found)
    for letter in "FTM":
        numbers = [int(sentence.id[2:]) for sentence in found if sentence.id[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1))
    # So many different sentences each document has; a row that got lost would show here.
    assert Counter(name for sentence in found for name in sentence.documents) == {
        "draft": 104,
        "manual-web": 108,
        "manual-markdown": 105,
        "ticket": 99,
        "groups": 78,
    }


def test_no_sentence_is_given_verbatim():
    for sentence in listed():
        assert fingerprint(sentence.says) != sentence.fingerprint


@pytest.mark.skipif(not DOCUMENTS, reason="QFLOW_DOCUMENTS does not name a folder of the documents")
def test_nothing_is_missing():
    documents = sorted(Path(DOCUMENTS).glob("*.txt"))
    assert len(documents) == 5
    for document in documents:
        assert missing(document) == []


def test_a_sentence_that_is_not_mapped_is_seen(tmp_path):
    (tmp_path / "new.txt").write_text("Flow control makes coffee.\n")
    assert missing(tmp_path / "new.txt") == ["Flow control makes coffee."]
