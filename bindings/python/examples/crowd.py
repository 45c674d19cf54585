"""Two stories at the same time, in asyncio: `python crowd.py MODEL.gguf`. The event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import sys

import gleed


async def tell(model: gleed.Model, beginning: str) -> str:
    """Returns one story. It has its own memory, and shares the file."""
    text = beginning
    with gleed.Session(model, context=128) as session:
        async for piece in session.tell(beginning, tokens=40):
            text += piece
    return text


async def count(seconds: float) -> int:
    """Counts the turns of the event loop, as an example of other work."""
    turns = 0
    while True:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            return turns
        turns += 1


async def main(path: str) -> None:
    with gleed.Model(path) as model:
        counting = asyncio.create_task(count(0.001))
        stories = await asyncio.gather(tell(model, "Once upon a time"), tell(model, "One day"))
        counting.cancel()
        print(*stories, sep="\n\n")
        print(f"\nThe loop had {await counting} turns meanwhile.", file=sys.stderr)


asyncio.run(main(sys.argv[1]))
