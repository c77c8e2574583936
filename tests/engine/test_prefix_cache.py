from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.prefix_cache import PrefixCache

LOGITS = torch.zeros(1, 3)


@dataclass
class Block:
    nbytes: int = 10

    def clone(self) -> Block:
        return Block(self.nbytes)


def found(cache: PrefixCache, *tokens: int) -> tuple[int, ...] | None:
    snapshot = cache.find(tokens)
    return None if snapshot is None else snapshot.tokens


def test_longest_whole_prefix_is_found() -> None:
    cache = PrefixCache(100)
    cache.put([1, 2], Block())
    cache.put([1, 2, 3, 4], Block())
    assert found(cache, 1, 2, 3, 4, 5) == (1, 2, 3, 4)
    assert found(cache, 1, 2, 3, 9) == (1, 2)
    assert found(cache, 1, 9) is None


def test_a_whole_prompt_counts_only_with_its_logits() -> None:
    cache = PrefixCache(100)
    cache.put([1, 2], Block())
    assert found(cache, 1, 2) is None
    cache.put([1, 2], Block(), LOGITS)
    assert found(cache, 1, 2) == (1, 2)
    assert cache.nbytes == 10


def test_least_recently_used_goes_first() -> None:
    cache = PrefixCache(30)
    for token in (1, 2, 3):
        cache.put([token], Block())
    assert found(cache, 1, 0) == (1,)
    cache.put([4], Block())
    assert [found(cache, token, 0) for token in (1, 2, 3, 4)] == [(1,), None, (3,), (4,)]
    assert cache.nbytes == 30


def test_bounds_hold() -> None:
    cache = PrefixCache(30, max_entries=2)
    cache.put([1], Block(31))
    assert found(cache, 1, 0) is None
    for token in (1, 2, 3):
        cache.put([token], Block(1))
    assert [found(cache, token, 0) for token in (1, 2, 3)] == [None, (2,), (3,)]
    off = PrefixCache(0)
    off.put([1], Block(1))
    assert found(off, 1, 0) is None
