// Measures the speed of a model in Node by the number of threads: medians of five runs, from the library's metrics
// (docs/metrics.md).
//
//   node bindings/js/test/speed.mjs MODEL [THREADS...]        after bindings/js/build.sh; without any, 1 and 2 threads
//
// A prompt of about 256 tokens is read, then 64 tokens are written, the most probable one each time. `make_model` makes files of real shapes.
const { Gleed } = await import(new URL("../dist/gleed.mjs", import.meta.url));
const [path, ...counts] = process.argv.slice(2);
if (!path) {
  console.error("usage: node bindings/js/test/speed.mjs MODEL [THREADS...]");
  process.exit(2);
}
const RUNS = 5;

function median(values) {
  return values.sort((a, b) => a - b)[values.length >> 1].toFixed(1);
}

for (const threads of counts.length ? counts.map(Number) : [1, 2]) {
  const model = await Gleed.open(path, { threads });
  const session = await model.session({ context: 512 });
  let text = "The dog";
  while ((await model.encode(text)).length < 256) text += " and the dog";
  const tokens = (await model.encode(text)).length;
  const [read, written] = [[], []];
  // The first run is not counted, because its code is compiled during the run.
  for (let run = 0; run <= RUNS; run++) {
    await session.pool.metrics({ reset: true });
    await session.tell(text, { tokens: 65 }).read();
    const metrics = await session.pool.metrics();
    if (run === 0) continue;
    read.push((1e6 * tokens) / metrics.first_token_sum);
    written.push((1e6 * metrics.decode_tokens) / metrics.decode_times_sum);
  }
  const { build, name } = model.info;
  console.log(`${name || path}, ${threads} threads (${build}): ${tokens} tokens read at ${median(read)} tokens/s, written at ${median(written)} tokens/s`);
  await model.close();
}
