"""A session as one JSON document, in the form that mini-swe-agent's tools read (`mini-swe-agent-1.1`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from clover_agent import __version__
from clover_agent.limits import total
from clover_agent.messages import Usage

FORMAT = "mini-swe-agent-1.1"


def trajectory(
    rows: Sequence[Mapping[str, Any]],
    *,
    exit_status: str,
    submission: str,
    config: Mapping[str, Any],
    evidence: Mapping[str, Any],
) -> dict[str, Any]:
    """The document made of a session log's rows (see eventlog).

    exit_status: the verdict. submission: the patch. config: how the session was started. evidence: ours, on top of the
    format: what the verdict rests on. Messages of all attempts follow one another; `extra.attempt` tells them apart.
    """
    messages: list[dict[str, Any]] = []
    usages: list[Usage] = []
    attempt = 0
    for row in rows:
        extra: dict[str, Any] = {"timestamp": row["time"], "attempt": attempt}
        match row["event"]:
            case "EpisodeStarted":
                attempt = extra["attempt"] = row["attempt"]
                messages += [{**_chat(message), "extra": extra} for message in row["messages"]]
            case "Replied":
                reply = row["reply"]
                usages.append(Usage(**reply["usage"]))
                extra |= {"finish_reason": reply["finish_reason"], "usage": reply["usage"], "cost": 0.0}
                extra["actions"] = [_action(call) for call in reply["message"]["tool_calls"]]
                messages.append({**_chat(reply["message"]), "extra": extra})
            case "ToolEnded":
                observation = row["observation"]
                extra |= {"valid": row["valid"], "seconds": row["seconds"], "is_error": observation["is_error"]}
                extra["raw_output"] = observation["text"]
                messages.append(
                    {
                        "role": "tool",
                        "content": observation["text"],
                        "tool_call_id": row["call"]["id"],
                        "extra": extra,
                    }
                )
            case "Noted":
                messages.append({**_chat(row["message"]), "extra": extra})
    spent = total(usages)
    return {
        "trajectory_format": FORMAT,
        "info": {
            "model_stats": {
                "instance_cost": 0.0,
                "api_calls": len(usages),
                "completion_tokens": spent.completion_tokens,
                "passes": spent.passes,
                "commits": spent.commits,
                "seconds": round(spent.seconds, 3),
            },
            "config": dict(config),
            "mini_version": "",
            "clover_agent_version": __version__,
            "exit_status": exit_status,
            "submission": submission,
            "evidence": dict(evidence),
        },
        "messages": messages,
    }


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if message["reasoning"]:
        row["reasoning_content"] = message["reasoning"]
    if message["tool_calls"]:
        row["tool_calls"] = [_openai_call(call) for call in message["tool_calls"]]
    if message["tool_call_id"]:
        row["tool_call_id"] = message["tool_call_id"]
    return row


def _openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call["raw"] if call["arguments"] is None else json.dumps(call["arguments"], ensure_ascii=False)
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _action(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_call_id": call["id"], "tool": call["name"], "arguments": call["arguments"], "error": call["error"]}
