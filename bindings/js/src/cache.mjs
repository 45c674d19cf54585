// Downloaded files in the origin's private file system (OPFS) of a browser. Without this file system nothing is kept.

const FOLDER = "gleed-models";
/** The headers that tell versions of a file apart. A server may hide them from a page of another origin. */
const MARKS = ["content-length", "etag", "last-modified"];

async function folder() {
  if (!globalThis.navigator?.storage?.getDirectory) return undefined;
  const root = await navigator.storage.getDirectory().catch(() => undefined);
  return root?.getDirectoryHandle(FOLDER, { create: true });
}

async function nameOf(url) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url.href));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const marksOf = (response) => Object.fromEntries(MARKS.map((name) => [name, response.headers.get(name)]));

/**
 * Returns the kept file of a URL, unless the server has another version of it now. Without a network it returns the
 * kept file.
 */
export async function openCached(url, signal) {
  try {
    const files = await folder();
    if (!files) return undefined;
    const name = await nameOf(url);
    const note = JSON.parse(await (await (await files.getFileHandle(`${name}.json`)).getFile()).text());
    const file = await (await files.getFileHandle(name)).getFile();
    if (file.size !== note.bytes) return undefined;
    const now = await fetch(url, { method: "HEAD", signal }).catch(() => undefined);
    signal?.throwIfAborted();
    const isSame = !now?.ok || MARKS.every((mark) => now.headers.get(mark) === note.marks[mark]);
    return isSame ? file : undefined;
  } catch {
    signal?.throwIfAborted();
    // A file that is missing or not complete is loaded again. If no file can be kept, `storeCached` gives the reason.
    return undefined;
  }
}

/**
 * Begins to keep the file that a server sends: `write`, then `close`, or `abort`. The file is valid only with its
 * note, which `close` writes last.
 */
export async function storeCached(url, response) {
  const files = await folder();
  if (!files) return undefined;
  const name = await nameOf(url);
  await files.removeEntry(`${name}.json`).catch(() => {});
  const file = await (await files.getFileHandle(name, { create: true })).createWritable();
  return {
    write: (bytes) => file.write(bytes),
    abort: () => file.abort(),
    close: async (bytes) => {
      await file.close();
      const note = await (await files.getFileHandle(`${name}.json`, { create: true })).createWritable();
      await note.write(JSON.stringify({ url: url.href, bytes, marks: marksOf(response) }));
      await note.close();
    },
  };
}

/** Returns the URLs and the sizes of the kept files. */
export async function cachedModels() {
  const found = [];
  const files = await folder();
  for await (const [name, handle] of files?.entries() ?? []) {
    if (!name.endsWith(".json")) continue;
    const { url, bytes } = JSON.parse(await (await handle.getFile()).text());
    found.push({ url, bytes });
  }
  return found;
}

/** Removes the kept file of a URL. Returns whether there was one. */
export async function forgetModel(url) {
  const files = await folder();
  if (!files) return false;
  const name = await nameOf(new URL(url, globalThis.location?.href));
  await files.removeEntry(`${name}.json`).catch(() => {});
  return files.removeEntry(name).then(() => true, () => false);
}
