"""Files that are no text, in a few words instead of their bytes."""

from __future__ import annotations

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive (or a wheel, or an office document)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\x7fELF", "an ELF program or library"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x00asm", "a WebAssembly module"),
    (b"OggS", "Ogg media"),
    (b"RIFF", "RIFF media"),
    (b"\xff\xfe\x00\x00", "text in UTF-32"),
    (b"\xff\xfe", "text in UTF-16 (little-endian)"),
    (b"\xfe\xff", "text in UTF-16 (big-endian)"),
)
_PROBE = 8192


def binary_kind(data: bytes) -> str:
    """What kind of binary file `data` is; "" for text."""
    kind = next((name for start, name in _KINDS if data.startswith(start)), "")
    if b"\0" in data[:_PROBE]:
        return kind or "a binary file of unknown kind"
    if not kind:
        return ""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return kind
    return ""


def describe(path: str, data: bytes, kind: str) -> str:
    """One line for the model."""
    return f"{path} is {kind} of {len(data)} bytes: it can't be shown or edited as text."
