"""Replies in the order of their probability, against plain enumeration on a tiny model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch

from engine.config import CloverConfig
from engine.decode.search import MAX_PASSES, Candidate, ReplySearch
from engine.model.clover import Clover

STOP, MASK = 1, 2


@pytest.fixture(scope="module")
def model() -> Clover:
    """A random model over 12 tokens."""
    fields = {
        "vocab_size": 12,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "full_attention_interval": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "max_position_embeddings": 256,
        "block_size": 8,
        "mask_token_id": MASK,
    }
    torch.manual_seed(3)
    made = Clover(CloverConfig.parse(fields)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return made


def searching(model: Clover, prompt: Sequence[int], limit: int = 24) -> ReplySearch:
    """A search from a prompt."""
    state = model.new_state()
    with torch.inference_mode():
        logits = model.causal(torch.tensor(list(prompt)), state, "last")
    assert logits is not None
    return ReplySearch(model, prompt, state, logits, stop_ids=[STOP], banned=[MASK], limit=limit)


def drain(search: ReplySearch, count: int) -> list[Candidate]:
    """The next `count` replies."""
    return [found for _ in range(count) if (found := search.next()) is not None]


@torch.inference_mode()
def score(model: Clover, prompt: Sequence[int], reply: Sequence[int], free: int) -> float:
    """Log probability of the first `free` tokens of a reply."""
    rows = model.causal(torch.tensor([*prompt, *reply]), model.new_state(), "all")
    assert rows is not None
    rows[:, MASK] = -torch.inf
    table = rows.log_softmax(-1)[len(prompt) - 1 :]
    return sum(float(table[i, token]) for i, token in enumerate(reply[:free]))


@torch.inference_mode()
def greedy(model: Clover, prompt: Sequence[int], limit: int) -> list[int]:
    """The greedy reply, token by token."""
    reply: list[int] = []
    while len(reply) < limit and STOP not in reply:
        rows = model.causal(torch.tensor([*prompt, *reply]), model.new_state(), "last")
        assert rows is not None
        rows[:, MASK] = -torch.inf
        reply.append(int(rows[-1].argmax()))
    return reply


@pytest.mark.parametrize("prompt", [[3, 4, 5], [6, 6, 7, 8, 9], [11, 3, 3, 10, 5, 4]])
def test_replies_are_distinct_end_with_the_stop_and_score_as_said(model: Clover, prompt: list[int]) -> None:
    search = searching(model, prompt)
    search.begin()
    found = drain(search, 25)
    assert len(found) == 25
    assert len({candidate.tokens for candidate in found}) == 25
    for candidate in found:
        assert candidate.tokens[-1] == STOP and STOP not in candidate.tokens[:-1] and MASK not in candidate.tokens
        assert candidate.score == pytest.approx(score(model, prompt, candidate.tokens, len(candidate.tokens)), abs=1e-3)


def test_the_greedy_reply_comes_first_whatever_the_draft(model: Clover) -> None:
    ending = 0
    for prompt in ([a, b, 7] for a in range(3, 9) for b in range(3, 9)):
        expected = greedy(model, prompt, MAX_PASSES)
        if expected[-1] != STOP:  # more passes than a search spends on one reply
            continue
        ending += 1
        for draft in ([], expected, [5, 5, 5], [*expected[:2], 9, *expected[2:]]):
            search = searching(model, prompt)
            search.begin(draft)
            found = search.next()
            assert found is not None and list(found.tokens) == expected
    assert ending >= 5


def test_a_guide_forces_text_and_cuts_branches(model: Clover) -> None:
    head = (7, 8, 7)

    def guide(tokens: Sequence[int]) -> Sequence[int] | None:
        given = tuple(tokens)
        if len(given) < len(head):
            return head[len(given) :] if head[: len(given)] == given else None
        return None if 5 in given or given[: len(head)] != head else ()

    search = searching(model, [3, 4, 5])
    search.guide = guide
    search.begin()
    found = drain(search, 12)
    assert len(found) == 12 == len({candidate.tokens for candidate in found})
    for candidate in found:
        assert candidate.tokens[:3] == head and 5 not in candidate.tokens


def test_it_stops_when_told(model: Clover) -> None:
    search = searching(model, [3, 4, 5])
    search.begin()
    answers = itertools.chain([False, False, False], itertools.repeat(True))
    assert search.next(lambda: next(answers)) is None or search.next(lambda: True) is None


def test_a_prior_puts_replies_back_but_loses_none(model: Clover) -> None:
    def guide(tokens: Sequence[int]) -> Sequence[int] | None:
        return [7, 8] if len(tokens) == 1 else ()  # the first token settles something

    def prior(tokens: Sequence[int]) -> float:
        return -4.0 if len(tokens) > 2 and tokens[0] % 2 else 0.0

    def found(weigh: bool) -> list[Candidate]:
        search = searching(model, [4, 9, 3], limit=6)
        search.guide = guide
        if weigh:
            search.prior = prior
        search.begin()
        return drain(search, 10_000)

    plain, weighed = found(False), found(True)
    assert len(plain) > 20 and {c.tokens for c in plain} == {c.tokens for c in weighed}
    scores = {candidate.tokens: candidate.score for candidate in plain}
    for candidate in weighed:
        assert candidate.score == pytest.approx(scores[candidate.tokens] + prior(candidate.tokens), abs=1e-3)
    odd = [bool(candidate.tokens[0] % 2) for candidate in weighed]
    assert odd.index(True) > [bool(candidate.tokens[0] % 2) for candidate in plain].index(True)
