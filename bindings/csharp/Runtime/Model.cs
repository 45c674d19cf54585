using System;
using System.Collections.Generic;
using System.IO;
using System.IO.MemoryMappedFiles;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;

namespace Gleed
{
    /// <summary>A GGUF file, mapped into memory without a copy. Any number of sessions and threads may share a
    /// model.</summary>
    public sealed unsafe class Model : IDisposable
    {
        internal readonly Held Held, Tokenizer;
        internal readonly Native.gleed_vocab_info Vocabulary;
        readonly Native.gleed_model_info info;
        readonly SafeHandle[] files;
        readonly object changes = new object();
        Held trie;

        /// <summary>Opens a file. A split file is opened by the name of its first part.</summary>
        public Model(string path)
        {
            if (Native.gleed_abi_version() != Native.GLEED_ABI_VERSION)
                throw new GleedException(Status.E_VALUE, "the library has another version of the interface", 0, Native.GLEED_ABI_VERSION, Native.gleed_abi_version());
            var paths = Parts(path);
            files = new SafeHandle[paths.Count];
            var parts = new Native.gleed_part[paths.Count];
            try
            {
                for (var i = 0; i < files.Length; i++)
                    files[i] = Map(paths[i], out parts[i]);
                UIntPtr size, align;
                var error = Call.Error();
                Call.Check(Native.gleed_model_split_size((UIntPtr)parts.Length, out size, out align, ref error), ref error);
                Held = Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                {
                    fixed (Native.gleed_part* first = parts)
                        return Native.gleed_model_open_split(first, (UIntPtr)parts.Length, memory, len, out made, ref e);
                }, files);
                Call.Check(Native.gleed_tokenizer_size(Held, out size, out align, ref error), ref error);
                Tokenizer = Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                    Native.gleed_tokenizer_init(Held, memory, len, out made, ref e), Held);
                Vocabulary.struct_size = (uint)sizeof(Native.gleed_vocab_info);
                Call.Check(Native.gleed_tokenizer_describe(Tokenizer, ref Vocabulary, ref error), ref error);
                info.struct_size = (uint)sizeof(Native.gleed_model_info);
                Call.Check(Native.gleed_model_describe(Held, ref info, ref error), ref error);
            }
            catch
            {
                Dispose();
                throw;
            }
        }

        /// <summary>Number of tokens in the vocabulary. Token ids are below it, and a row of logits has this many
        /// elements.</summary>
        public int VocabularySize { get { return (int)info.vocab; } }

        /// <summary>Number of tokens of the context that the model was trained on.</summary>
        public int Context { get { return (int)info.context; } }

        /// <summary>A number that identifies the model. Snapshots contain it.</summary>
        public ulong Fingerprint { get { return info.fingerprint; } }

        /// <summary>Returns the token ids of a text, with the tokens that begin and end a text if the vocabulary adds
        /// them.</summary>
        public uint[] Encode(string text)
        {
            UIntPtr len, count = UIntPtr.Zero;
            var data = Held.Utf8(text, out len);
            var scratch = new uint[2000];
            var ids = Held.Grow(ref scratch, data.Length + 2, (uint* words, UIntPtr has, uint* result, UIntPtr room, ref Native.gleed_error error) =>
            {
                fixed (byte* bytes = data)
                    return Native.gleed_encode(Tokenizer, bytes, len, Native.GLEED_ENCODE_ADD_SPECIAL, words, has, result, room, out count, ref error);
            });
            Array.Resize(ref ids, (int)count);
            return ids;
        }

        /// <summary>Closes the file as soon as no session uses it.</summary>
        public void Dispose()
        {
            trie?.Dispose();
            Tokenizer?.Dispose();
            Held?.Dispose();
            foreach (var file in files)
                file?.Dispose();
        }

        /// <summary>Returns the tokens by their bytes, for grammars. The first call makes them.</summary>
        internal Held Trie()
        {
            lock (changes)
            {
                if (trie != null)
                    return trie;
                UIntPtr size = UIntPtr.Zero, align = UIntPtr.Zero;
                var scratch = new uint[1];
                Held.Grow(ref scratch, 0, (uint* words, UIntPtr has, uint* _, UIntPtr __, ref Native.gleed_error error) =>
                    Native.gleed_trie_plan(Tokenizer, words, has, out size, out align, ref error));
                trie = Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error error) =>
                {
                    fixed (uint* words = scratch)
                        return Native.gleed_trie_init(Tokenizer, words, (UIntPtr)scratch.Length, memory, len, out made, ref error);
                }, Tokenizer);
                return trie;
            }
        }

        static List<string> Parts(string path)
        {
            var found = Regex.Match(path, @"^(.*)-00001-of-(\d{5})\.gguf$", RegexOptions.Singleline);
            var paths = new List<string>();
            if (!found.Success)
                paths.Add(path);
            else
                for (var part = 1; part <= int.Parse(found.Groups[2].Value); part++)
                    paths.Add(found.Groups[1].Value + "-" + part.ToString("D5") + "-of-" + found.Groups[2].Value + ".gguf");
            return paths;
        }

        static SafeHandle Map(string path, out Native.gleed_part part)
        {
            var len = new FileInfo(path).Length;
            // An empty file cannot be mapped on any system.
            if (len == 0)
                throw new GleedException(Status.E_FILE_TRUNCATED, path + " is empty");
            using (var file = MemoryMappedFile.CreateFromFile(path, FileMode.Open, null, 0, MemoryMappedFileAccess.Read))
            {
                var view = file.CreateViewAccessor(0, 0, MemoryMappedFileAccess.Read).SafeMemoryMappedViewHandle;
                part = new Native.gleed_part { bytes = (byte*)view.DangerousGetHandle(), len = (UIntPtr)(ulong)len };
                return view;
            }
        }
    }
}
