"""Plots the probability of each token of a story, and the time that it takes: `python plot.py MODEL.gguf [PLOT.svg]`.

The `# %%` are cells: VS Code, Spyder and PyCharm run them one by one, as a notebook. It needs matplotlib:
`pip install "bindings/python[plot]"`.
"""

# %% A model, an engine and a sequence
import sys
import time

import gleed
import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

model = gleed.Model(sys.argv[1])
engine = model.engine(context=128)
sequence = engine.open()
logits = sequence.prefill(model.encode("Once upon a time"))

# %% The most probable token each time, its probability, and that of the next four
probabilities, milliseconds, tokens = [], [], []
while len(tokens) < 40:
    exponentials = np.exp(logits - logits.max())
    probabilities.append(np.sort(exponentials / exponentials.sum())[: -1 - 5 : -1])
    token = gleed.argmax(logits)
    if model.tokenizer.is_end(token):
        break
    tokens.append(token)
    begun = time.perf_counter()
    logits = sequence.decode_step(token)
    milliseconds.append(1000 * (time.perf_counter() - begun))
pieces = [model.decode([token], continues=True) for token in tokens]
print("".join(pieces))

# %% The plot
figure, (sure, fast) = plt.subplots(2, 1, figsize=(12, 6), sharex=True, layout="constrained")
places, bottom = np.arange(len(tokens)), np.zeros(len(tokens))
for rank, values in enumerate(np.array(probabilities[: len(tokens)]).T):
    sure.bar(places, values, bottom=bottom, color=plt.cm.viridis(rank / 5), label=f"token of rank {rank + 1}")
    bottom += values
sure.set_ylabel("probability")
figure.legend(ncols=5, loc="outside upper center")  # beside the data
fast.bar(places, milliseconds, color="gray")
fast.set_ylabel("ms per token")
fast.set_xticks(places, [repr(piece)[1:-1] for piece in pieces], rotation=90)
figure.savefig(sys.argv[2] if len(sys.argv) > 2 else "plot.svg")

# %% The memory goes back
engine.close()
model.close()
