using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Gleed
{
    /// <summary>An engine, with the objects that its sessions share.</summary>
    internal sealed unsafe class Engine
    {
        internal readonly Model Model;
        internal readonly Held Held;
        internal readonly Native.gleed_plan_info Plan;
        internal readonly ulong[] Scratch;
        internal readonly uint[] Mask;
        internal readonly byte[] Text;
        readonly Dictionary<uint, Session> sessions = new Dictionary<uint, Session>();
        readonly Flag flag = new Flag();
        Held desk;

        internal Engine(Model model, SessionOptions options)
        {
            Model = model;
            UIntPtr size, align;
            var error = Call.Error();
            var config = new Native.gleed_config
            {
                struct_size = (uint)sizeof(Native.gleed_config),
                context = options.Context,
                sequences = options.Sequences,
                rows = options.Rows,
                kv_blocks = options.Blocks,
                logit_rows = Math.Max(options.Sequences, 1),
            };
            Plan.struct_size = (uint)sizeof(Native.gleed_plan_info);
            Call.Check(Native.gleed_plan_describe(model.Held, ref config, ref Plan, ref error), ref error);
            Call.Check(Native.gleed_plan(model.Held, ref config, out size, out align, ref error), ref error);
            Held = Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                Native.gleed_engine_init(model.Held, ref config, memory, len, out made, ref e), model.Held);
            Scratch = new ulong[model.VocabularySize];
            Mask = new uint[(model.VocabularySize + 31) / 32];
            Text = new byte[Math.Max(model.Vocabulary.max_text, 3)];
        }

        internal uint Open()
        {
            uint sequence;
            var error = Call.Error();
            Call.Check(Native.gleed_seq_open(Held, out sequence, ref error), ref error);
            return sequence;
        }

        /// <summary>Closes a sequence and drops its queued tokens.</summary>
        internal void Close(uint sequence)
        {
            var error = Call.Error();
            Call.Check(Native.gleed_cancel(Held, sequence, ref error), ref error);
            Call.Check(Native.gleed_seq_close(Held, sequence, ref error), ref error);
        }

        internal void Join(Session session)
        {
            sessions.Add(session.Sequence, session);
        }

        /// <summary>Notes that a session gets another sequence.</summary>
        internal void Replace(Session session, uint sequence)
        {
            sessions.Remove(session.Sequence);
            sessions.Add(sequence, session);
        }

        /// <summary>Removes a session, and frees the memory after the last one.</summary>
        internal void Leave(Session session)
        {
            if (session != null)
                sessions.Remove(session.Sequence);
            if (sessions.Count > 0)
                return;
            desk?.Dispose();
            Held.Dispose();
            flag.Dispose();
        }

        internal uint Length(uint sequence)
        {
            var error = Call.Error();
            var info = new Native.gleed_seq_info { struct_size = (uint)sizeof(Native.gleed_seq_info) };
            Call.Check(Native.gleed_seq_describe(Held, sequence, ref info, ref error), ref error);
            return info.tokens;
        }

        /// <summary>Ends the running step after at most one unit of work.</summary>
        internal void Stop()
        {
            flag.Set(1);
        }

        /// <summary>Computes for all sessions. Each session whose row is ready gets its next token.</summary>
        internal void Step(ulong units)
        {
            var error = Call.Error();
            var isHeld = false;
            int status;
            try
            {
                flag.DangerousAddRef(ref isHeld);
                var budget = new Native.gleed_budget { struct_size = (uint)sizeof(Native.gleed_budget), units = units, cancel = flag.Pointer };
                status = Native.gleed_step(Held, ref budget, ref error);
                if (status == (int)Status.STOPPED)
                    flag.Set(0);
            }
            finally
            {
                if (isHeld)
                    flag.DangerousRelease();
            }
            if (status < 0)
                foreach (var session in sessions.Values)
                    session.Fail();
            if (Call.Check(status, ref error) == Status.READY)
                Deliver();
        }

        /// <summary>Chooses the tokens of all sessions before any token is queued, because a queued token invalidates
        /// the logits.</summary>
        void Deliver()
        {
            var chosen = new List<KeyValuePair<Session, uint>>();
            Exception failure = null;
            uint sequence, position;
            float* logits;
            UIntPtr count;
            var error = Call.Error();
            for (var row = 0; Native.gleed_result(Held, (UIntPtr)row, out sequence, out position, out logits, out count, ref error) == (int)Status.OK; row++)
            {
                var session = sessions[sequence];
                session.Ready();
                failure = Try(session, () => chosen.Add(new KeyValuePair<Session, uint>(session, session.Choose(logits, count)))) ?? failure;
            }
            foreach (var pair in chosen)
                failure = Try(pair.Key, () => pair.Key.Take(pair.Value)) ?? failure;
            if (failure != null)
                throw failure;
        }

        /// <summary>Returns the exception of one session, so that the other sessions go on.</summary>
        static Exception Try(Session session, Action run)
        {
            try
            {
                run();
                return null;
            }
            catch (GleedException failure)
            {
                session.Fail();
                return failure;
            }
        }

        /// <summary>Returns the memory for conversations. The first call makes it.</summary>
        internal Held Desk()
        {
            if (desk != null)
                return desk;
            UIntPtr size, align;
            var error = Call.Error();
            var limits = new Native.gleed_desk_limits { struct_size = (uint)sizeof(Native.gleed_desk_limits), context = Plan.context };
            Call.Check(Native.gleed_desk_plan(Model.Tokenizer, out size, out align, ref limits, ref error), ref error);
            desk = Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                Native.gleed_desk_init(Model.Tokenizer, ref limits, memory, len, out made, ref e), Model.Tokenizer);
            return desk;
        }

        internal static Held Sampler(SamplerOptions options)
        {
            UIntPtr size, align;
            var error = Call.Error();
            var values = new Native.gleed_sampler_params
            {
                struct_size = (uint)sizeof(Native.gleed_sampler_params),
                temperature = options.Temperature,
                top_k = options.TopK,
                top_p = options.TopP,
                min_p = options.MinP,
                repetition_penalty = options.RepetitionPenalty,
                frequency_penalty = options.FrequencyPenalty,
                presence_penalty = options.PresencePenalty,
                penalty_window = options.PenaltyWindow,
                seed = options.Seed,
            };
            Call.Check(Native.gleed_sampler_size(out size, out align, ref error), ref error);
            return Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                Native.gleed_sampler_init(ref values, memory, len, out made, ref e));
        }

        internal static Held Detokenizer(Held tokenizer, bool special)
        {
            UIntPtr size, align;
            var error = Call.Error();
            var flags = Native.GLEED_DECODE_CONTINUES | (special ? Native.GLEED_DECODE_RENDER_SPECIAL : 0);
            Call.Check(Native.gleed_detokenizer_size(out size, out align, ref error), ref error);
            return Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                Native.gleed_detokenizer_init(tokenizer, flags, memory, len, out made, ref e), tokenizer);
        }

        internal static Held Matcher(Held grammar)
        {
            UIntPtr size, align;
            var error = Call.Error();
            Call.Check(Native.gleed_matcher_plan(out size, out align, IntPtr.Zero, ref error), ref error);
            return Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                Native.gleed_matcher_init(grammar, IntPtr.Zero, memory, len, out made, ref e), grammar);
        }

        internal static Held Stops(IList<string> texts)
        {
            UIntPtr size, align;
            var error = Call.Error();
            var kept = new Texts();
            var strings = new Native.gleed_string[texts.Count];
            for (var i = 0; i < strings.Length; i++)
                strings[i].text = kept.Add(texts[i], out strings[i].text_len);
            try
            {
                Call.Check(Native.gleed_stops_size(out size, out align, ref error), ref error);
                return Held.Make(size, align, (IntPtr memory, UIntPtr len, out IntPtr made, ref Native.gleed_error e) =>
                {
                    fixed (Native.gleed_string* first = strings)
                        return Native.gleed_stops_init(first, (UIntPtr)strings.Length, memory, len, out made, ref e);
                }, kept);
            }
            finally
            {
                kept.Dispose();
            }
        }
    }

    /// <summary>The cancel flag of a step. Any thread may write it.</summary>
    internal sealed unsafe class Flag : SafeHandle
    {
        internal Flag() : base(IntPtr.Zero, true)
        {
            SetHandle(Marshal.AllocHGlobal(sizeof(uint)));
            *Pointer = 0;
        }

        public override bool IsInvalid { get { return handle == IntPtr.Zero; } }

        internal uint* Pointer { get { return (uint*)handle; } }

        /// <summary>Writes the flag, or does nothing if the engine is gone.</summary>
        internal void Set(uint value)
        {
            var isHeld = false;
            try
            {
                DangerousAddRef(ref isHeld);
                System.Threading.Volatile.Write(ref *Pointer, value);
            }
            catch (ObjectDisposedException)
            {
            }
            finally
            {
                if (isHeld)
                    DangerousRelease();
            }
        }

        protected override bool ReleaseHandle()
        {
            Marshal.FreeHGlobal(handle);
            return true;
        }
    }

    /// <summary>Texts in UTF-8 whose addresses stay valid until they are freed.</summary>
    internal sealed unsafe class Texts : SafeHandle
    {
        readonly List<IntPtr> all = new List<IntPtr>();

        internal Texts() : base(new IntPtr(-1), true)
        {
        }

        public override bool IsInvalid { get { return false; } }

        internal byte* Add(string text, out UIntPtr len)
        {
            var data = Held.Utf8(text ?? "", out len);
            var memory = Marshal.AllocHGlobal(data.Length);
            Marshal.Copy(data, 0, memory, data.Length);
            all.Add(memory);
            return (byte*)memory;
        }

        protected override bool ReleaseHandle()
        {
            foreach (var memory in all)
                Marshal.FreeHGlobal(memory);
            return true;
        }
    }
}
