// This file is compiled but not run. It has code that the types allow, and code that they refuse.
import { cachedModels, forgetModel, Gleed, GleedError, hasSimd, Xxh64, type Model, type Pool, type Session, type Stream } from "gleed";

const model: Model = await Gleed.open(new URL("https://example.com/model.gguf"), {
  progress: ({ loaded, total }) => console.log(loaded / (total ?? Infinity)),
  signal: new AbortController().signal,
  build: hasSimd() ? "simd" : "plain",
  worker: true,
  threads: 2,
});
const session: Session = await model.session({ context: 512, sequences: 2, temperature: 0.5, seed: 5n, keep: { last: 1 } });
const story: Stream = session.tell("Once", { tokens: 5, stop: ["."] });
for await (const piece of story) console.log(piece.length, story.ids.length, story.reason ?? "writes");
console.log(story.step?.(4).length);
const pool: Pool = session.pool;
const other = await pool.restore(await session.snapshot(), { temperature: 1 });
await other.setMessages([{ role: "user", text: "Hello" }]);
try {
  await (await other.fork({ seed: 2 })).rewind(3);
} catch (error) {
  if (error instanceof GleedError) console.log(error.status + error.needed + error.given + error.at);
}
console.log((await model.memoryPlan({ rows: 8 })).sections[0]?.bytes, (await pool.metrics()).decode_tokens, model.info.turns?.length, model.info.threads);
console.log(await cachedModels(), await forgetModel("model.gguf"), new Xxh64().hex());
// @ts-expect-error
await model.session({ contxt: 5 });
// @ts-expect-error
await Gleed.open(5);
await model.close();
