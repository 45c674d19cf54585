using System.Collections.Generic;

namespace Gleed
{
    /// <summary>How a token is chosen. 0 means the default; with no values the most probable token is taken.</summary>
    public sealed class SamplerOptions
    {
        /// <summary>The logits are divided by it.</summary>
        public float Temperature;

        /// <summary>Keeps so many of the most probable tokens.</summary>
        public uint TopK;

        /// <summary>Keeps the most probable tokens that together have this probability.</summary>
        public float TopP;

        /// <summary>Keeps tokens with at least so many times the largest probability.</summary>
        public float MinP;

        /// <summary>Penalties of tokens among the last <see cref="PenaltyWindow"/> ones.</summary>
        public float RepetitionPenalty, FrequencyPenalty, PresencePenalty;

        /// <summary>Tokens that the penalties count: 64.</summary>
        public uint PenaltyWindow;

        /// <summary>The same seed gives the same tokens.</summary>
        public ulong Seed;
    }

    /// <summary>Limits of an engine, and what belongs to its sessions. 0 means the default.</summary>
    public sealed class SessionOptions
    {
        /// <summary>The most tokens of a text; by default those of the model, at most 4096.</summary>
        public uint Context;

        /// <summary>How many sessions there can be at a time: this one and its forks. 1.</summary>
        public uint Sequences;

        /// <summary>Tokens that are computed together: 256.</summary>
        public uint Rows;

        /// <summary>Blocks of 16 tokens that all sessions have together.</summary>
        public uint Blocks;

        /// <summary>How tokens are chosen.</summary>
        public SamplerOptions Sampler = new SamplerOptions();

        /// <summary>The first message of each conversation, or null.</summary>
        public string System;

        /// <summary>The name of a turn format, or null: that of the model's file.</summary>
        public string Turns;

        /// <summary>How many turns at the end stay when the context is full. 0: all, and a conversation that is too long is refused.</summary>
        public uint KeepLast;

        /// <summary>Tokens that then stay free for the reply.</summary>
        public uint KeepRoom;
    }

    /// <summary>What ends a text, and what it has to be.</summary>
    public sealed class TextOptions
    {
        /// <summary>The most tokens, or null.</summary>
        public int? Tokens;

        /// <summary>Strings that end the text: at most 16.</summary>
        public IList<string> Stop;

        /// <summary>What the text follows, or null.</summary>
        public Grammar Grammar;

        /// <summary>Whether names of control tokens are written.</summary>
        public bool Special;
    }

    /// <summary>Who says a message.</summary>
    public enum Role
    {
        /// <summary>Instructions.</summary>
        System = 1,

        /// <summary>The user.</summary>
        User = 2,

        /// <summary>The model.</summary>
        Assistant = 3,

        /// <summary>A tool that the model has called.</summary>
        Tool = 5,
    }

    /// <summary>A message of a conversation.</summary>
    public sealed class Message
    {
        /// <summary>Who says it.</summary>
        public Role Role;

        /// <summary>What; of the assistant as the model wrote it.</summary>
        public string Text = "";

        /// <summary>Of a tool: its name and the identifier of the call; else empty.</summary>
        public string Name = "", Id = "";
    }

    /// <summary>Why a text has ended.</summary>
    public enum Reason
    {
        /// <summary>It has not.</summary>
        None,

        /// <summary>The model has ended it.</summary>
        End,

        /// <summary>It has as many tokens as were asked for.</summary>
        Length,

        /// <summary>The context is full.</summary>
        Context,

        /// <summary>A stop string.</summary>
        Stop,

        /// <summary>Cancelled, or another text was begun.</summary>
        Cancelled,

        /// <summary>An exception.</summary>
        Error,
    }
}
