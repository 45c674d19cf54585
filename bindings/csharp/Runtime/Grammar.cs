using System;

namespace Gleed
{
    /// <summary>The kind of a grammar's text.</summary>
    public enum GrammarKind
    {
        /// <summary>A JSON Schema.</summary>
        Schema = 0,

        /// <summary>A grammar in GBNF.</summary>
        Gbnf = 1,

        /// <summary>A regular expression.</summary>
        Regex = 2,
    }

    /// <summary>A compiled grammar. It never changes, so any number of texts and threads may use it.</summary>
    public sealed unsafe class Grammar : IDisposable
    {
        internal readonly Held Held;

        /// <summary>Compiles a text. docs/structured.md describes the possible texts.</summary>
        public Grammar(string text, GrammarKind kind = GrammarKind.Schema)
        {
            UIntPtr len, size = UIntPtr.Zero, align = UIntPtr.Zero;
            var data = Held.Utf8(text, out len);
            var scratch = new uint[1];
            var options = new Native.gleed_grammar_options
            {
                struct_size = (uint)sizeof(Native.gleed_grammar_options),
                kind = (uint)kind,
                flags = Native.GLEED_GRAMMAR_CLOSE,
            };
            Held.Grow(ref scratch, 0, (uint* words, UIntPtr has, uint* _, UIntPtr __, ref Native.gleed_error error) =>
            {
                fixed (byte* bytes = data)
                    return Native.gleed_grammar_plan(bytes, len, words, has, out size, out align, ref options, ref error);
            });
            Held = Held.Make(size, align, (IntPtr memory, UIntPtr room, out IntPtr made, ref Native.gleed_error error) =>
            {
                fixed (byte* bytes = data)
                fixed (uint* words = scratch)
                    return Native.gleed_grammar_init(bytes, len, words, (UIntPtr)scratch.Length, ref options, memory, room, out made, ref error);
            });
        }

        /// <summary>Gives the memory back as soon as no text uses the grammar.</summary>
        public void Dispose()
        {
            Held.Dispose();
        }
    }
}
