// Tests of stories, conversations, their ends, grammars, forks, saved texts, wrong inputs, memory, a second domain, and
// Unity's component.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Text.RegularExpressions;
using System.Threading;
using Gleed;

public static class Tests
{
    const string Prompt = "Once upon a time";
    const string File = "gleed-tales-q8_0.gguf";

    static readonly uint[] native = Regex.Matches(System.IO.File.ReadAllText("native_ids.txt"), @"\d+").Cast<Match>().Select(match => uint.Parse(match.Value)).ToArray();
    static Model model;

    public static void That(bool condition, string what)
    {
        if (!condition)
            throw new Exception("not so: " + what);
    }

    public static void Same(object given, object wanted, string what)
    {
        That(Equals(given, wanted), what + ": " + given + " instead of " + wanted);
    }

    static void Same(IEnumerable<uint> given, IEnumerable<uint> wanted, string what)
    {
        Same(string.Join(" ", given), string.Join(" ", wanted), what);
    }

    static GleedException Refused(Status status, Action run)
    {
        try
        {
            run();
        }
        catch (GleedException failure)
        {
            Same(failure.Status, status, failure.Message);
            That(failure.Message.StartsWith(status + ": "), failure.Message);
            return failure;
        }
        throw new Exception("was not refused: " + status);
    }

    static string Read(IEnumerable<string> pieces)
    {
        return string.Concat(pieces);
    }

    static void AStoryHasTheIdsOfTheNativeExample()
    {
        using (var session = new Session(model, new SessionOptions { Context = 256 }))
        {
            var count = 0;
            foreach (var piece in session.Tell(Prompt))
            {
                count++;
                That(session.Ids.Count >= count && piece.Length > 0, "pieces come while the text is made");
            }
            Same(session.Ids, native, "ids");
            Same(session.Reason, Reason.End, "reason");
            That(count > 100, "pieces");
            Same(session.Step(), null, "a step after the end");
        }
    }

    static void AFrameSpendsItsUnits()
    {
        using (var session = new Session(model, new SessionOptions { Context = 256 }))
        {
            var steps = 0;
            session.Tell(Prompt);
            while (session.Step(session.UnitsPerToken / 8) != null)
                steps++;
            Same(session.Ids, native, "ids");
            That(steps > 2 * native.Length, "steps are smaller than a token");
        }
    }

    static void ATextEndsForAReason()
    {
        using (var session = new Session(model, new SessionOptions { Context = 256 }))
        {
            var begin = Read(session.Tell(Prompt, new TextOptions { Tokens = 7 }));
            Same(session.Reason, Reason.Length, "reason");
            Same(session.Ids, native.Take(7), "ids");
            var rest = Read(session.Resume());
            Same(session.Ids, native.Skip(7), "ids");
            Same(Read(session.Resume()), "", "after the end");
            var whole = Read(session.Tell(Prompt));
            Same(begin + rest, whole, "text");
            Same(Read(session.Tell(Prompt, new TextOptions { Stop = new[] { "Lil", "nowhere" } })), whole.Substring(0, whole.IndexOf("Lil")), "stopped");
            Same(session.Reason, Reason.Stop, "reason");
        }
        using (var session = new Session(model, new SessionOptions { Context = 16 }))
        {
            Read(session.Tell(Prompt));
            Same(session.Reason, Reason.Context, "reason");
            Same(session.Ids, native.Take(11), "ids");
        }
    }

    static void ATextIsCancelledFromAnotherThread()
    {
        using (var session = new Session(model, new SessionOptions { Context = 512 }))
        {
            session.Tell(string.Concat(Enumerable.Repeat("The dog was big. ", 60)));
            Same(session.Step(1), "", "a step of one unit");
            var thread = new Thread(session.Cancel);
            thread.Start();
            thread.Join();
            Same(session.Step(), null, "a step after it");
            Same(session.Reason, Reason.Cancelled, "reason");
            Same(session.Ids.Count, 0, "ids");
            That(session.Length < 60, "the prompt has not been read");
            Same(Read(session.Tell(Prompt, new TextOptions { Tokens = 3 })), ", there was", "text");
            // Cancel within a step, which here would not end by itself.
            var began = new ManualResetEvent(false);
            var texts = 0;
            thread = new Thread(() =>
            {
                began.WaitOne();
                session.Cancel();
            });
            thread.Start();
            foreach (var piece in session.Tell(Prompt, new TextOptions { Grammar = new Grammar("[a-z ]{400}", GrammarKind.Regex) }))
            {
                texts++;
                began.Set();
                Thread.Sleep(1);
            }
            thread.Join();
            Same(session.Reason, Reason.Cancelled, "reason");
            That(texts < 400, "it ended early");
        }
    }

    static void TheSamplerAndItsSeed()
    {
        Func<ulong, float, string> story = (seed, temperature) =>
        {
            using (var session = new Session(model, new SessionOptions { Context = 256, Sampler = new SamplerOptions { Temperature = temperature, MinP = 0.05f, Seed = seed } }))
                return Read(session.Tell(Prompt, new TextOptions { Tokens = 40 }));
        };
        Same(story(7, 1), story(7, 1), "one seed");
        That(story(7, 1) != story(8, 1), "another seed");
        Refused(Status.E_VALUE, () => story(7, -1));
    }

    static void TextsFollowASchema()
    {
        const string Schema = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}";
        using (var schema = new Grammar(Schema))
        using (var session = new Session(model, new SessionOptions { Context = 256 }))
        {
            var text = Read(session.Tell("Lily: ", new TextOptions { Grammar = schema, Tokens = 40 }));
            That(Regex.IsMatch(text, "^{\\s*\"name\"\\s*:\\s*\".*\",\\s*\"age\"\\s*:\\s*-?\\d+\\s*}$"), text);
            That(Refused(Status.E_GRAMMAR, () => new Grammar("{")).At > 0, "where");
        }
    }

    static void AConversationReadsNothingTwice()
    {
        using (var session = new Session(model, new SessionOptions { Turns = "chatml", System = "Be kind." }))
        {
            var six = new TextOptions { Tokens = 6 };
            var reply = Read(session.Ask("Hello!", six));
            Same(string.Join(" ", session.Messages.Select(message => message.Role)), "System User Assistant", "roles");
            Same(session.Messages[2].Text, reply, "reply");
            var before = session.Tokens();
            var second = session.Ask("And then?", six);
            Same(session.Tokens().Take(before.Length), before, "what was read, before anything is computed");
            Read(second);
            var last = session.Messages[4].Text;
            session.Messages.RemoveAt(4);
            Same(Read(session.Reply(six)), last, "again");
            session.Ask("What?");
            session.Cancel();
            Same(session.Step(), null, "cancelled");
            Same(session.Messages.Count, 5, "a question that is cancelled has not been asked");
            Refused(Status.E_CONTEXT, () => session.Ask(string.Concat(Enumerable.Repeat("word ", 600))));
            Same(session.Messages.Count, 5, "messages");
            Read(session.Ask("And then?", six));
            Same(session.Messages.Count, 7, "messages");
        }
        using (var session = new Session(model))
            Refused(Status.E_VALUE, () => session.Ask("Hello!"));
    }

    static void ForksShareTheirMemoryAndRunTogether()
    {
        using (var session = new Session(model, new SessionOptions { Context = 256, Sequences = 3 }))
        {
            var pieces = session.Tell(Prompt, new TextOptions { Tokens = 30 }).GetEnumerator();
            for (var i = 0; i < 10; i++)
                pieces.MoveNext();
            using (var other = session.Fork())
            using (var third = other.Fork())
            {
                var text = other.Resume(new TextOptions { Tokens = native.Length - session.Ids.Count });
                Refused(Status.FULL, () => other.Fork());
                var rest = Read(text);
                while (pieces.MoveNext())
                {
                }
                Same(session.Ids, native.Take(30), "ids");
                Same(other.Ids, native.Skip(10), "ids of a fork");
                Same(Read(third.Resume()), rest, "another fork");
            }
            session.Rewind(model.Encode(Prompt).Length + 20);
            Read(session.Resume());
            Same(session.Ids, native.Skip(20), "after a rewind");
            Same(Refused(Status.E_KEEP, () => session.Rewind(1000)).Given, 1000ul, "given");
        }
    }

    static void WhatFailsLeavesNoSequenceOpen()
    {
        // There is no block for the fork and for the text that goes on.
        using (var session = new Session(model, new SessionOptions { Context = 64, Sequences = 2, Blocks = 2 }))
        using (var talk = new Session(model, new SessionOptions { Context = 256, Turns = "chatml" }))
        {
            var pieces = session.Tell(Prompt, new TextOptions { Tokens = 20 }).GetEnumerator();
            for (var i = 0; i < 14; i++)
                pieces.MoveNext();
            Refused(Status.FULL, () => session.Fork());
            while (pieces.MoveNext())
            {
            }
            Same(session.Ids, native.Take(20), "ids");
            session.Fork().Dispose();
            // A conversation whose turn format this session does not know.
            Read(talk.Ask("Hello!", new TextOptions { Tokens = 2 }));
            var before = session.Tokens();
            Refused(Status.E_VALUE, () => session.Load(talk.Save()));
            Same(session.Tokens(), before, "what is refused changes nothing");
        }
    }

    static void LogitsAreThoseOfTheStory()
    {
        using (var session = new Session(model, new SessionOptions { Context = 256 }))
        {
            var logits = new float[model.VocabularySize];
            session.Append(model.Encode(Prompt), logits);
            Same((uint)Array.IndexOf(logits, logits.Max()), native[0], "the first token");
            session.Append(native.Take(4).ToArray(), logits);
            Same((uint)Array.IndexOf(logits, logits.Max()), native[4], "the fifth token");
            try
            {
                session.Append(native, new float[3]);
                throw new Exception("was not refused");
            }
            catch (ArgumentException)
            {
            }
        }
    }

    static void AStoryGoesOnFromAFile()
    {
        Func<ulong, Session> session = seed => new Session(model, new SessionOptions { Context = 256, Sampler = new SamplerOptions { Temperature = 1, MinP = 0.05f, Seed = seed } });
        using (var one = session(7))
        using (var two = session(8))
        {
            Read(one.Tell(Prompt, new TextOptions { Tokens = 30 }));
            var saved = one.Save();
            var rest = Read(one.Resume());
            That(rest.Length > 0, "there is a rest");
            two.Load(saved);
            Same(Read(two.Resume()), rest, "rest");
            // Save in the middle of a text, which goes on afterwards.
            one.Load(saved);
            var pieces = one.Resume().GetEnumerator();
            pieces.MoveNext();
            var begin = pieces.Current;
            two.Load(one.Save());
            Same(begin + Read(two.Resume()), rest, "rest");
            while (pieces.MoveNext())
                begin += pieces.Current;
            Same(begin, rest, "rest");
            var before = two.Tokens();
            saved[saved.Length - 1] ^= 1;
            Refused(Status.E_SNAPSHOT, () => two.Load(saved));
            Refused(Status.E_SNAPSHOT_MAGIC, () => two.Load(new byte[1000]));
            Same(two.Tokens(), before, "what is refused changes nothing");
        }
    }

    static void WrongInputsAreRefusedWithNumbers()
    {
        try
        {
            new Model("nowhere.gguf");
            throw new Exception("was not refused");
        }
        catch (FileNotFoundException)
        {
        }
        Refused(Status.E_FILE_MAGIC, () => new Model("gleed.h"));
        var limit = Refused(Status.E_LIMIT, () => new Session(model, new SessionOptions { Rows = 1000000000 }));
        That(limit.Given == 1000000000 && limit.Needed > 0 && limit.Needed < limit.Given, "numbers");
        var session = new Session(model, new SessionOptions { Context = 32 });
        var context = Refused(Status.E_CONTEXT, () => session.Tell(string.Concat(Enumerable.Repeat("The dog was big. ", 30))));
        That(context.Needed == 32 && context.Given > 32, "numbers");
        Same(Read(session.Tell(Prompt, new TextOptions { Tokens = 3 })), ", there was", "text");
        session.Dispose();
        session.Dispose();
        session.Cancel();
        try
        {
            session.Tell(Prompt);
            throw new Exception("was not refused");
        }
        catch (ObjectDisposedException)
        {
        }
        var other = new Model(File);
        var last = new Session(other, new SessionOptions { Context = 32 });
        other.Dispose();
        Same(last.Step(), null, "nothing was begun");
        last.Dispose();
    }

    static void UnityTellsInFrames()
    {
        UnityEngine.Application.streamingAssetsPath = Directory.GetCurrentDirectory();
        var teller = new Gleed.Unity.Storyteller { model = File, context = 256, temperature = 0, unitsPerFrame = 300 };
        Action<string> message = name => typeof(Gleed.Unity.Storyteller).GetMethod(name, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(teller, null);
        string text = "", end = null;
        var frames = 0;
        teller.onText.AddListener(piece => text += piece);
        teller.onEnd.AddListener(reason => end = reason);
        for (var play = 0; play < 2; play++)
        {
            message("OnEnable");
            message("Update");
            teller.Tell(Prompt);
            for (end = null; end == null; frames++)
                message("Update");
            Same(end, "End", "reason");
            Same(teller.Session.Ids, native, "ids");
            message("OnDisable");
            Same(teller.Session, null, "session");
        }
        That(frames > 2 * native.Length, "a story takes many frames");
    }

    static void TheSampleShowsAStory()
    {
        var teller = new Gleed.Unity.Storyteller { model = File, context = 256, temperature = 0, unitsPerFrame = 100000 };
        Action<object, string> message = (on, name) => on.GetType().GetMethod(name, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(on, null);
        UnityEngine.MonoBehaviour.Beside = teller;
        UnityEngine.Debug.Last = null;
        message(teller, "OnEnable");
        var story = new Story();
        message(story, "Start");
        while (UnityEngine.Debug.Last == null)
            message(teller, "Update");
        message(story, "OnGUI");
        message(teller, "OnDisable");
        That(UnityEngine.GUILayout.Shown.StartsWith("Once upon a time, there was a little g"), UnityEngine.GUILayout.Shown);
        Same(UnityEngine.Debug.Last, "The story has ended: End", "end");
    }

    /// <summary>Runs in a domain that is then unloaded with nothing disposed, as in Unity when Play is pressed
    /// again.</summary>
    public sealed class Play : MarshalByRefObject
    {
        public string Tell()
        {
            var session = new Session(new Model(File), new SessionOptions { Context = 512 });
            Read(session.Tell(Prompt, new TextOptions { Tokens = 60 }));
            var fork = new Session(new Model(File), new SessionOptions { Context = 512, Sequences = 2 });
            fork.Tell(Prompt);
            fork.Step(100);
            return string.Join(" ", session.Ids);
        }
    }

    static void ADomainIsLoadedAgainAndAgain()
    {
        long before = 0;
        for (var play = 0; play < 30; play++)
        {
            var domain = AppDomain.CreateDomain("play " + play);
            var told = (Play)domain.CreateInstanceAndUnwrap(typeof(Play).Assembly.FullName, typeof(Play).FullName);
            Same(told.Tell(), string.Join(" ", native.Take(60)), "ids");
            AppDomain.Unload(domain);
            if (play == 9)
                before = Resident();
        }
        NotMoreThan(Resident() - before, 20 * 2, "20 domains that were unloaded");
    }

    static void NoFieldOutlivesItsObject()
    {
        // Static fields that the compiler makes for lambdas are allowed: they hold nothing of a text.
        var fields = new[] { typeof(Model), typeof(Gleed.Unity.Storyteller) }.SelectMany(type => type.Assembly.GetTypes())
            .SelectMany(type => type.GetFields(BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.DeclaredOnly))
            .Where(field => !field.IsLiteral).Select(field => field.DeclaringType.FullName + "." + field.Name).ToList();
        That(fields.All(name => name.Contains("<") || name.Contains("$")), "static: " + string.Join(", ", fields));
    }

    static void MemoryIsGivenBack()
    {
        foreach (var disposes in new[] { true, false })
        {
            long before = 0;
            for (var i = 0; i < 60; i++)
            {
                var other = new Model(File);
                var session = new Session(other, new SessionOptions { Context = 512 });
                Read(session.Tell(Prompt, new TextOptions { Tokens = 20 }));
                if (disposes)
                {
                    other.Dispose();
                    session.Dispose();
                }
                else if (i % 4 == 0)
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }
                if (i == 19)
                    before = Resident();
            }
            GC.Collect();
            GC.WaitForPendingFinalizers();
            NotMoreThan(Resident() - before, 40, disposes ? "40 sessions that were disposed" : "40 sessions that were forgotten");
        }
    }

    /// <summary>Checks that memory has grown by less than a quarter of the memory of this number of sessions, 3 MB
    /// each.</summary>
    static void NotMoreThan(long grown, int sessions, string after)
    {
        using (var session = new Session(model, new SessionOptions { Context = 512 }))
        {
            Console.WriteLine("    {0} bytes more after {1}, of {2} bytes each", grown, after, session.Bytes);
            That(grown < sessions * (long)session.Bytes / 4, "memory is given back");
        }
    }

    static long Resident()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        return long.Parse(System.IO.File.ReadAllText("/proc/self/statm").Split(' ')[1]) * 4096;
    }

    public static int Main()
    {
        Action[] all =
        {
            Layout.StructsAreThoseOfC, Layout.FunctionsAreThoseOfTheHeader, Layout.NumbersAreThoseOfTheHeader, AStoryHasTheIdsOfTheNativeExample,
            AFrameSpendsItsUnits, ATextEndsForAReason, ATextIsCancelledFromAnotherThread, TheSamplerAndItsSeed, TextsFollowASchema,
            AConversationReadsNothingTwice, ForksShareTheirMemoryAndRunTogether, WhatFailsLeavesNoSequenceOpen, LogitsAreThoseOfTheStory,
            AStoryGoesOnFromAFile, WrongInputsAreRefusedWithNumbers, UnityTellsInFrames, TheSampleShowsAStory, MemoryIsGivenBack,
            NoFieldOutlivesItsObject, ADomainIsLoadedAgainAndAgain,
        };
        model = new Model(File);
        foreach (var test in all)
        {
            var watch = Stopwatch.StartNew();
            try
            {
                test();
            }
            catch (Exception failure)
            {
                Console.WriteLine("{0} FAILED: {1}", test.Method.Name, failure);
                return 1;
            }
            Console.WriteLine("{0}: {1:F2} s", test.Method.Name, watch.Elapsed.TotalSeconds);
        }
        Console.WriteLine("{0}: {1} tests", Environment.Version, all.Length);
        return 0;
    }
}
