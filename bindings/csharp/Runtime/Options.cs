using System.Collections.Generic;

namespace Gleed
{
    /// <summary>The parameters for the choice of a token. 0 means the default. If all are 0, the most probable token is
    /// taken.</summary>
    public sealed class SamplerOptions
    {
        /// <summary>The number by which the logits are divided.</summary>
        public float Temperature;

        /// <summary>Number of the most probable tokens that are kept.</summary>
        public uint TopK;

        /// <summary>Sum of the probabilities of the most probable tokens that are kept.</summary>
        public float TopP;

        /// <summary>Smallest probability of a token that is kept, as a part of the largest probability.</summary>
        public float MinP;

        /// <summary>Penalties of tokens that occur among the last <see cref="PenaltyWindow"/> tokens.</summary>
        public float RepetitionPenalty, FrequencyPenalty, PresencePenalty;

        /// <summary>Number of last tokens that the penalties count. The default is 64.</summary>
        public uint PenaltyWindow;

        /// <summary>Seed of the random generator. The same seed gives the same tokens.</summary>
        public ulong Seed;
    }

    /// <summary>Limits of an engine, and options of its sessions. 0 means the default.</summary>
    public sealed class SessionOptions
    {
        /// <summary>Largest number of tokens of a text. The default is the context of the model, at most
        /// 4096.</summary>
        public uint Context;

        /// <summary>Largest number of open sessions: this one and its forks. The default is 1.</summary>
        public uint Sequences;

        /// <summary>Largest number of tokens that are computed together. The default is 256.</summary>
        public uint Rows;

        /// <summary>Number of blocks of 16 tokens that all sessions share.</summary>
        public uint Blocks;

        /// <summary>The parameters for the choice of tokens.</summary>
        public SamplerOptions Sampler = new SamplerOptions();

        /// <summary>The first message of each conversation, or null.</summary>
        public string System;

        /// <summary>The name of a turn format, or null for the turn format of the model's file.</summary>
        public string Turns;

        /// <summary>Number of turns at the end that stay when the context is full. With 0 all turns stay, and a
        /// conversation that is too long is refused.</summary>
        public uint KeepLast;

        /// <summary>Number of tokens that stay free for the reply when turns are left out.</summary>
        public uint KeepRoom;
    }

    /// <summary>The conditions that end a text, and the form of the text.</summary>
    public sealed class TextOptions
    {
        /// <summary>Largest number of tokens, or null.</summary>
        public int? Tokens;

        /// <summary>At most 16 strings that end the text.</summary>
        public IList<string> Stop;

        /// <summary>The grammar that the text follows, or null.</summary>
        public Grammar Grammar;

        /// <summary>Whether the text contains the names of control tokens.</summary>
        public bool Special;
    }

    /// <summary>The author of a message.</summary>
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
        /// <summary>The author of the message.</summary>
        public Role Role;

        /// <summary>The text. A text of the assistant must be as the model wrote it.</summary>
        public string Text = "";

        /// <summary>Name of the tool and identifier of the call, for a message of a tool. Otherwise empty.</summary>
        public string Name = "", Id = "";
    }

    /// <summary>The reason why a text has ended.</summary>
    public enum Reason
    {
        /// <summary>The text has not ended.</summary>
        None,

        /// <summary>The model has ended the text.</summary>
        End,

        /// <summary>The text has <see cref="TextOptions.Tokens"/> tokens.</summary>
        Length,

        /// <summary>The context is full.</summary>
        Context,

        /// <summary>The text has reached a stop string.</summary>
        Stop,

        /// <summary>The text was cancelled, or another text was begun.</summary>
        Cancelled,

        /// <summary>An exception was thrown.</summary>
        Error,
    }
}
