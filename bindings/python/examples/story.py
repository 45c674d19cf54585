"""A story, as it is told: `python story.py MODEL.gguf [TEXT]`. The most probable tokens are those of every machine."""

import sys

import gleed

prompt = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
with gleed.Session(sys.argv[1], context=256) as session:
    print(prompt, end="")
    for piece in session.tell(prompt):
        print(piece, end="", flush=True)
    print()
