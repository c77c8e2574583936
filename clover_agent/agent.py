"""The agent's loop: the model takes a turn, its calls are run, it reads what came of them, until an end."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clover_agent.backends.protocol import Backend, ContextOverflow, NoReplyLeft, Sampling
from clover_agent.events import EpisodeEnded, EpisodeStarted, Noted, Observer, Replied, ToolEnded, ToolStarted, ignore
from clover_agent.limits import Ending, Limits, total
from clover_agent.messages import Message, Reply, ToolCall, Usage
from sandboxes.protocol import Sandbox
from tools.protocol import Observation
from tools.registry import Registry
from tools.render import TestReport

MAX_FORMAT_FAULTS = 3  # turns in a row without one call that could run
MAX_REPEATS = 3  # of one call, or of two in turn, with the same result each time

_NO_CALL = "No tool was called. Go on with a tool call, or end the work with finish."
_CUT_OFF = "Your reply was cut off at its limit before a complete tool call. Answer with one short tool call."


@dataclass(frozen=True)
class Episode:
    """What came of one run of the loop.

    report: the last run of all tests, None where there was none since the last edit.
    calls, valid_calls: of all turns. claim, summary: the model's own words in `finish`.
    """

    ending: Ending
    messages: tuple[Message, ...]
    turns: int
    usage: Usage
    calls: int
    valid_calls: int
    edits: int
    report: TestReport | None = None
    claim: str = ""
    summary: str = ""


class Agent:
    """One model with its tools in one sandbox. SandboxError and BackendError pass through."""

    def __init__(self, backend: Backend, registry: Registry, sandbox: Sandbox, observer: Observer = ignore) -> None:
        self._backend, self._registry, self._sandbox, self._observer = backend, registry, sandbox, observer

    def run(self, opening: Sequence[Message], limits: Limits, sampling: Sampling, *, attempt: int = 1) -> Episode:
        """Work from the messages `opening` until the model finishes, a limit is reached or it gets nowhere."""
        run = _Run(list(opening))
        self._observer(EpisodeStarted(attempt, self._backend.name, tuple(opening)))
        ending = None
        while ending is None:
            ending = limits.reached(len(run.usages), total(run.usages)) or self._turn(run, limits, sampling)
        self._observer(EpisodeEnded(attempt, ending, run.claim, run.summary))
        return run.episode(ending)

    def _turn(self, run: _Run, limits: Limits, sampling: Sampling) -> Ending | None:
        deadlines = [moment for moment in (limits.deadline, sampling.deadline) if moment is not None]
        asked = replace(sampling, deadline=min(deadlines, default=None))
        try:
            reply = self._backend.complete(run.messages, self._registry.tools, asked, self._observer)
        except ContextOverflow as fault:
            run.summary = str(fault)
            return Ending.CONTEXT
        except NoReplyLeft:
            return limits.reached(len(run.usages), total(run.usages)) or Ending.EXHAUSTED
        run.messages.append(reply.message)
        run.usages.append(reply.usage)
        self._observer(Replied(len(run.usages), reply))
        if not reply.message.tool_calls:
            return self._without_call(run, reply)
        ran = False
        for call in reply.message.tool_calls:
            valid, observation = self._call(call)
            run.took(call, valid, observation)
            if observation.finished:
                run.claim, run.summary = (str((observation.data or {}).get(key, "")) for key in ("outcome", "summary"))
                return Ending.FINISHED
            ran = ran or valid
        return self._judge(run, ran)

    def _without_call(self, run: _Run, reply: Reply) -> Ending | None:
        note = Message("user", _CUT_OFF if reply.finish_reason == "length" else _NO_CALL)
        ending = self._judge(run, False)
        if ending is None:
            run.messages.append(note)
            self._observer(Noted(note))
        return ending

    def _call(self, call: ToolCall) -> tuple[bool, Observation]:
        self._observer(ToolStarted(call))
        start = time.monotonic()
        if call.arguments is None:
            valid, observation = False, Observation(call.error or "The tool call could not be read.", is_error=True)
        else:
            valid = not self._registry.check(call.name, call.arguments)
            observation = self._registry.run(call.name, call.arguments, self._sandbox)
        self._observer(ToolEnded(call, observation, valid, time.monotonic() - start))
        return valid, observation

    def _judge(self, run: _Run, ran: bool) -> Ending | None:
        """Whether the model gets nowhere."""
        run.faults = 0 if ran else run.faults + 1
        if run.faults >= MAX_FORMAT_FAULTS:
            return Ending.FORMAT
        return Ending.STUCK if repeats(run.trace) else None


class _Run:
    """What an episode gathers."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.usages: list[Usage] = []
        self.trace: list[str] = []
        self.faults = self.calls = self.valid = self.edits = 0
        self.report: TestReport | None = None
        self.claim = self.summary = ""

    def took(self, call: ToolCall, valid: bool, observation: Observation) -> None:
        """Note a call and what came of it."""
        self.messages.append(Message("tool", observation.text, tool_call_id=call.id))
        arguments = call.raw if call.arguments is None else json.dumps(dict(call.arguments), sort_keys=True)
        self.trace.append(f"{call.name} {arguments}\n{observation.text}")
        self.calls += 1
        self.valid += valid
        if observation.changed:
            self.edits += 1
            self.report = None
        data = observation.data or {}
        report = data.get("report")
        if isinstance(report, TestReport) and data.get("whole"):
            self.report = report
        elif "exit_code" in data:  # a command may have changed anything
            self.report = None

    def episode(self, ending: Ending) -> Episode:
        """The result."""
        return Episode(
            ending=ending,
            messages=tuple(self.messages),
            turns=len(self.usages),
            usage=total(self.usages),
            calls=self.calls,
            valid_calls=self.valid,
            edits=self.edits,
            report=self.report,
            claim=self.claim,
            summary=self.summary,
        )


def repeats(trace: Sequence[str]) -> bool:
    """Whether the last calls, with their results, are one repeated three times or two taking turns three times."""
    last, pair = trace[-MAX_REPEATS:], trace[-2 * MAX_REPEATS :]
    once = len(last) == MAX_REPEATS and len(set(last)) == 1
    twice = len(pair) == 2 * MAX_REPEATS and len(set(pair[::2])) == 1 and len(set(pair[1::2])) == 1
    return once or twice
