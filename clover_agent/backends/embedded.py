"""The engine in this process as a backend."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from clover_agent.backends.protocol import BackendError, ContextOverflow, NoReplyLeft, ReplyChoice, Sampling
from clover_agent.backends.replies import reply_from_text, template_messages, template_tools
from clover_agent.messages import Message, Reply, Usage
from clover_agent.progress import Progress
from tools.protocol import Tool

if TYPE_CHECKING:
    from engine.decode.search import ReplySearch
    from engine.engine import Engine
    from engine.events import Finished
    from engine.params import GenerationParams, Mode

PROFILES = ("compact", "full")


class EmbeddedBackend:
    """Renders messages, runs the engine, reads the reply.

    Profile "compact": no tool descriptions, thinking off (a small model that knows the tools by heart); "full": tools
    in the template, thinking on. It comes from generation_config.json's `agent_profile`, else it is "full".
    """

    def __init__(self, engine: Engine, *, name: str = "embedded", profile: str = "", mode: Mode = "diffusion") -> None:
        """Raises BackendError for an unknown profile."""
        self.name = name
        self.profile = profile or str(engine.generation_config.extra.get("agent_profile", "full"))
        self.engine = engine
        self._searches: dict[tuple[int, ...], tuple[ReplySearch, list[int]]] = {}
        self._mode: Mode = mode
        if self.profile not in PROFILES:
            raise BackendError(f"agent_profile must be one of {', '.join(PROFILES)}, not {self.profile!r}")

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        sampling: Sampling,
        on_event: Callable[[Any], None] | None = None,
    ) -> Reply:
        """One assistant turn. Raises ContextOverflow, or BackendError for anything else that the engine refuses.

        With `sampling.choice`, replies are tried in the order of their probability, and a later call with the same
        messages goes on where the last one stopped; raises NoReplyLeft when nothing is left.
        """
        from engine.errors import ContextLimitError, EngineError

        full = self.profile == "full"
        try:
            prompt = self.engine.tokenizer.encode_chat(
                template_messages(messages), tools=template_tools(tools) if full else None, enable_thinking=full
            )
            first_call = 1 + sum(len(message.tool_calls) for message in messages)

            def reply(ids: list[int], finished: Finished) -> Reply:
                text = self.engine.tokenizer.decode(self._without_stop(ids))
                usage, cut = _usage(finished), finished.reason != "stop"
                return reply_from_text(text, tools, first_call=first_call, thinking=full, cut=cut, usage=usage)

            if sampling.choice is None:
                return reply(*self._generate(prompt, sampling, on_event))
            return self._searched(prompt, sampling, sampling.choice, reply, on_event)
        except ContextLimitError as fault:
            raise ContextOverflow(str(fault)) from fault
        except EngineError as fault:
            raise BackendError(str(fault)) from fault

    def _generate(
        self, prompt: list[int], sampling: Sampling, on_event: Callable[[Any], None] | None
    ) -> tuple[list[int], Finished]:
        from engine.events import Finished, Tokens

        ids: list[int] = []
        finished: Finished | None = None
        for event in self.engine.generate(prompt, self._params(sampling)):
            if isinstance(event, Tokens):
                ids.extend(event.ids)
            elif isinstance(event, Finished):
                finished = event
            if on_event is not None:
                on_event(event)
        assert finished is not None, "a generation ends with Finished"
        return ids, finished

    def _searched(
        self,
        prompt: list[int],
        sampling: Sampling,
        choice: ReplyChoice,
        reply: Callable[[list[int], Finished], Reply],
        on_event: Callable[[Any], None] | None,
    ) -> Reply:
        from engine.events import Finished

        started = time.monotonic()
        known = self._searches.get(tuple(prompt))
        first: Reply | None = None
        if known is None:
            ids, finished = self._generate(prompt, sampling, on_event)
            first = reply(ids, finished)
            if choice.accepts(first.message):
                return first
            if on_event is not None and first.message.tool_calls:
                on_event(Progress("  that call would change nothing new: on to the next likely one"))
            search = self.engine.search(prompt)
            search.begin(ids)
            self._searches[tuple(prompt)] = (search, ids)
        else:
            search, ids = known

        def guide(tokens: Sequence[int]) -> Sequence[int] | None:
            tokenizer = self.engine.tokenizer
            text = tokenizer.decode(tokens)
            forced = choice.guide(text)
            if not forced:
                return None if forced is None else ()
            whole = tokenizer.encode(text + forced, special=True)
            fits = whole[: len(tokens)] == list(tokens)
            return whole[len(tokens) :] if fits else tokenizer.encode(forced, special=True)

        search.guide = guide
        search.prior = lambda tokens: choice.prior(self.engine.tokenizer.decode(tokens))

        def over() -> bool:
            return sampling.deadline is not None and time.monotonic() >= sampling.deadline

        before = search.passes - (first.usage.passes + first.usage.commits if first is not None else 0)

        def spent(reason: str, count: int) -> Finished:
            took = time.monotonic() - started
            return Finished(reason, len(prompt), count, 0, search.passes - before, len(prompt), took)

        while (found := search.next(over)) is not None:
            answer = reply(list(found.tokens), spent("stop", len(found.tokens)))
            if choice.accepts(answer.message):
                return answer
        raise NoReplyLeft("no further reply is worth running")

    def _without_stop(self, ids: list[int]) -> list[int]:
        return ids[:-1] if ids and ids[-1] in self.engine.generation_config.stop_ids else ids

    def _params(self, sampling: Sampling) -> GenerationParams:
        from engine.params import GenerationParams

        try:
            return GenerationParams(
                mode=self._mode,
                max_new_tokens=sampling.max_new_tokens,
                temperature=sampling.temperature or 0.0,
                seed=sampling.seed or 0,
                deadline=sampling.deadline,
            )
        except ValueError as fault:
            raise BackendError(str(fault)) from fault


def _usage(finished: Finished) -> Usage:
    return Usage(
        prompt_tokens=finished.prompt_tokens,
        cached_tokens=finished.cached_tokens,
        completion_tokens=finished.completion_tokens,
        passes=finished.passes,
        commits=finished.commits,
        seconds=finished.seconds,
    )
