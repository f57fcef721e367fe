"""Errata: each correction is what the engine shows, each true sentence too, and a page is won by reading."""

import pytest

from qflow.kit import RefusalError
from qflow.teaching import errata, errata_game, errata_table
from qflow.teaching.errata import PAGES, score_page, to_store
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


@pytest.mark.parametrize("page", PAGES)
def test_marking_all_loses_marking_none_loses_and_marking_the_mistakes_wins(page):
    numbered = list(enumerate(errata(page), 1))
    mistakes = [number for number, one in numbered if one.is_wrong]
    assert errata_game(page).judge(*[number for number, _ in numbered]).startswith("Not won: -")
    assert errata_game(page).judge().startswith("Not won: 0 points")
    assert errata_game(page).judge(*mistakes).startswith(f"Won: {len(mistakes)} points")
    # Not by marking from the top, or from the bottom, either.
    for order in (numbered, numbered[::-1]):
        for end in range(1, len(order) + 1):
            marked = [one.is_wrong for _, one in order[:end]]
            assert not score_page(page, marked.count(True), marked.count(False))[0], end


def test_the_game_answers_nothing_before_it_judges():
    game = errata_game("groups")
    assert game.answers == [] and "X-1" not in repr(game) and repr(game).count("\n") == 8
    game.marked = [3, 4]
    assert game.answers == [] and game.score == ""
    game.is_judged = True
    assert (
        game.score
        == "Not won: -1 points, and 3 win. You found 1 of the 4 mistakes, and marked 1 true sentence."
    )
    assert ["what the waiting consumer got", "nothing"] in game.answers[6]["steps"]


def test_a_page_without_python_holds_the_same_words():
    said, kept = to_store("groups")
    game = errata_game("groups")
    assert (
        said == game.page
        and kept["scores"]["4 0"] == game.judge(1, 3, 4, 7)
        and kept["answers"] == game.answers
    )


def test_what_is_not_there_is_said():
    with pytest.raises(RefusalError, match="there is no page 'rabbits'; there are states, names"):
        errata_game("rabbits")
    with pytest.raises(IndexError, match="there is no sentence 9; there are 7"):
        errata_game("groups").judge(9)
