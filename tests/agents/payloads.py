"""What clients send to their hooks, written from their documentation."""

from typing import Any

Payload = dict[str, Any]


def claude(event: str, session: str) -> Payload:
    common = {
        "session_id": session,
        "transcript_path": f"/home/ann/.claude/projects/shop/{session}.jsonl",
        "cwd": "/home/ann/shop",
        "permission_mode": "default",
    }
    own: dict[str, Payload] = {
        "session-start": {"hook_event_name": "SessionStart", "source": "startup", "model": "opus"},
        "tool-use": {
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "ls", "description": "list files"},
            "tool_response": {"stdout": "a\nb\n", "stderr": "", "interrupted": False},
            "tool_use_id": "toolu_01",
        },
        "compaction": {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": ""},
        "after-compaction": {"hook_event_name": "SessionStart", "source": "compact"},
        "stop": {"hook_event_name": "Stop", "stop_hook_active": False},
        "stop-again": {"hook_event_name": "Stop", "stop_hook_active": True},
        "session-end": {"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"},
    }
    return common | own[event]


def codex(event: str, session: str) -> Payload:
    common = {"session_id": session, "transcript_path": None, "cwd": "/home/ann/shop", "model": "gpt-5"}
    turn = {"turn_id": "7", "permission_mode": "default"}
    own: dict[str, Payload] = {
        "session-start": {"hook_event_name": "SessionStart", "source": "startup", "permission_mode": "default"},
        "tool-use": {
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "ls"},
            "tool_response": "a\nb\n",
            "tool_use_id": "call_1",
            **turn,
        },
        "compaction": {"hook_event_name": "PreCompact", "trigger": "manual", **turn},
        "after-compaction": {"hook_event_name": "SessionStart", "source": "compact", "permission_mode": "default"},
        "stop": {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "done", **turn},
        "stop-again": {"hook_event_name": "Stop", "stop_hook_active": True, "last_assistant_message": None, **turn},
        "session-end": {"hook_event_name": "SessionEnd", "reason": "other"},
    }
    return common | own[event]


def cursor(event: str, session: str) -> Payload:
    common = {
        "conversation_id": session,
        "generation_id": "g-1",
        "model": "auto",
        "cursor_version": "2.6.1",
        "workspace_roots": ["/home/ann/shop"],
        "user_email": None,
        "transcript_path": None,
    }
    own: dict[str, Payload] = {
        "session-start": {
            "hook_event_name": "sessionStart",
            "session_id": session,
            "is_background_agent": False,
            "composer_mode": "agent",
        },
        "tool-use": {
            "hook_event_name": "postToolUse",
            "tool_name": "Shell",
            "tool_input": {"command": "ls"},
            "tool_output": '{"stdout": "a"}',
            "tool_use_id": "t-1",
            "cwd": "/home/ann/shop",
            "duration": 12,
        },
        "compaction": {
            "hook_event_name": "preCompact",
            "trigger": "auto",
            "context_usage_percent": 92,
            "message_count": 80,
            "is_first_compaction": True,
        },
        "stop": {"hook_event_name": "stop", "status": "completed", "loop_count": 0},
        "stop-again": {"hook_event_name": "stop", "status": "completed", "loop_count": 1},
        "session-end": {
            "hook_event_name": "sessionEnd",
            "session_id": session,
            "reason": "user_close",
            "duration_ms": 1,
            "is_background_agent": False,
            "final_status": "completed",
        },
    }
    return common | own[event]


CLIENTS = {"claude": claude, "codex": codex, "cursor": cursor}
EVENTS = ("session-start", "tool-use", "compaction", "stop", "session-end")
