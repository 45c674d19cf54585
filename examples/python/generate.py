#!/usr/bin/env python3
"""Continues a text with Gleed's C library and only Python's standard library. Any foreign function interface can do the same.

    python3 generate.py model.gguf --library libgleed.so --prompt "Once upon a time" --snapshot-test
    python3 generate.py model.gguf --library libgleed.so --chat
"""

import argparse
import ctypes
import ctypes.util
import mmap
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p

OK = 0
ENCODE_ADD_SPECIAL, DECODE_CONTINUES = 1, 2
NO_TURNS, AFTER_NOTHING, ROLE_USER, AFTER_REPLY, TURNS_ADD_BOS, TURNS_REPLY = 2**32 - 1, 0, 2, 4, 1, 2


# ---- gleed.h --------------------------------------------------------------------------------------------


class Struct(ctypes.Structure):
    """A struct that begins with its own size. Fields that are not given are 0."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Error(Struct):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("at", c_uint64), ("needed", c_uint64),
                ("given", c_uint64), ("text", c_char * 96)]


class Config(Struct):
    _fields_ = [(name, c_uint32) for name in (
        "struct_size", "sequences", "context", "rows", "kv_kind", "kv_type", "kv_blocks", "logit_rows", "window_sinks",
        "window_last", "prefix_cache", "workers", "level")]


class SamplerParams(Struct):
    _fields_ = [("struct_size", c_uint32), ("top_k", c_uint32), ("temperature", c_float), ("top_p", c_float),
                ("min_p", c_float), ("repetition_penalty", c_float), ("frequency_penalty", c_float),
                ("presence_penalty", c_float), ("penalty_window", c_uint32), ("reserved", c_uint32), ("seed", c_uint64)]


class VocabInfo(Struct):
    _fields_ = [(name, c_uint32) for name in (
        "struct_size", "tokens", "bos", "eos", "eot", "eom", "unknown", "max_text", "adds_bos", "adds_eos")]


class SnapshotOptions(Struct):
    _fields_ = [("struct_size", c_uint32), ("base", c_uint32), ("state", c_void_p), ("state_len", c_size_t)]


class SnapshotInfo(Struct):
    _fields_ = [("struct_size", c_uint32), ("tokens", c_uint32), ("base", c_uint32), ("state_len", c_uint32),
                ("bytes", c_uint64), ("fingerprint", c_uint64), ("state", c_uint8 * 256)]


class Message(ctypes.Structure):
    _fields_ = [("role", c_uint32), ("reserved", c_uint32), ("text", c_char_p), ("text_len", c_size_t)]


P, SIZE, U32, U64 = c_void_p, c_size_t, c_uint32, c_uint64
FUNCTIONS = {
    "model_size": (POINTER(SIZE), POINTER(SIZE)),
    "model_open": (P, SIZE, P, SIZE, POINTER(P)),
    "model_string": (P, c_char_p, SIZE, POINTER(P), POINTER(SIZE)),
    "plan": (P, POINTER(Config), POINTER(SIZE), POINTER(SIZE)),
    "engine_init": (P, POINTER(Config), P, SIZE, POINTER(P)),
    "seq_open": (P, POINTER(U32)),
    "prefill": (P, U32, POINTER(U32), SIZE, POINTER(POINTER(c_float)), POINTER(SIZE)),
    "can_extend": (P, U32, SIZE),
    "snapshot_size": (P, U32, POINTER(SnapshotOptions), POINTER(SIZE)),
    "snapshot": (P, U32, POINTER(SnapshotOptions), P, SIZE, POINTER(SIZE)),
    "snapshot_describe": (P, SIZE, POINTER(SnapshotInfo)),
    "restore": (P, POINTER(U32), P, SIZE, POINTER(U32)),
    "sampler_size": (POINTER(SIZE), POINTER(SIZE)),
    "sampler_init": (POINTER(SamplerParams), P, SIZE, POINTER(P)),
    "sampler_state": (P, POINTER(U64)),
    "sampler_set_state": (P, U64),
    "sample": (P, POINTER(c_float), SIZE, POINTER(U64), SIZE, POINTER(U32), POINTER(c_float)),
    "tokenizer_size": (P, POINTER(SIZE), POINTER(SIZE)),
    "tokenizer_init": (P, P, SIZE, POINTER(P)),
    "tokenizer_describe": (P, POINTER(VocabInfo)),
    "token_kind": (P, U32, POINTER(U32), POINTER(U32)),
    "encode": (P, c_char_p, SIZE, U32, POINTER(U32), SIZE, POINTER(U32), SIZE, POINTER(SIZE)),
    "turns_find": (P, P, POINTER(U32)),
    "turns_encode": (P, U32, U32, POINTER(Message), SIZE, U32, POINTER(U32), SIZE, POINTER(U32), SIZE, POINTER(SIZE)),
    "turns_is_stop": (P, U32, U32, POINTER(U32)),
    "detokenizer_size": (POINTER(SIZE), POINTER(SIZE)),
    "detokenizer_init": (P, U32, P, SIZE, POINTER(P)),
    "detokenize": (P, P, U32, P, SIZE, POINTER(SIZE)),
    "detokenizer_finish": (P, P, SIZE, POINTER(SIZE)),
}


class GleedError(Exception):
    """A call was refused, and has changed nothing."""


class Library:
    """The functions of gleed.h without their prefix and without the error struct. A status other than GLEED_OK raises an error."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._library.gleed_status_text.restype = c_char_p
        if self._library.gleed_abi_version() != 1:
            raise GleedError(f"{path} has another version of the interface")
        for name, types in FUNCTIONS.items():
            getattr(self._library, "gleed_" + name).argtypes = (*types, POINTER(Error))

    def __getattr__(self, name):
        function = getattr(self._library, "gleed_" + name)

        def call(*arguments):
            error = Error()
            status = function(*arguments, byref(error))
            if status != OK:
                raise GleedError((error.text or self._library.gleed_status_text(status)).decode())

        return call


class Object:
    """An object and its memory: `size` returns how much memory it needs, and `start` makes the object in it."""

    def __init__(self, size, start, *arguments, of=()):
        bytes_, align, self.handle = SIZE(), SIZE(), P()
        size(*of, byref(bytes_), byref(align))
        self._memory = ctypes.create_string_buffer(bytes_.value + align.value)
        at = -(-ctypes.addressof(self._memory) // align.value) * align.value
        start(*of, *arguments, at, bytes_.value, byref(self.handle))


# ---- A text ---------------------------------------------------------------------------------------------


class Writer:
    """An engine with one sequence in use, and the objects that turn text into tokens and back."""

    def __init__(self, gleed, file, context, params):
        self.gleed = gleed
        address = ctypes.addressof(file)
        self.model = Object(gleed.model_size, lambda *rest: gleed.model_open(address, len(file), *rest))
        self.tokenizer = Object(gleed.tokenizer_size, gleed.tokenizer_init, of=(self.model.handle,))
        self.vocab = VocabInfo()
        gleed.tokenizer_describe(self.tokenizer.handle, byref(self.vocab))
        self.engine = Object(gleed.plan, gleed.engine_init, of=(self.model.handle, byref(Config(sequences=2, context=context))))
        self.sampler = Object(gleed.sampler_size, lambda *rest: gleed.sampler_init(byref(params), *rest))
        self.scratch = (U64 * 0)()
        # Tokens of the text that the sequence does not have yet, and whether the last of them ended the text.
        self.pending, self.ended = [], False
        self.format = U32(NO_TURNS)
        self.seq = U32()
        gleed.seq_open(self.engine.handle, byref(self.seq))

    def encode(self, text):
        text = text.encode()
        scratch, ids, count = (U32 * 2000)(), (U32 * (len(text) + 2))(), SIZE()
        self.gleed.encode(self.tokenizer.handle, text, len(text), ENCODE_ADD_SPECIAL, scratch, 2000, ids, len(ids),
                          byref(count))
        return ids[: count.value]

    def turn(self, text, after, flags):
        """Appends a user's turn, and the frame that opens the model's turn. The token that ended a reply is not part of it."""
        text = text.encode()
        message, count = Message(role=ROLE_USER, text=text, text_len=len(text)), SIZE()
        scratch, ids = (U32 * (4000 + 12 * len(text)))(), (U32 * (1000 + len(text)))()
        self.gleed.turns_encode(self.tokenizer.handle, self.format, after, byref(message), 1, flags, scratch,
                                len(scratch), ids, len(ids), byref(count))
        self.pending = ([] if self.ended else self.pending) + ids[: count.value]
        self.gleed.can_extend(self.engine.handle, self.seq, len(self.pending) + 1)

    def tokens(self, most):
        """Chooses tokens until one ends the text."""
        for _ in range(most):
            ids, logits, logits_len = (U32 * len(self.pending))(*self.pending), POINTER(c_float)(), SIZE()
            self.gleed.prefill(self.engine.handle, self.seq, ids, len(ids), byref(logits), byref(logits_len))
            if len(self.scratch) < logits_len.value:
                self.scratch = (U64 * logits_len.value)()
            token, kind, ends = U32(), U32(), U32()
            self.gleed.sample(self.sampler.handle, logits, logits_len, self.scratch, len(self.scratch), byref(token), None)
            if self.format.value == NO_TURNS:
                self.gleed.token_kind(self.tokenizer.handle, token, byref(kind), byref(ends))
            else:
                self.gleed.turns_is_stop(self.tokenizer.handle, self.format, token, byref(ends))
            self.pending, self.ended = [token.value], ends.value != 0
            if self.ended:
                return
            yield token.value

    def text(self, tokens):
        """Yields the text of tokens, piece by piece."""
        stream = Object(self.gleed.detokenizer_size, lambda *rest: self.gleed.detokenizer_init(
            self.tokenizer.handle, DECODE_CONTINUES, *rest))
        buffer, written = ctypes.create_string_buffer(max(self.vocab.max_text, 3)), SIZE()
        for token in tokens:
            self.gleed.detokenize(stream.handle, self.tokenizer.handle, token, buffer, len(buffer), byref(written))
            yield buffer.raw[: written.value].decode()
        self.gleed.detokenizer_finish(stream.handle, buffer, len(buffer), byref(written))
        yield buffer.raw[: written.value].decode()

    def save(self):
        """Returns the sequence and the sampler's state as bytes."""
        state, size = U64(), SIZE()
        self.gleed.sampler_state(self.sampler.handle, byref(state))
        options = SnapshotOptions(state=ctypes.addressof(state), state_len=8)
        self.gleed.snapshot_size(self.engine.handle, self.seq, byref(options), byref(size))
        snapshot = ctypes.create_string_buffer(size.value)
        self.gleed.snapshot(self.engine.handle, self.seq, byref(options), snapshot, len(snapshot), byref(size))
        return snapshot.raw

    def load(self, snapshot, pending):
        """Loads the bytes of `save`."""
        info = SnapshotInfo()
        self.gleed.snapshot_describe(snapshot, len(snapshot), byref(info))
        self.gleed.restore(self.engine.handle, None, snapshot, len(snapshot), byref(self.seq))
        self.gleed.sampler_set_state(self.sampler.handle, int.from_bytes(bytes(info.state[:8]), sys.byteorder))
        self.pending = pending


def generate(args):
    gleed = Library(args.library)
    with open(args.model, "rb") as file:
        # A private mapping, because Python gives no address of read-only bytes. Nothing writes to it.
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    model = (c_uint8 * len(mapped)).from_buffer(mapped)
    params = SamplerParams(temperature=args.temperature, min_p=args.min_p, seed=args.seed)
    writer = Writer(gleed, model, args.context, params)
    if args.chat:
        return chat(writer, args.tokens)
    writer.pending = writer.encode(args.prompt)
    room = len(writer.pending) + args.tokens * (2 if args.snapshot_test else 1)
    gleed.can_extend(writer.engine.handle, writer.seq, room)
    print(args.prompt, end="")
    for piece in writer.text(writer.tokens(args.tokens)):
        print(piece, end="", flush=True)
    print()
    return snapshot_test(writer, Writer(gleed, model, args.context, params), args.tokens) if args.snapshot_test else 0


def chat(writer, tokens):
    """Reads turns from the lines of the input, in the turn format of the model's file."""
    writer.gleed.turns_find(writer.model.handle, writer.tokenizer.handle, byref(writer.format))
    if writer.format.value == NO_TURNS:
        raise GleedError("the model's file does not say how turns are written, or in a way that is not known")
    after, flags = AFTER_NOTHING, TURNS_REPLY
    try:
        writer.gleed.model_string(writer.model.handle, b"tokenizer.chat_template", 23, byref(P()), byref(SIZE()))
    except GleedError:  # no template that writes it
        flags |= TURNS_ADD_BOS
    for line in sys.stdin:
        writer.turn(line.rstrip("\n"), after, flags)
        for piece in writer.text(writer.tokens(tokens)):
            print(piece, end="", flush=True)
        print()
        after = AFTER_REPLY
    return 0


def snapshot_test(writer, other, tokens):
    """Checks that another engine goes on with the same text as the saved engine."""
    snapshot = writer.save()
    other.load(snapshot, writer.pending)
    expected, got = ("".join(one.text(one.tokens(tokens))) for one in (writer, other))
    print(f"goes on: {expected}\nrestored from {len(snapshot)} bytes: {got}")
    print("the same text" if got == expected else "ANOTHER TEXT")
    return 0 if got == expected else 1


def main():
    parser = argparse.ArgumentParser(description="Continues a text.")
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--library", default=os.environ.get("GLEED_LIBRARY") or ctypes.util.find_library("gleed") or "libgleed.so",
                        help="the shared library [default: GLEED_LIBRARY, or the installed one]")
    parser.add_argument("--prompt", default="Once upon a time", help="the text to continue")
    parser.add_argument("--chat", action="store_true", help="a conversation instead: each line of the input is a turn")
    parser.add_argument("--tokens", type=int, default=40, help="the most tokens to generate [default: 40]")
    parser.add_argument("--context", type=int, default=256, help="tokens that there is room for [default: 256]")
    parser.add_argument("--temperature", type=float, default=0, help="0 takes the most probable token each time [default: 0]")
    parser.add_argument("--min-p", type=float, default=0, help="draw from tokens at least so many times as probable as the first")
    parser.add_argument("--seed", type=int, default=0, help="starts the random numbers [default: 0]")
    parser.add_argument("--snapshot-test", action="store_true", help="then restore the prompt in another engine, and compare")
    args = parser.parse_args()
    if args.tokens < 1 or args.context < 1 or not 0 <= args.seed < 2**64:
        parser.error("--tokens and --context are at least 1, --seed from 0 to 2^64 - 1")
    try:
        return generate(args)
    except (GleedError, OSError, ValueError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
