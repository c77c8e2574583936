"""The Clover architecture."""
