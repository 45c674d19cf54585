"""Prints a story while it is generated: `python story.py MODEL.gguf [TEXT]`. The tokens are the same on every machine."""

import sys

import gleed

prompt = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
with gleed.Session(sys.argv[1], context=256) as session:
    print(prompt, end="")
    for piece in session.tell(prompt):
        print(piece, end="", flush=True)
    print()
