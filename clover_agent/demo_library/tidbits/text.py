"""Text helpers: slugs, wrapping, truncation, case conversion."""


def slugify(title, separator="-"):
    """Lower-case ASCII letters and digits of a title, joined by a separator."""
    words = []
    word = ""
    for char in title.lower():
        if char.isascii() and char.isalnum():
            word += char
        elif word:
            words.append(word)
            word = ""
    if word:
        words.append(word)
    return separator.join(words)


def wrap(text, width):
    """Lines of at most `width` characters, broken at spaces; longer words stay whole."""
    lines = []
    current = ""
    for word in text.split():
        if not current:
            current = word
        elif len(current) + 1 + len(word) <= width:
            current += " " + word
        else:
            lines.append(current)
            current = word
    if current:
        lines.append(current)
    return lines


def truncate(text, limit, marker="..."):
    """The text itself when it fits, else its start and a marker, `limit` characters in all."""
    if len(text) <= limit:
        return text
    keep = max(limit - len(marker), 0)
    return text[:keep] + marker[:limit]


def snake_case(name):
    """`HTTPServer` and `myName` style names in `snake_case`."""
    result = ""
    for index, char in enumerate(name):
        if char.isupper() and index > 0:
            previous = name[index - 1]
            following = name[index + 1] if index + 1 < len(name) else ""
            if previous.islower() or following.islower():
                result += "_"
        result += char.lower()
    return result


def common_prefix(words):
    """The longest string that every word starts with."""
    if not words:
        return ""
    shortest = min(words, key=len)
    for index, char in enumerate(shortest):
        if any(word[index] != char for word in words):
            return shortest[:index]
    return shortest
