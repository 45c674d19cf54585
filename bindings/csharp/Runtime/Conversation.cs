using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Gleed
{
    // The part of a session for conversations, for saved texts, and for tokens.
    public sealed unsafe partial class Session
    {
        uint? format;
        Held conversation;

        /// <summary>The messages of the conversation. They may be changed in any way. Unchanged messages are not read
        /// again.</summary>
        public List<Message> Messages { get; } = new List<Message>();

        /// <summary>Returns the token ids of the whole text.</summary>
        public uint[] Tokens()
        {
            var tokens = new uint[Length];
            var error = Call.Error();
            fixed (uint* first = tokens)
                if (tokens.Length > 0)
                    Call.Check(Native.gleed_seq_tokens(engine.Held, Sequence, UIntPtr.Zero, first, (UIntPtr)tokens.Length, ref error), ref error);
            return tokens;
        }

        /// <summary>Ends the text, appends tokens, and copies the <see cref="Model.VocabularySize"/> logits of the last
        /// token.</summary>
        public void Append(ReadOnlySpan<uint> tokens, Span<float> logits)
        {
            End();
            if (logits.Length != engine.Model.VocabularySize)
                throw new ArgumentException("there is one logit for each of the " + engine.Model.VocabularySize + " tokens", nameof(logits));
            float* values;
            UIntPtr count;
            var error = Call.Error();
            fixed (uint* first = &MemoryMarshal.GetReference(tokens))
                Call.Check(Native.gleed_prefill(engine.Held, Live(), first, (UIntPtr)tokens.Length, out values, out count, ref error), ref error);
            new ReadOnlySpan<float>(values, (int)count).CopyTo(logits);
            todo = new uint[0];
            Forget();
        }

        /// <summary>Says something to the model and returns its reply, piece by piece.</summary>
        public IEnumerable<string> Ask(string question, TextOptions options = null)
        {
            End();
            var count = Messages.Count;
            if (count == 0 && this.options.System != null)
                Messages.Add(new Message { Role = Role.System, Text = this.options.System });
            Messages.Add(new Message { Role = Role.User, Text = question });
            try
            {
                var pieces = Reply(options);
                isAsked = true;
                return pieces;
            }
            catch
            {
                Messages.RemoveRange(count, Messages.Count - count);
                throw;
            }
        }

        /// <summary>Lets the model answer the present <see cref="Messages"/>.</summary>
        public IEnumerable<string> Reply(TextOptions options = null)
        {
            End();
            Converse();
            // The last chosen token is part of the reply, but not yet in the sequence.
            if (todo.Length == 1 && ids.Count > 0)
                Read(1);
            todo = new uint[0];
            var tokens = Unread();
            isReply = true;
            isAsked = false;
            return Begin(tokens, options);
        }

        /// <summary>Returns the text so far and the state of the sampler as bytes for <see cref="Load"/>, without the
        /// messages.</summary>
        public byte[] Save()
        {
            return Paused(() =>
            {
                // A prompt that has not been read. The last token is saved apart: Resume computes its logits.
                if (todo.Length > 1)
                    Read(todo.Length - 1);
                ulong state;
                UIntPtr size;
                var error = Call.Error();
                Call.Check(Native.gleed_sampler_state(sampler, out state, ref error), ref error);
                var saved = new Saved { Sampler = state, After = isReply ? Native.GLEED_AFTER_REPLY : 0, Last = todo.Length > 0 ? todo[0] : Native.GLEED_NO_TOKEN };
                var options = new Native.gleed_snapshot_options
                {
                    struct_size = (uint)sizeof(Native.gleed_snapshot_options),
                    state = (byte*)&saved,
                    state_len = (UIntPtr)sizeof(Saved),
                };
                Call.Check(Native.gleed_snapshot_size(engine.Held, Sequence, ref options, out size, ref error), ref error);
                var bytes = new byte[checked((int)size)];
                fixed (byte* first = bytes)
                    Call.Check(Native.gleed_snapshot(engine.Held, Sequence, ref options, first, size, out size, ref error), ref error);
                return bytes;
            });
        }

        /// <summary>Loads a text from <see cref="Save"/>. <see cref="Resume"/> goes on with it. Bytes that are refused
        /// change nothing.</summary>
        public void Load(ReadOnlySpan<byte> bytes)
        {
            End();
            var error = Call.Error();
            var info = new Native.gleed_snapshot_info { struct_size = (uint)sizeof(Native.gleed_snapshot_info) };
            fixed (byte* first = &MemoryMarshal.GetReference(bytes))
                Call.Check(Native.gleed_snapshot_describe(first, (UIntPtr)bytes.Length, ref info, ref error), ref error);
            if (info.state_len != sizeof(Saved))
                throw new GleedException(Status.E_SNAPSHOT_HOST, "these bytes are not from Save", 0, (ulong)sizeof(Saved), info.state_len);
            var saved = *(Saved*)info.state;
            if (saved.After == Native.GLEED_AFTER_REPLY)
                Format();
            if (engine.Plan.sequences > 1)
            {
                var old = Sequence;
                Restore(bytes);
                engine.Close(old);
            }
            else
            {
                // The engine has no room for two sequences. The present one is restored if the new one is refused.
                var current = Save();
                engine.Close(Sequence);
                try
                {
                    Restore(bytes);
                }
                catch
                {
                    Restore(current);
                    throw;
                }
            }
            Call.Check(Native.gleed_sampler_set_state(sampler, saved.Sampler, ref error), ref error);
            todo = saved.Last == Native.GLEED_NO_TOKEN ? new uint[0] : new[] { saved.Last };
            ids.Clear();
            isReply = saved.After == Native.GLEED_AFTER_REPLY;
            isAsked = false;
        }

        // The host's bytes in the snapshot of a saved text, as in the packages for Python and Lua.
        struct Saved
        {
            public ulong Sampler;
            public uint After, Last;
        }

        void Restore(ReadOnlySpan<byte> bytes)
        {
            uint sequence;
            var error = Call.Error();
            fixed (byte* first = &MemoryMarshal.GetReference(bytes))
                Call.Check(Native.gleed_restore(engine.Held, null, first, (UIntPtr)bytes.Length, out sequence, ref error), ref error);
            engine.Replace(this, sequence);
            Sequence = sequence;
            Forget();
        }

        /// <summary>Appends the first tokens of `todo`.</summary>
        void Read(int count)
        {
            float* logits;
            UIntPtr len;
            var error = Call.Error();
            fixed (uint* first = todo)
                Call.Check(Native.gleed_prefill(engine.Held, Sequence, first, (UIntPtr)count, out logits, out len, ref error), ref error);
            var rest = new uint[todo.Length - count];
            Array.Copy(todo, count, rest, 0, rest.Length);
            todo = rest;
        }

        /// <summary>Drops the conversation, because its sequence has changed.</summary>
        void Forget()
        {
            conversation?.Dispose();
            conversation = null;
        }

        /// <summary>Finds the turn format: the format that the program names, or the format of the model's
        /// file.</summary>
        void Format()
        {
            if (format != null)
                return;
            uint found;
            var error = Call.Error();
            if (options.Turns == null)
                Call.Check(Native.gleed_turns_find(engine.Model.Held, engine.Model.Tokenizer, out found, ref error), ref error);
            else
            {
                UIntPtr len;
                var name = Held.Utf8(options.Turns, out len);
                fixed (byte* bytes = name)
                    Call.Check(Native.gleed_turns_named(bytes, len, out found, ref error), ref error);
            }
            if (found == Native.GLEED_NO_TURNS)
                throw new GleedException(Status.E_VALUE, "the turn format is not known");
            format = found;
        }

        void Converse()
        {
            Format();
            if (conversation != null)
                return;
            UIntPtr size, align;
            var error = Call.Error();
            Call.Check(Native.gleed_conversation_plan(engine.Held, out size, out align, IntPtr.Zero, ref error), ref error);
            conversation = Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                Native.gleed_conversation_init(engine.Held, Sequence, IntPtr.Zero, memory, len, out made, ref e));
        }

        /// <summary>Rewinds the sequence to its common beginning with the messages. Returns the ids of the rest, up to
        /// the model's reply.</summary>
        uint[] Unread()
        {
            var error = Call.Error();
            var script = new Native.gleed_script { struct_size = (uint)sizeof(Native.gleed_script), format = format.Value };
            var keep = new Native.gleed_keep { struct_size = (uint)sizeof(Native.gleed_keep), last = options.KeepLast, room = options.KeepRoom };
            var update = new Native.gleed_update { struct_size = (uint)sizeof(Native.gleed_update) };
            var entries = new Native.gleed_entry[Math.Max(Messages.Count, 1)];
            using (var texts = new Texts())
            {
                for (var i = 0; i < Messages.Count; i++)
                {
                    entries[i].role = (uint)Messages[i].Role;
                    entries[i].text = texts.Add(Messages[i].Text, out entries[i].text_len);
                    entries[i].name = texts.Add(Messages[i].Name, out entries[i].name_len);
                    entries[i].id = texts.Add(Messages[i].Id, out entries[i].id_len);
                }
                fixed (Native.gleed_entry* first = entries)
                    Call.Check(Native.gleed_conversation_update(conversation, engine.Held, engine.Model.Tokenizer, engine.Desk(), first,
                        (UIntPtr)Messages.Count, ref script, options.KeepLast > 0 ? &keep : null, ref update, ref error), ref error);
            }
            return new ReadOnlySpan<uint>(update.tokens, (int)update.tokens_len).ToArray();
        }
    }
}
