"""What the Messages API refuses, as far as it is known, as tables and small functions.

Sources: the documentation of `computer_toolset_20260801` and of the API version 2026-10-21, the parameter types of the
SDK 2.14 (fields of blocks and tools), and error texts from reports. Where nothing is known, a request is let through.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from PIL import Image

Json: TypeAlias = dict[str, Any]

THREADS_BETA = "message-threads-2026-08-12"
MEGABYTE = 1024 * 1024


class Rejected(Exception):
    """A request the API would refuse."""

    def __init__(
        self, message: str, *, status: int = 400, type: str = "invalid_request_error", details: Json | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.details = details


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _refuse(path: str, what: str, details: Json | None = None) -> NoReturn:
    raise Rejected(f"{path}: {what}", details=details)


# ----------------------------------------------------------------------------------------------------------- models
@dataclass(frozen=True)
class Tier:
    """How large an image may be that a toolset returns: longest edge in pixels, and patches of 28 x 28."""

    edge: int
    patches: int


HIGH = Tier(2576, 4784)
STANDARD = Tier(1568, 1568)
TOOLSET = "computer_toolset_20260801"
ALL_COMPUTERS = frozenset({TOOLSET, "computer_20251124", "computer_20250124", "computer_20241022"})


@dataclass(frozen=True)
class ModelRules:
    """What one family of models accepts."""

    computers: frozenset[str] = ALL_COMPUTERS
    tier: Tier = HIGH
    forced_tool_choice: bool = True
    thinking_refused: frozenset[str] = frozenset()
    binds_thinking: bool = False
    hides_thinking: bool = False
    max_images: int = 600


_CURRENT: Mapping[str, Any] = {
    "computers": frozenset({TOOLSET}),
    "forced_tool_choice": False,
    "binds_thinking": True,
    "hides_thinking": True,
}
_BOTH = ModelRules(computers=frozenset({TOOLSET, "computer_20251124"}))
_OLD = ModelRules(computers=frozenset({"computer_20251124"}), tier=STANDARD)
_OLDER = ModelRules(computers=frozenset({"computer_20250124"}), tier=STANDARD, max_images=100)

MODELS: Mapping[str, ModelRules] = {
    "claude-opus-5-5": ModelRules(**_CURRENT, thinking_refused=frozenset({"enabled", "disabled"})),
    "claude-sonnet-5-5": ModelRules(**_CURRENT, thinking_refused=frozenset({"enabled", "disabled"})),
    "claude-haiku-5-5": ModelRules(**{**_CURRENT, "binds_thinking": False}),
    "claude-fable-5-2": ModelRules(**_CURRENT, thinking_refused=frozenset({"disabled"})),
    "claude-mythos-5-2": ModelRules(**_CURRENT, thinking_refused=frozenset({"disabled"})),
    "claude-fable-5-1": ModelRules(**_CURRENT, thinking_refused=frozenset({"disabled"})),
    "claude-mythos-5-1": ModelRules(**_CURRENT, thinking_refused=frozenset({"disabled"})),
    "claude-fable-5": _BOTH,
    "claude-mythos-5": _BOTH,
    "claude-opus-5": _BOTH,
    "claude-sonnet-5": _BOTH,
    "claude-opus-4-8": _BOTH,
    "claude-opus-4-7": ModelRules(computers=frozenset({"computer_20251124"}), thinking_refused=frozenset({"enabled"})),
    "claude-opus-4-6": _OLD,
    "claude-sonnet-4-6": _OLD,
    "claude-opus-4-5": _OLD,
    "claude-haiku-4-5": _OLDER,
    "claude-sonnet-4-5": ModelRules(computers=frozenset({"computer_20250124"}), tier=STANDARD),
    "claude-3-5-sonnet": ModelRules(computers=frozenset({"computer_20241022"}), tier=STANDARD, max_images=100),
}


def model_rules(model: str, otherwise: str = "") -> ModelRules:
    """The rules of the longest known name that `model` begins with, else those of `otherwise`, else the widest."""
    known = [name for name in MODELS if model == name or model.startswith(f"{name}-")]
    if known:
        return MODELS[max(known, key=len)]
    return model_rules(otherwise) if otherwise else ModelRules()


# ------------------------------------------------------------------------------------------------ headers and fields
VERSIONS = ("2023-06-01", "2026-10-21")
REQUEST_FIELDS = _names(
    "billing_policy cache_control compaction container context_management diagnostics fallback_credit_token fallbacks"
    " inference_geo max_tokens mcp_servers messages metadata model output_config service_tier speed stop_sequences"
    " stream system thinking thread tool_choice tools"
)
BETA_OF_FIELD: Mapping[str, str] = {  # the header must hold a beta that begins so
    "thread": THREADS_BETA,
    "context_management": "context-management-",
    "mcp_servers": "mcp-client-",
}
SAMPLING_FIELDS = ("temperature", "top_p", "top_k")


def check_headers(headers: Mapping[str, str], valid_key: str | None) -> None:
    """Refuse a request without a key, with another one than `valid_key`, or without a version.

    Args:
        headers: Names in lower case.
        valid_key: The only key that is accepted; `None` accepts any.
    """
    bearer = re.fullmatch(r"(?i:bearer) +(\S+)", headers.get("authorization", ""))
    key = headers.get("x-api-key") or (bearer[1] if bearer else "")
    if not key:
        _unauthorized("x-api-key header is required")
    if valid_key is not None and key != valid_key:
        _unauthorized("invalid bearer token" if bearer else "invalid x-api-key")
    version = headers.get("anthropic-version")
    if not version:
        _refuse("anthropic-version", "header is required")
    if version not in VERSIONS:
        _refuse("anthropic-version", f'"{version}" is not a valid version')
    if not headers.get("content-type", "").startswith("application/json"):
        _refuse("content-type", "expected application/json")


def _unauthorized(message: str) -> NoReturn:
    raise Rejected(message, status=401, type="authentication_error")


def betas_of(headers: Mapping[str, str]) -> frozenset[str]:
    """The names in the `anthropic-beta` header."""
    return frozenset(name.strip() for name in headers.get("anthropic-beta", "").split(",") if name.strip())


def check_fields(body: Any, betas: Collection[str], rules: ModelRules) -> None:
    """Refuse a body whose fields outside `messages` and `tools` are wrong."""
    if not isinstance(body, dict):
        raise Rejected("The request body is not a JSON object")
    for name in body:
        if name in SAMPLING_FIELDS:
            _refuse(name, "sampling parameters are not accepted")
        if name not in REQUEST_FIELDS:
            _refuse(name, "Extra inputs are not permitted")
        beta = BETA_OF_FIELD.get(name)
        if beta and body[name] is not None and not any(given.startswith(beta) for given in betas):
            _refuse(name, f"Extra inputs are not permitted (the anthropic-beta header lacks {beta.rstrip('-')})")
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            _refuse(name, "Field required")
    if not isinstance(body["model"], str) or not body["model"]:
        _refuse("model", "Input should be a valid string")
    if not _is_int(body["max_tokens"]):
        _refuse("max_tokens", "Input should be a valid integer")
    if body["max_tokens"] < 1:
        _refuse("max_tokens", "Input should be greater than or equal to 1")
    if not isinstance(body["messages"], list):
        _refuse("messages", "Input should be a valid list")
    if not isinstance(body.get("stream", False), bool):
        _refuse("stream", "Input should be a valid boolean")
    _check_thinking(body, betas, rules)
    _check_output_config(body.get("output_config"))
    _check_system(body.get("system"))
    _check_cache_control("cache_control", body.get("cache_control"))
    _check_keys("metadata", body.get("metadata"), {"user_id"})
    _check_breakpoints(body)


THINKING_FIELDS: Mapping[str, frozenset[str]] = {
    "adaptive": frozenset({"type", "display", "block_binding"}),
    "between_tools": frozenset({"type"}),
    "disabled": frozenset({"type"}),
    "enabled": frozenset({"type", "budget_tokens", "display", "block_binding"}),
}


BINDING_BETA = "thinking-binding-controls-2026-08-01"


def drops_foreign_thinking(body: Json) -> bool:
    """Whether the request asks to leave out thinking blocks whose conversation changed, instead of being refused."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    return bool(binding.get("prefix_mismatch_behavior") == "drop_block")


def _check_thinking(body: Json, betas: Collection[str], rules: ModelRules) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = _kind(thinking)
    if kind not in THINKING_FIELDS:
        _refuse("thinking.type", f"Input should be one of {', '.join(map(repr, THINKING_FIELDS))}")
    _check_keys(f"thinking.{kind}", thinking, THINKING_FIELDS[kind])
    if kind in rules.thinking_refused:
        _refuse("thinking.type", f'"{kind}" is not supported for the model {body["model"]}')
    if thinking.get("display") not in (None, "summarized", "omitted", "updates"):
        _refuse(f"thinking.{kind}.display", "Input should be 'summarized', 'omitted' or 'updates'")
    if "block_binding" in thinking:
        if BINDING_BETA not in betas:
            _refuse(f"thinking.{kind}.block_binding", f"Extra inputs are not permitted (lacks the beta {BINDING_BETA})")
        _check_keys(f"thinking.{kind}.block_binding", thinking["block_binding"], {"prefix_mismatch_behavior"})
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not _is_int(budget) or budget < 1024:
            _refuse("thinking.enabled.budget_tokens", "Input should be greater than or equal to 1024")
        if budget >= body["max_tokens"]:
            _refuse("max_tokens", "must be greater than `thinking.budget_tokens`")


def _check_output_config(config: Any) -> None:
    if config is None:
        return
    _check_keys("output_config", config, {"effort", "format", "task_budget"})
    if config.get("effort") not in (None, "low", "medium", "high", "xhigh", "max"):
        _refuse("output_config.effort", "Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        _refuse("system", "Input should be a valid string or list")
    for index, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            _refuse(f"system.{index}.type", "Input should be 'text'")
        _check_block(block, f"system.{index}", {"text"})


def _check_breakpoints(body: Json) -> None:
    found = sum(
        1
        for part in ("tools", "system", "messages")
        for block in _walk(body.get(part))
        if isinstance(block.get("cache_control"), dict)
    )
    if found > 4:
        raise Rejected(f"A maximum of 4 blocks with cache_control may be provided. Found {found}.")


def _walk(value: Any) -> Iterator[Json]:
    """Every block in `value`; free-form data such as a tool's input is not entered."""
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)
    elif isinstance(value, dict):
        yield value
        yield from _walk(value.get("content"))


def _check_cache_control(path: str, value: Any) -> None:
    if value is None:
        return
    _check_keys(path, value, {"type", "ttl"})
    if value.get("type") != "ephemeral":
        _refuse(f"{path}.type", "Input should be 'ephemeral'")
    if value.get("ttl") not in (None, "5m", "1h"):
        _refuse(f"{path}.ttl", "Input should be '5m' or '1h'")


def _check_keys(path: str, value: Any, allowed: Collection[str]) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        _refuse(path, "Input should be a valid dictionary")
    for key in value:
        if key not in allowed:
            _refuse(f"{path}.{key}", "Extra inputs are not permitted")


def _kind(value: Any) -> str:
    """The `type` of an object, or nothing."""
    return str(value.get("type", "")) if isinstance(value, dict) else ""


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ------------------------------------------------------------------------------------------------------------ thread
def check_thread(body: Json) -> None:
    """Refuse a malformed `thread` field, and fields that a `continue` takes from the thread."""
    thread = body.get("thread")
    if thread is None:
        return
    kind = thread.get("type") if isinstance(thread, dict) else None
    if kind not in ("create", "continue"):
        _refuse("thread.type", "Input should be 'create' or 'continue'")
    allowed = {"type", "previous_message_id"} if kind == "continue" else {"type"}
    _check_keys(f"thread.{kind}", thread, allowed)
    if kind == "create":
        return
    if not isinstance(thread.get("previous_message_id"), str):
        _refuse("thread.continue.previous_message_id", "Field required")
    for name in ("system", "tools"):
        if name in body:
            _refuse(name, "must not be sent with `thread.type` of `continue`: it is taken from the thread")


def thread_not_found(message_id: str) -> Rejected:
    """The refusal of a thread the server does not hold."""
    return Rejected(
        f"thread.previous_message_id: no usable thread state was found for {message_id}",
        status=404,
        type="not_found_error",
        details={"error_code": "thread_not_found"},
    )


def thread_already_continued(message_id: str, *, in_flight: bool) -> Rejected:
    """The refusal to continue from one reply twice."""
    what = "is being continued by another request" if in_flight else "has already been continued"
    code = "thread_continue_in_flight" if in_flight else "thread_already_continued"
    return Rejected(f"thread.previous_message_id: {message_id} {what}", details={"error_code": code})


# ------------------------------------------------------------------------------------------------------------- tools
@dataclass(frozen=True)
class ToolRule:
    """One type of entry of `tools`.

    Attributes:
        name: The only name it may have; `None` for a toolset, which has none.
        fields: The fields it may have besides `type`.
        required: Those it must have.
        beta: The beta its type needs.
        members: The members of a toolset.
    """

    name: str | None
    fields: frozenset[str]
    required: frozenset[str] = frozenset()
    beta: str | None = None
    members: frozenset[str] = field(default=frozenset(), repr=False)


_COMMON = frozenset({"name", "allowed_callers", "cache_control", "defer_loading", "input_examples", "strict"})
_NAMED = frozenset({"name"})
_DISPLAY = frozenset({"display_width_px", "display_height_px"})
_TOOLSET_FIELDS = frozenset({"configs", "cache_control"})
COMPUTER_MEMBERS = _names(
    "cursor_position double_click hold_key key left_click left_click_drag left_mouse_down left_mouse_up middle_click"
    " mouse_move right_click screenshot scroll triple_click type wait zoom"
)
BROWSER_MEMBERS = _names(
    "close_tab double_click file_upload find form_input get_page_text hold_key hover javascript_exec key left_click"
    " left_click_drag left_mouse_down left_mouse_up list_tabs middle_click mouse_move navigate new_tab read_console"
    " read_network read_page right_click screenshot scroll scroll_to switch_tab triple_click type wait zoom"
)


def _computer(beta: str, *more: str) -> ToolRule:
    return ToolRule("computer", _COMMON | _DISPLAY | {"display_number", *more}, _NAMED | _DISPLAY, beta)


TOOLS: Mapping[str, ToolRule] = {
    TOOLSET: ToolRule(None, _TOOLSET_FIELDS, members=COMPUTER_MEMBERS),
    "browser_toolset_20260801": ToolRule(None, _TOOLSET_FIELDS, members=BROWSER_MEMBERS),
    "computer_20251124": _computer("computer-use-2025-11-24", "enable_zoom"),
    "computer_20250124": _computer("computer-use-2025-01-24"),
    "computer_20241022": _computer("computer-use-2024-10-22"),
    "bash_20250124": ToolRule("bash", _COMMON, _NAMED),
    "bash_20241022": ToolRule("bash", _COMMON, _NAMED, "computer-use-2024-10-22"),
    "text_editor_20250728": ToolRule("str_replace_based_edit_tool", _COMMON | {"max_characters"}, _NAMED),
    "text_editor_20250429": ToolRule("str_replace_based_edit_tool", _COMMON, _NAMED),
    "text_editor_20250124": ToolRule("str_replace_editor", _COMMON, _NAMED),
    "text_editor_20241022": ToolRule("str_replace_editor", _COMMON, _NAMED, "computer-use-2024-10-22"),
    "memory_20250818": ToolRule("memory", _COMMON, _NAMED),
}
CUSTOM_FIELDS = _COMMON | {"type", "description", "eager_input_streaming", "input_schema"}
SERVER_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "mcp_toolset", "advisor_")


def check_tools(body: Json, betas: Collection[str], rules: ModelRules) -> None:
    """Refuse wrong tool definitions and a `tool_choice` that does not fit them."""
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        _refuse("tools", "Input should be a valid list")
    for index, tool in enumerate(tools or []):
        _check_tool(tool, f"tools.{index}", betas)
    kinds = [str(tool.get("type")) for tool in tools or []]
    names = [str(tool["name"]) for tool in tools or [] if "name" in tool]
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        _refuse("tools", f"Tool names must be unique: {', '.join(doubled)}")
    doubled = [kind for kind, count in Counter(kinds).items() if count > 1 and kind in TOOLS]
    if doubled:
        _refuse("tools", f"each type may be given once: {', '.join(doubled)}")
    if TOOLSET in kinds and "computer" in names:
        _refuse("tools", f"{TOOLSET} cannot be combined with another tool named `computer`")
    wrong = sorted(ALL_COMPUTERS.intersection(kinds) - rules.computers)
    if wrong:
        raise Rejected(
            f"'{body['model']}' does not support tool types: {', '.join(wrong)}. "
            f"Did you mean one of {', '.join(sorted(rules.computers))}?"
        )
    _check_tool_choice(body.get("tool_choice"), names, bool(tools), rules, str(body["model"]))


def _check_tool(tool: Any, path: str, betas: Collection[str]) -> None:
    if not isinstance(tool, dict):
        _refuse(path, "Input should be a valid dictionary")
    kind = tool.get("type")
    if kind is None or kind == "custom":
        _check_custom_tool(tool, path)
        return
    rule = TOOLS.get(kind)
    if rule is None or (rule.beta and rule.beta not in betas):
        if rule is None and str(kind).startswith(SERVER_TOOLS):
            return
        missing = f" (the anthropic-beta header lacks {rule.beta})" if rule else ""
        _refuse(path, f"Input tag '{kind}' found using 'type' does not match any of the expected tags{missing}")
    _check_keys(f"{path}.{kind}", tool, rule.fields | {"type"})
    for name in sorted(rule.required):
        if name not in tool:
            _refuse(f"{path}.{kind}.{name}", "Field required")
    for name in sorted(_DISPLAY & rule.required):
        if not _is_int(tool[name]) or tool[name] < 1:
            _refuse(f"{path}.{kind}.{name}", "Input should be greater than or equal to 1")
    if rule.name is not None and tool["name"] != rule.name:
        _refuse(f"{path}.{kind}.name", f"Input should be '{rule.name}'")
    _check_cache_control(f"{path}.{kind}.cache_control", tool.get("cache_control"))
    if rule.members:
        _check_configs(f"{path}.{kind}.configs", tool.get("configs"), rule.members)


def _check_custom_tool(tool: Json, path: str) -> None:
    _check_keys(f"{path}.custom", tool, CUSTOM_FIELDS)
    for name in ("name", "input_schema"):
        if name not in tool:
            _refuse(f"{path}.custom.{name}", "Field required")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", str(tool["name"])):
        _refuse(f"{path}.custom.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
    if not isinstance(tool["input_schema"], dict) or tool["input_schema"].get("type") != "object":
        _refuse(f"{path}.custom.input_schema.type", "Input should be 'object'")
    _check_cache_control(f"{path}.custom.cache_control", tool.get("cache_control"))


def _check_configs(path: str, configs: Any, members: frozenset[str]) -> None:
    _check_keys(path, configs, members)
    for name, config in (configs or {}).items():
        _check_keys(f"{path}.{name}", config, {"enabled", "defer_loading"})
        for key, value in (config or {}).items():
            if not isinstance(value, bool):
                _refuse(f"{path}.{name}.{key}", "Input should be a valid boolean")
    off = {name for name, config in (configs or {}).items() if config and config.get("enabled") is False}
    if off == members:
        _refuse(path, "at least one member must be enabled")


CHOICE_FIELDS: Mapping[str, frozenset[str]] = {
    "auto": frozenset({"type", "disable_parallel_tool_use"}),
    "any": frozenset({"type", "disable_parallel_tool_use"}),
    "tool": frozenset({"type", "disable_parallel_tool_use", "name"}),
    "none": frozenset({"type"}),
}


def _check_tool_choice(choice: Any, names: Sequence[str], any_tools: bool, rules: ModelRules, model: str) -> None:
    if choice is None:
        return
    kind = _kind(choice)
    if kind not in CHOICE_FIELDS:
        _refuse("tool_choice.type", f"Input should be one of {', '.join(map(repr, CHOICE_FIELDS))}")
    _check_keys(f"tool_choice.{kind}", choice, CHOICE_FIELDS[kind])
    if not any_tools:
        _refuse("tool_choice", "may only be specified while providing tools")
    if kind in ("any", "tool") and not rules.forced_tool_choice:
        _refuse("tool_choice.type", f'"{kind}" is not supported for the model {model}: tool use cannot be forced')
    if kind == "tool" and choice.get("name") not in names:
        _refuse("tool_choice.tool.name", f"Tool '{choice.get('name')}' not found in provided tools")


# ---------------------------------------------------------------------------------------------------------- messages
BLOCK_FIELDS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"text", "cache_control", "citations"}),
    "image": frozenset({"source", "cache_control", "transformations"}),
    "document": frozenset({"source", "cache_control", "citations", "context", "title"}),
    "thinking": frozenset({"thinking", "signature"}),
    "redacted_thinking": frozenset({"data"}),
    "tool_use": frozenset({"id", "name", "input", "caller", "toolset_name", "cache_control"}),
    "tool_result": frozenset({"tool_use_id", "content", "is_error", "toolset_name", "cache_control"}),
}
REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
}
USER_BLOCKS = frozenset({"text", "image", "document", "tool_result"})
ASSISTANT_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
RESULT_BLOCKS = frozenset({"text", "image", "document"})
OTHER_BLOCKS = _names(  # of server tools and betas: let through without a look inside
    "search_result server_tool_use web_search_tool_result web_fetch_tool_result advisor_tool_result mcp_tool_use"
    " code_execution_tool_result bash_code_execution_tool_result text_editor_code_execution_tool_result"
    " tool_search_tool_result mcp_tool_result container_upload compaction mcp_tool_listing fallback tool_reference"
    " browser_state"
)


def check_messages(messages: Sequence[Any], held: int, rules: ModelRules) -> None:
    """Refuse a conversation that is not as the API wants it.

    Args:
        messages: The whole conversation.
        held: How many of them the server holds; paths count from the first message that was sent.
        rules: Those of the model.
    """
    for index, message in enumerate(messages):
        _check_message(message, f"messages.{index - held}")
    _check_order(messages, held)
    _check_answers(messages, held)
    _check_images(messages, held, rules)


def _check_message(message: Any, path: str) -> None:
    if not isinstance(message, dict):
        _refuse(path, "Input should be a valid dictionary")
    role = message.get("role")
    if role not in ("user", "assistant"):
        _refuse(f"{path}.role", "Input should be 'user' or 'assistant'")
    _check_keys(path, message, {"role", "content"})
    content = message.get("content")
    if isinstance(content, str):
        _check_text(content, f"{path}.content")
        return
    if not isinstance(content, list):
        _refuse(f"{path}.content", "Input should be a valid string or list")
    if not content:
        _refuse(path, f"{role} messages must have non-empty content")
    allowed = USER_BLOCKS if role == "user" else ASSISTANT_BLOCKS
    for index, block in enumerate(content):
        _check_block(block, f"{path}.content.{index}", allowed)
        if role == "user" and isinstance(block, dict) and "citations" in block and block["type"] == "text":
            _refuse(f"{path}.content.{index}.text.citations", "Extra inputs are not permitted")


def _check_text(text: Any, path: str) -> None:
    if not isinstance(text, str):
        _refuse(path, "Input should be a valid string")
    if not text:
        _refuse(path, "text content blocks must be non-empty")
    if not text.strip():
        _refuse(path, "text content blocks must contain non-whitespace text")


def _check_block(block: Any, path: str, allowed: Collection[str]) -> None:
    if not isinstance(block, dict):
        _refuse(path, "Input should be a valid dictionary")
    kind = _kind(block)
    if kind in OTHER_BLOCKS:
        return
    if kind not in BLOCK_FIELDS or kind not in allowed:
        _refuse(path, f"Input tag '{kind}' found using 'type' does not match any of the expected tags")
    path = f"{path}.{kind}"
    for name, value in block.items():
        if name == "type":
            continue
        # what `model_dump()` of a reply adds: caller, toolset_name, citations of null
        if name not in BLOCK_FIELDS[kind] or (value is None and name != "cache_control"):
            _refuse(f"{path}.{name}", "Extra inputs are not permitted")
    for name in REQUIRED_FIELDS[kind]:
        if name not in block:
            _refuse(f"{path}.{name}", "Field required")
    _check_cache_control(f"{path}.cache_control", block.get("cache_control"))
    if kind == "text":
        _check_text(block["text"], path)
    elif kind == "tool_use":
        _check_tool_use(block, path)
    elif kind == "tool_result":
        _check_tool_result(block, path)


def _check_tool_use(block: Json, path: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", str(block["id"])):
        _refuse(f"{path}.id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block["input"], dict):
        _refuse(f"{path}.input", "Input should be a valid dictionary")
    caller = block.get("caller", {"type": "direct"})
    if not isinstance(caller, dict) or not isinstance(caller.get("type"), str):
        _refuse(f"{path}.caller", "Input should be a valid dictionary with a type")


def _check_tool_result(block: Json, path: str) -> None:
    content = block.get("content", "")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list):
        _refuse(f"{path}.content", "Input should be a valid string or list")
    allowed = {"text", "image"} if "toolset_name" in block else RESULT_BLOCKS
    for index, part in enumerate(content):
        # other toolsets hold more, such as a browser's `browser_state`
        if block.get("toolset_name") == "computer" and isinstance(part, dict) and part.get("type") not in allowed:
            _refuse(f"{path}.content.{index}.type", "Input should be 'text' or 'image' in a result of the toolset")
        _check_block(part, f"{path}.content.{index}", allowed)
    if "is_error" in block and not isinstance(block["is_error"], bool):
        _refuse(f"{path}.is_error", "Input should be a valid boolean")
    if not block.get("is_error"):
        return
    if any(part.get("type") != "text" for part in content):
        _refuse(f"{path}.content", 'all content must be type "text" if `is_error` is true')
    if not content:
        _refuse(f"{path}.content", "must not be empty if `is_error` is true")


def _check_order(messages: Sequence[Json], held: int) -> None:
    if not messages:
        _refuse("messages", "at least one message is required")
    if messages[0]["role"] != "user":
        _refuse(f"messages.{-held}", "the first message must have the role 'user'")


def check_no_prefill(messages: Sequence[Json]) -> None:
    """Refuse a conversation that ends with an assistant message."""
    if messages and messages[-1]["role"] == "assistant":
        raise Rejected(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _blocks(message: Json, kind: str) -> list[Json]:
    content = message["content"]
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


def _check_answers(messages: Sequence[Json], held: int) -> None:
    """Every call answered once, in the next message, before anything else; every answer with a call."""
    seen: set[str] = set()
    uses: dict[str, Json] = {}
    for index, message in enumerate(messages):
        path = f"messages.{index - held}"
        _check_results(message, uses, path)
        uses = {block["id"]: block for block in _blocks(message, "tool_use")}
        again = seen.intersection(uses)
        if again or len(uses) < len(_blocks(message, "tool_use")):
            _refuse(path, f"`tool_use` ids must be unique: {', '.join(sorted(again or uses))}")
        seen.update(uses)


def _check_results(message: Json, uses: Mapping[str, Json], path: str) -> None:
    content = message["content"] if isinstance(message["content"], list) else []
    answered: list[str] = []
    other_before = False
    for index, block in enumerate(content):
        if block["type"] != "tool_result":
            other_before = True
            continue
        at = f"{path}.content.{index}"
        use_id = block["tool_use_id"]
        if use_id not in uses:
            _refuse(
                at,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {use_id}. Each `tool_result` block must have "
                "a corresponding `tool_use` block in the previous message.",
            )
        if use_id in answered:
            _refuse(at, f"each tool_use must have a single result. Found multiple `tool_result` blocks: {use_id}")
        if other_before:
            _refuse(at, "`tool_result` blocks must come before all other blocks of the message")
        _check_family(block, uses[use_id], f"{at}.tool_result")
        answered.append(use_id)
    missing = [use_id for use_id in uses if use_id not in answered]
    if missing:
        _refuse(
            path,
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message.",
        )


def _check_family(result: Json, use: Json, path: str) -> None:
    expected, found = use.get("toolset_name"), result.get("toolset_name")
    if expected == found:
        return
    if expected is None:
        _refuse(f"{path}.toolset_name", f"must be absent: {use['id']} is no call of a toolset")
    if found is None:
        _refuse(f"{path}.toolset_name", f"Field required: {use['id']} is a call of the toolset '{expected}'")
    _refuse(f"{path}.toolset_name", f"'{found}' does not match the call's '{expected}'")


# ------------------------------------------------------------------------------------------------------------ images
MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
PATCH = 28
MAX_SIDE = 8000
MANY_IMAGES, MANY_IMAGES_SIDE = 20, 2000
MAX_IMAGE_BYTES = 10 * MEGABYTE


def patches(width: int, height: int) -> int:
    """How many visual tokens an image of that size costs."""
    return math.ceil(width / PATCH) * math.ceil(height / PATCH)


def fits(width: int, height: int, tier: Tier) -> bool:
    """Whether an image of that size is within a tier; its longer side counts padded to whole patches."""
    return math.ceil(max(width, height) / PATCH) * PATCH <= tier.edge and patches(width, height) <= tier.patches


@dataclass(frozen=True)
class _Placed:
    """An image of the conversation, and where it is."""

    path: str
    size: tuple[int, int]
    sent_now: bool
    in_toolset: bool


def image_size(block: Json, path: str = "image") -> tuple[int, int] | None:
    """Width and height of an image block in pixels, checked; `None` for one that is not sent as base64."""
    source = block["source"]
    kind = source.get("type") if isinstance(source, dict) else None
    if kind in ("url", "file"):
        return None
    if kind != "base64":
        _refuse(f"{path}.source.type", "Input should be 'base64', 'url' or 'file'")
    at = f"{path}.source.base64"
    _check_keys(at, source, {"type", "media_type", "data"})
    if source.get("media_type") not in MEDIA_TYPES.values():
        _refuse(f"{at}.media_type", f"Input should be one of {', '.join(map(repr, MEDIA_TYPES.values()))}")
    data = source.get("data")
    if not isinstance(data, str) or not data:
        _refuse(f"{at}.data", "Field required")
    if len(data) > MAX_IMAGE_BYTES:
        _refuse(at, f"image exceeds 10 MB maximum: {len(data)} bytes > {MAX_IMAGE_BYTES} bytes")
    try:
        with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as image:
            media_type, size = MEDIA_TYPES.get(str(image.format)), image.size
    except binascii.Error:
        _refuse(f"{at}.data", "invalid base64 data")
    except Image.DecompressionBombError:
        _refuse(at, "image dimensions exceed max allowed size: 8000 pixels")
    except (OSError, SyntaxError, ValueError):
        _refuse(at, "Could not process image")
    if media_type != source["media_type"]:
        _refuse(
            at,
            f"The image was specified using the {source['media_type']} media type, but the image appears to be a "
            f"{media_type} image",
        )
    return size


def _check_images(messages: Sequence[Json], held: int, rules: ModelRules) -> None:
    images = [image for index, message in enumerate(messages) for image in _images_of(message, index - held)]
    if len(images) > rules.max_images:
        _refuse("messages", f"too many images: {len(images)} > {rules.max_images}")
    _check_sides(images, MAX_SIDE, "image dimensions exceed max allowed size: 8000 pixels")
    if len(images) > MANY_IMAGES:
        _check_sides(images, MANY_IMAGES_SIDE, "image dimensions exceed max allowed size for many-image requests: 2000")
    for image in images:
        width, height = image.size
        if image.sent_now and image.in_toolset and not fits(width, height, rules.tier):
            _refuse(
                image.path,
                f"an image of {width}x{height} pixels is too large for a toolset's result: the long edge may have "
                f"{rules.tier.edge} pixels and the image {rules.tier.patches} patches of {PATCH}x{PATCH} "
                f"(it has {patches(width, height)})",
            )


def _check_sides(images: Sequence[_Placed], side: int, what: str) -> None:
    large = [image.path for image in images if max(image.size) > side]
    if large:
        details = {"error_code": "image_dimensions_too_large", "max_side_length_pixels": side, "paths": large}
        _refuse(large[0], what, details)


def _images_of(message: Json, number: int) -> Iterator[_Placed]:
    content = message["content"] if isinstance(message["content"], list) else []
    for index, block in enumerate(content):
        path = f"messages.{number}.content.{index}"
        inner = block.get("content") if block["type"] == "tool_result" else None
        placed = [(path, block)]
        if isinstance(inner, list):
            placed = [(f"{path}.content.{at}", part) for at, part in enumerate(inner)]
        for at, part in placed:
            size = image_size(part, f"{at}.image") if part["type"] == "image" else None
            if size is not None:
                yield _Placed(at, size, number >= 0, "toolset_name" in block)


# --------------------------------------------------------------------------------------- what the model itself wrote
def digests(messages: Sequence[Json], before: str = "") -> list[str]:
    """For each message a digest of all up to it, but for `cache_control`, whose places move from turn to turn."""
    chain: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = json.dumps([before, message["role"], without_cache_control(blocks)], sort_keys=True)
        before = hashlib.sha256(text.encode()).hexdigest()
        chain.append(before)
    return chain


def without_cache_control(blocks: Any) -> Any:
    """`blocks`, and the blocks in them, without `cache_control`."""
    if not isinstance(blocks, list):
        return blocks
    return [
        {
            key: without_cache_control(value) if key == "content" else value
            for key, value in block.items()
            if key != "cache_control"
        }
        for block in blocks
    ]


def sign(thinking: str, before: str) -> str:
    """The signature of a thinking block: of its text, and of the conversation before it.

    Any server can check it, as the real API can check a signature from another day.
    """
    halves = (hashlib.sha256(part.encode()).digest()[:18] for part in (thinking, before))
    return "".join(base64.b64encode(half).decode() for half in halves)


def check_thinking_blocks(messages: Sequence[Json], chain: Sequence[str], held: int, *, bound: bool) -> None:
    """Refuse thinking blocks that were changed, or, when `bound`, whose conversation was.

    Args:
        messages: The whole conversation.
        chain: Its `digests`.
        held: How many of them the server holds.
        bound: Whether the model binds thinking to the conversation before it.
    """
    for index, message in enumerate(messages):
        for number, block in enumerate(message["content"] if isinstance(message["content"], list) else []):
            if block["type"] != "thinking":
                continue
            expected = sign(block["thinking"], chain[index - 1] if index else "")
            path = f"messages.{index - held}.content.{number}"
            if block["signature"][:24] != expected[:24]:
                _refuse(
                    path,
                    "Invalid `signature` in `thinking` block: `thinking` blocks cannot be modified, they must remain "
                    "as they were in the original response",
                )
            if bound and block["signature"] != expected:
                _refuse(path, "the `thinking` block belongs to another conversation: the messages before it changed")
