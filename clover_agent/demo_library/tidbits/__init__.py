"""tidbits: small, well-tested helpers for text, numbers, dates and collections."""
