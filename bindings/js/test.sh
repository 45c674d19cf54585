#!/usr/bin/env bash
# Makes the package and the tarball that npm would publish, installs it into an empty folder, as a user does, and tests it there: a program of ten lines
# tells the native story, then the tests of the package run in Node, the story in Deno, and the page's tests in headless Chromium. Needs Rust with the
# target wasm32-unknown-unknown, node, npm, chromium, and packages that npm fetches: Deno, puppeteer, TypeScript. WITHOUT_CHROMIUM=1 leaves the page out,
# and says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
puppeteer=25.16.0
deno=2.9.6
typescript=7.0.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$here/build.sh"
cp "$root"/LICENSE-* "$here"
trap 'rm -rf "$work" "$here"/LICENSE-*' EXIT
(cd "$here" && npm pack --silent --pack-destination "$work")
mkdir "$work/app"
cd "$work/app"
echo '{ "type": "module" }' >package.json
npm install --silent --no-audit --no-fund "$work"/gleed-*.tgz
for file in LICENSE-MIT LICENSE-APACHE README.md dist/gleed.d.ts dist/worker.mjs dist/gleed-simd.wasm dist/gleed-plain.wasm dist/gleed-threads.wasm; do
    [ -f "node_modules/gleed/$file" ] || { echo "the package has no $file"; exit 1; }
done

cp "$here/test/story.mjs" .
node story.mjs "$root/examples/assets/gleed-tales-q8_0.gguf" >story.txt
head -n 1 story.txt
diff <(tail -n 1 story.txt | tr ' ' '\n') <(tr -s ' \n' '\n' <"$root/bindings/python/tests/native_ids.txt")
sed '$d' story.txt >native.txt
echo "the ids are those of the native story"

# The first program of the README, unchanged.
awk '/^```js$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$here/README.md" >readme.mjs
cp "$root/examples/assets/gleed-tales-q8_0.gguf" .
diff <(node readme.mjs) native.txt
echo "the README's program tells the same"

# The blocks under "In JavaScript" of the repository's README, from an empty folder beside it. The build is already done.
mkdir -p "$work/beside/empty"
ln -s "$root" "$work/beside/gleed"
# block LANGUAGE: prints the block of this language under that heading.
block() {
    awk -v fence="^\`\`\`$1\$" '/^## / { here = /In JavaScript/ } here && /^```$/ { inside = 0 } inside; here && $0 ~ fence { inside = 1 }' "$root/README.md"
}
block js >"$work/beside/empty/story.mjs"
block sh | sed '\,build.sh$,d' >"$work/commands"
(cd "$work/beside/empty" && bash -eu "$work/commands") >"$work/told"
diff <(tail -n "$(wc -l <native.txt)" "$work/told") native.txt
echo "so does the one in the README of the repository"

npm install --silent --no-audit --no-fund --no-save "typescript@$typescript"
cp "$here/test/types.ts" .
npx tsc --noEmit --strict --target es2022 --lib es2022,dom,dom.asynciterable --module nodenext types.ts
echo "the types are right"

cp "$here/test/package.test.mjs" .
GLEED_REPOSITORY=$root node --test package.test.mjs >tests.txt || { cat tests.txt; exit 1; }
grep -E '^# (pass|fail|skipped)' tests.txt

# Deno from npm. It finds the package in node_modules, as Node does.
npm install --silent --no-audit --no-fund --no-save "deno@$deno"
diff <(npx deno run --allow-read --allow-env story.mjs "$root/examples/assets/gleed-tales-q8_0.gguf") story.txt
sed 's/\(Gleed.open(process.argv\[2\]\)/\1, { threads: 2, worker: true }/' story.mjs >threads.mjs
grep -q 'threads: 2' threads.mjs
diff <(npx deno run --allow-read --allow-env threads.mjs "$root/examples/assets/gleed-tales-q8_0.gguf") story.txt
echo "Deno tells the same, on two threads, too"

if [ -n "${WITHOUT_CHROMIUM:-}" ]; then
    echo "skipped: the page in Chromium"
    exit
fi
npm install --silent --no-audit --no-fund "puppeteer-core@$puppeteer"
"$here/demo/build.sh" "$work/site"
cp "$here/test/page.test.mjs" .
CHROMIUM=$(command -v chromium) SITE=$work/site STORY=native.txt IDS=$root/bindings/python/tests/native_ids.txt node --test page.test.mjs >page.txt || { cat page.txt; exit 1; }
grep -E '^# (pass|fail|skipped)' page.txt
