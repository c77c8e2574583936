"""The engine in this process as a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clover_agent.backends.protocol import BackendError, ContextOverflow, Sampling
from clover_agent.backends.replies import reply_from_text, template_messages, template_tools
from clover_agent.messages import Message, Reply, Usage
from tools.protocol import Tool

if TYPE_CHECKING:
    from engine.engine import Engine
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
        self._mode: Mode = mode
        if self.profile not in PROFILES:
            raise BackendError(f"agent_profile must be one of {', '.join(PROFILES)}, not {self.profile!r}")

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str = "cpu", threads: int | None = None, mode: Mode = "diffusion"
    ) -> EmbeddedBackend:
        """Load a checkpoint folder. Raises BackendError, one line."""
        from engine.engine import Engine
        from engine.errors import EngineError

        try:
            engine = Engine.load(folder, device=device, threads=threads)
        except EngineError as fault:
            raise BackendError(str(fault)) from fault
        return cls(engine, name=Path(folder).name, mode=mode)

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        sampling: Sampling,
        on_event: Callable[[Any], None] | None = None,
    ) -> Reply:
        """One assistant turn. Raises ContextOverflow, or BackendError for anything else that the engine refuses."""
        from engine.errors import ContextLimitError, EngineError
        from engine.events import Finished, Tokens

        full = self.profile == "full"
        ids: list[int] = []
        finished: Finished | None = None
        try:
            prompt = self.engine.tokenizer.encode_chat(
                template_messages(messages), tools=template_tools(tools) if full else None, enable_thinking=full
            )
            for event in self.engine.generate(prompt, self._params(sampling)):
                if isinstance(event, Tokens):
                    ids.extend(event.ids)
                elif isinstance(event, Finished):
                    finished = event
                if on_event is not None:
                    on_event(event)
        except ContextLimitError as fault:
            raise ContextOverflow(str(fault)) from fault
        except EngineError as fault:
            raise BackendError(str(fault)) from fault
        assert finished is not None, "a generation ends with Finished"
        if ids and ids[-1] in self.engine.generation_config.stop_ids:
            ids.pop()
        usage = Usage(
            prompt_tokens=finished.prompt_tokens,
            cached_tokens=finished.cached_tokens,
            completion_tokens=finished.completion_tokens,
            passes=finished.passes,
            commits=finished.commits,
            seconds=finished.seconds,
        )
        return reply_from_text(
            self.engine.tokenizer.decode(ids),
            tools,
            first_call=1 + sum(len(message.tool_calls) for message in messages),
            thinking=full,
            cut=finished.reason != "stop",
            usage=usage,
        )

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
