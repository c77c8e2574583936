import pytest

from tidbits.cache import LRUCache


def test_forgets_the_least_recently_used():
    cache = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert "a" in cache
    assert "b" not in cache
    assert cache.get("c") == 3
    assert len(cache) == 2


def test_put_again_replaces_and_refreshes():
    cache = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 10)
    cache.put("c", 3)
    assert cache.get("a") == 10
    assert "b" not in cache


def test_default():
    assert LRUCache(1).get("missing") is None
    assert LRUCache(1).get("missing", 5) == 5


def test_hit_rate():
    cache = LRUCache(3)
    assert cache.hit_rate() == 0.0
    cache.put("a", 1)
    cache.get("a")
    cache.get("b")
    cache.get("a")
    cache.get("a")
    assert (cache.hits, cache.misses) == (3, 1)
    assert cache.hit_rate() == 0.75


def test_capacity_one():
    cache = LRUCache(1)
    cache.put("a", 1)
    cache.put("b", 2)
    assert "a" not in cache
    assert len(cache) == 1


def test_capacity_must_be_positive():
    with pytest.raises(ValueError):
        LRUCache(0)
