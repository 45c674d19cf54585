"""Tests of tools, adapters, pinned prefixes, and texts under a grammar together with their sequence."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import gleed
import numpy as np
import pytest
from conftest import PROMPT

TOOLS = [
    {
        "name": "dice",
        "description": "Throws dice.",
        "parameters": {"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2, "maximum": 20}}, "required": ["sides"]},
    }
]


def adapter_file(path: Path, rank: int) -> Path:
    """Writes a LoRA adapter of random numbers for one matrix of the demo model."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(rank, 256)).astype("<f4"), rng.normal(size=(256, rank)).astype("<f4")
    strings = {"general.type": "adapter", "adapter.type": "lora", "general.architecture": "llama"}
    data = b"GGUF" + struct.pack("<IQQ", 3, 2, len(strings) + 1)
    for key, value in strings.items():
        data += text(key) + struct.pack("<I", 8) + text(value)
    data += text("adapter.lora.alpha") + struct.pack("<If", 6, 16.0)
    for name, cols, rows, at in ("lora_a", 256, rank, 0), ("lora_b", rank, 256, a.nbytes):
        data += text(f"blk.0.attn_q.weight.{name}") + struct.pack("<IQQIQ", 2, cols, rows, 0, at)
    path.write_bytes(data + bytes(-len(data) % 32) + a.tobytes() + b.tobytes())
    return path


def test_an_adapter_has_a_scale_for_each_sequence(model: gleed.Model, tmp_path: Path) -> None:
    adapter = gleed.Adapter(model, adapter_file(tmp_path / "style.gguf", 8))
    assert adapter.rank == 8
    prompt = model.encode(PROMPT)
    with model.engine(context=64, sequences=3, adapters=1, adapter_rank=8) as engine:
        number = engine.load_adapter(adapter)
        # The engine keeps the adapter that it needs.
        adapter.close()
        plain, styled = engine.open(), engine.open()
        styled.set_adapter(number, 0.5)
        assert (number, plain.adapter(number), styled.adapter(number), styled.fork().adapter(number)) == (0, 0.0, 0.5, 0.5)
        before = plain.prefill(prompt, copy=True)
        with model.engine(context=64) as alone:
            assert before.tobytes() == alone.open().prefill(prompt).tobytes()
        assert np.abs(styled.prefill(prompt) - before).max() > 0.01
        styled.reset()
        styled.set_adapter(number, 0)
        assert styled.prefill(prompt).tobytes() == before.tobytes()
        with pytest.raises(gleed.GleedError) as error:
            plain.set_adapter(1)
        assert (error.value.needed, error.value.given) == (1, 1)
    with model.engine(context=64, adapters=1, adapter_rank=4) as engine, pytest.raises(gleed.GleedError) as error:
        engine.load_adapter(gleed.Adapter(model, tmp_path / "style.gguf"))
    assert (error.value.needed, error.value.given) == (8, 4)
    with pytest.raises(gleed.ModelError):
        gleed.Adapter(model, model.path)


def test_a_pinned_prefix_stays(model: gleed.Model) -> None:
    system = list(range(100, 140))
    with model.engine(context=64, sequences=2, blocks=8, prefix_cache=True) as engine:
        with engine.open() as sequence:
            sequence.prefill(system)
        assert engine.pin(system) == 32 and engine.info.blocks_pinned == 2
        # Other sequences take all blocks that are left.
        for first in (300, 500):
            with engine.open() as other:
                other.prefill(list(range(first, first + 64)))
        with engine.open() as sequence:
            assert sequence.reuse(system) == 32 and len(sequence) == 32
        assert engine.unpin(system[:32]) == 32 and engine.info.blocks_pinned == 0


def test_a_forced_call_is_right_and_is_read(model: gleed.Model) -> None:
    turns = gleed.Turns(model, "hermes")
    grammar = gleed.Grammar.tools(TOOLS, turns, choice="required", parallel=False)
    for seed in range(3):
        with model.engine(context=200) as engine:
            matcher, sampler = gleed.Matcher(grammar, model), gleed.Sampler(temperature=1.5, seed=seed)
            sequence, ids = engine.open(), model.encode(PROMPT)
            calls, detokenizer, parts = gleed.Calls(turns, TOOLS), gleed.Detokenizer(model.tokenizer, special=True, continues=True), []
            left = 120
            while not matcher.is_end:
                assert not matcher.is_free
                token = sampler.sample(sequence.prefill(ids), matcher.mask(within=left, ends=False))
                assert matcher.accept(token)
                left -= 1
                ids = [token]
                parts += calls.push(detokenizer.push(token))
            parts += calls.push(detokenizer.finish()) + calls.finish()
        (part,) = [part for part in parts if part.kind != "text" or part.text.strip()]
        assert part.kind == "call" and part.call and part.wrong is None
        assert part.call.name == "dice" and 2 <= part.call.arguments["sides"] <= 20
    assert gleed.Matcher(gleed.Grammar.tools(TOOLS, turns), model).is_free


def test_what_is_wrong_with_a_call_is_said(model: gleed.Model) -> None:
    turns = gleed.Turns(model, "hermes")

    def read(reply: str, size: int = 1) -> list[tuple[str, str | None]]:
        calls = gleed.Calls(turns, TOOLS)
        parts = [part for at in range(0, len(reply), size) for part in calls.push(reply[at : at + size])] + calls.finish()
        assert "".join(part.text for part in parts if part.kind == "text") in reply
        return [(part.kind, part.wrong) for part in parts if part.kind != "text"]

    def call(value: object) -> str:
        return f"Ä: <tool_call>\n{json.dumps(value)}\n</tool_call>"

    assert read(call({"name": "dice", "arguments": {"sides": 6}})) == [("call", None)]
    assert read(call({"name": "cards", "arguments": {}}), 5) == [("wrong", "unknown tool")]
    assert read(call({"name": "dice", "arguments": {}}), 99) == [("call", "missing argument")]
    assert read(call({"name": "dice", "arguments": {"sides": "x" * 3000}}), 999) == [("call", "wrong type")]
    assert read('<tool_call>\n{"name": "di') == [("wrong", "incomplete")]
    with pytest.raises(ValueError, match="calls tools"):
        gleed.Calls(gleed.Turns(model, "vicuna"), TOOLS)
    with pytest.raises(gleed.GleedError):
        gleed.Calls(turns, '[{"name": 7}]')


def test_a_conversation_offers_tools_and_takes_their_results(model: gleed.Model) -> None:
    with model.engine(context=1200, sequences=3) as engine:
        turns = gleed.Turns(model, "hermes")
        talk = gleed.Conversation(engine, turns, tools=TOOLS)
        messages: list[tuple[str, str] | gleed.ToolResult] = [("user", "Throw a die.")]
        new = talk.update(messages)
        prompt = model.decode(new.tokens, special=True)
        assert "Throws dice." in prompt and "Throw a die." in prompt
        talk.sequence.prefill(new.tokens)
        messages += [
            ("assistant", '<tool_call>\n{"name": "dice", "arguments": {"sides": 6}}\n</tool_call>'),
            gleed.ToolResult("four", "dice", "7"),
        ]
        new = talk.update(messages)
        assert new.position > 0 and "four" in model.decode(new.tokens, special=True)
        talk.sequence.prefill(new.tokens)
        loaded, again = talk.load(talk.save(messages))
        assert again == messages and len(loaded.sequence) == len(talk.sequence)
        plain = gleed.Conversation(engine, turns)
        assert "Throws dice." not in model.decode(plain.update(messages[:1]).tokens, special=True)
        plain.close()
        with pytest.raises(gleed.GleedError):
            gleed.Conversation(engine, turns, tools="[7]").update(messages[:1])


def test_a_writing_stays_with_its_sequence(model: gleed.Model) -> None:
    grammar = gleed.Grammar('root ::= "a big dog" | "a big cat"', "gbnf")
    with model.engine(context=64, sequences=3) as engine:
        sequence = engine.open()
        prompt = model.encode(PROMPT)
        sequence.prefill(prompt)
        writing = gleed.Writing(sequence, grammar, model)
        assert writing.info == gleed.WritingInfo(len(prompt), len(prompt), False, 9)
        forced = writing.forced_tokens()
        assert forced and all(writing.accept(token) for token in forced)
        logits = sequence.prefill(forced, copy=True)
        other, chosen = writing.fork(), list[int]()
        while not writing.info.is_end:
            token = gleed.Sampler().sample(logits, writing.mask())
            assert writing.accept(token)
            logits = sequence.decode_step(token, copy=True)
            chosen.append(token)
        assert model.decode(forced + chosen, continues=True).strip() in ("a big dog", "a big cat")
        # The text of a restored sequence goes on, and a rewind takes the text back with the sequence.
        restored = engine.restore(sequence.snapshot(state=writing.state()))
        state = gleed.describe_snapshot(sequence.snapshot(state=writing.state())).state
        assert gleed.Writing(restored, grammar, model, state=state).info == writing.info
        assert other.info.end == len(prompt) + len(forced) and other.sequence.handle != sequence.handle
        writing.rewind(len(prompt) + 1)
        assert (len(sequence), writing.info.end) == (len(prompt) + 1, len(prompt) + 1)
        sequence.rewind(len(prompt))
        writing.follow()
        assert writing.info.bytes_to_end == 9 and writing.forced_tokens() == forced
        with pytest.raises(gleed.SnapshotError):
            gleed.Writing(restored, gleed.Grammar("[a-z]*", "regex"), model, state=state)


def test_a_grammar_in_units_is_the_same_grammar(model: gleed.Model) -> None:
    schema = {"type": "object", "properties": {f"m{i}": {"type": "string", "pattern": "^[a-z]{2,9}$"} for i in range(9)}}
    build = gleed.GrammarBuild(schema, whitespace="compact")
    with pytest.raises(gleed.GleedError, match="not finished"):
        build.finish()
    steps = 1
    while not build.step(1):
        steps += 1
    grammar = build.finish()
    assert steps > 3 and build.closed and grammar.closes
    whole = gleed.Grammar(schema, whitespace="compact")
    assert len(grammar._use().memory) == len(whole._use().memory)
    # A matcher accepts the state of another matcher only if the grammar is the same.
    one, other = gleed.Matcher(grammar, model), gleed.Matcher(whole, model)
    assert one.accept_text('{"m3":"ab') == 9
    other.restore(one.snapshot())
    assert other.accept_text('c"}') == 3 and other.is_end
    wrong = gleed.GrammarBuild('{"type": "nonsense"}')
    for _ in range(2):
        with pytest.raises(gleed.GrammarError):
            wrong.step(0)
    quick = gleed.GrammarBuild("[0-9]+", "regex", close=False)
    assert quick.step(0)
    assert gleed.Matcher(quick.finish(), model).accept_text("12x") == 2
