"""Tests of engines and sequences: equal logits in every way, views, snapshots, and closed objects."""

from __future__ import annotations

import gc
import threading

import gleed
import numpy as np
import pytest
from conftest import NATIVE, PROMPT


def test_sequences_compute_the_same_bits_on_every_way(model: gleed.Model) -> None:
    ids = model.encode(PROMPT) + NATIVE[:20]
    with model.engine(context=64, sequences=4, logit_rows=4) as engine:
        whole = engine.open()
        expected = whole.prefill(ids, copy=True)
        assert expected.dtype == np.float32 and expected.shape == (model.info.vocab,)
        assert gleed.argmax(expected) == NATIVE[20]
        steps = engine.open()
        for token in ids:
            logits = steps.decode_step(token)
        assert logits.tobytes() == expected.tobytes()
        assert steps.tokens == ids and len(steps) == len(ids) and bool(steps)
        fork = whole.fork(10)
        assert fork.prefill(np.array(ids[10:])).tobytes() == expected.tobytes()
        steps.rewind(5)
        assert steps.prefill(ids[5:]).tobytes() == expected.tobytes()
        steps.reset()
        steps.queue(ids)
        statuses = set()
        while (status := engine.step(engine.units_per_token)) is not gleed.Step.READY:
            statuses.add(status)
        assert statuses == {gleed.Step.YIELDED}
        assert engine.result().values.tobytes() == expected.tobytes()
        assert engine.result().sequence == steps.handle and engine.result().position == len(ids) - 1
        assert steps.logits().tobytes() == expected.tobytes()
        probs = fork_of(engine, fork).log_probs(ids)
        assert probs.shape == (len(ids) - 1,) and (probs < 0).all()


def fork_of(engine: gleed.Engine, sequence: gleed.Sequence) -> gleed.Sequence:
    sequence.close()
    return engine.open()


def test_hidden_states_are_what_embeddings_are_made_of(model: gleed.Model) -> None:
    ids = model.encode(PROMPT)
    with model.engine(context=64, sequences=2, logit_rows=16) as engine:
        sequence = engine.open()
        sequence.queue(ids, want="hidden")
        assert engine.step() is gleed.Step.READY
        rows = [engine.hidden(row, copy=True) for row in range(len(ids))]
        assert [row.position for row in rows] == list(range(len(ids)))
        with pytest.raises(gleed.SequenceError):
            engine.hidden(len(ids))
        last = engine.open().embed(ids, pooling="last")
        assert rows[-1].values.tobytes() == last.tobytes()
        sequence.close()
        assert engine.embed([ids, ids[:2]], pooling="last")[0].tobytes() == last.tobytes()


def test_a_step_is_stopped(model: gleed.Model) -> None:
    with model.engine(context=64) as engine:
        sequence = engine.open()
        sequence.queue(model.encode(PROMPT))
        engine.stop()
        assert engine.step() is gleed.Step.STOPPED
        assert engine.info.is_busy == 1
        assert engine.step() is gleed.Step.READY
        assert engine.step() is gleed.Step.DONE
        sequence.queue([1])
        sequence.cancel()
        assert engine.info.is_busy == 0


def test_logits_are_a_view_that_outlives_everything(model: gleed.Model) -> None:
    engine = model.engine(context=64)
    sequence = engine.open()
    view = sequence.prefill(model.encode(PROMPT))
    kept = view.copy()
    assert not view.flags.writeable and not view.flags.owndata
    assert sequence.decode_step(NATIVE[0]).tobytes() != kept.tobytes()
    again = sequence.logits()
    kept = again.copy()
    engine.close()
    model.close()
    del engine, sequence
    gc.collect()
    assert again.tobytes() == kept.tobytes()


def test_snapshots_go_to_a_file_and_back(model: gleed.Model, tmp_path) -> None:
    ids = model.encode(PROMPT) + NATIVE[:30]
    with model.engine(context=64, sequences=3) as engine, model.engine(context=128) as other:
        sequence = engine.open()
        expected = sequence.prefill(ids, copy=True)
        (tmp_path / "snapshot").write_bytes(sequence.snapshot(state=b"state"))
        data = (tmp_path / "snapshot").read_bytes()
        info = gleed.describe_snapshot(data)
        assert (info.tokens, info.base, info.state, info.size) == (len(ids), 0, b"state", len(data))
        assert info.fingerprint == model.info.fingerprint
        restored = other.restore(data)
        assert restored.tokens == ids
        restored.rewind(len(ids) - 1)
        assert restored.decode_step(ids[-1]).tobytes() == expected.tobytes()
        delta = sequence.snapshot(base=16)
        assert len(delta) < len(data)
        assert engine.restore(delta, sequence.fork(16)).tokens == ids
        with pytest.raises(gleed.FullError):
            other.restore(data)
        restored.close()
        with pytest.raises(gleed.SnapshotError) as error:
            other.restore(data[:-1])
        assert error.value.name == "GLEED_E_SNAPSHOT_TRUNCATED"
        assert (error.value.needed, error.value.given) == (len(data), len(data) - 1)
        assert other.info.sequences == 0


def test_what_is_closed_raises(model: gleed.Model) -> None:
    engine = model.engine(context=64, sequences=2)
    sequence, other = engine.open(), engine.open()
    sequence.close()
    sequence.close()
    for use in (sequence.reset, lambda: sequence.prefill([1]), sequence.snapshot, sequence.fork, lambda: len(sequence)):
        with pytest.raises(gleed.ClosedError):
            use()
    model.close()
    assert other.prefill([1]).size == 1024  # The engine keeps the file.
    engine.close()
    engine.close()
    assert engine.closed and other.closed and model.closed
    for use in (engine.open, engine.step, engine.stop, other.reset, lambda: other.prefill([1]), lambda: engine.info):
        with pytest.raises(gleed.ClosedError):
            use()
    for use in (model.engine, lambda: model.encode("a"), lambda: model.info, lambda: model.string("a")):
        with pytest.raises(gleed.ClosedError):
            use()
    other.close()


def test_sequences_that_nobody_has_are_closed(model: gleed.Model) -> None:
    with model.engine(context=64, sequences=2) as engine:
        for _ in range(5):
            engine.open().queue([1, 2])
        gc.collect()
        assert engine.info.sequences == 0


def test_threads_wait_for_each_other(model: gleed.Model) -> None:
    ids = model.encode(PROMPT)
    with model.engine(context=64, sequences=4) as engine:
        expected = engine.open().prefill(ids, copy=True).tobytes()
        sequences = [engine.open() for _ in range(4)]
        failed: list[str] = []

        def work(sequence: gleed.Sequence) -> None:
            for _ in range(20):
                sequence.reset()
                if sequence.prefill(ids, copy=True).tobytes() != expected:
                    failed.append("other logits")

        threads = [threading.Thread(target=work, args=(sequence,)) for sequence in sequences]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []


def test_an_engine_is_closed_while_another_thread_computes(model: gleed.Model) -> None:
    for _ in range(10):
        engine = model.engine(context=512, threads=2)
        sequence, begun, ended = engine.open(), threading.Event(), []

        def work() -> None:
            try:
                while True:
                    sequence.reset()
                    begun.set()
                    sequence.prefill([1, 414, 435, 261, 385] * 20)
            except gleed.ClosedError as error:
                ended.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        engine.close()
        thread.join()
        assert len(ended) == 1


def test_other_threads_run_while_the_library_computes(model: gleed.Model) -> None:
    with model.engine(context=512) as engine:
        sequence, turns, done = engine.open(), [0], threading.Event()

        def count() -> None:
            while not done.wait(0.0005):
                turns[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        most = 0
        # Several attempts, because the machine may have no time for the thread.
        for _ in range(20):
            sequence.reset()
            before = turns[0]
            sequence.prefill([1, 414, 435, 261, 385] * 100)
            most = max(most, turns[0] - before)
            if most > 3:
                break
        done.set()
        thread.join()
        # If the call held the interpreter's lock, the thread could run only before the call and after it.
        assert most > 3
