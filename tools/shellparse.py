"""A shell script as the simple commands in it, wherever they stand.

The reading is sound, not complete: what can't be known from the text alone is listed in `unknown`, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 5  # of shells within shells
# What is read fully. Anything else (tests, arithmetic, declarations, assignments) may evaluate text, or give commands
# another meaning.
_READ = frozenset(
    (
        "program", "list", "pipeline", "command", "command_name", "word", "string", "string_content",
        "raw_string", "number", "concatenation", "comment", "redirected_statement", "file_redirect",
        "file_descriptor", "simple_expansion", "expansion", "variable_name", "special_variable_name",
        "command_substitution", "process_substitution", "subshell", "compound_statement", "if_statement",
        "elif_clause", "else_clause", "while_statement", "for_statement", "do_group", "negated_command",
        "heredoc_redirect", "heredoc_start", "heredoc_body", "heredoc_end", "heredoc_content",
        "herestring_redirect", "ansi_c_string", "extglob_pattern", "function_definition", "translated_string",
    )
)  # fmt: skip
_EXPANDS = frozenset("*?[{$`")
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}
_INTERPRETERS = {
    "python",
    "python3",
    "perl",
    "ruby",
    "node",
    "php",
    "awk",
    "lua",
    "ssh",
    "source",
    ".",
    "make",
    "parallel",
}
# Commands that run another one: their options that take a value, and how many words come before it.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T"}), 0),
    "doas": (frozenset({"-u", "-C"}), 0),
    "env": (frozenset({"-u", "-C", "-S"}), 0),
    "nice": (frozenset({"-n"}), 0),
    "ionice": (frozenset({"-c", "-n", "-p"}), 0),
    "timeout": (frozenset({"-s", "-k"}), 1),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "xargs": (frozenset({"-I", "-n", "-P", "-L", "-d", "-E", "-s", "-a"}), 0),
    "busybox": (frozenset(), 0),
    "chroot": (frozenset(), 1),
}


@dataclass(frozen=True)
class Simple:
    """words: the name and its arguments with quotes taken off; what expands is kept as written ("$HOME").

    writes: files that redirections write. input: names of the commands whose output is piped in ("<<": given text).
    """

    words: tuple[str, ...]
    writes: tuple[str, ...] = ()
    input: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The command's name without its folder."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    def __str__(self) -> str:
        return " ".join((self.name, *self.words[1:]))


@dataclass(frozen=True)
class Script:
    """commands: every simple command, those of substitutions, wrappers and inner shells too.

    unknown: what the text does not tell (a syntax error, a name that expands, code in another language).
    functions: names that it defines. forks: it defines a function that calls itself in the background.
    """

    commands: tuple[Simple, ...]
    unknown: tuple[str, ...] = ()
    functions: frozenset[str] = frozenset()
    forks: bool = False


def parse(text: str) -> Script:
    """Read a script. Never raises."""
    reader = _Reader()
    reader.script(text, 0)
    return Script(tuple(reader.commands), tuple(reader.unknown), frozenset(reader.functions), reader.forks)


class _Reader:
    def __init__(self) -> None:
        self.commands: list[Simple] = []
        self.unknown: list[str] = []
        self.functions: set[str] = set()
        self.forks = False

    def script(self, text: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.unknown.append("shells within shells")
            return
        root = _parser().parse(text.encode("utf-8", "surrogateescape")).root_node
        if root.has_error:
            self.unknown.append("a syntax error")
        for node in _walk(root):
            if node.is_named and node.type not in _READ:
                self.unknown.append(f"what this does: {_text_of(node)[:40]!r}")
            if node.type == "command":
                self._command(node, depth)
            elif node.type == "function_definition":
                self._function(node)
            elif node.type in {"redirected_statement", "file_redirect"} and not _holds_command(node):
                self._bare_redirect(node)

    def _command(self, node: Node, depth: int) -> None:
        words = tuple(
            _word(child, self.unknown if child.type == "command_name" else [])
            for child in node.named_children
            if child.type not in {"variable_assignment", "herestring_redirect", "file_redirect"}
        )
        holder = node.parent if node.parent is not None and node.parent.type == "redirected_statement" else node
        writes = tuple(_writes(holder)) + (tuple(_writes(node)) if holder is not node else ())
        fed = _fed(holder) or (("<<",) if any(part.type.startswith("here") for part in holder.children) else ())
        if words and _EXPANDS & set(words[0]):
            self.unknown.append("a name that expands")
        self._simple(Simple(words, writes, fed), depth)

    def _simple(self, command: Simple, depth: int) -> None:
        self.commands.append(command)
        name, words = command.name, command.words
        if name in _WRAPPERS:
            inner = _inner(words[1:], *_WRAPPERS[name])
            if inner:
                self._simple(Simple(inner, command.writes, command.input), depth + 1)
        elif name == "eval":
            self._text(" ".join(words[1:]), depth)
        elif name in _SHELLS:
            if "-c" in (flags := [word for word in words[1:] if word.startswith("-")]) or any(
                flag[1:2] != "-" and "c" in flag for flag in flags
            ):
                rest = [word for word in words[1:] if not word.startswith("-")]
                self._text(rest[0] if rest else "", depth)
            else:
                self.unknown.append(f"what {name} reads")
        elif name == "find":
            for at, word in enumerate(words):
                if word in {"-exec", "-execdir", "-ok", "-okdir"} and at + 1 < len(words):
                    self._simple(Simple(words[at + 1 :], command.writes), depth + 1)
        elif name.rstrip("0123456789.") in _INTERPRETERS:
            self.unknown.append(f"what {name} runs")

    def _text(self, text: str, depth: int) -> None:
        if "$" in text or "`" in text:
            self.unknown.append("a script that expands")
        self.script(text, depth + 1)

    def _function(self, node: Node) -> None:
        name = next((_text_of(child) for child in node.named_children if child.type == "word"), "")
        self.functions.add(name)
        called = [_text_of(part) for part in _walk(node) if part.type == "command_name"]
        background = any(part.type == "&" for part in _walk(node))
        self.forks = self.forks or (name in called and (background or called.count(name) > 1))

    def _bare_redirect(self, node: Node) -> None:
        parent = node.parent
        if parent is not None and parent.type == "redirected_statement":
            return
        if writes := tuple(_writes(node)) or tuple(_targets(node)):
            self.commands.append(Simple((":",), writes))


def _inner(words: tuple[str, ...], valued: frozenset[str], skip: int) -> tuple[str, ...]:
    """The command that a wrapper's words name."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and len(word) > 1:
            at += 2 if word in valued else 1
        elif "=" in word and not word.startswith("="):
            at += 1
        elif skip:
            skip -= 1
            at += 1
        else:
            break
    return words[at:]


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.children))


def _text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogateescape")


def _word(node: Node, unknown: list[str]) -> str:
    """A word with its quotes taken off."""
    text = _text_of(node)
    match node.type:
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string":
            unknown.append("a name in $'...'")
            return text
        case "word" | "number" | "extglob_pattern" | "special_character" | "file_descriptor":
            return _unescaped(text)
        case "string":
            inner = text[1:-1]
            if any(child.type not in {"string_content", '"'} for child in node.children):
                unknown.append("a name that expands")
            return inner.replace('\\"', '"').replace("\\\\", "\\").replace("\\$", "$")
        case "command_name" | "concatenation":
            return "".join(_word(child, unknown) for child in node.children) or _unescaped(text)
        case _:
            unknown.append("a name that expands")
            return text


def _unescaped(text: str) -> str:
    out, taken = [], False
    for character in text:
        if character == "\\" and not taken:
            taken = True
            continue
        out.append("" if taken and character == "\n" else character)
        taken = False
    return "".join(out)


def _writes(node: Node) -> Iterator[str]:
    for child in node.children:
        if child.type == "file_redirect":
            yield from _targets(child)


def _targets(node: Node) -> Iterator[str]:
    operator = next((child.type for child in node.children if child.type in {">", ">>", ">|", "&>", "&>>", "<>"}), "")
    if operator and node.named_children:
        yield _word(node.named_children[-1], [])


def _holds_command(node: Node) -> bool:
    return any(child.type != "file_redirect" and child.is_named for child in node.children) and (
        node.type == "redirected_statement"
    )


def _fed(node: Node) -> tuple[str, ...]:
    """Names of the commands before a command in its pipeline."""
    parent = node.parent
    if parent is None or parent.type not in {"pipeline", "heredoc_redirect"}:
        return ()
    if parent.type == "heredoc_redirect":
        return ("<<",)
    above = parent.parent
    names = ["<<"] if above is not None and above.type == "heredoc_redirect" else []
    for before in parent.named_children:
        if before.start_byte >= node.start_byte:
            break
        names += [_text_of(part).rpartition("/")[2] for part in _walk(before) if part.type == "command_name"]
    return tuple(names)
