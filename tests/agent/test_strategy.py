"""The order of attempts."""

from __future__ import annotations

from clover_agent.prompts import Suspect
from clover_agent.strategy import CHANCES, patience, plan


def suspects(*scores: float) -> list[Suspect]:
    return [Suspect(f"{number}.py", 1, 9, f"f{number}", score) for number, score in enumerate(scores)]


def places(*scores: float) -> list[str]:
    return [attempt.suspects[0].name for attempt in plan(suspects(*scores))]


def test_the_best_suspect_comes_first_and_every_suspect_has_its_tries() -> None:
    order = places(0.6, 0.3, 0.1)
    assert order[0] == "f0"
    assert sorted(order) == sorted(["f0", "f1", "f2"] * len(CHANCES))


def test_a_sure_suspect_is_tried_again_before_doubtful_ones() -> None:
    assert places(0.95, 0.05)[:2] == ["f0", "f0"]
    assert places(0.5, 0.5)[:2] == ["f0", "f1"]


def test_hopeless_scores_are_not_taken_at_their_word() -> None:
    assert places(1.0, 0.0).count("f1") == len(CHANCES)


def test_without_suspects_there_are_attempts_all_the_same() -> None:
    assert [attempt.suspects for attempt in plan([])] == [()] * len(CHANCES)


def test_a_hanging_attempt_is_cut_short_but_slow_suites_are_not() -> None:
    assert patience(0.4, 300.0) == 10.0
    assert patience(20.0, 300.0) == 100.0
    assert patience(20.0, 30.0) == 30.0
