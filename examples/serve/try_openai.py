#!/usr/bin/env python3
"""Tries the server with the `openai` package, as a program would use it: completions, chat, streams, several clients, JSON Schema, tools,
cancelling, limits.

  pip install openai
  python examples/serve/try_openai.py target/release/examples/serve      starts servers with the demo model, and ends them
"""

import asyncio
import json
import subprocess
import sys
import time

import openai

PROMPT = "Once upon a time"
STORY = ", there was a"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Berlin", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "kind": {"enum": ["dog", "cat"]}},
    "required": ["name", "kind"],
    "additionalProperties": False,
}


class Server:
    """A server of the demo model, and its address."""

    def __init__(self, program, *flags):
        self.process = subprocess.Popen([program, "--port", "0", *flags], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split(" on ")[1].strip() + "/v1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def texts(client):
    (model,) = client.models.list().data
    whole = client.completions.create(model=model.id, prompt=PROMPT, max_tokens=30, temperature=0)
    text = whole.choices[0].text
    assert text.startswith(STORY) and whole.choices[0].finish_reason == "length", whole
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (5, 30), whole.usage
    stream = client.completions.create(model=model.id, prompt=PROMPT, max_tokens=30, temperature=0, stream=True)
    pieces = [event.choices[0].text for event in stream]
    assert "".join(pieces) == text and len(pieces) > 15, pieces
    stopped = client.completions.create(model=model.id, prompt=PROMPT, max_tokens=90, temperature=0, stop=["."])
    assert stopped.choices[0].finish_reason == "stop" and "." not in stopped.choices[0].text, stopped
    seeds = [client.completions.create(model=model.id, prompt=PROMPT, max_tokens=20, temperature=1, seed=seed).choices[0].text for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2], seeds
    return text


def chats(client):
    messages = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell me of a dog."}]
    reply = client.chat.completions.create(model="x", messages=messages, max_tokens=20, temperature=0)
    text = reply.choices[0].message.content
    stream = client.chat.completions.create(
        model="x", messages=messages, max_tokens=20, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    events = list(stream)
    assert "".join(event.choices[0].delta.content or "" for event in events if event.choices) == text, events
    assert events[-1].usage.completion_tokens == 20, events[-1]
    # What was said before is not computed again.
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    more = client.chat.completions.create(model="x", messages=messages, max_tokens=5)
    assert more.usage.prompt_tokens > reply.usage.prompt_tokens, more.usage


def schemas(client):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    for seed in range(4):
        reply = client.chat.completions.create(
            model="x", messages=[{"role": "user", "content": "Who?"}], response_format=form, max_tokens=80, temperature=1.5, seed=seed
        )
        person = json.loads(reply.choices[0].message.content)
        assert set(person) == {"name", "kind"} and person["kind"] in ("dog", "cat"), person
    free = client.chat.completions.create(
        model="x", messages=[{"role": "user", "content": "Who?"}], response_format={"type": "json_object"}, max_tokens=80, temperature=1
    )
    assert isinstance(json.loads(free.choices[0].message.content), dict), free


def tools(client):
    messages = [{"role": "user", "content": "How is the weather?"}]
    asked = dict(model="x", tools=[WEATHER], tool_choice="required", temperature=1.5, seed=3, max_tokens=120)
    reply = client.chat.completions.create(messages=messages, **asked)
    (call, *_) = reply.choices[0].message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert reply.choices[0].finish_reason == "tool_calls" and call.function.name == "weather", reply
    assert arguments["city"] in ("Berlin", "Rome") and 1 <= arguments["days"] <= 3, arguments
    streamed = [event for event in client.chat.completions.create(messages=messages, stream=True, **asked) if event.choices]
    deltas = [delta for event in streamed for delta in event.choices[0].delta.tool_calls or []]
    assert json.loads("".join(delta.function.arguments or "" for delta in deltas if delta.index == 0)) == arguments, deltas
    messages += [reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    messages += [
        {"role": "tool", "tool_call_id": other.id, "content": "rain"} for other in reply.choices[0].message.tool_calls[1:]
    ]
    answer = client.chat.completions.create(model="x", messages=messages, tools=[WEATHER], tool_choice="none", max_tokens=10)
    assert answer.choices[0].message.tool_calls is None, answer


async def many(url, text):
    """Clients at the same time get what each would get alone; one that goes away makes room."""
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        ask = dict(model="x", prompt=PROMPT, temperature=0)
        replies = await asyncio.gather(*(client.completions.create(max_tokens=30, **ask) for _ in range(8)))
        assert all(reply.choices[0].text == text for reply in replies)
        stream = await client.completions.create(max_tokens=200, stream=True, **ask)
        async for _ in stream:
            break
        await stream.close()
        task = asyncio.create_task(client.completions.create(max_tokens=200, **ask))
        await asyncio.sleep(0.1)
        task.cancel()
        started = time.monotonic()
        reply = await client.completions.create(max_tokens=30, **ask)
        assert reply.choices[0].text == text
        return time.monotonic() - started


async def refused(url):
    """More requests than there is room for."""
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        ask = client.completions.create
        results = await asyncio.gather(*(ask(model="x", prompt=PROMPT, max_tokens=100) for _ in range(6)), return_exceptions=True)
        counts = [sum(isinstance(result, kind) for result in results) for kind in (openai.RateLimitError, openai.types.Completion)]
        assert counts[0] >= 1 and counts[1] >= 2 and sum(counts) == 6, results


def limits(client):
    def fails(kind, **asked):
        try:
            client.completions.create(**{"model": "x", "prompt": PROMPT, **asked})
        except kind as error:
            return str(error)
        sys.exit(f"not refused: {asked}")

    words = [
        fails(openai.BadRequestError, prompt="word " * 9000),
        fails(openai.BadRequestError, temperature=-1),
        fails(openai.BadRequestError, max_tokens=-5),
        fails(openai.BadRequestError, stop=[""]),
    ]
    try:
        client.embeddings.create(model="x", input="a")
        sys.exit("there are no embeddings")
    except openai.NotFoundError as error:
        words.append(str(error))
    return words


def main():
    program = sys.argv[1]
    with Server(program, "--sequences", "3") as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        text = texts(client)
        print("completions, streams, stop strings, seeds")
        print(f"8 clients, two that went away; the next one waited {asyncio.run(many(server.url, text)):.2f} s")
        print("refused:", *limits(client), sep="\n  ")
    with Server(program, "--sequences", "2", "--template", "hermes", "--context", "2048") as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        chats(client)
        schemas(client)
        tools(client)
        print("chat, JSON Schema, tools")
    with Server(program, "--sequences", "1", "--queue", "1") as server:
        asyncio.run(refused(server.url))
        print("more than the queue has room for: status 429")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
