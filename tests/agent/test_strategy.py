"""The order of attempts."""

from __future__ import annotations

from itertools import islice

from clover_agent.prompts import Suspect
from clover_agent.strategy import CHANCES, plan


def suspects(*scores: float) -> list[Suspect]:
    return [Suspect(f"{number}.py", 1, 9, f"f{number}", score) for number, score in enumerate(scores)]


def places(*scores: float) -> list[str]:
    return [attempt.suspects[0].name for attempt in plan(suspects(*scores), 0)]


def test_the_best_suspect_comes_first_and_every_suspect_has_its_tries() -> None:
    order = places(0.6, 0.3, 0.1)
    assert order[0] == "f0"
    assert sorted(order) == sorted(["f0", "f1", "f2"] * len(CHANCES))


def test_a_sure_suspect_is_tried_again_before_doubtful_ones() -> None:
    assert places(0.95, 0.05)[:2] == ["f0", "f0"]
    assert places(0.5, 0.5)[:2] == ["f0", "f1"]


def test_hopeless_scores_are_not_taken_at_their_word() -> None:
    order = places(1.0, 0.0)
    assert order.count("f1") == len(CHANCES)


def test_the_first_try_at_a_place_is_greedy_and_later_ones_differ() -> None:
    attempts = list(plan(suspects(0.6, 0.4), 7))
    first = {attempt.suspects[0].name: attempt for attempt in reversed(attempts)}
    assert all(attempt.temperature == 0.0 for attempt in first.values())
    assert sum(attempt.temperature == 0.0 for attempt in attempts) == 2
    assert len({attempt.seed for attempt in attempts}) == len(attempts)
    assert attempts[0].seed == 7


def test_at_most_three_suspects_are_shown_the_one_in_question_first() -> None:
    attempts = list(plan(suspects(0.4, 0.3, 0.2, 0.1), 0))
    assert all(len(attempt.suspects) == 3 for attempt in attempts)
    last = next(attempt for attempt in attempts if attempt.suspects[0].name == "f3")
    assert [suspect.name for suspect in last.suspects] == ["f3", "f0", "f1"]


def test_without_suspects_there_are_attempts_all_the_same() -> None:
    attempts = list(islice(plan([], 3), 100))
    assert len(attempts) == len(CHANCES)
    assert all(attempt.suspects == () for attempt in attempts)
    assert [attempt.temperature > 0 for attempt in attempts[:2]] == [False, True]
