"""A mapping of bounded size that forgets what was used least recently."""


class LRUCache:
    """Keeps at most `capacity` items."""

    def __init__(self, capacity):
        if capacity < 1:
            raise ValueError("capacity must be positive")
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._items = {}

    def __len__(self):
        return len(self._items)

    def __contains__(self, key):
        return key in self._items

    def get(self, key, default=None):
        """The value of a key, which becomes the most recently used one."""
        if key not in self._items:
            self.misses += 1
            return default
        self.hits += 1
        value = self._items.pop(key)
        self._items[key] = value
        return value

    def put(self, key, value):
        """Store a value; at the capacity the least recently used item leaves."""
        if key in self._items:
            self._items.pop(key)
        elif len(self._items) >= self.capacity:
            oldest = next(iter(self._items))
            del self._items[oldest]
        self._items[key] = value

    def hit_rate(self):
        """Share of lookups that found their key, 0.0 before the first one."""
        lookups = self.hits + self.misses
        if lookups == 0:
            return 0.0
        return self.hits / lookups
