// The figures beside the stories: the pool, speeds, the hash, the plan of the memory.

const $ = (id) => document.querySelector(`#${id}`);
export class Figures {
  plan(plan) {
    const sizes = new Map([["the model's file", { bytes: plan.file, color: "--s2" }]]);
    sizes.set("keys and values", { bytes: plan.kvBytes + plan.stateBytes, color: "--s0" });
    sizes.set("everything else", { bytes: plan.bytes - plan.kvBytes - plan.stateBytes, color: "--s1" });
    const total = plan.bytes + plan.file;
    $("plan-total").textContent = `${megabytes(total)} for ${plan.sequences} sequences of ${plan.context} tokens`;
    const bars = [];
    const rows = [];
    for (const [name, { bytes, color }] of sizes) {
      const bar = document.createElement("i");
      bar.style.cssText = `--of: var(${color}); flex: ${bytes} 0 0`;
      bars.push(bar);
      const row = document.createElement("li");
      const mark = document.createElement("i");
      mark.style.cssText = `--of: var(${color})`;
      row.append(mark, span(name), span(megabytes(bytes)));
      rows.push(row);
    }
    $("plan-bar").replaceChildren(...bars);
    $("plan-list").replaceChildren(...rows);
    $("pool").style.setProperty("--columns", plan.blocks > 96 ? 24 : 16);
    $("tables").style.setProperty("--per", Math.ceil(plan.context / 16));
    $("pool").replaceChildren(...Array.from({ length: plan.blocks }, () => cell()));
  }

  hash(here, native) {
    $("hash-native").textContent = native;
    $("hash-here").textContent = here ?? "…";
    const verdict = $("hash-verdict");
    verdict.className = here === undefined ? "hint" : here === native ? "good" : "bad";
    if (here === undefined) verdict.textContent = "xxHash64 of all logits of the first 64 tokens of the first story.";
    else verdict.textContent = here === native ? "✓ Equal to those of x86-64, Cortex-M and RISC-V." : "✗ Not equal: please report it.";
  }

  draw({ blocks, cards }, info, metrics) {
    const color = (session) => `var(--s${cards.find((card) => card.session === session)?.slot ?? 0})`;
    [...$("pool").children].forEach((element, place) => {
      const { holders, tokens } = blocks.at(place);
      paint(element, holders.map(color), tokens);
    });
    $("pool-count").textContent = `${info.blocksUsed} of ${info.blocks} blocks of 16 tokens`;
    $("pool").setAttribute("aria-label", `${info.blocksUsed} blocks used, ${info.blocksFree} free`);
    $("pool").dataset.agrees = cards.every((card) => !card.info || blocks.agrees(card.session, card.info));
    $("tables").replaceChildren(...cards.map((card) => table(card, blocks, color)));
    const { decode_tokens: tokens, decode_times_sum: time, first_token_count: prompts, first_token_sum: waited } = metrics;
    $("speed").textContent = time ? Math.round((tokens * 1e6) / time) : "–";
    $("first").textContent = prompts ? `${(waited / prompts / 1000).toFixed(1)} ms` : "–";
    $("saved").textContent = metrics.saved_fork;
  }
}

function table(card, blocks, color) {
  const row = document.createElement("div");
  row.className = "row";
  const all = blocks.table(card.session) ?? [];
  row.append(
    ...all.map(({ place, tokens }) => {
      const { holders } = blocks.at(place);
      const element = cell();
      paint(element, holders.map(color), tokens);
      return element;
    }),
  );
  const line = document.createElement("div");
  line.className = "table";
  line.style.setProperty("--of", `var(--s${card.slot})`);
  const name = Object.assign(document.createElement("b"), { textContent: card.name });
  const { sharedBlocks = 0, tokens = 0 } = card.info ?? {};
  line.append(name, row, span(`${tokens} tokens${sharedBlocks ? `, ${sharedBlocks} shared` : ""}`));
  return line;
}

function paint(element, colors, tokens) {
  element.className = colors.length === 0 ? "cell" : colors.length > 1 ? "cell shared" : tokens < 16 ? "cell own part" : "cell own full";
  if (colors.length > 1) element.style.setProperty("--stripes", stripes(colors));
  if (colors.length === 0) return;
  element.style.setProperty("--fill", colors[0]);
  element.style.setProperty("--level", `${(tokens / 16) * 100}%`);
}

function stripes(colors) {
  const part = 100 / colors.length;
  return `linear-gradient(135deg, ${colors.map((color, i) => `${color} ${i * part}% ${(i + 1) * part}%`).join(", ")})`;
}

const cell = () => Object.assign(document.createElement("i"), { className: "cell" });
const span = (text) => Object.assign(document.createElement("span"), { textContent: text });
const megabytes = (bytes) => (bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
