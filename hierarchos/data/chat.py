"""Conversations: roles and their order, the chat template, and which characters are the assistant's."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from hierarchos.data.json_arrays import kind_of
from hierarchos.data.options import RowOptions
from hierarchos.data.rows import BadRow, whole_text
from hierarchos.errors import UserError, nearest

ROLES = ("system", "developer", "user", "assistant", "tool")
ROLE_ALIASES = {"human": "user", "gpt": "assistant", "model": "assistant"}
FOLLOWS = {  # which roles may come after a role; None is the beginning
    None: ("user",),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "assistant"),
}
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def checked_messages(value: Any, options: RowOptions) -> list[dict[str, Any]]:
    """Turns with known roles in an order that can be trained; everything else raises `BadRow`."""
    if not isinstance(value, list) or not value:
        raise BadRow("messages", f"messages is {kind_of(value) if value != [] else 'an empty list'}, not a list of turns")
    turns = [_turn(number, turn) for number, turn in enumerate(value, 1)]
    turns = _place_system(turns, options.system)
    if options.merge_same_role:
        turns = _merged(turns)
    _check_order(turns)
    return turns


def _turn(number: int, turn: Any) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise BadRow("messages", f"turn {number} is {kind_of(turn)}, not {{role, content}}")
    role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
    role = ROLE_ALIASES.get(role, role)
    if role not in ROLES:
        close = nearest(str(role), ROLES)
        question = f"; did you mean {close} ?" if close else ""
        raise BadRow("role", f"turn {number} has the role {role!r}; roles: {', '.join(ROLES)}{question}")
    if content is None and turn.get("tool_calls"):
        content = ""
    elif not isinstance(content, str):
        raise BadRow("not text", f"turn {number} ({role}): content is {kind_of(content)}, not text")
    elif not content.strip() and role in ("user", "assistant") and not turn.get("tool_calls"):
        raise BadRow("empty text", f"turn {number} ({role}): content is empty")
    content = whole_text(content, f"turn {number} ({role}): content")
    rest = {key: entry for key, entry in turn.items() if key not in ("role", "from", "content", "value")}
    return {"role": role, "content": content, **rest}


def _place_system(turns: list[dict], policy: str) -> list[dict]:
    if policy == "keep" or turns[0]["role"] not in ("system", "developer"):
        return turns
    system, rest = turns[0], turns[1:]
    if policy == "merge_into_user" and rest and rest[0]["role"] == "user":
        rest = [{**rest[0], "content": f"{system['content']}\n\n{rest[0]['content']}"}, *rest[1:]]
    return rest


def _merged(turns: list[dict]) -> list[dict]:
    """Consecutive turns of one role as one, their texts a blank line apart."""
    merged: list[dict] = []
    for turn in turns:
        if merged and merged[-1]["role"] == turn["role"] != "tool":
            merged[-1] = {**merged[-1], "content": f"{merged[-1]['content']}\n\n{turn['content']}"}
        else:
            merged.append(turn)
    return merged


def _check_order(turns: list[dict]) -> None:
    roles = [turn["role"] for turn in turns]
    shown = ",".join(roles)
    start = 1 if roles[:1] in (["system"], ["developer"]) else 0
    before = None
    for number, role in enumerate(roles[start:], start + 1):
        if role not in FOLLOWS[before]:
            fixes = ("data.merge_same_role=true  to join them",) if role == before else ()
            place = f"after {before}" if before else "first"
            raise BadRow("role order", f"turn {number} is {role} {place}; the roles are {shown}", fixes)
        before = role
    if "assistant" not in roles:
        raise BadRow("no assistant turn", f"there is no assistant turn to train; the roles are {shown}")


class ChatTemplate:
    """A Jinja template of a package, in the sandbox and with the helpers that Transformers gives to it."""

    def __init__(self, source: str, tokens: dict[str, str | None], place: str = "chat template"):
        import jinja2

        self.source, self.place = source, place
        self.tokens = {name: text for name, text in tokens.items() if text is not None}
        try:
            self.compiled = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise UserError(f"the chat template is not Jinja: {error.message}", where=f"{place}:{error.lineno}") from None

    def render(self, messages: list[dict], add_generation_prompt: bool = False) -> str:
        """The conversation as text. A template that refuses it raises `BadRow` with the template's own words."""
        import jinja2

        try:
            return self.compiled.render(messages=messages, add_generation_prompt=add_generation_prompt, **self.tokens)
        except (jinja2.TemplateError, TypeError) as error:
            roles = ",".join(message["role"] for message in messages)
            fixes = ("data.system=merge_into_user  or  data.system=drop",) if roles.startswith(("system", "developer")) else ()
            raise BadRow("chat template", f"the chat template refuses it: {error}; the roles are {roles}", fixes) from None


@lru_cache(maxsize=1)
def _environment() -> Any:
    """strftime_now stays undefined: with it a data set would depend on the day; templates fall back to a fixed date."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks the assistant's text in some templates; its content is rendered as it is."""

        tags = frozenset({"generation"})

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    environment.globals["raise_exception"] = _raise_exception
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    return environment


def _raise_exception(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)


def rendered_with_spans(template: ChatTemplate, messages: list[dict], special: tuple[str, ...]) -> tuple[str, list[tuple[int, int]]]:
    """The conversation as text and the character ranges that the assistant writes, each with its end-of-turn token."""
    text = template.render(messages)
    if messages[0]["role"] in ("system", "developer") and messages[0]["content"].strip() not in text:
        fixes = ("data.system=merge_into_user  or  data.system=drop",)
        raise BadRow("chat template", "the chat template leaves the system turn out", fixes)
    spans = []
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            start = _start_of_turn(template, messages, number, text)
            spans.append((start, _end_of_turn(text, start, messages, number, special)))
    return text, spans


def _start_of_turn(template: ChatTemplate, messages: list[dict], number: int, text: str) -> int:
    """Where generation would begin: after the earlier turns and the generation prompt."""
    for prompt in (True, False):
        before = template.render(messages[:number], add_generation_prompt=prompt)
        if text.startswith(before):
            return len(before)
    raise BadRow("chat template", f"the chat template writes the turns before turn {number + 1} differently once it is there")


def _end_of_turn(text: str, start: int, messages: list[dict], number: int, special: tuple[str, ...]) -> int:
    """After the first special token that follows the content and comes before the next turn's content."""
    content = messages[number]["content"].strip()
    at = text.find(content, start)
    end = at + len(content) if at >= 0 else start
    limit = text.find(messages[number + 1]["content"].strip(), end) if number + 1 < len(messages) else len(text)
    found = re.compile("|".join(map(re.escape, special))).search(text, end) if special else None
    return found.end() if found and found.start() <= limit else end
