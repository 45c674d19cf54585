#!/usr/bin/env bash
# Packs both packages, unpacks them into an empty folder, compiles their sources and runs the tests in Mono. Needs Rust, Python, a C
# compiler, mono and mcs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
library=$("$here/../library.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$here/status.sh" | diff "$here/Runtime/Status.cs" -
"$here/pack.py" "$folder/packages" "linux-x64=$library" >/dev/null
"$here/pack.py" "$folder/again" "linux-x64=$library" >/dev/null
diff -r "$folder/packages" "$folder/again"
cd "$folder"
python3 -m zipfile -e packages/*.nupkg nuget
tar xzf packages/*.tgz
# Unity ignores a file without a .meta, and confuses two files with the same identifier.
(cd package && find . -mindepth 1 -not -path '*~*' -not -name '*.meta') | while read -r name; do
    [ -f "package/$name.meta" ] || { echo "$name has no .meta"; exit 1; }
done
[ -z "$(cat $(find package -name '*.meta') | grep '^guid' | sort | uniq -d)" ]
python3 -m json.tool package/package.json >/dev/null
python3 -c 'import sys, xml.dom.minidom as xml; [xml.parse(name) for name in sys.argv[1:]]' nuget/Gleed.nuspec "$here/Gleed.csproj" 'nuget/[Content_Types].xml' nuget/_rels/.rels

cp nuget/runtimes/linux-x64/native/libgleed.so "$root/include/gleed.h" "$root/examples/assets/gleed-tales-q8_0.gguf" .
cp "$root/bindings/python/tests/native_ids.txt" .
# The example of README.md, unchanged, with the files of the NuGet package.
sed -n '/^```csharp$/,/^```$/p' "$here/README.md" | sed '1d;/^```$/,$d' >Readme.cs
mcs -unsafe -out:Readme.exe Readme.cs nuget/contentFiles/cs/any/Gleed/*.cs
[ "$(mono Readme.exe gleed-tales-q8_0.gguf | head -c 38)" = "Once upon a time, there was a little g" ]

# The assemblies of the Unity package, with the classes of Unity that they use.
mcs -unsafe -warnaserror -target:library -out:Gleed.dll package/Runtime/*.cs
mcs -target:library -out:UnityEngine.dll "$here/tests/UnityStub.cs"
mcs -warnaserror -target:library -r:Gleed.dll -r:UnityEngine.dll -out:Gleed.Unity.dll package/Unity/*.cs
mcs -r:Gleed.dll -r:Gleed.Unity.dll -r:UnityEngine.dll -r:System.Core.dll -out:Tests.exe "$here"/tests/{Tests,Layout}.cs \
    package/Samples~/Story/*.cs
mono Tests.exe
