using System;
using System.Collections.Generic;
using System.Text;

namespace Gleed
{
    /// <summary> A text or a conversation. A session and its forks share an engine, and belong to one thread at a time. Other threads
    /// may only call <see cref="Cancel"/>. Sessions of an engine run together: a step of one session computes all of them. </summary>
    public sealed unsafe partial class Session : IDisposable
    {
        readonly Engine engine;
        readonly SessionOptions options;
        readonly Held sampler;
        readonly List<uint> ids = new List<uint>();
        readonly StringBuilder text = new StringBuilder();
        string piece = "";
        Reason reason = Reason.End;
        Held detokenizer, stops, matcher;
        int? limit;
        bool isClosed, isQueued, isReply, isAsked;
        volatile bool isCancelled;
        // Tokens that the sequence does not have yet. `before` is the length of the sequence before they were queued.
        uint[] todo = new uint[0];
        uint before;

        /// <summary>Makes an engine, and begins a session on it.</summary>
        public Session(Model model, SessionOptions options = null) : this(new Engine(model, options ?? new SessionOptions()), options ?? new SessionOptions(), 0)
        {
        }

        Session(Engine engine, SessionOptions options, uint sequence)
        {
            this.engine = engine;
            this.options = options;
            try
            {
                sampler = Engine.Sampler(options.Sampler ?? new SamplerOptions());
                Sequence = sequence != 0 ? sequence : engine.Open();
                engine.Join(this);
            }
            catch
            {
                sampler?.Dispose();
                if (sequence != 0)
                    engine.Close(sequence);
                engine.Leave(null);
                throw;
            }
        }

        internal uint Sequence { get; private set; }

        /// <summary>The token ids of the text so far, without those of the prompt.</summary>
        public IReadOnlyList<uint> Ids { get { return ids; } }

        /// <summary>The reason why the text has ended.</summary>
        public Reason Reason { get { return reason; } }

        /// <summary>Number of units that suffices for one token: see <see cref="Step"/>.</summary>
        public ulong UnitsPerToken { get { return engine.Plan.units_per_token; } }

        /// <summary>The engine's memory in bytes.</summary>
        public ulong Bytes { get { return engine.Plan.bytes; } }

        /// <summary>Number of tokens in the sequence.</summary>
        public int Length { get { return (int)engine.Length(Live()); } }

        /// <summary>Begins a new text and returns the text after the prompt, piece by piece. <see cref="Step"/> can read it,
        /// too.</summary>
        public IEnumerable<string> Tell(string prompt, TextOptions options = null)
        {
            var tokens = engine.Model.Encode(prompt);
            Reset();
            return Begin(tokens, options);
        }

        /// <summary>Goes on with a text that the model has not ended itself.</summary>
        public IEnumerable<string> Resume(TextOptions options = null)
        {
            End();
            return Begin(todo, options);
        }

        /// <summary> Computes for at most this number of units, or with 0 until there is text. Returns the new text, "" if there is
        /// none yet, or null after the end. </summary>
        public string Step(ulong units = 0)
        {
            Live();
            if (isCancelled)
                End();
            if (piece.Length == 0 && reason == Reason.None)
                engine.Step(units);
            var shown = piece;
            piece = "";
            return shown.Length == 0 && reason != Reason.None ? null : shown;
        }

        /// <summary>Ends the text, also during a step. Any thread may call it.</summary>
        public void Cancel()
        {
            isCancelled = true;
            engine.Stop();
        }

        /// <summary>Forgets all text and the conversation.</summary>
        public void Reset()
        {
            End();
            var error = Call.Error();
            Call.Check(Native.gleed_reset(engine.Held, Live(), ref error), ref error);
            Forget();
            Messages.Clear();
            todo = new uint[0];
            isReply = isAsked = false;
        }

        /// <summary>Keeps only the first tokens. <see cref="Resume"/> goes on after them.</summary>
        public void Rewind(int keep)
        {
            End();
            var error = Call.Error();
            var last = 0u;
            var isThere = keep <= Length;
            if (keep > 0 && isThere)
                Call.Check(Native.gleed_seq_tokens(engine.Held, Sequence, (UIntPtr)(keep - 1), &last, (UIntPtr)1, ref error), ref error);
            // The last kept token is computed again, because its logits are not kept. A `keep` that is too large is refused here.
            var stays = isThere ? Math.Max(keep - 1, 0) : keep;
            Call.Check(Native.gleed_rewind(engine.Held, Sequence, (UIntPtr)stays, ref error), ref error);
            todo = keep > 0 ? new[] { last } : new uint[0];
            ids.Clear();
            Forget();
        }

        /// <summary>Opens a session with the same text. The two share their memory until it changes. <see cref="Resume"/> goes
        /// on.</summary>
        public Session Fork()
        {
            var rest = todo;
            var sequence = Paused(() =>
            {
                uint made;
                var error = Call.Error();
                rest = todo;
                Call.Check(Native.gleed_fork(engine.Held, Sequence, (UIntPtr)engine.Length(Sequence), out made, ref error), ref error);
                return made;
            }, engine.Close);
            var fork = new Session(engine, options, sequence) { todo = rest, format = format };
            try
            {
                fork.Messages.AddRange(Messages);
                ulong state;
                var failure = Call.Error();
                foreach (var token in ids)
                    Call.Check(Native.gleed_sampler_accept(fork.sampler, token, ref failure), ref failure);
                Call.Check(Native.gleed_sampler_state(sampler, out state, ref failure), ref failure);
                Call.Check(Native.gleed_sampler_set_state(fork.sampler, state, ref failure), ref failure);
                return fork;
            }
            catch
            {
                fork.Dispose();
                throw;
            }
        }

        /// <summary>Gives the memory back. The memory of the engine is given back with its last session.</summary>
        public void Dispose()
        {
            if (isClosed)
                return;
            isClosed = true;
            reason = Reason.Cancelled;
            piece = "";
            engine.Close(Sequence);
            engine.Leave(this);
            sampler.Dispose();
            Forget();
            Free();
        }

        uint Live()
        {
            if (isClosed)
                throw new ObjectDisposedException(nameof(Session));
            return Sequence;
        }

        IEnumerable<string> Begin(uint[] tokens, TextOptions wanted)
        {
            wanted = wanted ?? new TextOptions();
            Free();
            piece = "";
            text.Clear();
            ids.Clear();
            limit = wanted.Tokens;
            detokenizer = Engine.Detokenizer(engine.Model.Tokenizer, wanted.Special);
            if (wanted.Stop != null && wanted.Stop.Count > 0)
                stops = Engine.Stops(wanted.Stop);
            if (wanted.Grammar != null)
                matcher = Engine.Matcher(wanted.Grammar.Held);
            todo = tokens;
            isCancelled = false;
            if (tokens.Length > 0)
            {
                Queue();
                reason = Reason.None;
            }
            return Pieces();
        }

        IEnumerable<string> Pieces()
        {
            for (var next = Step(); next != null; next = Step())
                if (next.Length > 0)
                    yield return next;
        }

        void Free()
        {
            detokenizer?.Dispose();
            stops?.Dispose();
            matcher?.Dispose();
            detokenizer = stops = matcher = null;
        }

        /// <summary>Ends the unfinished text, if there is one.</summary>
        void End()
        {
            Live();
            isCancelled = false;
            if (reason != Reason.None)
                return;
            Settle();
            Finish(Reason.Cancelled);
        }

        internal void Queue()
        {
            var error = Call.Error();
            before = engine.Length(Sequence);
            fixed (uint* first = todo)
                Call.Check(Native.gleed_queue(engine.Held, Sequence, first, (UIntPtr)todo.Length, Native.GLEED_LOGITS_LAST, ref error), ref error);
            isQueued = true;
        }

        /// <summary>Takes queued tokens that are not computed back from the engine into `todo`.</summary>
        void Settle()
        {
            if (!isQueued)
                return;
            var error = Call.Error();
            Call.Check(Native.gleed_cancel(engine.Held, Sequence, ref error), ref error);
            var done = (int)(engine.Length(Sequence) - before);
            var rest = new uint[todo.Length - done];
            Array.Copy(todo, done, rest, 0, rest.Length);
            todo = rest;
            isQueued = false;
        }

        /// <summary>
        /// Calls a function while the session has no queued tokens. An unfinished text goes on afterwards. If there is no room for its
        /// tokens any more, `undo` takes back what the function has made.
        /// </summary>
        T Paused<T>(Func<T> run, Action<T> undo = null)
        {
            Live();
            Settle();
            T made;
            try
            {
                made = run();
            }
            catch
            {
                GoOn();
                throw;
            }
            try
            {
                GoOn();
            }
            catch
            {
                if (undo != null)
                {
                    undo(made);
                    GoOn();
                }
                throw;
            }
            return made;
        }

        void GoOn()
        {
            if (reason == Reason.None)
                Queue();
        }

        /// <summary>Notes that all queued tokens are computed.</summary>
        internal void Ready()
        {
            todo = new uint[0];
            isQueued = false;
        }

        internal void Fail()
        {
            isQueued = false;
            if (reason == Reason.None)
                reason = Reason.Error;
        }

        internal uint Choose(float* logits, UIntPtr count)
        {
            uint token;
            var error = Call.Error();
            fixed (ulong* scratch = engine.Scratch)
            fixed (uint* mask = engine.Mask)
            {
                if (matcher == null)
                {
                    Call.Check(Native.gleed_sample(sampler, logits, count, scratch, count, out token, null, ref error), ref error);
                    return token;
                }
                var words = (UIntPtr)engine.Mask.Length;
                var trie = engine.Model.Trie();
                Call.Check(limit == null
                    ? Native.gleed_matcher_mask(matcher, trie, 0, Native.GLEED_MASK_ENDS, mask, words, ref error)
                    : Native.gleed_matcher_mask_within(matcher, trie, (ulong)(limit.Value - ids.Count), 0, Native.GLEED_MASK_ENDS, mask, words, ref error), ref error);
                Call.Check(Native.gleed_sample_masked(sampler, logits, count, mask, words, scratch, count, out token, null, ref error), ref error);
                return token;
            }
        }

        /// <summary>Takes the next token, which adds to the text or ends it.</summary>
        internal void Take(uint token)
        {
            uint flag, kind;
            var tables = engine.Model.Tokenizer;
            var error = Call.Error();
            Call.Check(isReply ? Native.gleed_turns_is_stop(tables, format.Value, token, out flag, ref error)
                               : Native.gleed_token_kind(tables, token, out kind, out flag, ref error), ref error);
            if (flag != 0)
            {
                Finish(Reason.End);
                return;
            }
            var status = Native.gleed_can_extend(engine.Held, Sequence, (UIntPtr)1, ref error);
            if (status == (int)Status.FULL || status == (int)Status.E_CONTEXT)
            {
                Finish(Reason.Context);
                return;
            }
            Call.Check(status, ref error);
            Call.Check(Native.gleed_sampler_accept(sampler, token, ref error), ref error);
            if (matcher != null)
                Call.Check(Native.gleed_matcher_accept(matcher, tables, token, out flag, ref error), ref error);
            ids.Add(token);
            todo = new[] { token };
            UIntPtr count;
            fixed (byte* bytes = engine.Text)
                Call.Check(Native.gleed_detokenize(detokenizer, tables, token, bytes, (UIntPtr)engine.Text.Length, out count, ref error), ref error);
            if (Emit(engine.Text, (int)count))
                Finish(Reason.Stop);
            else if (ids.Count == limit)
                Finish(Reason.Length);
            else
                Queue();
        }

        /// <summary>Adds a piece of text. Returns whether a stop string has ended the text.</summary>
        bool Emit(byte[] data, int count)
        {
            if (stops == null || count == 0)
            {
                Show(Encoding.UTF8.GetString(data, 0, count));
                return false;
            }
            var error = Call.Error();
            var shown = new Native.gleed_shown { struct_size = (uint)sizeof(Native.gleed_shown) };
            fixed (byte* bytes = data)
                Call.Check(Native.gleed_stops_push(stops, bytes, (UIntPtr)count, ref shown, ref error), ref error);
            Show(Encoding.UTF8.GetString(shown.held, (int)shown.held_len) + Encoding.UTF8.GetString(data, 0, (int)shown.text_len));
            return shown.stop != Native.GLEED_NO_STOP;
        }

        void Show(string more)
        {
            piece += more;
            text.Append(more);
        }

        void Finish(Reason why)
        {
            if (why != Reason.Stop)
            {
                UIntPtr count;
                var error = Call.Error();
                fixed (byte* bytes = engine.Text)
                    Call.Check(Native.gleed_detokenizer_finish(detokenizer, bytes, (UIntPtr)engine.Text.Length, out count, ref error), ref error);
                byte* held;
                if (!Emit(engine.Text, (int)count) && stops != null)
                {
                    Call.Check(Native.gleed_stops_finish(stops, out held, out count, ref error), ref error);
                    Show(Encoding.UTF8.GetString(held, (int)count));
                }
            }
            reason = why;
            if (isReply && ids.Count > 0)
                Messages.Add(new Message { Role = Role.Assistant, Text = text.ToString() });
            if (isAsked && ids.Count == 0 && why == Reason.Cancelled)
                Messages.RemoveAt(Messages.Count - 1);
        }
    }
}
