"""Errata: each correction is what the engine shows, each true sentence too, and the game counts clicks."""

import pytest

from qflow.kit import RefusalError
from qflow.teaching import errata, errata_game, errata_table
from qflow.teaching.errata import PAGES
from qflow.teaching.rules import rule_table


@pytest.mark.parametrize("one", errata(), ids=lambda one: one.id)
def test_the_engine_shows_what_the_correction_says(one):
    steps = one.observe()
    assert steps and [step for step in steps if not step.is_right] == []


def test_every_contradiction_of_the_rule_book_is_on_a_page_and_each_page_has_both_kinds():
    assert {one.id for one in errata() if one.is_wrong} == {
        row[0] for row in rule_table("contradictions")[1:]
    }
    for page in PAGES:
        assert {one.is_wrong for one in errata(page)} == {True, False}
    assert [row[0] for row in errata_table().rows] == [f"X-{number:02}" for number in range(1, 32)]


def test_the_game_counts_what_is_clicked_and_answers_nothing_else():
    game = errata_game("groups")
    assert game.answers == {} and "X-1" not in repr(game) and repr(game).count("\n") == 5
    game.clicked = [3]
    assert game.score == "You have found 0 of 4 mistakes, and clicked 1 true sentence."
    game.clicked = [3, 4, 4, 99]
    assert game.score == "You have found 1 of 4 mistakes, and clicked 1 true sentence."
    assert set(game.answers) == {"3", "4"} and game.answers["4"]["isChecked"]
    assert ["what the waiting consumer got", "nothing"] in game.answers["4"]["steps"]


def test_what_is_not_there_is_said():
    with pytest.raises(RefusalError, match="there is no page 'rabbits'; there are states, names"):
        errata_game("rabbits")
    with pytest.raises(IndexError, match="there is no sentence 9; there are 5"):
        errata_game("groups").click(9)
