#!/usr/bin/env python3
"""Renders conversations with published chat templates, as transformers does, and writes what `tests/published.rs` compares with.

    published.py FOLDER > published.json
    published.py FOLDER NAME

FOLDER has templates (*.jinja): `models/templates` of llama.cpp's sources, as the package llama_cpp_python 0.3.36 has them. The
templates belong to the makers of the models, so that hashes of them and of what they write are kept here, and no more. With
the name of a template, its texts are printed. Needs transformers; made with 5.23.0.
"""

import datetime
import json
import pathlib
import sys

import jinja2.sandbox

from transformers.utils import chat_template_utils

TOOLS = [
    {"type": "function", "function": {"name": "roll", "description": "Rolls dice.", "parameters": {
        "type": "object",
        "properties": {"sides": {"type": "integer", "description": "How many sides"},
                       "how": {"type": "string", "description": "How", "enum": ["loud", "it's"]}},
        "required": ["sides"]}}},
    {"type": "function", "function": {"name": "now", "description": "The \"time\" \u00fc", "parameters": {
        "type": "object", "properties": {}}}},
]
ARGUMENTS = {"sides": 6, "how": "it's"}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id, text):
    return {"role": "tool", "tool_call_id": id, "content": text}


S = {"role": "system", "content": "Be brief."}
U = {"role": "user", "content": "Who are you?"}
A = {"role": "assistant", "content": "A model."}
V = {"role": "user", "content": "And who am I?"}
T = {"role": "assistant", "content": "<think>\nHm, who?\n</think>\n\nA model."}
R = {"role": "assistant", "content": "A model.", "reasoning_content": "Hm, who?"}
C = {"role": "assistant", "content": "", "tool_calls": [call("roll", ARGUMENTS)]}
CC = {"role": "assistant", "content": "I roll.", "tool_calls": [call("roll", ARGUMENTS), call("now", {}, "call00002")]}
D = result("call00001", "4")
E = result("call00002", "{\"hour\": 1}")

CONVERSATIONS = {
    "user": ([U], True, {}),
    "system": ([S, U], True, {}),
    "turns": ([S, U, A, V], True, {}),
    "no system": ([U, A, V, A, U], True, {}),
    "thought": ([S, U, T, V], True, {}),
    "reasoning": ([S, U, R, V], True, {}),
    "thinking": ([S, U], True, {"enable_thinking": True, "thinking": True}),
    "not thinking": ([S, U], True, {"enable_thinking": False, "thinking": False}),
    "end": ([U, A], False, {}),
    "tools": ([S, U], True, {"tools": TOOLS}),
    "tools, no system": ([U], True, {"tools": TOOLS}),
    "result": ([S, U, C, D], True, {"tools": TOOLS}),
    "results": ([S, U, CC, D, E], True, {"tools": TOOLS}),
    "after": ([S, U, C, D, A, V], True, {"tools": TOOLS}),
}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 9, 7, 5)


def fnv(text):
    """FNV-1a, 64 bits."""
    hash = 0xCBF29CE484222325
    for byte in text.encode():
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    return f"{hash:016x}"


def variables(messages, reply, more):
    return {"messages": messages, "tools": None, "documents": None, **more, "add_generation_prompt": reply}


def texts(source):
    compiled = chat_template_utils._compile_jinja_template(source)
    for title, conversation in CONVERSATIONS.items():
        try:
            yield title, compiled.render(**variables(*conversation), bos_token="<s>", eos_token="</s>")
        except Exception as error:
            yield title, error


def main():
    chat_template_utils.datetime = Clock
    # Lists can be appended to, as the templates of Kimi K2 do; transformers refuses that.
    chat_template_utils.ImmutableSandboxedEnvironment = jinja2.sandbox.SandboxedEnvironment
    folder = pathlib.Path(sys.argv[1])
    if sys.argv[2:]:
        for title, text in texts((folder / f"{sys.argv[2]}.jinja").read_text()):
            print(f"=== {title}\n{text if isinstance(text, str) else repr(text)}")
        return
    conversations = {title: json.dumps(variables(*given), ensure_ascii=False) for title, given in CONVERSATIONS.items()}
    templates = {}
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text()
        hashes = [fnv(text) if isinstance(text, str) else None for _, text in texts(source)]
        templates[path.stem] = {"source": fnv(source), "texts": hashes}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in templates.items())
    print(f'{{"conversations": {json.dumps(conversations, ensure_ascii=False)},\n"templates": {{\n{lines}}}}}')


main()
