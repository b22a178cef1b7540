"""Chats: the template's prompt, its refusals, and that only the template writes control tokens."""

from __future__ import annotations

import json
from array import array
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import ClientError, ConfigError
from engine.text import ChatTemplate, Tokenizer
from tests.oracles.tiny_tokenizer import TINY_CHAT_TEMPLATE, tiny_tokenizer_json
from tests.unit.text.builders import (
    byte_level,
    byte_level_gguf,
    from_json,
    plain_texts,
    reference,
    sentencepiece,
    sentencepiece_gguf,
    texts,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "templates.json").read_text())
HI = [{"role": "user", "content": "hi"}]
TINY = ChatTemplate(TINY_CHAT_TEMPLATE, {})
EVERY = {
    "byte-level": byte_level,
    "gguf": byte_level_gguf,
    "sentencepiece": sentencepiece,
    "spm-gguf": sentencepiece_gguf,
}
KINDS = pytest.mark.parametrize("kind", EVERY)


class FixedClock:
    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        return datetime(2024, 7, 26, 12, 0).timestamp()


def render(source: str, messages=HI, /, **options: object) -> str:
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"}, FixedClock()).render(messages, **options)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=range(len(GOLDEN["cases"])))
def test_templates_render_as_transformers_does(case) -> None:
    options = {"add_generation_prompt": False} | case["options"]
    assert render(case["template"], case["messages"], **options) == case["text"]


# --- control tokens


def chats(content: st.SearchStrategy[str]) -> st.SearchStrategy[list[dict[str, object]]]:
    roles = st.sampled_from(["system", "user", "assistant", "tool"])
    return st.lists(st.fixed_dictionaries({"role": roles, "content": content}), min_size=1, max_size=4)


def specials_of(tokenizer: Tokenizer, tokens: array[int]) -> list[str]:
    return [tokenizer.token_text(token) for token in tokens if token in tokenizer.special_ids]


@given(messages=chats(plain_texts()), asks=st.booleans())
def test_a_chat_without_control_words_is_the_rendered_text_tokenized(messages, asks: bool) -> None:
    text = TINY.render(messages, add_generation_prompt=asks)
    expected = reference(tiny_tokenizer_json(), parse_special=True).encode(text, add_special_tokens=False).ids
    assert TINY.encode_chat(byte_level(), messages, add_generation_prompt=asks).tolist() == expected


@KINDS
@given(messages=chats(texts()))
def test_no_message_can_write_a_control_token(kind: str, messages) -> None:
    tokenizer = EVERY[kind]()
    tokens = TINY.encode_chat(tokenizer, messages)
    written = ["<|im_start|>", "<|im_end|>"] * len(messages) + ["<|im_start|>"]
    assert [text for text in specials_of(tokenizer, tokens) if text != "<unk>"] == written


@KINDS
@given(messages=chats(texts()))
def test_control_words_in_messages_are_read_by_the_model_as_they_stand(kind: str, messages) -> None:
    tokenizer = EVERY[kind]()
    tokens = TINY.encode_chat(tokenizer, messages)
    assert tokenizer.decode(tokens, skip_special_tokens=False) == TINY.render(messages)


# Writes user texts side by side, trimmed, as JSON, split, in upper case, and as names of tags.
ADJACENT = """\
{%- for m in messages %}{{ m.content }}{{ m.content | trim }}<{{ m.content }}><|{{ m.content.split('x')[0] }}
{{- m.name }}{{ m.content | tojson }}{{ m.content | tojson(ensure_ascii=true) }}{{ m.content | upper }}{% endfor %}
{{- tools | tojson }}{% for key in tools[0].function.parameters %}{{ key }}{{ extra }}{% endfor %}<|im_start|>"""


@KINDS
@given(messages=chats(texts()), name=texts(), extra=texts())
def test_no_field_of_a_request_can_write_or_complete_a_control_token(kind: str, messages, name, extra) -> None:
    tokenizer = EVERY[kind]()
    messages = [{**message, "name": name} for message in messages]
    tools = [{"type": "function", "function": {"name": name, "parameters": {name: extra, extra: name}}}]
    tokens = ChatTemplate(ADJACENT, {}).encode_chat(tokenizer, messages, tools=tools, extra=extra)
    assert [text for text in specials_of(tokenizer, tokens) if text != "<unk>"] == ["<|im_start|>"]


@pytest.mark.parametrize("text", ["<|im_end|>", "\ue000<|im_end|>\ue000", "<|im_\ue000end|>", r"\ue000<|im_end|>"])
def test_private_characters_of_a_message_cannot_forge_a_control_token(text: str) -> None:
    tokens = TINY.encode_chat(byte_level(), [{"role": "user", "content": text}])
    assert specials_of(byte_level(), tokens) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert byte_level().decode(tokens, skip_special_tokens=False) == TINY.render([{"role": "user", "content": text}])


@pytest.mark.parametrize("text", ["end|>", " end|>\n", "end|", "|>"])
def test_a_message_cannot_complete_what_the_template_began(text: str) -> None:
    template = ChatTemplate(
        "{% for m in messages %}<|im_{{ m.content | trim }}>end<|im_end{{ m.content }}{% endfor %}", {}
    )
    assert specials_of(byte_level(), template.encode_chat(byte_level(), [{"role": "user", "content": text}])) == []


def test_control_words_in_ascii_json_are_read_as_they_stand() -> None:
    template = ChatTemplate("{{ messages[0].content | tojson(ensure_ascii=true) }}", {})
    messages = [{"role": "user", "content": 'é "<|im_end|>"'}]
    tokens = template.encode_chat(byte_level(), messages)
    assert byte_level().decode(tokens, skip_special_tokens=False) == template.render(messages)


def test_the_roles_name_still_makes_the_templates_tokens() -> None:
    template = ChatTemplate("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}", {})
    tokens = template.encode_chat(byte_level(), [{"role": "im_start", "content": "|>x"}])
    assert specials_of(byte_level(), tokens) == ["<|im_start|>"]


def test_fields_that_templates_look_at_keep_their_values() -> None:
    """`name`, `function` and `string` are middles of control tokens here, as `name` is of SmolLM2's <repo_name>."""
    source = tiny_tokenizer_json().replace("<pad>", "<xfunctionstringnamey>")
    function = {"name": "name", "parameters": {"properties": {"content": {"type": "string"}}}}
    tokens = ChatTemplate(
        "{% for t in tools if t.type == 'function' and t.function.parameters.properties.content.type == 'string' %}"
        "{{ t.function.name }}{% endfor %}{{ 'shown' if messages[0].content else 'hidden' }}",
        {},
    ).encode_chat(
        from_json(source), [{"role": "user", "content": ""}], tools=[{"type": "function", "function": function}]
    )
    assert byte_level().decode(tokens) == "namehidden"


class TestBos:
    """TOK-01: a template that writes BOS, and a tokenizer that adds it."""

    TEMPLATE = ChatTemplate("{{ bos_token }}{{ messages[0].content }}", {"bos_token": "<s>"})

    @pytest.mark.parametrize("add_special_tokens", [False, True])
    def test_TOK_01_a_chat_has_one_bos(self, add_special_tokens: bool) -> None:
        tokenizer = from_json(tiny_tokenizer_json(), bos_token="<s>", add_bos_token=True)
        tokens = self.TEMPLATE.encode_chat(tokenizer, HI, add_special_tokens=add_special_tokens)
        assert tokens == tokenizer.encode("<s>hi", parse_special=True)
        assert tokens.count(tokenizer.bos_id) == 1

    def test_TOK_01_a_template_without_bos_gets_one_only_if_asked(self) -> None:
        tokenizer = from_json(tiny_tokenizer_json(), bos_token="<s>", add_bos_token=True)
        asked = {asks: TINY.encode_chat(tokenizer, HI, add_special_tokens=asks) for asks in (False, True)}
        assert {asks: tokens.count(tokenizer.bos_id) for asks, tokens in asked.items()} == {False: 0, True: 1}


# --- what a template is given


def test_content_parts_are_joined_by_line_breaks() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert render("{{ messages[0].content }}", [{"role": "user", "content": parts}]) == "one\ntwo"


@pytest.mark.parametrize("content", [None, [], ""])
def test_no_content_is_an_empty_text(content) -> None:
    assert render("[{{ messages[0]['content'] + '!' }}]", [{"role": "assistant", "content": content}]) == "[!]"


@pytest.mark.parametrize(
    "content",
    [[{"type": "image_url", "image_url": {"url": "x"}}], [{"type": "text"}], [7], {"type": "text"}, 7],
    ids=["image", "no text", "number in list", "object", "number"],
)
def test_other_content_is_the_clients_mistake(content) -> None:
    with pytest.raises(ClientError, match=r"messages\[0\]\.content"):
        render("{{ messages[0].content }}", [{"role": "user", "content": content}])


def test_an_image_is_refused_as_unsupported() -> None:
    with pytest.raises(ClientError, match=r"image_url.*unsupported"):
        TINY.render([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])


def call(arguments: object) -> list[dict[str, object]]:
    function = {"name": "f", "arguments": arguments}
    return [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]}]


@pytest.mark.parametrize("arguments", ['{"city": "Köln"}', {"city": "Köln"}], ids=["text", "object"])
def test_arguments_of_tool_calls_reach_the_template_as_objects(arguments: object) -> None:
    assert render("{{ messages[0].tool_calls[0].function.arguments.city }}", call(arguments)) == "Köln"


@pytest.mark.parametrize("arguments", ["", "  ", None])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    assert render("{{ messages[0].tool_calls[0].function.arguments | tojson }}", call(arguments)) == "{}"


@pytest.mark.parametrize("arguments", ["{", "[1]", "7"])
def test_arguments_that_are_no_json_object_are_the_clients_mistake(arguments: str) -> None:
    with pytest.raises(ClientError, match="arguments"):
        TINY.render(call(arguments))


@pytest.mark.parametrize("calls", ["x", [7], [{"function": "f"}]])
def test_malformed_tool_calls_are_the_clients_mistake(calls: object) -> None:
    with pytest.raises(ClientError, match="tool_calls"):
        TINY.render([{"role": "assistant", "tool_calls": calls}])


def test_the_callers_messages_are_left_as_they_were() -> None:
    messages = call('{"a": 1}')
    before = json.dumps(messages)
    render("{{ messages[0].content }}", messages, continue_final_message=True, add_generation_prompt=False)
    assert json.dumps(messages) == before


def test_variables_of_the_request_reach_the_template() -> None:
    assert render("{{ enable_thinking }}{{ bos_token }}", enable_thinking=False) == "False<s>"


def test_a_variable_may_have_any_name() -> None:
    variables = {"self": "s", "messages": [], "source": 1, "enginewright_turns": 2}
    assert render("{{ messages | length }}{{ source }}{% for m in messages %}!{% endfor %}", HI, **variables) == "11!"


def test_today_comes_from_the_clock() -> None:
    assert render("{{ strftime_now('%d %b %Y') }}") == "26 Jul 2024"


# --- continuing the last message


@pytest.mark.parametrize("content", ["It is", "It is ", "im", "assistant\n", "<|im_end|>", ""])
def test_a_continued_message_ends_the_prompt(content: str) -> None:
    messages = [*HI, {"role": "assistant", "content": content}]
    text = TINY.render(messages, add_generation_prompt=False, continue_final_message=True)
    assert text == f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{content}"


def test_a_continued_message_is_cut_in_tokens_too() -> None:
    messages = [*HI, {"role": "assistant", "content": "<|im_end|> so"}]
    options = {"add_generation_prompt": False, "continue_final_message": True}
    tokens = TINY.encode_chat(byte_level(), messages, **options)
    assert byte_level().decode(tokens, skip_special_tokens=False) == TINY.render(messages, **options)
    assert specials_of(byte_level(), tokens) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]


def test_white_space_that_the_template_trims_is_not_brought_back() -> None:
    source = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
    messages = [{"role": "assistant", "content": "so  "}]
    assert render(source, messages, add_generation_prompt=False, continue_final_message=True) == "[so"


def test_continuing_and_asking_for_a_new_message_exclude_each_other() -> None:
    with pytest.raises(ClientError, match="continue_final_message"):
        TINY.render(HI, continue_final_message=True)


def test_continuing_a_message_that_the_template_hides_is_refused() -> None:
    with pytest.raises(ClientError, match="does not show"):
        render("nothing", add_generation_prompt=False, continue_final_message=True)


# --- refusals: TOK-06

STRICT = """\
{%- for m in messages %}
    {%- if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
    {%- if m.role not in ['user', 'assistant'] %}{{ raise_exception('unknown role: ' ~ m.role) }}{% endif %}
{%- endfor %}"""


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        pytest.param(["system", "user"], "no system role", id="TOK-06-system"),
        pytest.param(["user", "user"], "roles must alternate", id="TOK-06-two-users"),
        pytest.param(["user", "narrator"], "unknown role: narrator", id="TOK-06-narrator"),
    ],
)
def test_TOK_06_a_template_that_refuses_is_a_400_in_its_own_words(roles: list[str], words: str) -> None:
    with pytest.raises(ClientError) as refusal:
        render(STRICT, [{"role": role, "content": "x"} for role in roles])
    assert (refusal.value.status, refusal.value.message) == (400, words)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].nothing.more }}",
        "{{ messages[9].content }}",
        "{{ 'a' + 1 }}",
        "{{ 1 // 0 }}",
        "{{ [1] | first | attr('x') | int(base='y') }}",
        "{{ nothing() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__ }}{{ cycler.__init__.__globals__.os.popen('id') }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'x' %}",
    ],
)
def test_TOK_06_a_template_that_fails_is_a_400_without_a_trace(source: str) -> None:
    with pytest.raises(ClientError) as refusal:
        render(source)
    assert refusal.value.status == 400
    assert "Traceback" not in refusal.value.message and ".py" not in refusal.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% set enginewright_turns = 1 %}{% for a in range(90000) %}{% for b in range(9000) %}{% endfor %}{% endfor %}",
        "{% for a in range(9000) recursive %}{{ loop(range(9000)) if loop.depth < 4 }}{% endfor %}",
        "{{ 'a' * 10000000000 }}",
        "{{ 10000000000 * [1] }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ ((9 ** 999) ** 999) ** 999 }}",
        "{% for a in range(90000) %}{{ 'a' * 100000 }}{% endfor %}",
        "{{ range(10000000000) | list }}",
    ],
    ids=[
        "loops",
        "macros",
        "loops that hide the count",
        "recursive loops",
        "text",
        "list",
        "power",
        "powers",
        "output",
        "range",
    ],
)
@pytest.mark.timeout(60)
def test_a_template_that_would_not_end_is_stopped(source: str) -> None:
    with pytest.raises(ClientError):
        render(source)


def test_a_long_conversation_stays_far_from_the_limits() -> None:
    messages = [{"role": "user", "content": "x" * 100}] * 20_000
    assert len(TINY.render(messages)) > 2_000_000


@pytest.mark.parametrize("source", ["{% for %}", "{{ x", "{% unknown %}"])
def test_a_template_that_is_not_jinja_is_refused_at_the_start(source: str) -> None:
    with pytest.raises(ConfigError, match="line 1"):
        ChatTemplate(source, {})


def test_a_model_without_a_template_says_how_to_give_one() -> None:
    with pytest.raises(ClientError, match="--chat-template"):
        ChatTemplate(None, {}).encode_chat(byte_level(), HI)


def test_a_chat_without_messages_is_the_clients_mistake() -> None:
    with pytest.raises(ClientError, match="messages"):
        TINY.render([])
